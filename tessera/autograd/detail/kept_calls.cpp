#include "tessera/autograd/detail/kept_calls.h"

#include <algorithm>
#include <utility>

namespace tessera::autograd::detail {
namespace {

constinit thread_local KeptCalls* current_calls = nullptr;

}  // namespace

KeptCalls* KeptCalls::current() { return current_calls; }

bool KeptCalls::covers(const tensor::Call& call) const {
  return !operators_.empty() && std::ranges::find(operators_, call.op.name()) != operators_.end();
}

bool KeptCalls::replay(const tensor::Call& call) {
  if (!is_repeated_ || !covers(call) || next_ == results_.size()) return false;
  std::vector<Tensor> results = std::exchange(results_[next_++], {});
  if (results.size() != call.outputs.size()) return false;  // taken by an earlier repetition
  std::ranges::move(results, call.outputs.begin());
  return true;
}

void KeptCalls::note(const tensor::Call& call) {
  if (is_repeated_ || !covers(call)) return;
  std::vector<Tensor>& results = results_.emplace_back();
  for (const Tensor& output : call.outputs) results.push_back(output ? output.detach() : Tensor());
}

KeptCalls::Scope::Scope(KeptCalls& kept, bool is_repeated) : outer_(std::exchange(current_calls, &kept)) {
  kept.is_repeated_ = is_repeated;
  kept.next_ = 0;
}

KeptCalls::Scope::~Scope() { current_calls = outer_; }

}  // namespace tessera::autograd::detail

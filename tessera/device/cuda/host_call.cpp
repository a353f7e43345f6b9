#include "tessera/device/cuda/host_call.h"

#include <vector>

#include "tessera/base/caught.h"
#include "tessera/device/cuda/cuda_context.h"
#include "tessera/device/cuda/cuda_graph.h"
#include "tessera/device/detail/state.h"

namespace tessera::device::cuda {
namespace {

std::exception_ptr outcome_of(HostFunction& body) noexcept {
  is_device_worker = true;
  try {
    body();
  } catch (...) {
    return caught_error("a host function on a CUDA stream");
  }
  return nullptr;
}

}  // namespace

EagerCall::EagerCall(CudaContext& context, HostFunction body, std::shared_ptr<StreamErrors> errors)
    : context_(context), body_(std::move(body)), errors_(std::move(errors)) {}

void EagerCall::launch(CudaContext& context, CUstream stream, HostFunction body, std::shared_ptr<StreamErrors> errors) {
  auto call = std::make_unique<EagerCall>(context, std::move(body), std::move(errors));
  if (call->errors_ != nullptr) call->place_ = call->errors_->expect();
  const CUresult result = driver().cuLaunchHostFunc(stream, &EagerCall::run, call.get());
  if (result != CUDA_SUCCESS) {
    if (call->errors_ != nullptr) call->errors_->finish(call->place_, nullptr);
    context.fail(result, "cuLaunchHostFunc", {__FILE__, __LINE__});
  }
  static_cast<void>(call.release());
}

void EagerCall::run(void* self) {
  auto* call = static_cast<EagerCall*>(self);
  std::exception_ptr error = outcome_of(call->body_);
  if (call->errors_ != nullptr) call->errors_->finish(call->place_, std::move(error));
  call->context_.retired().push(call);
}

void GraphRuns::begin(const std::shared_ptr<StreamErrors>& errors, std::size_t calls) {
  const StreamErrors::Place place = errors->expect();
  const std::lock_guard lock(mutex_);
  launches_.push_back({errors, place, calls, nullptr});
}

void GraphRuns::cancel_last() {
  const std::lock_guard lock(mutex_);
  launches_.back().errors->finish(launches_.back().place, nullptr);
  launches_.pop_back();
}

std::uint64_t GraphRuns::launches() {
  const std::lock_guard lock(mutex_);
  return first_ + launches_.size();
}

void GraphRuns::finished(std::uint64_t launch, std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (launch < first_ || launch - first_ >= launches_.size()) return;
  HostLaunch& entry = launches_[launch - first_];
  if (error != nullptr && entry.error == nullptr) entry.error = std::move(error);
  if (--entry.remaining == 0) entry.errors->finish(entry.place, entry.error);
  while (!launches_.empty() && launches_.front().remaining == 0) {
    launches_.pop_front();
    ++first_;
  }
}

GraphCall::GraphCall(std::shared_ptr<HostFunction> body, std::shared_ptr<GraphRuns> runs,
                     std::shared_ptr<StreamErrors> errors)
    : body_(std::move(body)),
      runs_(std::move(runs)),
      errors_(std::move(errors)),
      next_launch_(runs_ != nullptr ? runs_->launches() : 0) {}

void GraphCall::run(void* self) {
  auto* call = static_cast<GraphCall*>(self);
  const std::uint64_t launch = call->next_launch_++;
  std::exception_ptr error = outcome_of(*call->body_);
  if (call->runs_ != nullptr) {
    call->runs_->finished(launch, std::move(error));
  } else if (error != nullptr && call->errors_ != nullptr) {
    call->errors_->finish(call->errors_->expect(), std::move(error));
  }
}

namespace {

// The driver runs this where no driver calls are allowed; the object is destroyed later, elsewhere.
struct Owned {
  RetiredStack& stack;
  Retired* thing;
  static void let_go(void* self) {
    auto* owned = static_cast<Owned*>(self);
    owned->stack.push(owned->thing);
    delete owned;
  }
};

}  // namespace

void give_to_graph(CudaContext& context, CUgraph graph, std::unique_ptr<Retired> thing) {
  auto owned = std::make_unique<Owned>(Owned{context.retired(), thing.get()});
  CUuserObject object = nullptr;
  TESSERA_CUDA(context, cuUserObjectCreate, &object, owned.get(), &Owned::let_go, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  static_cast<void>(owned.release());
  static_cast<void>(thing.release());
  const CUresult result = driver().cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result == CUDA_SUCCESS) return;
  TESSERA_CUDA_NOTHROW(context, cuUserObjectRelease, object, 1);
  context.fail(result, "cuGraphRetainUserObject", {__FILE__, __LINE__});
}

std::size_t rebind_host_calls(CudaContext& context, CUgraph graph, CUgraph owner,
                              const std::shared_ptr<GraphRuns>& runs) {
  std::size_t count = 0;
  for (CUgraphNode node : nodes_of(context, graph)) {
    CUgraphNodeType type{};
    TESSERA_CUDA(context, cuGraphNodeGetType, node, &type);
    if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
      CUgraph inner = nullptr;
      TESSERA_CUDA(context, cuGraphChildGraphNodeGetGraph, node, &inner);
      count += rebind_host_calls(context, inner, owner, runs);
    }
    if (type != CU_GRAPH_NODE_TYPE_HOST) continue;
    CUDA_HOST_NODE_PARAMS params{};
    TESSERA_CUDA(context, cuGraphHostNodeGetParams, node, &params);
    if (params.fn != &GraphCall::run) continue;
    const auto* bound = static_cast<const GraphCall*>(params.userData);
    auto call = std::make_unique<GraphCall>(bound->body(), runs, bound->errors());
    params.userData = call.get();
    give_to_graph(context, owner, std::move(call));
    TESSERA_CUDA(context, cuGraphHostNodeSetParams, node, &params);
    ++count;
  }
  return count;
}

}  // namespace tessera::device::cuda

#include "tessera/train/detail/deterministic.h"

#include "tessera/ops/nn/attention.h"

namespace tessera::train::detail {
namespace {

void set(bool is_deterministic) {
  ops::AttentionOptions options = ops::attention_options();
  options.is_deterministic = is_deterministic;
  ops::set_attention_options(options);
}

}  // namespace

DeterministicScope::DeterministicScope(bool is_asked)
    : is_set_(is_asked && !ops::attention_options().is_deterministic) {
  if (is_set_) set(true);
}

DeterministicScope::~DeterministicScope() {
  if (is_set_) set(false);
}

}  // namespace tessera::train::detail

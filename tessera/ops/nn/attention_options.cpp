#include <atomic>

#include "tessera/base/env.h"
#include "tessera/ops/nn/attention.h"

namespace tessera::ops {
namespace {

AttentionOptions of_environment() {
  const std::string_view name = env::cuda_attention();
  AttentionOptions options;
  if (name == "cudnn") options.backend = AttentionBackend::kCudnn;
  if (name == "tiled") options.backend = AttentionBackend::kTiled;
  return options;
}

std::atomic<AttentionOptions>& current() {
  static std::atomic<AttentionOptions> options(of_environment());
  return options;
}

}  // namespace

void set_attention_options(const AttentionOptions& options) { current().store(options, std::memory_order_relaxed); }

AttentionOptions attention_options() { return current().load(std::memory_order_relaxed); }

}  // namespace tessera::ops

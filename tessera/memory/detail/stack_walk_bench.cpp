// Cost of a native stack at an allocation: walking 16 frames and finding the stack among the known ones.
#include <string>

#include "tessera/base/testing/bench.h"
#include "tessera/memory/detail/stack_walk.h"

namespace tessera::memory::detail {
namespace {

template <class Body>
[[gnu::noinline]] void at_depth(int depth, Body& body) {
  if (depth == 0) {
    body();
  } else {
    at_depth(depth - 1, body);
  }
  bench::do_not_optimize(depth);  // otherwise the call becomes a jump, without a frame
}

TESSERA_BENCH(stack_walk) {
  constexpr int kCalls = 1000;
  std::uintptr_t frames[kMaxFrames];
  const auto measure = [&](const std::string& name, auto&& once, double must) {
    auto loop = [&] {
      for (int i = 0; i < kCalls; ++i) once();
    };
    context.measure({.name = name, .per = kCalls, .ours = [&] { at_depth(24, loop); }, .must = must});
  };
  measure(
      "stack_walk_16", [&] { bench::do_not_optimize(walk_stack(frames, kMaxFrames, 0)); }, 60);
  probe::Recorder recorder({}, {.nbytes = probe::RecordOptions::kMinBytes});
  StackTable table(recorder);
  measure(
      "stack_known_16", [&] { bench::do_not_optimize(table.here(0)); }, 100);
}

}  // namespace
}  // namespace tessera::memory::detail

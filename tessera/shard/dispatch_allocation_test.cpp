// A cached call allocates no more than the local operator. The operator new of this program counts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>

#include "tessera/ops/create/create.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/shape.h"

namespace {
constinit thread_local std::size_t allocations = 0;
}

// Not inline: compilers that see both halves warn about malloc in one and delete in the other.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* block = std::malloc(size)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t /*size*/) noexcept { std::free(block); }

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;

std::size_t allocations_of(const std::function<void()>& call) {
  constexpr int kCalls = 100;
  for (int i = 0; i < 10; ++i) call();
  device::Device::get("host").synchronize();
  const std::size_t before = allocations;
  for (int i = 0; i < kCalls; ++i) call();
  const std::size_t made = allocations - before;
  device::Device::get("host").synchronize();
  return made / kCalls;
}

TEST(Dispatch, AllocatesNothingThatTheLocalOperatorDoesNot) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitized builds keep no blocks for results";
#endif
  for (const char* text : {"x=8", "x=2,y=4"}) {
    const Mesh mesh = Mesh::parse(text);
    const Layout rows = Layout::parse(mesh, mesh.ndim() == 1 ? "S0" : "S0,S0");
    const Tensor x = ops::ones({64, 16}, {.layout = rows});
    const Tensor w = ops::ones({16, 16}, {.layout = Layout::replicated(mesh)});
    const std::function<void(const Tensor&, const Tensor&)> calls[] = {
        [](const Tensor& a, const Tensor&) { ops::add(a, a); },
        [](const Tensor& a, const Tensor& b) { ops::mm(a, b); },
        [](const Tensor& a, const Tensor&) { ops::relu(a); },
        [](const Tensor& a, const Tensor&) { ops::sum(a, {0}); },
        [](const Tensor& a, const Tensor&) { ops::softmax(a, 1); },
        [](const Tensor& a, const Tensor&) { ops::transpose(a, 0, 1); },
    };
    for (std::size_t i = 0; i < std::size(calls); ++i) {
      const std::size_t sharded = allocations_of([&] { calls[i](x, w); });
      const std::size_t local = allocations_of([&] { calls[i](x.local(), w.local()); });
      EXPECT_EQ(sharded, local) << "call " << i << " on " << text;
    }
  }
}

}  // namespace
}  // namespace tessera::shard

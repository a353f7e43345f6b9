// Operations of process groups on tensors: results, the lifetime of memory, versions, and rejected tensors.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/label.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"
#include "tessera/shard/trace.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard {
namespace {

using comm::ProcessGroup;
using comm::Work;
using layout::Layout;
using layout::Mesh;
using testing::on_worlds;

int rank() { return current_place().rank.value(); }

// Input of a rank: small integers that no two positions share.
Tensor given(const Shape& shape, int of_rank) {
  testing::Whole whole = testing::counted(shape, DType::kF64);
  for (std::size_t i = 0; i < whole.values.size(); ++i) whole.values[i] += 100 * of_rank;
  return testing::plain(whole);
}
Tensor sum_of_inputs(const Shape& shape, int ranks) {
  Tensor sum = given(shape, 0);
  for (int each = 1; each < ranks; ++each) sum = ops::add(sum, given(shape, each));
  return sum;
}
Tensor all_inputs(const Shape& shape, int ranks) {
  std::vector<Tensor> all;
  for (int each = 0; each < ranks; ++each) all.push_back(given(shape, each));
  return ops::cat(all, 0);
}
Tensor unset(const Shape& shape) { return ops::full(shape, -1, {.dtype = DType::kF64}); }

void expect_equal(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  EXPECT_TRUE(ops::equal(got, want));
}

TEST(GroupTensors, AllReduceIsInPlace) {
  on_worlds(3, {1, 2}, [] {
    const Tensor x = given({4, 2}, rank());
    comm::world().all_reduce(x);
    expect_equal(x, sum_of_inputs({4, 2}, 3));
    const Tensor y = given({4}, rank());
    comm::world().all_reduce(y, Reduction::kMax);
    expect_equal(y, given({4}, 2));
    const Tensor scalar = ops::full({}, rank() + 1);
    comm::world().all_reduce(scalar, Reduction::kAvg);
    EXPECT_EQ(ops::item(scalar).as_double(), 2.0);
  });
}

TEST(GroupTensors, AllGatherConcatenatesAlongDimensionZero) {
  on_worlds(3, {1, 2}, [] {
    const Tensor out = unset({6, 2});
    comm::world().all_gather(out, given({2, 2}, rank()));
    expect_equal(out, all_inputs({2, 2}, 3));
    const Tensor ranks = ops::empty({3});
    comm::world().all_gather(ranks, ops::full({}, rank()));
    expect_equal(ranks, ops::arange(3, {.dtype = DType::kF32}));
  });
}

TEST(GroupTensors, AllGatherIntoTheTensorOfTheInput) {
  on_worlds(3, {1}, [] {
    const Tensor out = unset({6, 2});
    const Tensor own = ops::narrow(out, 0, 2 * rank(), 2);
    ops::copy_(own, given({2, 2}, rank()));
    comm::world().all_gather(out, own);
    expect_equal(out, all_inputs({2, 2}, 3));
  });
}

TEST(GroupTensors, ReduceScatterGivesTheChunkOfTheRank) {
  on_worlds(3, {1, 2}, [] {
    const Tensor out = unset({2, 2});
    comm::world().reduce_scatter(out, given({6, 2}, rank()));
    expect_equal(out, ops::narrow(sum_of_inputs({6, 2}, 3), 0, 2 * rank(), 2));
    const Tensor most = unset({1});
    comm::world().reduce_scatter(most, given({3}, rank()), Reduction::kMin);
    expect_equal(most, ops::narrow(given({3}, 0), 0, rank(), 1));
  });
}

TEST(GroupTensors, AllToAllExchangesChunks) {
  on_worlds(3, {1, 2}, [] {
    const Tensor out = unset({6, 2});
    comm::world().all_to_all(out, given({6, 2}, rank()));
    std::vector<Tensor> chunks;
    for (int peer = 0; peer < 3; ++peer) chunks.push_back(ops::narrow(given({6, 2}, peer), 0, 2 * rank(), 2));
    expect_equal(out, ops::cat(chunks, 0));
  });
}

TEST(GroupTensors, RootedOperationsUseTheRoot) {
  on_worlds(3, {1, 2}, [] {
    const ProcessGroup world = comm::world();
    for (int root = 0; root < 3; ++root) {
      const bool is_root = rank() == root;
      const Tensor x = given({4}, rank());
      world.broadcast(x, root);
      expect_equal(x, given({4}, root));
      const Tensor y = given({4}, rank());
      world.reduce(y, root);
      expect_equal(y, is_root ? sum_of_inputs({4}, 3) : given({4}, rank()));
      const Tensor all = is_root ? unset({6, 2}) : Tensor();
      world.gather(all, given({2, 2}, rank()), root);
      if (is_root) expect_equal(all, all_inputs({2, 2}, 3));
      const Tensor part = unset({2, 2});
      world.scatter(part, all, root);
      expect_equal(part, given({2, 2}, rank()));
    }
  });
}

TEST(GroupTensors, SendAndRecv) {
  on_worlds(3, {1, 2}, [] {
    const ProcessGroup world = comm::world();
    const Tensor x = given({5}, rank());
    if (rank() == 2) world.send(x, 0);
    if (rank() == 0) world.recv(x, 2);
    world.barrier(tensor::current_stream(x.device()));
    expect_equal(x, given({5}, rank() == 0 ? 2 : rank()));
  });
}

TEST(GroupTensors, EmptyTensorsAndWorldsOfOneRank) {
  on_worlds(2, {1}, [] {
    const Tensor none = ops::zeros({0, 3});
    comm::world().all_reduce(none);
    comm::world().all_gather(none, none);
    comm::world().broadcast(none, 1).wait();
  });
  const Tensor x = given({4}, 0);
  const ProcessGroup alone = comm::world();
  alone.all_reduce(x);
  const Tensor out = unset({4});
  alone.all_gather(out, x);
  expect_equal(out, given({4}, 0));
}

TEST(GroupTensors, RunOnTheCurrentStream) {
  simulate(2, [] {
    const device::Stream side = device::Device::get("host").create_stream();
    const Tensor x = given({4}, rank());
    {
      const tensor::StreamScope scope(side);
      const Work work = comm::world().all_reduce(x);
      work.wait();
      EXPECT_EQ(work.sequence(), 1U);
    }
    expect_equal(x, sum_of_inputs({4}, 2));
  });
}

// The current stream is stopped while the tensors are dropped. Their memory must not be given to work on other streams.
TEST(GroupTensors, KeepMemoryUntilTheOperationHasEnded) {
  on_worlds(2, {1}, [] {
    const device::Device host = device::Device::get("host");
    const device::Stream side = host.create_stream({.name = "side"});
    Tensor x = given({64}, rank());
    Tensor out = unset({128});
    const std::byte* const places[] = {x.data(), out.data()};
    host.synchronize();
    const device::Hold hold = side.hold(std::chrono::seconds(20));
    {
      const tensor::StreamScope scope(side);
      comm::world().all_gather(out, x);
    }
    x = {};
    out = {};
    const Tensor small = unset({64});
    const Tensor large = unset({128});
    for (const std::byte* place : places) {
      EXPECT_NE(small.data(), place);
      EXPECT_NE(large.data(), place);
    }
    hold.release();
    side.synchronize();
    expect_equal(small, unset({64}));
    expect_equal(large, unset({128}));
  });
}

TEST(GroupTensors, KeepExternalMemoryUntilTheOperationHasEnded) {
  on_worlds(2, {1}, [] {
    const device::Device host = device::Device::get("host");
    const device::Stream side = host.create_stream({.name = "side"});
    auto values = std::make_shared<std::vector<double>>(std::vector<double>{1, 2, 3});
    const std::weak_ptr<std::vector<double>> alive = values;
    Tensor x = Tensor::wrap(values->data(), {3}, DType::kF64, host, values);
    values.reset();
    const device::Hold hold = side.hold(std::chrono::seconds(20));
    {
      const tensor::StreamScope scope(side);
      comm::world().all_reduce(x);
    }
    x = {};
    EXPECT_FALSE(alive.expired());
    hold.release();
    side.synchronize();
    EXPECT_TRUE(alive.expired());
  });
}

TEST(GroupTensors, BumpTheVersionOfWrittenTensorsOnly) {
  simulate(2, [] {
    const ProcessGroup world = comm::world();
    const auto writes = [](const Tensor& x, const std::function<Work()>& call) {
      const std::uint64_t before = x.version();
      call().wait();
      return x.version() - before;
    };
    const Tensor x = given({2}, rank());
    const Tensor out = unset({4});
    EXPECT_EQ(writes(x, [&] { return world.all_reduce(x); }), 1U);
    EXPECT_EQ(writes(x, [&] { return world.all_gather(out, x); }), 0U);
    EXPECT_EQ(writes(out, [&] { return world.all_gather(out, x); }), 1U);
    EXPECT_EQ(writes(x, [&] { return world.broadcast(x, 0); }), rank() == 0 ? 0U : 1U);
    const Tensor constant = ops::zeros({2});
    world.broadcast(constant, 0);
    EXPECT_FALSE(constant.is_constant()) << "on all ranks, also on the root, which writes nothing";
    EXPECT_EQ(writes(x, [&] { return world.reduce(x, 0); }), rank() == 0 ? 1U : 0U);
    EXPECT_EQ(writes(x, [&] { return rank() == 0 ? world.send(x, 1) : world.recv(x, 0); }), rank() == 0 ? 0U : 1U);
  });
}

TEST(GroupTensors, ATensorSavedForBackwardIsNotOverwrittenSilently) {
  simulate(2, [] {
    const Tensor w = given({3}, rank());
    autograd::set_requires_grad(w, true);
    const Tensor y = ops::sum(ops::mul(w, w));
    {
      const autograd::NoGrad no_grad;
      comm::world().all_reduce(w);
    }
    expect_error<Error>([&] { autograd::backward(y); }, {"mul"});
  });
}

TEST(GroupTensors, ThatRequireGradientsAreRejectedOutsideOfNoGrad) {
  simulate(2, [] {
    const ProcessGroup world = comm::world();
    const Tensor w = given({2}, rank());
    autograd::set_requires_grad(w, true);
    const Tensor out = unset({4});
    expect_error<InvalidArgument>([&] { world.all_reduce(w); }, {"all_reduce: x must not require gradients, got f64[2]",
                                                                 "use shard::all_reduce(x, Along)", "NoGrad"});
    expect_error<InvalidArgument>([&] { world.all_gather(out, ops::mul(w, 2)); }, {"shard::all_gather(x, dim, Along)"});
    expect_error<InvalidArgument>([&] { world.scatter(w, Tensor(), 1 - rank()); },
                                  {"scatter: out must not require gradients", "use NoGrad"});
    EXPECT_EQ(world.sequence(), 0U);
    const autograd::NoGrad no_grad;
    world.all_reduce(w);
    expect_equal(w.detach(), sum_of_inputs({2}, 2));
  });
}

TEST(GroupTensors, ThatDoNotFitAreRejectedAndUnchanged) {
  simulate(2, [] {
    const ProcessGroup world = comm::world();
    const Tensor x = given({4, 2}, rank());
    const auto rejects = [](const std::function<void()>& call, std::initializer_list<std::string_view> words) {
      expect_error<InvalidArgument>(call, words);
    };
    const Tensor global = Tensor::sharded({4, 2}, DType::kF64, Layout::replicated(Mesh::parse("a=2")), x);
    rejects([&] { world.all_reduce(Tensor()); }, {"all_reduce: x must be a tensor, got an empty handle", "empty()"});
    rejects([&] { world.all_reduce(global); },
            {"all_reduce: x must be a plain tensor, got f64[4, 2] a=2", "redistribute()", "local()"});
    rejects([&] { world.broadcast(ops::transpose(x, 0, 1), 0); },
            {"broadcast: x must be contiguous, got f64[2, 4]", "with strides [1, 2]", "contiguous()"});
    rejects([&] { world.all_gather(x, x); },
            {"all_gather: out must have shape [8, 2] for x of [4, 2] on 2 ranks, got f64[4, 2]", "allocate it"});
    rejects(
        [&] {
          world.all_gather(ops::zeros({8, 2}), x);
        },
        {"all_gather: out and x must have one dtype, got f32[8, 2]", "and f64[4, 2]", "convert one of them with to()"});
    rejects(
        [&] {
          world.reduce_scatter(unset({3, 2}), x);
        },
        {"reduce_scatter: x must have shape [6, 2] for out of [3, 2] on 2 ranks, got f64[4, 2]"});
    rejects(
        [&] {
          world.all_to_all(unset({2, 4}), x);
        },
        {"all_to_all: out must have the shape of x, [4, 2], got f64[2, 4]"});
    rejects([&] { world.all_to_all(unset({3}), unset({3})); },
            {"all_to_all: dimension 0 must be divisible by the 2 ranks, got f64[3]"});
    rejects([&] { world.all_to_all(unset({}), unset({})); }, {"dimension 0 must be divisible by the 2 ranks"});
    rejects([&] { world.all_to_all(x, x); }, {"input and output must not overlap"});
    rejects([&] { world.broadcast(x, 2); }, {"broadcast: root must be a group rank in [0, 2), got 2"});
    rejects([&] { world.gather(x, x, rank()); }, {"gather: out must have shape [8, 2]"});
    rejects([&] { world.gather(Tensor(), x, rank()); }, {"gather: out must be a tensor, got an empty handle"});
    rejects([&] { world.scatter(x, Tensor(), rank()); }, {"scatter: x must be a tensor, got an empty handle"});
    rejects([&] { world.send(x, rank()); }, {"peer must be another rank in [0, 1]"});
    rejects([&] { world.all_reduce(ops::zeros({2}, {DType::kBool})); },
            {"dtype must be one that sum is defined for, got bool"});
    EXPECT_EQ(world.sequence(), 0U);
    EXPECT_EQ(x.version(), given({4, 2}, rank()).version());
    expect_equal(x, given({4, 2}, rank()));
    rejects([&] { ProcessGroup().all_reduce(x); }, {"group handle must not be empty"});
  });
}

TEST(GroupTensors, OfDifferentShapesAreNamed) {
  simulate(2, [] {
    const Tensor x = given(rank() == 0 ? Shape{4, 2} : Shape{2, 4}, rank());
    expect_error<MismatchError>([&] { comm::world().all_reduce(x).wait(); }, {"shape [4, 2]", "shape [2, 4]"});
    tensor::current_stream(x.device()).reset_error();
  });
}

TEST(GroupTensors, AreCountedTracedAndForbidden) {
  simulate(2, [] {
    const Tensor x = given({4, 2}, rank());
    const Tensor out = unset({8, 2});
    const TraceLayouts trace;
    {
      const memory::Label label("kernel");
      comm::world().all_gather(out, x);
    }
    EXPECT_EQ(trace.counts().collectives, 1U);
    EXPECT_EQ(trace.counts().nbytes, 64U);
    ASSERT_EQ(trace.events().size(), 1U);
    EXPECT_EQ(trace.events()[0].text(), "all_gather(f64[4, 2]) -> f64[8, 2] over group world: 64 B [kernel]");
    const ForbidCommunication forbid;
    expect_error<NotSupported>([&] { comm::world().all_reduce(x); },
                               {"all_reduce of f64[4, 2]", "in group world", "ForbidCommunication"});
    EXPECT_EQ(trace.counts().collectives, 1U);
  });
}

TEST(GroupTensors, RunInGraphs) {
  simulate(2, [] {
    const device::Device host = device::Device::get("host");
    const device::Stream side = host.create_stream();
    const tensor::StreamScope scope(side);
    const Tensor x = ops::ones({3}, {.dtype = DType::kF64});
    memory::GraphCapture capture(memory::Allocator::of(host), side);
    EXPECT_FALSE(comm::world().all_reduce(x));
    const memory::CapturedGraph graph = capture.end();
    for (int i = 0; i < 3; ++i) graph.replay(side);
    side.synchronize();
    expect_equal(x, ops::full({3}, 8, {.dtype = DType::kF64}));
  });
}

}  // namespace
}  // namespace tessera::shard

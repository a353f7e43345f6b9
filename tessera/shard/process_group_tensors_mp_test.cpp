// Operations of process groups on tensors, between processes: peers access the memory of the allocator.
#include <gtest/gtest.h>

#include <functional>

#include "tessera/comm/process_group.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/comm/world.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/shape/shape.h"

namespace tessera::shard {
namespace {

void run(int ranks, const std::function<void(int)>& body) {
  for (const comm::ProcessEnd& end : comm::run_rank_processes(ranks, body)) {
    EXPECT_EQ(end.exit_code, 0) << "signal " << end.signal;
  }
}

// Rows 100 * rank, 100 * rank + 1, ...: small and large, so that they are sent with and without a stage.
Tensor rows_of(int rank, std::int64_t rows) {
  return ops::arange(100 * rank, 100 * rank + rows, 1, {.dtype = DType::kI64});
}

void expect_equal(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  EXPECT_TRUE(ops::equal(got, want));
}

TEST(GroupTensorsProcesses, GiveTheSameAsThreads) {
  run(3, [](int rank) {
    const comm::ProcessGroup world = comm::world();
    for (const std::int64_t rows : {1, 7, 50'000}) {
      const Tensor x = rows_of(rank, rows);
      world.all_reduce(x, Reduction::kMax);
      expect_equal(x, rows_of(2, rows));
      const Tensor all = ops::empty({3 * rows}, {.dtype = DType::kI64});
      world.all_gather(all, rows_of(rank, rows));
      for (int peer = 0; peer < 3; ++peer) expect_equal(ops::narrow(all, 0, peer * rows, rows), rows_of(peer, rows));
      const Tensor part = ops::empty({rows}, {.dtype = DType::kI64});
      world.reduce_scatter(part, all);
      expect_equal(part, ops::mul(rows_of(rank, rows), 3));
      const Tensor exchanged = ops::empty({3 * rows}, {.dtype = DType::kI64});
      world.all_to_all(exchanged, all);
      for (int peer = 0; peer < 3; ++peer) {
        expect_equal(ops::narrow(exchanged, 0, peer * rows, rows), rows_of(rank, rows));
      }
      world.broadcast(part, 1);
      expect_equal(part, ops::mul(rows_of(1, rows), 3));
      world.scatter(part, rank == 2 ? all : Tensor(), 2);
      expect_equal(part, rows_of(rank, rows));
      world.gather(rank == 0 ? exchanged : Tensor(), part, 0);
      if (rank == 0) expect_equal(exchanged, all);
      world.reduce(part, 0, Reduction::kMin);
      expect_equal(part, rows_of(rank, rows));
      if (rank == 0) world.send(all, 1);
      if (rank == 1) world.recv(exchanged, 0);
      if (rank == 1) expect_equal(exchanged, all);
    }
  });
}

}  // namespace
}  // namespace tessera::shard

// Measures meetings and reductions between ranks that share a GPU.
#include <algorithm>
#include <chrono>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/bench.h"
#include "tessera/comm/backends/cuda/shared_group.h"
#include "tessera/comm/backends/cuda/testing/gpu_ranks.h"

extern "C" const std::byte tessera_kernels_barrier_rounds[];
extern "C" const std::byte tessera_kernels_barrier_rounds_end[];

namespace tessera::comm::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
// Bytes per second, read plus written, that copies reach on an H200.
constexpr double kBytesPerSecond = 4.30e12;

// Runs as a separate rank: the rank of this process stays unused for the drill ranks that are forked from it.
bool has_gpu(const bench::Context& context) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  const std::string why = why_no_gpu();
  if (!why.empty()) context.skip(why);
  return why.empty();
}

// Eight kernels of one block, one per stream, that meet repeatedly.
class BarrierRounds {
 public:
  static constexpr int kRanks = 8;
  static constexpr std::int32_t kRounds = 1000;

  BarrierRounds() : gpu_(device::Device::get("cuda:0")), group_(std::make_shared<SharedGroup>(gpu_, kRanks)) {
    kernel_ = gpu_.load_module({tessera_kernels_barrier_rounds, tessera_kernels_barrier_rounds_end})
                  .kernel("tessera_comm_barrier_rounds");
    times_ = gpu_.allocate_pinned(kRanks * 2 * sizeof(std::uint64_t));
    for (int rank = 0; rank < kRanks; ++rank) streams_.push_back(gpu_.create_stream());
    (void)round_us();
  }
  // Returns microseconds per round.
  double round_us() {
    constexpr std::uint64_t kDeadlineNs = 5'000'000'000;
    auto* const times = reinterpret_cast<std::uint64_t*>(times_.data());
    std::fill_n(times, 2 * kRanks, 0);
    void* const memory = group_->memory();
    void* const control = group_->control();
    for (std::int32_t rank = 0; rank < kRanks; ++rank) {
      streams_[static_cast<std::size_t>(rank)].launch(
          kernel_, {.block = {32, 1, 1}, .spins = true},
          device::KernelArgs(memory, control, rank, std::int32_t{kRanks}, next_, kRounds, kDeadlineNs,
                             times + 2 * rank));
    }
    next_ += kRounds + 1;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
      streams_[rank].synchronize(std::chrono::seconds(20));
      begin = std::max(begin, times[2 * rank]);
      end = std::max(end, times[2 * rank + 1]);
    }
    TESSERA_CHECK_AS(DeviceError, end > begin, "the barrier did not finish");
    return static_cast<double>(end - begin) / 1000 / kRounds;
  }

 private:
  device::Device gpu_;
  std::shared_ptr<SharedGroup> group_;
  device::Kernel kernel_;
  device::PinnedMemory times_;
  std::vector<device::Stream> streams_;
  std::uint64_t next_ = 1;
};

// Returns microseconds per operation, for many operations that each rank launches in sequence.
double operation_us(int ranks, std::size_t nbytes, int times, const std::function<Operation(const GpuBytes&)>& of) {
  double slowest = 0;
  on_gpu_ranks(ranks, [&](const GpuRank& rank) {
    const GpuBytes x(rank, nbytes);
    rank.stream.fill(x.data(), 0, 4, nbytes / 4);
    const Operation operation = of(x);
    for (int i = 0; i < 3; ++i) rank.group.launch(operation, rank.stream).wait();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) (void)rank.group.launch(operation, rank.stream);
    rank.stream.synchronize();
    const double took =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / times;
    // Ranks end together, after the last operation.
    if (rank.rank() == 0) slowest = took;
  });
  return slowest;
}

TESSERA_BENCH(symm_barrier) {
  if (!has_gpu(context)) return;
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  if (context.wants("symm_barrier_w8")) {
    BarrierRounds rounds;
    context.measure(
        {.name = "symm_barrier_w8", .unit = "us", .ours = [&]() -> double { return rounds.round_us(); }, .must = 1.5});
  }
  context.measure({.name = "cuda_barrier_launched_w8", .unit = "us", .ours = []() -> double {
                     return operation_us(8, 64, 200, [](const GpuBytes&) { return Operation{}; });
                   }});
}

void measure_all_reduce(bench::Context& context, const std::string& name, int ranks, std::size_t nbytes, int times,
                        std::optional<double> must_ratio) {
  context.measure(
      {.name = name,
       .unit = "us",
       .ours = [=]() -> double {
         return operation_us(ranks, nbytes, times, [&](const GpuBytes& x) {
           return Operation{.kind = OpKind::kAllReduce,
                            .dtype = DType::kF32,
                            .in = x.data(),
                            .out = x.data(),
                            .count = static_cast<std::int64_t>(nbytes / 4)};
         });
       },
       .reference_name = "every byte read and written once at 4.30 TB/s",
       .reference = [=]() -> double { return 2 * ranks * static_cast<double>(nbytes) / kBytesPerSecond * 1e6; },
       .must_ratio = must_ratio});
}

TESSERA_BENCH(symm_all_reduce) {
  if (!has_gpu(context)) return;
  measure_all_reduce(context, "symm_all_reduce_w4_64MiB", 4, 64 * kMiB, 40, 0.7);
  measure_all_reduce(context, "symm_all_reduce_w8_64MiB", 8, 64 * kMiB, 40, {});
  measure_all_reduce(context, "symm_all_reduce_w4_1MiB", 4, kMiB, 200, {});
  measure_all_reduce(context, "symm_all_reduce_w4_1KiB", 4, 1024, 200, {});
}

}  // namespace
}  // namespace tessera::comm::cuda

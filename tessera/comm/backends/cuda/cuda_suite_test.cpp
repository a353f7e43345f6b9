// The contract of groups, for ranks that share a GPU. Buffers of the suite are host memory that the GPU accesses
// directly; gpu_ranks_cuda_test.cpp covers GPU memory.
#include <mutex>

#include "tessera/comm/backends/cuda/testing/gpu_ranks.h"
#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

void run_on_gpu(int ranks, const std::function<void()>& body) {
  if (const std::string why = cuda::why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  std::mutex mutex;
  std::string lacks;
  try {
    simulate(ranks, [&] {
      try {
        body();
      } catch (const Death&) {
        // The rank releases its objects, as when the thread of a rank dies.
      } catch (const Lacking& lacking) {
        const std::lock_guard lock(mutex);
        lacks = lacking.what;
      }
    });
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  if (!lacks.empty()) GTEST_SKIP() << lacks;
}

INSTANTIATE_TEST_SUITE_P(
    Cuda, CommSuite,
    ::testing::Values(CommImplementation{
        .name = "cuda", .backend = "cuda", .device = "cuda:0", .has_messages = false, .run = run_on_gpu}),
    implementation_name);

}  // namespace
}  // namespace tessera::comm::suite

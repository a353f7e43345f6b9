// The programs of the memory suite, for any device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/base/testing/bench.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera::memory::workloads {

/// A device to measure. Rows are named prefix + name.
struct Setup {
  Device device;
  device::Kernel kernel;    ///< takes (to, from, float)
  std::string prefix = {};  ///< "cuda_"
  double pair_must = 0;     ///< bound on a pair in ns; 0: none (compared with a peer instead)
  double capture_must = 1;  ///< bound on the time of a capture, relative to one on existing buffers
};

/// pair_512B, pair_64KiB, pair_2MiB, pair_64MiB: 64 live blocks; one call frees and reallocates a random one.
void measure_pairs(bench::Context& context, const Setup& setup);
/// churn_2000: 2000 live blocks of 512 B to 8 MiB (log-uniform); one call replaces a random one.
void measure_churn(bench::Context& context, const Setup& setup);
/// threads_16: throughput of 16 threads on 16 streams relative to one thread.
void measure_threads(bench::Context& context, const Setup& setup);
/// capture_side_stream: 200 steps of t = y*a on s1, u = t+1 on s2, y = u*b on s1, 4 MiB each, all uses declared.
void measure_side_stream(bench::Context& context, const Setup& setup);
/// capture_random: 10,000 operations on 2 streams; a tenth each are joins, allocations and frees.
void measure_random_capture(bench::Context& context, const Setup& setup);
/// stale_cpu: three streams, the host 50 steps ahead; peak relative to the same program on one stream.
void measure_stale_cpu(bench::Context& context, const Setup& setup);
/// replay_32: cost of checking a replay of one of 32 graphs that share a pool, relative to launching it.
void measure_replay_check(bench::Context& context, const Setup& setup);
/// Measures all of these.
void measure_all(bench::Context& context, const Setup& setup);

}  // namespace tessera::memory::workloads

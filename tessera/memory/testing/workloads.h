// The programs that the memory suite measures, for any device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/base/testing/bench.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera::memory::workloads {

/// A device to measure on. Rows are called prefix + name.
struct Setup {
  Device device;
  device::Kernel kernel;    ///< takes (to, from, float)
  std::string prefix = {};  ///< "cuda_"
  double pair_must = 0;     ///< bound on a pair in ns; 0: none (held against a peer instead)
  double capture_must = 1;  ///< bound on the time of a capture, over one on buffers that are there already
};

/// pair_512B, pair_64KiB, pair_2MiB, pair_64MiB: 64 live blocks; one call frees a random one and allocates it anew.
void measure_pairs(bench::Context& context, const Setup& setup);
/// churn_2000: 2000 live blocks of 512 B to 8 MiB (log-uniform); one call replaces a random one.
void measure_churn(bench::Context& context, const Setup& setup);
/// threads_16: how many times one thread's pairs 16 threads on 16 streams make together.
void measure_threads(bench::Context& context, const Setup& setup);
/// capture_side_stream: 200 steps of t = y*a on s1, u = t+1 on s2, y = u*b on s1, 4 MiB each, all uses told.
void measure_side_stream(bench::Context& context, const Setup& setup);
/// capture_random: 10,000 operations on 2 streams, of which a tenth each join, allocate and free.
void measure_random_capture(bench::Context& context, const Setup& setup);
/// stale_cpu: three streams, the host 50 steps ahead; peak over that of the same program on one stream.
void measure_stale_cpu(bench::Context& context, const Setup& setup);
/// replay_32: what checking a replay of one of 32 graphs that share a pool adds to launching it.
void measure_replay_check(bench::Context& context, const Setup& setup);
/// All of these.
void measure_all(bench::Context& context, const Setup& setup);

}  // namespace tessera::memory::workloads

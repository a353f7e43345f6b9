#!/usr/bin/env python3
"""Measures PyTorch's caching allocator with the programs of the memory suite; one JSON object a line on stdout.

Needs torch with CUDA, a GPU, a C++ compiler and ninja. The allocator is called from C++, so no Python is timed. Says on
stderr what is missing and exits with 77 where it cannot run.
"""

import json
import os
import sys
import time

SOURCE = r"""
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/extension.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <vector>

namespace allocator = c10::cuda::CUDACachingAllocator;
using Clock = std::chrono::steady_clock;

// 64 live blocks; each step frees a random one and allocates it anew. Median ns of a step over `samples` runs.
double pair_ns(int64_t nbytes, int64_t steps, int64_t samples) {
  std::vector<void*> live(64);
  for (auto& one : live) one = allocator::raw_alloc(nbytes);
  std::mt19937 random(7);
  std::vector<uint8_t> order(4096);
  for (auto& one : order) one = random() % live.size();
  std::vector<double> times;
  size_t at = 0;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const auto begin = Clock::now();
    for (int64_t step = 0; step < steps; ++step) {
      void*& one = live[order[at++ % order.size()]];
      allocator::raw_delete(one);
      one = allocator::raw_alloc(nbytes);
    }
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / steps);
  }
  for (void* one : live) allocator::raw_delete(one);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

// 2000 live blocks of 512 B to 8 MiB, log-uniform; ns of replacing a random one.
double churn_ns(int64_t steps) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> log_size(std::log(512.0), std::log(8.0 * 1048576));
  const auto size = [&] { return static_cast<size_t>(std::exp(log_size(random))); };
  std::vector<void*> live(2000);
  for (auto& one : live) one = allocator::raw_alloc(size());
  std::vector<size_t> sizes(steps), which(steps);
  for (auto& one : sizes) one = size();
  for (auto& one : which) one = random() % live.size();
  const auto run = [&](int64_t count) {
    const auto begin = Clock::now();
    for (int64_t i = 0; i < count; ++i) {
      allocator::raw_delete(live[which[i]]);
      live[which[i]] = allocator::raw_alloc(sizes[i]);
    }
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / count;
  };
  run(steps / 4);
  const double ns = run(steps);
  for (void* one : live) allocator::raw_delete(one);
  return ns;
}
"""


def say(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def capture_side_stream(torch):
    """MiB that a capture of 200 side-stream steps on 4 MiB blocks reserves, and its milliseconds."""
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    x = torch.randn(1024, 1024, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    begin = time.perf_counter()
    with torch.cuda.graph(graph):
        main = torch.cuda.current_stream()
        y = x
        for _ in range(200):
            t = y * 1.0001
            side.wait_stream(main)
            with torch.cuda.stream(side):
                u = t + 1
            t.record_stream(side)
            main.wait_stream(side)
            y = u * 0.5
            u.record_stream(main)
            del t, u
    return (torch.cuda.memory_reserved() - before) / 2**20, (time.perf_counter() - begin) * 1e3


def main():
    try:
        import torch
        from torch.utils.cpp_extension import load_inline
    except ImportError as error:
        print(f"torch cannot be imported: {error}", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("torch finds no GPU", file=sys.stderr)
        return 77
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")
    try:
        module = load_inline("tessera_peer_memory", SOURCE, functions=["pair_ns", "churn_ns"], with_cuda=True,
                             extra_cflags=["-O2"])
    except Exception as error:  # a missing compiler or ninja, said by torch in its own ways
        print(f"torch's extension could not be built: {str(error).splitlines()[0]}", file=sys.stderr)
        return 77
    torch.empty(1, device="cuda")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}", file=sys.stderr)
    for name, nbytes in (("pair_512B", 512), ("pair_64KiB", 64 << 10), ("pair_2MiB", 2 << 20), ("pair_64MiB", 64 << 20)):
        say(name, module.pair_ns(nbytes, 5000, 41), "ns")
        torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    say("churn_2000", module.churn_ns(200000), "ns")
    say("churn_2000_reserved", torch.cuda.max_memory_reserved() / torch.cuda.max_memory_allocated(), "reserved/live")
    torch.cuda.empty_cache()
    mib, milliseconds = capture_side_stream(torch)
    say("capture_side_stream", mib, "MiB")
    say("capture_side_stream_time", milliseconds * 1e3, "us")
    return 0


if __name__ == "__main__":
    sys.exit(main())

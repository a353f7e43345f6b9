// Fixture for tests on the first GPU. Skips them with a reason if there is no GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "tessera/memory/graph_capture.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/testing/reference.h"
#include "tessera/ops/testing/sample_memory.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops::testing {

/// Base of tests that need a GPU.
class OnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      gpu_ = device::Device::get("cuda");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  /// Returns the tensor on the GPU, contiguous.
  [[nodiscard]] Tensor there(const Tensor& x) const { return to(x, gpu_); }
  /// Returns the tensor on the host, after waiting for its values.
  [[nodiscard]] static Tensor here(const Tensor& x) {
    Tensor host = to(x, device::Device::get("host"));
    host.device().synchronize();
    return host;
  }
  /// Returns the current stream of the GPU.
  [[nodiscard]] const device::Stream& stream() const { return tensor::current_stream(gpu_); }
  /// Returns the graph of the work that `body` enqueues.
  template <class F>
  [[nodiscard]] memory::CapturedGraph captured(const F& body) const {
    memory::GraphCapture capture(memory::Allocator::of(gpu_), stream());
    body();
    return capture.end();
  }
  /// Expects the same bits from 20 calls of `body`, and from a replayed graph of one call.
  void expect_repeats(const std::function<std::vector<Tensor>()>& body) const;

  device::Device gpu_;
};

/// Expects the same bytes in two contiguous host tensors.
inline void expect_same_bits(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.dtype(), want.dtype());
  want.device().synchronize();
  const std::size_t item = itemsize(got.dtype());
  for (std::int64_t i = 0; i < got.numel(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * item;
    ASSERT_EQ(std::memcmp(got.data() + at, want.data() + at, item), 0)
        << "element " << i << ": " << read_element(got.data() + at, got.dtype()) << ", not "
        << read_element(want.data() + at, want.dtype());
  }
}

inline void OnCuda::expect_repeats(const std::function<std::vector<Tensor>()>& body) const {
  std::vector<Tensor> first;
  for (const Tensor& x : body()) first.push_back(here(x));
  const auto expect_first = [&](const std::vector<Tensor>& got) {
    for (std::size_t i = 0; i < first.size(); ++i) expect_same_bits(here(got[i]), first[i]);
  };
  for (int i = 1; i < 20; ++i) expect_first(body());
  gpu_.synchronize();
  std::vector<Tensor> results;
  const memory::CapturedGraph graph = captured([&] { results = body(); });
  graph.replay(stream());
  expect_first(results);
}

/// Expects values that differ by at most `tolerance`, relative to max(1, |expected|).
inline void expect_near(const Tensor& got, const Tensor& want, double tolerance) {
  expect_close(to_array(got), to_array(want), tolerance);
}

}  // namespace tessera::ops::testing

// Tests on the first GPU, which are skipped, saying why, where there is none.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "tessera/memory/graph_capture.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/testing/reference.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops::testing {

/// What such tests begin with.
class OnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      gpu_ = device::Device::get("cuda");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  /// The tensor on the GPU, dense.
  [[nodiscard]] Tensor there(const Tensor& x) const { return to(x, gpu_); }
  /// The tensor on the host, its values ready to be read.
  [[nodiscard]] static Tensor here(const Tensor& x) {
    Tensor host = to(x, device::Device::get("host"));
    host.device().synchronize();
    return host;
  }
  /// Where calls go.
  [[nodiscard]] const device::Stream& stream() const { return tensor::current_stream(gpu_); }
  /// The graph of what `body` enqueues.
  template <class F>
  [[nodiscard]] memory::CapturedGraph captured(const F& body) const {
    memory::GraphCapture capture(memory::Allocator::of(gpu_), stream());
    body();
    return capture.end();
  }

  device::Device gpu_;
};

/// The same bytes; dense tensors of the host.
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

/// Values that differ by no more than `tolerance`, relative to max(1, |expected|).
inline void expect_near(const Tensor& got, const Tensor& want, double tolerance) {
  expect_close(to_array(got), to_array(want), tolerance);
}

}  // namespace tessera::ops::testing

// Ranks that share a GPU, for tests and benches: each is a thread with a stream and a group on the cuda backend.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/device/device.h"
#include "tessera/memory/buffer.h"

namespace tessera::comm::cuda {

/// Returns why no GPU is available for tests; empty if one is.
std::string why_no_gpu();

/// One rank.
struct GpuRank {
  device::Device gpu;
  device::Stream stream;
  ProcessGroup group;
  [[nodiscard]] int rank() const { return group.rank(); }
  [[nodiscard]] int size() const { return group.size(); }
};
/// Runs `body` on this many ranks. Rethrows the error of the first rank that failed.
void on_gpu_ranks(int ranks, const std::function<void(const GpuRank&)>& body);

/// Bytes in GPU memory.
class GpuBytes {
 public:
  GpuBytes(const GpuRank& rank, std::size_t nbytes);
  /// Allocates room for these values and copies them.
  template <class T>
  GpuBytes(const GpuRank& rank, const std::vector<T>& values) : GpuBytes(rank, values.size() * sizeof(T)) {
    write(values.data());
  }
  [[nodiscard]] std::byte* data() const { return buffer_.data(); }
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }
  /// Copies all bytes from the host and waits for the copy.
  void write(const void* from) const;
  /// Copies all bytes to the host after the earlier work on the stream.
  [[nodiscard]] std::vector<std::byte> read() const;
  template <class T>
  [[nodiscard]] std::vector<T> read_as() const {
    const std::vector<std::byte> bytes = read();
    const auto* values = reinterpret_cast<const T*>(bytes.data());
    return {values, values + bytes.size() / sizeof(T)};
  }

 private:
  memory::Buffer buffer_;
  device::Stream stream_;
  std::size_t nbytes_;
};

}  // namespace tessera::comm::cuda

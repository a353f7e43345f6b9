// Ranks that share a GPU, for tests and benches: each a thread with a stream and a group on the cuda transport.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/device/device.h"
#include "tessera/memory/buffer.h"

namespace tessera::comm::cuda {

/// Why there is no GPU to test on; empty: there is one.
std::string why_no_gpu();

/// One rank.
struct GpuRank {
  device::Device gpu;
  device::Stream stream;
  ProcessGroup group;
  [[nodiscard]] int rank() const { return group.rank(); }
  [[nodiscard]] int size() const { return group.size(); }
};
/// Runs `body` on this many ranks; throws what the first that failed threw.
void on_gpu_ranks(int ranks, const std::function<void(const GpuRank&)>& body);

/// Bytes of the GPU.
class GpuBytes {
 public:
  GpuBytes(const GpuRank& rank, std::size_t nbytes);
  /// With these values.
  template <class T>
  GpuBytes(const GpuRank& rank, const std::vector<T>& values) : GpuBytes(rank, values.size() * sizeof(T)) {
    write(values.data());
  }
  [[nodiscard]] std::byte* data() const { return buffer_.data(); }
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }
  /// Copies all of them from the host, and waits for it.
  void write(const void* from) const;
  /// Copies them to the host when what is on the stream is done.
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

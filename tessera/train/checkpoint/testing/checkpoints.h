// States with known elements: a function of the tensor number and the global position of the element, so that any rank
// of any mesh can check its shard.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/rank.h"
#include "tessera/device/device.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/layout.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/detail/ownership.h"

namespace tessera::train::testing {

/// A directory in memory, where syncing is free. The destructor removes it.
class CheckpointDirectory {
 public:
  CheckpointDirectory() {
    char name[] = "/dev/shm/tessera_checkpoint_XXXXXX";
    if (::mkdtemp(name) == nullptr) std::abort();
    path_ = name;
  }
  ~CheckpointDirectory() { std::filesystem::remove_all(path_); }
  CheckpointDirectory(const CheckpointDirectory&) = delete;
  CheckpointDirectory& operator=(const CheckpointDirectory&) = delete;
  /// Path for checkpoints; not created yet.
  [[nodiscard]] std::filesystem::path path() const { return path_ / "checkpoints"; }

 private:
  std::filesystem::path path_;
};

/// Returns the names in a directory.
inline std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

/// Description of a tensor, equal in every checkpoint of a test.
struct KnownTensor {
  std::string name;
  DType dtype;
  Shape shape;
};

/// Returns the bits of the element at `place` of tensor `number` at a step.
inline std::uint64_t known_bits(std::size_t number, std::int64_t place, std::int64_t step) {
  std::uint64_t bits = (number + 1) * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(place) * 0xD1B54A32D192ED03U +
                       static_cast<std::uint64_t>(step) * 0x94D049BB133111EBU;
  bits ^= bits >> 29U;
  bits *= 0xBF58476D1CE4E5B9U;
  return bits ^ bits >> 32U;
}

/// Calls `body(bytes of the element, global position)` for each element of the shard of this rank.
template <class F>
void for_each_element(const Tensor& tensor, const F& body) {
  const Tensor part = tensor.local();
  if (!part || part.numel() == 0) return;
  const detail::OwnedShard runs = detail::part_of(tensor.layout(), tensor.shape(), current_place().rank);
  std::vector<std::vector<std::int64_t>> globals;  // per dimension, the global index of each local index
  for (const std::vector<detail::IndexRun>& dim : runs.dims) {
    globals.emplace_back();
    for (const detail::IndexRun& run : dim) {
      for (std::int64_t i = 0; i < run.size; ++i) globals.back().push_back(run.global + i);
    }
  }
  const std::size_t item = itemsize(part.dtype());
  for (std::int64_t flat = 0; flat < part.numel(); ++flat) {
    std::int64_t rest = flat;
    std::int64_t place = 0;
    std::int64_t step = 1;
    for (std::size_t d = part.shape().size(); d-- > 0;) {
      place += globals[d][static_cast<std::size_t>(rest % part.shape()[d])] * step;
      rest /= part.shape()[d];
      step *= tensor.shape()[d];
    }
    body(part.data() + static_cast<std::size_t>(flat) * item, place);
  }
}

/// Allocates a tensor: with a layout the shard of this rank, otherwise the global tensor.
inline Tensor allocate(const KnownTensor& known, const layout::Layout& layout) {
  const device::Device host = device::Device::get("host");
  if (!layout) return Tensor::allocate(known.shape, known.dtype, host);
  const Rank rank = current_place().rank;
  Tensor local;
  if (layout.mesh().contains(rank)) {
    local = Tensor::allocate(layout::local_shape(layout, known.shape, rank), known.dtype, host);
  }
  return Tensor::sharded(known.shape, known.dtype, layout, local);
}

/// Writes the known elements of a step.
inline void set_known(const CheckpointState& state, std::int64_t step) {
  device::Device::get("host").synchronize();
  for (std::size_t t = 0; t < state.tensors.size(); ++t) {
    const Tensor& tensor = state.tensors[t].second;
    for_each_element(tensor, [&](std::byte* element, std::int64_t place) {
      std::uint64_t bits = known_bits(t, place, step);
      if (tensor.dtype() == DType::kBool) bits &= 1U;
      std::memcpy(element, &bits, itemsize(tensor.dtype()));
    });
  }
}

/// Returns the number of elements that differ from those of the step.
inline std::int64_t count_wrong(const CheckpointState& state, std::int64_t step) {
  std::int64_t wrong = 0;
  for (std::size_t t = 0; t < state.tensors.size(); ++t) {
    const Tensor& tensor = state.tensors[t].second;
    for_each_element(tensor, [&](const std::byte* element, std::int64_t place) {
      std::uint64_t bits = known_bits(t, place, step);
      if (tensor.dtype() == DType::kBool) bits &= 1U;
      wrong += std::memcmp(element, &bits, itemsize(tensor.dtype())) != 0 ? 1 : 0;
    });
  }
  return wrong;
}

/// Changes one byte of a file.
inline void flip_byte(const std::filesystem::path& path, std::int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ 0x40);
  file.seekp(at);
  file.put(byte);
}

/// Returns the bytes of a file.
inline std::string bytes_of(const std::filesystem::path& path) {
  std::stringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

}  // namespace tessera::train::testing

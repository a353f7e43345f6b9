// Kernels of .cu files, found once a device and then at the cost of a pointer's read.
//
//   TESSERA_CUDA_IMAGE(softmax_rows);                                  // softmax_rows.cu, outside any namespace
//
//   Image image(TESSERA_CUDA_BYTES(softmax_rows));                     // static objects of the launching file
//   const Kernel softmax_rows(image, "softmax_rows_f32");
//
//   launch(call, softmax_rows, blocks, threads, rows, columns);        // in the function that KernelRegistration names
//
// The first lookup on a device loads the image and all its kernels: a lookup may have to wait for spinning kernels, and
// so it happens once. Loaded kernels stay until the process ends. Names of .cu files are unique in the program, names
// of kernels within their file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tessera/device/device.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/tensor/op_def.h"

/// Declares the bytes of <stem>.cu, which CMake embeds.
#define TESSERA_CUDA_IMAGE(stem)                       \
  extern "C" const std::byte tessera_kernels_##stem[]; \
  extern "C" const std::byte tessera_kernels_##stem##_end[]
/// Those bytes: first and end.
#define TESSERA_CUDA_BYTES(stem) tessera_kernels_##stem, tessera_kernels_##stem##_end

namespace tessera::ops::cuda {

class Kernel;

/// The kernels of a .cu file. Static: kernels point at it, and it is never destroyed before them. Thread-safe.
class Image {
 public:
  /// Of these bytes.
  Image(const std::byte* begin, const std::byte* end) : begin_(begin), end_(end) {}
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

 private:
  friend class Kernel;
  void load(const device::Device& device);

  const std::byte* begin_;
  const std::byte* end_;
  std::mutex mutex_;                    // for what follows and for what kernels know
  std::vector<const Kernel*> kernels_;  // of this file, as far as somebody launches them
};

/// A kernel of an image, on every device. Static, made before the first call. Thread-safe.
class Kernel {
 public:
  /// The kernel `name` of `image`, an extern "C" function.
  Kernel(Image& image, std::string name);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  /// On a device. DeviceError names the kernel when the image has none of this name.
  [[nodiscard]] const device::Kernel& on(const device::Device& device) const {
    for (const Loaded* at = first_.load(std::memory_order_acquire); at != nullptr; at = at->next) {
      if (at->device == device.state().get()) return at->kernel;
    }
    return load(device);
  }
  /// Its name.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  friend class Image;
  // Prepended, never removed, never destroyed: the driver may be gone when statics are.
  struct Loaded {
    const device::DeviceState* device;
    device::Kernel kernel;
    const Loaded* next;
  };
  const device::Kernel& load(const device::Device& device) const;

  Image& image_;
  std::string name_;
  mutable std::atomic<const Loaded*> first_{nullptr};
};

/// Memory beside the tensors of a call that a launch touches: scratch.
using Accesses = std::span<const device::Access>;

/// Launches on the call's stream, under the operator's name. Inputs are declared as read, outputs as written, `others`
/// as they say.
void launch(const tensor::KernelCall& call, const Kernel& kernel, const device::LaunchConfig& config,
            const device::KernelArgs& args, Accesses others = {});
/// Likewise with a grid and blocks of one dimension, and the arguments as they are.
template <class... T>
void launch(const tensor::KernelCall& call, const Kernel& kernel, std::uint32_t blocks, std::uint32_t threads,
            const T&... args) {
  launch(call, kernel, {.grid = {blocks, 1, 1}, .block = {threads, 1, 1}}, device::KernelArgs(args...));
}

/// Threads of a block where nothing speaks for another number.
inline constexpr std::uint32_t kThreads = 256;
/// Blocks for `items` of which a block takes `per_block` at a time: enough for all, but no more than a device can be
/// kept busy with; the kernel walks on from there with a stride of the grid. At least 1.
std::uint32_t blocks_for(const tensor::KernelCall& call, std::int64_t items, std::int64_t per_block);

/// Whether kernels that compute in the type of `computed` read elements of `dtype` in place, and so in vectors: what
/// with_own_type in elements.cuh knows.
bool is_read_in_place(DType dtype, DType computed);
/// Whether vectors of `elements` from this address on may be read and written.
bool is_aligned(const void* address, DType dtype, int elements);

/// Scratch memory for work on the call's stream, freed in its order when the buffer goes.
memory::Buffer scratch(const tensor::KernelCall& call, std::size_t nbytes);

}  // namespace tessera::ops::cuda

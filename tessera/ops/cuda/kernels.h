// Kernels of .cu files. The first lookup per device loads them; later lookups read a pointer.
//
//   TESSERA_CUDA_IMAGE(softmax_rows);                                  // softmax_rows.cu, outside any namespace
//
//   Image image(TESSERA_CUDA_BYTES(softmax_rows));                     // static objects of the launching file
//   const Kernel softmax_rows(image, "softmax_rows_f32");
//
//   launch(call, softmax_rows, blocks, threads, rows, columns);        // in the function that KernelRegistration names
//
// The first lookup on a device loads the kernels of all images, because a load waits for running kernels, and one that
// spins may wait for another rank of this process that needs a kernel. Loaded kernels remain until the process ends.
// Names of .cu files are unique in the program, names of kernels in their file.
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
/// Expands to the first byte and the end of the image of <stem>.cu.
#define TESSERA_CUDA_BYTES(stem) tessera_kernels_##stem, tessera_kernels_##stem##_end

namespace tessera::ops::cuda {

class ImageKernel;

/// The kernels of a .cu file. A static object, because kernels refer to it; it is destroyed after them. Thread-safe.
class Image {
 public:
  /// Refers to these bytes.
  Image(const std::byte* begin, const std::byte* end);
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

 private:
  friend class ImageKernel;
  static std::vector<Image*>& all();
  static void load_all(const device::Device& device);
  void load(const device::Device& device);

  const std::byte* begin_;
  const std::byte* end_;
  std::mutex mutex_;                         // protects the members below and those of the kernels
  std::vector<const ImageKernel*> kernels_;  // kernels of this file that the program launches
};

/// A kernel of an image, on every device. A static object, constructed before the first call. Thread-safe.
class ImageKernel {
 public:
  /// Refers to the kernel `name` of `image`, an extern "C" function.
  ImageKernel(Image& image, std::string name);
  ImageKernel(const ImageKernel&) = delete;
  ImageKernel& operator=(const ImageKernel&) = delete;
  /// Returns the kernel on a device. Throws DeviceError with the name of the kernel if the image does not contain it.
  [[nodiscard]] const device::Kernel& on(const device::Device& device) const {
    for (const Loaded* at = first_.load(std::memory_order_acquire); at != nullptr; at = at->next) {
      if (at->device == device.state().get()) return at->kernel;
    }
    return load(device);
  }
  /// Returns the name of the kernel.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  friend class Image;
  // Prepended, never removed or destroyed: the driver may be unloaded before static objects are destroyed.
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

/// Memory that a launch accesses besides the tensors of the call, such as scratch.
using Accesses = std::span<const device::Access>;

/// Launches on the stream of the call with the name of the operator. Declares inputs as read, outputs as written, and
/// `others` with their modes.
void launch(const tensor::KernelCall& call, const ImageKernel& kernel, const device::LaunchConfig& config,
            const device::KernelArgs& args, Accesses others = {});
/// Launches with a one-dimensional grid and these arguments.
template <class... T>
void launch(const tensor::KernelCall& call, const ImageKernel& kernel, std::uint32_t blocks, std::uint32_t threads,
            const T&... args) {
  launch(call, kernel, {.grid = {blocks, 1, 1}, .block = {threads, 1, 1}}, device::KernelArgs(args...));
}

/// Default number of threads per block.
inline constexpr std::uint32_t kThreads = 256;
/// Returns the number of blocks for `items` if a block takes `per_block` at a time, limited to the number that keeps
/// the device busy. Kernels use a grid-stride loop. At least 1.
std::uint32_t blocks_for(const tensor::KernelCall& call, std::int64_t items, std::int64_t per_block);

/// Returns true if kernels that compute in the type of `computed` read elements of `dtype` in place, and therefore in
/// vectors. Must agree with with_own_type() in elements.cuh.
bool is_read_in_place(DType dtype, DType computed);
/// Returns true if the address is aligned for vectors of `elements` elements.
bool is_aligned(const void* address, DType dtype, int elements);

/// Allocates scratch memory for work on the stream of the call. The destructor of the buffer frees it in stream order.
memory::Buffer scratch(const tensor::KernelCall& call, std::size_t nbytes);

}  // namespace tessera::ops::cuda

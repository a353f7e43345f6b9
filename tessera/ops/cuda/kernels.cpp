#include "tessera/ops/cuda/kernels.h"

#include <algorithm>
#include <utility>

#include "tessera/base/small_vector.h"

namespace tessera::ops::cuda {
namespace {

// Blocks per multiprocessor: several times its occupancy, so that the last wave costs little.
constexpr std::int64_t kBlocksEach = 64;

}  // namespace

ImageKernel::ImageKernel(Image& image, std::string name) : image_(image), name_(std::move(name)) {
  const std::lock_guard lock(image_.mutex_);
  image_.kernels_.push_back(this);
}

const device::Kernel& ImageKernel::load(const device::Device& device) const {
  Image::load_all(device);
  return on(device);
}

// Filled by the constructors of static objects, and only read later.
std::vector<Image*>& Image::all() {
  static auto& images = *new std::vector<Image*>;
  return images;
}

Image::Image(const std::byte* begin, const std::byte* end) : begin_(begin), end_(end) { all().push_back(this); }

void Image::load_all(const device::Device& device) {
  for (Image* image : all()) image->load(device);
}

void Image::load(const device::Device& device) {
  const std::lock_guard lock(mutex_);
  const auto is_loaded = [&](const ImageKernel& kernel) {
    for (const auto* at = kernel.first_.load(std::memory_order_relaxed); at != nullptr; at = at->next) {
      if (at->device == device.state().get()) return true;
    }
    return false;
  };
  if (std::ranges::all_of(kernels_, [&](const ImageKernel* kernel) { return is_loaded(*kernel); })) return;
  const device::Module module = device.load_module({begin_, static_cast<std::size_t>(end_ - begin_)});
  for (const ImageKernel* kernel : kernels_) {
    if (is_loaded(*kernel)) continue;
    kernel->first_.store(new ImageKernel::Loaded{device.state().get(), module.kernel(kernel->name_),
                                                 kernel->first_.load(std::memory_order_relaxed)},
                         std::memory_order_release);
  }
}

void launch(const tensor::KernelCall& call, const ImageKernel& kernel, const device::LaunchConfig& config,
            const device::KernelArgs& args, Accesses others) {
  const device::Kernel& found = kernel.on(call.where.context->device);
  SmallVector<device::Access, 8> accesses;
  if (call.where.context->device.is_checked()) {
    const auto declare = [&](const Tensor& tensor, device::AccessMode mode) {
      if (!tensor) return;
      const detail::ByteRange range = detail::byte_range(tensor);
      accesses.push_back({range.address, range.nbytes, mode});
    };
    for (const Tensor& input : call.inputs) declare(input, device::AccessMode::kRead);
    for (const Tensor& output : call.outputs) declare(output, device::AccessMode::kWrite);
    for (const device::Access& other : others) accesses.push_back(other);
  }
  call.stream().launch(found, config, args,
                       {.label = call.op.name(), .accesses = std::span<const device::Access>(accesses)});
}

std::uint32_t blocks_for(const tensor::KernelCall& call, std::int64_t items, std::int64_t per_block) {
  const std::int64_t needed = (items + per_block - 1) / per_block;
  const std::int64_t most = call.where.context->device.properties().multiprocessors * kBlocksEach;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(needed, 1, std::max<std::int64_t>(most, 1)));
}

bool is_read_in_place(DType dtype, DType computed) {
  switch (computed) {
    case DType::kF32: return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
    case DType::kI64:
      return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kU8 || dtype == DType::kBool;
    case DType::kF64:
    case DType::kC64: return dtype == computed;
    default: return false;
  }
}

bool is_aligned(const void* address, DType dtype, int elements) {
  const std::size_t nbytes = std::min<std::size_t>(16, itemsize(dtype) * static_cast<std::size_t>(elements));
  return reinterpret_cast<std::uintptr_t>(address) % nbytes == 0;
}

memory::Buffer scratch(const tensor::KernelCall& call, std::size_t nbytes) {
  return call.where.context->allocator.allocate(nbytes, call.stream());
}

}  // namespace tessera::ops::cuda

#include "tessera/ops/cuda/move_items.h"

#include <bit>
#include <cstring>

#include "tessera/ops/cuda/walk.h"
#include "tessera/ops/detail/loops.h"

TESSERA_CUDA_IMAGE(move_items);

namespace tessera::ops::cuda {
namespace {

using detail::Loop;

Image image(TESSERA_CUDA_BYTES(move_items));
const ImageKernel copy_kernels[] = {{image, "copy_items_1"},
                                    {image, "copy_items_2"},
                                    {image, "copy_items_4"},
                                    {image, "copy_items_8"},
                                    {image, "copy_items_16"}};
const ImageKernel fill_kernels[] = {{image, "fill_items_1"},
                                    {image, "fill_items_2"},
                                    {image, "fill_items_4"},
                                    {image, "fill_items_8"},
                                    {image, "fill_items_16"}};

// Returns the index of the kernel; sizes are powers of two.
std::size_t index_of(std::int64_t nbytes) {
  return static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(nbytes)));
}

bool is_one_run(const Loop& loop) {
  bool is_run = loop.ndim() <= 1;
  for (std::size_t o = 0; o < loop.operands(); ++o) is_run = is_run && (loop.ndim() == 0 || loop.step(o) == 1);
  return is_run;
}

// Returns the number of adjacent items that can be copied as one, of at most 16 bytes: 1, 2, 4, 8 or 16.
std::int64_t items_together(const Loop& loop, std::int64_t item, const std::byte* to, const std::byte* from) {
  std::int64_t together = 1;
  while (item * together < 16) {
    const std::int64_t next = 2 * together;
    const auto nbytes = static_cast<std::uintptr_t>(item * next);
    const bool is_aligned =
        reinterpret_cast<std::uintptr_t>(to) % nbytes == 0 && reinterpret_cast<std::uintptr_t>(from) % nbytes == 0;
    if (!is_aligned || !has_vectors(loop, next) || loop.step(1) != 1) break;
    together = next;
  }
  return together;
}

// Divides steps and offsets, which count items, so that a thread copies `together` items at a time.
Walk in_larger_items(Walk walk, std::int64_t together) {
  for (auto& first : walk.first) first /= together;
  for (int d = 0; d < walk.ndim; ++d) {
    for (auto& step : walk.steps[d]) step /= together;
  }
  return walk;
}

// Returns four bytes that yield the item if repeated; nullopt if none do.
std::optional<std::uint32_t> pattern_of(std::span<const std::byte> item) {
  std::uint32_t pattern = 0;
  for (std::size_t i = 0; i < 4; ++i)
    std::memcpy(reinterpret_cast<std::byte*>(&pattern) + i, &item[i % item.size()], 1);
  for (std::size_t i = 0; i < item.size(); i += 4) {
    const std::size_t n = std::min<std::size_t>(4, item.size());
    if (std::memcmp(&item[i], &pattern, n) != 0) return std::nullopt;
  }
  return pattern;
}

std::byte* moved(std::byte* data, std::int64_t items, std::int64_t item) { return data + items * item; }

}  // namespace

void copy_items(const tensor::KernelCall& call, const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  const auto item = static_cast<std::int64_t>(itemsize(to.dtype()));
  const Loop loop({&to, &from});
  if (is_one_run(loop)) {
    call.stream().copy(moved(to.data(), loop.first(0), item), moved(from.data(), loop.first(1), item), to.nbytes(),
                       call.op.name());
    return;
  }
  const std::int64_t together = items_together(loop, item, to.data(), from.data());
  const Walk walk = in_larger_items(walk_of(loop, together), together);
  launch(call, copy_kernels[index_of(item * together)], blocks_for(call, walk.numel, kThreads), kThreads, walk,
         static_cast<void*>(to.data()), static_cast<const void*>(from.data()));
}

void fill_items(const tensor::KernelCall& call, const Tensor& to, std::span<const std::byte> item) {
  if (to.numel() == 0) return;
  const auto size = static_cast<std::int64_t>(item.size());
  const Loop loop({&to});
  const auto pattern = pattern_of(item);
  if (is_one_run(loop) && pattern) {
    const std::size_t width = std::min<std::size_t>(4, item.size());
    call.stream().fill(moved(to.data(), loop.first(0), size), *pattern, width, to.nbytes() / width, call.op.name());
    return;
  }
  const Walk walk = walk_of(loop);
  const std::uint32_t blocks = blocks_for(call, walk.numel, kThreads);
  const auto launch_with = [&](auto value) {
    std::memcpy(&value, item.data(), sizeof value);
    launch(call, fill_kernels[index_of(size)], blocks, kThreads, walk, static_cast<void*>(to.data()), value);
  };
  struct alignas(16) Sixteen {
    std::byte bytes[16];
  };
  switch (size) {
    case 1: return launch_with(std::uint8_t{});
    case 2: return launch_with(std::uint16_t{});
    case 4: return launch_with(std::uint32_t{});
    case 8: return launch_with(std::uint64_t{});
    default: return launch_with(Sixteen{});
  }
}

}  // namespace tessera::ops::cuda

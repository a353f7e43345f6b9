#include "tessera/comm/backends/cuda/testing/gpu_ranks.h"

#include <numeric>

#include "tessera/comm/world.h"
#include "tessera/memory/allocator.h"

namespace tessera::comm::cuda {

std::string why_no_gpu() {
  for (const device::AbsentKind& absent : device::Device::absent()) {
    if (absent.kind == "cuda") return absent.reason;
  }
  return "";
}

void on_gpu_ranks(int ranks, const std::function<void(const GpuRank&)>& body) {
  simulate(ranks, [&] {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    const device::Device gpu = device::Device::get("cuda:0");
    const GpuRank rank{.gpu = gpu,
                       .stream = gpu.create_stream({.name = "rank " + std::to_string(world().rank())}),
                       .group = world().subgroup(all, {.name = "gpu", .backend = "cuda"})};
    rank.group.set_deadline(std::chrono::seconds(20));
    body(rank);
  });
}

GpuBytes::GpuBytes(const GpuRank& rank, std::size_t nbytes)
    : buffer_(memory::Allocator::of(rank.gpu).allocate(nbytes, rank.stream)), stream_(rank.stream), nbytes_(nbytes) {}

void GpuBytes::write(const void* from) const {
  stream_.copy(buffer_.data(), from, nbytes_);
  stream_.synchronize();
}

std::vector<std::byte> GpuBytes::read() const {
  std::vector<std::byte> bytes(nbytes_);
  stream_.copy(bytes.data(), buffer_.data(), nbytes_);
  stream_.synchronize();
  return bytes;
}

}  // namespace tessera::comm::cuda

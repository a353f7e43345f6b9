// The hot path: pairs of allocate and free among 64 live blocks, and churn of 2000 live blocks of mixed sizes.
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/bytes.h"
#include "tessera/base/testing/bench.h"
#include "tessera/device/device.h"
#include "tessera/device/host/host_device.h"
#include "tessera/memory/allocator.h"

namespace tessera::memory {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

// 64 live blocks; one call frees a random one and allocates it anew.
void measure_pair(bench::Context& context, const std::string& name, const Allocator& allocator,
                  const device::Stream& stream, std::size_t nbytes) {
  if (!context.wants(name)) return;
  std::vector<Buffer> live(64);
  for (Buffer& one : live) one = allocator.allocate(nbytes, stream);
  std::mt19937 random(7);
  std::array<std::uint8_t, 4096> order{};
  for (auto& one : order) one = static_cast<std::uint8_t>(random() % 64);
  std::size_t at = 0;
  context.measure({.name = name,
                   .ours =
                       [&] {
                         Buffer& one = live[order[at++ % order.size()]];
                         one.reset();
                         one = allocator.allocate(nbytes, stream);
                       },
                   .must = 80});
}

TESSERA_BENCH(pairs) {
  const Device device = device::host::make_host_device({.capacity_nbytes = std::size_t{8} << 30});
  const Allocator allocator(device, {});
  const device::Stream stream = device.create_stream();
  measure_pair(context, "pair_512B", allocator, stream, 512);
  measure_pair(context, "pair_64KiB", allocator, stream, 64 * kKiB);
  measure_pair(context, "pair_2MiB", allocator, stream, 2 * kMiB);
  measure_pair(context, "pair_64MiB", allocator, stream, 64 * kMiB);
}

TESSERA_BENCH(churn) {
  if (!context.wants("churn_2000") && !context.wants("churn_2000_reserved")) return;
  const Device device = device::host::make_host_device({.capacity_nbytes = std::size_t{8} << 30});
  const Allocator allocator(device, {});
  const device::Stream stream = device.create_stream();
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> log_size(std::log(512.0), std::log(8.0 * kMiB));
  const auto size = [&] { return static_cast<std::size_t>(std::exp(log_size(random))); };
  std::vector<Buffer> live(2000);
  for (Buffer& one : live) one = allocator.allocate(size(), stream);
  for (int i = 0; i < 50000; ++i) {
    Buffer& one = live[random() % live.size()];
    one.reset();
    one = allocator.allocate(size(), stream);
  }
  std::vector<std::size_t> sizes(200000);
  std::vector<std::uint16_t> which(sizes.size());
  for (auto& one : sizes) one = size();
  for (auto& one : which) one = static_cast<std::uint16_t>(random() % live.size());
  std::size_t at = 0;
  context.measure({.name = "churn_2000",
                   .ours =
                       [&] {
                         Buffer& one = live[which[at % which.size()]];
                         one.reset();
                         one = allocator.allocate(sizes[at % sizes.size()], stream);
                         ++at;
                       },
                   .must = 150});
  const Statistics seen = allocator.statistics();
  context.measure({.name = "churn_2000_reserved",
                   .unit = "reserved/live",
                   .ours = [&] {
                     return static_cast<double>(seen.peak_reserved_nbytes) / static_cast<double>(seen.peak_live_nbytes);
                   },
                   .must = 1.08});
}

}  // namespace
}  // namespace tessera::memory

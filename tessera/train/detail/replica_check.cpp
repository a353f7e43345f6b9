#include "tessera/train/detail/replica_check.h"

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/probe/annotation.h"
#include "tessera/base/rank.h"
#include "tessera/comm/process_group.h"
#include "tessera/device/device.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/checkpoint/detail/hash.h"
#include "tessera/train/checkpoint/detail/ownership.h"
#include "tessera/train/detail/host_copies.h"

namespace tessera::train::detail {
namespace {

// Digits that a rank sends per parameter: the digests of position and content.
constexpr std::size_t kLetters = 2 * kHashLetters;

std::string digests_of(const nn::NamedTensor& parameter) {
  const auto& [name, tensor] = parameter;
  std::string position;
  if (tensor.has_layout()) position = part_of(tensor.layout(), tensor.shape(), current_place().rank).text();
  const Tensor own = tensor.has_layout() ? tensor.local() : tensor;
  TESSERA_CHECK(own.is_contiguous(), "check_replicas: parameter ", name, " must be contiguous");
  const Tensor local = on_host(own);
  return hash_of(position) + hash_of({reinterpret_cast<const char*>(local.data()), local.nbytes()});
}

// Ranks by content of a shard.
using Contents = std::map<std::string_view, std::vector<int>>;

// Returns the content that most ranks hold; in a tie, that of the lowest rank.
std::string_view usual(const Contents& contents) {
  const auto* best = &*contents.begin();
  for (const auto& each : contents) {
    const bool is_more = each.second.size() > best->second.size();
    const bool is_first = each.second.size() == best->second.size() && each.second.front() < best->second.front();
    if (is_more || is_first) best = &each;
  }
  return best->first;
}

// Throws unless all ranks that hold the same shard of the parameter sent the same content.
void check(const std::string& name, const std::vector<std::string_view>& by_rank, std::int64_t step) {
  std::map<std::string_view, Contents> shards;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank)
    shards[by_rank[rank].substr(0, kHashLetters)][by_rank[rank].substr(kHashLetters)].push_back(static_cast<int>(rank));
  for (const auto& [position, contents] : shards) {
    if (contents.size() == 1) continue;
    const std::string_view want = usual(contents);
    for (const auto& [content, ranks] : contents) {
      if (content == want) continue;
      TESSERA_THROW(
          MismatchError, "check_replicas: replicas of parameter ", name, " must be bitwise equal, got digest ",
          content.substr(0, 16), " on rank ", ranks.front(), " and ", want.substr(0, 16), " on rank ",
          contents.at(want).front(), " after step ", step,
          "; resume from a checkpoint before that step and check the memory of that rank's machine, or compare "
          "--dump-step files of both ranks");
    }
  }
}

}  // namespace

void check_replicas(std::span<const nn::NamedTensor> parameters, std::int64_t step) {
  const comm::ProcessGroup all = comm::world();
  if (all.size() == 1) return;
  const probe::Annotation mark("check_replicas", step);
  const device::Device host = tensor::host_device();
  const auto letters = static_cast<std::int64_t>(parameters.size() * kLetters);
  const Tensor own = Tensor::allocate(Shape{letters}, DType::kU8, host);
  const Tensor everyones = Tensor::allocate(Shape{letters * all.size()}, DType::kU8, host);
  std::byte* next = own.data();
  for (const nn::NamedTensor& each : parameters) {
    std::memcpy(next, digests_of(each).data(), kLetters);
    next += kLetters;
  }
  all.all_gather(own.data(), everyones.data(), letters, DType::kU8, tensor::current_stream(host)).wait();
  const std::string_view sent(reinterpret_cast<const char*>(everyones.data()),
                              static_cast<std::size_t>(everyones.numel()));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::vector<std::string_view> by_rank;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(all.size()); ++rank)
      by_rank.push_back(sent.substr((rank * parameters.size() + i) * kLetters, kLetters));
    check(parameters[i].first, by_rank, step);
  }
}

}  // namespace tessera::train::detail

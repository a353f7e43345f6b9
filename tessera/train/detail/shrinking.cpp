#include "tessera/train/detail/shrinking.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tessera/base/log.h"
#include "tessera/base/rank.h"

namespace tessera::train::detail {
namespace {

// Time for ranks to detect lost ranks and to meet.
constexpr auto kPatience = std::chrono::seconds(60);

}  // namespace

std::optional<MeshConfig> smaller_mesh(const Config& config, int ranks) {
  const MeshConfig& now = config.mesh;
  for (int size = ranks / now.tp * now.tp; size > 0; size -= now.tp) {
    const int shares = size / now.tp;
    if (config.train.batch % (std::int64_t{shares} * config.train.accumulate) != 0) continue;
    MeshConfig mesh = now;
    mesh.fsdp = shares % now.fsdp == 0 ? now.fsdp : shares;
    mesh.dp = shares / mesh.fsdp;
    return mesh;
  }
  return std::nullopt;
}

bool may_shrink(const Config& config, const Error& error) {
  const bool is_of_others = error.kind() == ErrorKind::kAborted || error.kind() == ErrorKind::kTimeout;
  return config.run.on_failure == "shrink" && current_place().world_size > 1 && is_of_others;
}

Shrinking::Shrinking(Config given, std::FILE* out) : config_(std::move(given)), out_(out) {}

Shrinking::~Shrinking() {
  while (!worlds_.empty()) worlds_.pop_back();
}

void Shrinking::note(const Error& error) {
  if (!may_shrink(config_, error)) throw;
  reason_ = error.message();
}

bool Shrinking::shrink() {
  // The place is another one at the end: NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const RankPlace before = current_place();
  const Config now = resolved(config_, before.world_size);
  left_.clear();
  std::vector<int> left = left_ = comm::agree_on_left(reason_, kPatience);
  const std::optional<MeshConfig> mesh = smaller_mesh(now, static_cast<int>(left.size()));
  TESSERA_CHECK_AS(AbortedError, mesh.has_value(), reason_, "; ", left.size(), " of ", before.world_size,
                   " ranks survive and cannot continue: they must keep mesh.tp ", now.mesh.tp, ", and train.batch ",
                   now.train.batch, " in ", now.train.accumulate,
                   " micro-batches must be divisible; start again to resume from the last checkpoint");
  const std::size_t size = static_cast<std::size_t>(mesh->dp) * static_cast<std::size_t>(mesh->fsdp * mesh->tp);
  const std::size_t spare = left.size() - size;
  left.resize(size);
  if (std::ranges::find(left, before.rank.value()) == left.end()) return false;
  config_.mesh = *mesh;
  worlds_.push_back(std::make_unique<comm::SmallerWorld>(left, kPatience));
  const std::string words = fmt::format(
      "{}\n"
      "continuing with {} of {} ranks, dp {} x fsdp {} x tp {}{}\n",
      reason_, size, before.world_size, mesh->dp, mesh->fsdp, mesh->tp,
      spare > 0 ? fmt::format("; {} more {} unused", spare, spare == 1 ? "is" : "are") : "");
  if (current_place().rank == Rank(0) && out_ != nullptr) {
    std::fputs(words.c_str(), out_);
    std::fflush(out_);
  }
  return true;
}

bool Shrinking::is_to_tell() const { return left_.empty() || left_.front() == current_place().rank.value(); }

RunSummary Shrinking::left_summary() const {
  return {
      .end = RunEnd::kInterrupted, .reason = "the shrunk world does not use this rank: " + reason_, .config = config_};
}

}  // namespace tessera::train::detail

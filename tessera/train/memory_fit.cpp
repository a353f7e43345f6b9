#include "tessera/train/memory_fit.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "tessera/base/bytes.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/device_of_rank.h"
#include "tessera/nn/language_model.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/detail/loop.h"
#include "tessera/train/predict.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxHosts = 64;  // maximum factor of the number of hosts
constexpr int kMaxTensorParallel = 8;
constexpr std::size_t kMaxFixes = 3;

std::string bytes_text(std::int64_t nbytes) { return format_bytes(static_cast<std::uint64_t>(nbytes)); }

// Returns the number after `key` at the beginning of a line.
std::optional<std::int64_t> number_behind(const fs::path& path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    std::int64_t number = 0;
    if (words >> word && word == key && words >> number) return number;
  }
  return std::nullopt;
}

// Returns the number in a file; nothing if the file does not exist or holds "max".
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream in(path);
  std::int64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

// Files of a cgroup, by its version.
struct CgroupFiles {
  const char* mount;
  const char* limit;
  const char* used;
  const char* reclaimable;  // line of memory.stat
};
constexpr CgroupFiles kUnified{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr CgroupFiles kMemory{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                              "total_inactive_file"};

// Returns the remainder of a cgroup: its limit minus its use, without cached files that the kernel reclaims first.
std::optional<std::int64_t> left_in(const fs::path& directory, const CgroupFiles& files) {
  const std::optional<std::int64_t> limit = number_in(directory / files.limit);
  const std::optional<std::int64_t> used = number_in(directory / files.used);
  if (!limit || !used) return std::nullopt;
  const std::int64_t reclaimable = number_behind(directory / "memory.stat", files.reclaimable).value_or(0);
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *used - reclaimable));
}

// Lowers `free` to the remainders of this cgroup and its parents.
void lower_to_cgroups(const fs::path& mount, fs::path path, const CgroupFiles& files, std::int64_t& free) {
  for (path = path.relative_path();; path = path.parent_path()) {
    if (const auto left = left_in(mount / path, files)) free = std::min(free, *left);
    if (path.empty()) return;
  }
}

// Memory that a rank needs, in bytes.
struct Need {
  std::int64_t tensors = 0;  // peak on its device
  std::int64_t staging = 0;  // host memory besides that of the device, from which a checkpoint is written
  // Returns the bytes on the device of the tensors.
  [[nodiscard]] std::int64_t of_device(const MemoryLimits& limits) const {
    return limits.device_nbytes ? tensors : tensors + staging;
  }
  // Returns the bytes in host memory.
  [[nodiscard]] std::int64_t of_host(const MemoryLimits& limits) const {
    return limits.device_nbytes ? staging : tensors + staging;
  }
};

// Throws OutOfMemory, soon, if the tensors need more than `limit` by far; 0: no limit.
Need need_of(const Config& config, int world_size, std::int64_t limit = 0) {
  const Config now = resolved(config, world_size);
  const std::vector<OwnedBytes> owners = predicted_memory(now, world_size, limit);
  Need need{.tensors = detail::total_of(owners)};
  if (now.checkpoint.every == 0) return need;
  for (const OwnedBytes& each : owners) {
    // Each replica writes its share.
    if (each.owner == "parameters" || each.owner == "optimizer") need.staging += each.nbytes / now.mesh.dp;
  }
  return need;
}

// Returns a clause with the bytes of all ranks together; empty for one rank.
std::string shared_by(std::int64_t nbytes, int ranks, const std::string& where) {
  if (ranks == 1) return {};
  return ", " + bytes_text(nbytes * ranks) + " for " + std::to_string(ranks) + " ranks on " + where + ",";
}

// Returns the exceeded limit as a clause; empty if none.
std::string exceeded(const Need& need, const MemoryLimits& limits) {
  if (limits.device_nbytes) {
    if (need.tensors > *limits.device_nbytes / limits.device_ranks)
      return shared_by(need.tensors, limits.device_ranks, limits.device) + " exceeds " +
             bytes_text(*limits.device_nbytes) + " free on " + limits.device;
  } else if (limits.rank_nbytes > 0 && need.tensors > limits.rank_nbytes) {
    return " exceeds TESSERA_HOST_CAPACITY, " + bytes_text(limits.rank_nbytes);
  }
  const std::int64_t on_host = need.of_host(limits);
  const std::string what = limits.device_nbytes ? " with " + bytes_text(on_host) + " for checkpoints on the host" : "";
  if (limits.address_nbytes && on_host > *limits.address_nbytes)
    return what + " exceeds " + bytes_text(*limits.address_nbytes) + " of remaining address space (ulimit -v)";
  if (!limits.host_nbytes || on_host <= *limits.host_nbytes / limits.ranks) return {};
  return what + shared_by(on_host, limits.ranks, "this host") + " exceeds " + bytes_text(*limits.host_nbytes) +
         " free on host";
}

// Returns the peak of a configuration that fits; nothing if it does not, or if it is invalid.
std::optional<std::int64_t> fitting_peak(const Config& config, int world_size, const MemoryLimits& limits) {
  // Mapped memory is less than twice the tensors in it, and some granules.
  constexpr std::int64_t kGranules = std::int64_t{64} << 20;
  std::int64_t most = std::numeric_limits<std::int64_t>::max() / 4;
  if (limits.device_nbytes) {
    most = std::min(most, *limits.device_nbytes / limits.device_ranks);
  } else {
    if (limits.rank_nbytes > 0) most = std::min(most, limits.rank_nbytes);
    if (limits.address_nbytes) most = std::min(most, *limits.address_nbytes);
    if (limits.host_nbytes) most = std::min(most, *limits.host_nbytes / limits.ranks);
  }
  try {
    const Need need = need_of(config, world_size, 2 * most + kGranules);
    if (!exceeded(need, limits).empty()) return std::nullopt;
    return need.of_device(limits);
  } catch (const InvalidArgument&) {
    return std::nullopt;
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

// Finds options that make a run fit, tried in sequence.
class Fixes {
 public:
  Fixes(const Config& given, int world_size, const MemoryLimits& limits)
      : given_(given), now_(resolved(given, world_size)), world_size_(world_size), limits_(limits) {
    one_by_one();
    if (texts_.empty()) together();
    more_hosts();
    smaller_model();
  }

  [[nodiscard]] std::string text() const {
    std::string text;
    for (const std::string& each : texts_) text += (text.empty() ? "use " : ", or ") + each;
    return text;
  }

 private:
  // A configuration that needs less memory, and its options.
  struct Change {
    Config config;
    std::string text;
  };

  bool add(const Change& change) {
    const std::optional<std::int64_t> peak = fitting_peak(change.config, world_size_, limits_);
    if (!peak || texts_.size() == kMaxFixes) return false;
    texts_.push_back(change.text.substr(1) + " (" + bytes_text(*peak) + ")");
    return true;
  }

  // Turns replicas into shards: the same ranks, each with 1/factor of parameters, gradients and state.
  [[nodiscard]] Change sharded(Change change, int factor) const {
    change.config.mesh.fsdp = now_.mesh.fsdp * factor;
    if (given_.mesh.dp != 0) {
      change.config.mesh.dp = now_.mesh.dp / factor;
      change.text += " --mesh.dp " + std::to_string(change.config.mesh.dp);
    }
    change.text += " --mesh.fsdp " + std::to_string(change.config.mesh.fsdp);
    return change;
  }
  [[nodiscard]] static Change checkpointed(Change change, const char* how) {
    change.config.train.checkpointing = how;
    change.text += std::string(" --train.checkpointing ") + how;
    return change;
  }
  [[nodiscard]] static Change accumulated(Change change, std::int64_t parts) {
    change.config.train.accumulate = parts;
    change.text += " --train.accumulate " + std::to_string(parts);
    return change;
  }
  [[nodiscard]] static Change narrow(Change change) {
    change.config.train.dtype = "bf16";
    change.text += " --train.dtype bf16";
    return change;
  }

  void one_by_one() {
    for (int factor = 2; factor <= now_.mesh.dp; ++factor) {
      if (now_.mesh.dp % factor == 0 && add(sharded({given_, ""}, factor))) break;
    }
    for (const char* how : {"selective", "full"}) {
      const bool is_more =
          now_.train.checkpointing == "none" || (now_.train.checkpointing == "selective" && *how == 'f');
      if (is_more && add(checkpointed({given_, ""}, how))) break;
    }
    for (std::int64_t parts = now_.train.accumulate + 1; parts <= max_micro_batches(); ++parts) {
      if (add(accumulated({given_, ""}, parts))) break;
    }
    if (now_.train.dtype == "f32") add(narrow({given_, ""}));
  }

  // Combines all changes that keep the shapes of the model, in growing sets.
  void together() {
    Change change{given_, ""};
    if (now_.train.checkpointing != "full") change = checkpointed(change, "full");
    if (max_micro_batches() > now_.train.accumulate) change = accumulated(change, max_micro_batches());
    if (add(change)) return;
    if (now_.train.dtype == "f32") change = narrow(change);
    if (add(change)) return;
    if (now_.mesh.dp > 1) change = sharded(change, now_.mesh.dp);
    add(change);
  }

  // Uses several times as many hosts, with the same number of ranks on each.
  void more_hosts() {
    Change less{given_, ""};
    if (now_.train.checkpointing != "full") less = checkpointed(less, "full");
    if (now_.train.dtype == "f32") less = narrow(less);
    const int hosts = std::max(1, world_size_ / limits_.ranks);
    for (int factor = 2; factor <= kMaxHosts && texts_.size() < kMaxFixes; ++factor) {
      for (const Change& base : {Change{given_, ""}, less}) {
        if (add_hosts(base, hosts, factor)) return;
      }
    }
  }

  // A batch has few samples to shard by; beyond these, heads and hidden units are sharded too.
  bool add_hosts(const Change& base, int hosts, int factor) {
    for (int tp = 1; tp <= kMaxTensorParallel && factor % tp == 0; tp *= 2) {
      Config more = base.config;
      more.mesh.fsdp *= factor / tp;
      more.mesh.tp *= tp;
      const std::optional<std::int64_t> peak = fitting_peak(more, world_size_ * factor, limits_);
      if (!peak) continue;
      texts_.push_back(std::to_string(world_size_ * factor) + " ranks on " + std::to_string(hosts * factor) +
                       " such hosts with" + base.text + " --mesh.fsdp " + std::to_string(more.mesh.fsdp) +
                       (tp > 1 ? " --mesh.tp " + std::to_string(more.mesh.tp) : "") + " (" + bytes_text(*peak) + ")");
      return true;
    }
    return false;
  }

  void smaller_model() {
    const std::vector<nn::Preset>& all = nn::model_family(given_.model.family).presets;
    bool is_below = false;
    for (auto preset = all.rbegin(); preset != all.rend(); ++preset) {
      Config smaller = given_;
      smaller.model.preset = preset->name;
      if (is_below && add({smaller, " --model.preset " + smaller.model.preset})) return;
      is_below |= preset->name == given_.model.preset;
    }
  }

  [[nodiscard]] std::int64_t max_micro_batches() const {
    return now_.train.batch / (std::int64_t{now_.mesh.dp} * now_.mesh.fsdp);
  }

  const Config& given_;
  Config now_;
  int world_size_;
  const MemoryLimits& limits_;
  std::vector<std::string> texts_;
};

}  // namespace

std::optional<std::int64_t> free_host_memory(const fs::path& root) {
  constexpr std::int64_t kKibibyte = 1024;
  const std::optional<std::int64_t> available = number_behind(root / "proc/meminfo", "MemAvailable:");
  if (!available) return std::nullopt;
  std::int64_t free = *available * kKibibyte;
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    const CgroupFiles& files = controllers.empty() ? kUnified : kMemory;
    lower_to_cgroups(root / files.mount, line.substr(second + 1), files, free);
  }
  return free;
}

std::optional<std::int64_t> free_address_space() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  constexpr std::int64_t kKibibyte = 1024;
  const std::int64_t used = number_behind("/proc/self/status", "VmSize:").value_or(0) * kKibibyte;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(limit.rlim_cur) - used);
}

std::int64_t predicted_peak(const Config& config, int world_size) { return need_of(config, world_size).of_host({}); }

std::string memory_refusal(const Config& config, int world_size, const MemoryLimits& limits) {
  const Need need = need_of(config, world_size);
  const std::string limit = exceeded(need, limits);
  if (limit.empty()) return {};
  const std::string text = "train: predicted peak " + bytes_text(need.of_device(limits)) + " per rank" + limit;
  const std::string fixes = Fixes(config, world_size, limits).text();
  return text + "; " + (fixes.empty() ? "use more hosts, or a smaller model" : fixes) + "; --force starts anyway";
}

MemoryLimits host_limits(int ranks) {
  return {.host_nbytes = free_host_memory(),
          .rank_nbytes = static_cast<std::int64_t>(env::host_capacity()),
          .ranks = ranks,
          .address_nbytes = free_address_space()};
}

MemoryLimits limits_of(const device::Device& device) {
  const RankPlace& place = current_place();
  MemoryLimits limits = host_limits(place.local_world_size);
  if (device == tensor::host_device()) return limits;
  limits.device_nbytes = static_cast<std::int64_t>(device.memory_use().free_nbytes);
  limits.device = device.name();
  limits.device_ranks = comm::ranks_are_threads() ? place.local_world_size : 1;
  return limits;
}

std::optional<std::int64_t> largest_batch(const Config& config, int world_size, std::int64_t nbytes) {
  const Config now = resolved(config, world_size);
  const std::int64_t step = now.train.accumulate * now.mesh.dp * now.mesh.fsdp;
  const MemoryLimits limits{.device_nbytes = nbytes};
  const auto fits = [&](std::int64_t count) {
    Config smaller = now;
    smaller.train.batch = count * step;
    return fitting_peak(smaller, world_size, limits).has_value();
  };
  std::int64_t least = 0;  // fits
  std::int64_t most = now.train.batch / step;
  if (most > 0 && fits(most)) return most * step;
  while (most - least > 1) {
    const std::int64_t middle = least + (most - least) / 2;
    (fits(middle) ? least : most) = middle;
  }
  if (least == 0) return std::nullopt;
  return least * step;
}

std::string batch_advice(const Config& config, int world_size, const device::Device& device) {
  const device::MemoryUse use = device.memory_use();
  const int ranks = limits_of(device).device_ranks;
  const auto usable = static_cast<std::int64_t>(use.free_nbytes + use.own_nbytes) / ranks;
  const std::optional<std::int64_t> batch = largest_batch(config, world_size, usable);
  const std::string of = " of " + bytes_text(usable) + " per rank on " + device.name();
  if (!batch) return "no batch fits by prediction" + of + "; use more ranks with --mesh.fsdp, or a smaller model";
  Config smaller = resolved(config, world_size);
  if (*batch == smaller.train.batch)
    return "--train.batch " + std::to_string(*batch) + " fits by prediction" + of +
           "; fragmentation or other memory takes the rest; use --train.accumulate " +
           std::to_string(2 * smaller.train.accumulate) + ", or a smaller batch";
  smaller.train.batch = *batch;
  return "the largest batch that fits is --train.batch " + std::to_string(*batch) + ", predicted " +
         bytes_text(need_of(smaller, world_size).tensors) + of;
}

void check_memory(const Config& config, int world_size, const MemoryLimits& limits) {
  if (config.run.force || is_own(config.model)) return;
  const std::string refusal = memory_refusal(config, world_size, limits);
  TESSERA_CHECK(refusal.empty(), refusal);
}

}  // namespace tessera::train

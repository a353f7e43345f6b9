// Reads the files of the PyTorch flight recorder in a directory together. detail/torch_entries.h reads one file,
// torch_pickles_write.cpp writes them.
#include "tessera/analysis/torch_pickles.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "tessera/analysis/detail/launch_file.h"
#include "tessera/analysis/detail/pickle_reader.h"
#include "tessera/analysis/detail/torch_entries.h"
#include "tessera/base/error.h"
#include "tessera/base/regular_file.h"

namespace tessera::analysis {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxBytes = std::uintmax_t{1} << 28;
// Default prefixes of PyTorch, current and earlier.
constexpr std::string_view kUsualPrefixes[] = {"comm_lib_trace_rank_", "nccl_trace_rank_"};

using FilesByRank = std::map<int, std::string>;
struct Found {
  std::map<std::string, FilesByRank> by_prefix = {};
  std::map<std::string, int> pickles = {};  // number of files per prefix that begin like a pickle
  bool has_records = false;                 // true if Tessera record files exist
};

bool begins_as_pickle(const std::string& path) {
  try {
    const std::string head = RegularFile(path).read(0, 2);
    return head.size() == 2 && static_cast<unsigned char>(head[0]) == 0x80 && head[1] >= 2 && head[1] <= 5;
  } catch (const IoError&) {  // the complete reader reports the reason
    return false;
  }
}

// Finds files whose names end in a number, which is their rank.
Found find_files(const std::string& directory) {
  Found found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    found.has_records |= name.starts_with("rank-") && name.ends_with(".record");
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    int rank = -1;
    const auto [last, problem] = std::from_chars(name.data() + digits, name.data() + name.size(), rank);
    if (digits == 0 || digits == name.size() || problem != std::errc() || rank >= detail::kMaxRanks) continue;
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    const std::string prefix = name.substr(0, digits);
    found.by_prefix[prefix][rank] = entry->path().string();
    found.pickles[prefix] += begins_as_pickle(entry->path().string()) ? 1 : 0;
  }
  return found;
}

// Returns the files of one prefix: a default one, otherwise the one with the most pickles.
const FilesByRank* chosen_files(const Found& found) {
  const FilesByRank* chosen = nullptr;
  int most = 0;
  for (const auto& [prefix, files] : found.by_prefix) {
    const int pickles = found.pickles.at(prefix);
    const bool is_usual =
        std::find(std::begin(kUsualPrefixes), std::end(kUsualPrefixes), prefix) != std::end(kUsualPrefixes);
    if (pickles == 0) continue;
    if (is_usual) return &files;
    if (pickles > most) chosen = &files;
    most = std::max(most, pickles);
  }
  return chosen;
}

// Groups without ranks contain all; ranks that others know of and that have no file are missing.
void complete_world(Evidence& evidence, std::map<int, Rank>& ranks) {
  int size = ranks.empty() ? 0 : ranks.rbegin()->first + 1;
  for (const auto& [number, rank] : ranks) {
    for (const Group& group : rank.groups) {
      for (const int member : group.ranks) size = std::max(size, member + 1);
    }
  }
  evidence.world_size = size;
  for (int number = 0; number < size; ++number) {
    const auto found = ranks.find(number);
    evidence.ranks.push_back(found != ranks.end() ? std::move(found->second)
                                                  : Rank{.rank = number, .state = RankState::kMissing});
  }
  for (Rank& rank : evidence.ranks) {
    std::erase_if(rank.groups, [&](Group& group) { return !detail::settle_group(group, rank.rank, size); });
    for (const Group& group : rank.groups) {
      for (const CollectiveCall& launch : group.launches)
        rank.last_ns = std::max({rank.last_ns, launch.asked_ns, launch.begun_ns, launch.ended_ns});
    }
    evidence.taken_ns = std::max(evidence.taken_ns, rank.last_ns);
  }
}

}  // namespace

bool has_torch_pickles(const std::string& directory) {
  const Found found = find_files(directory);
  return !found.has_records && chosen_files(found) != nullptr;
}

Evidence read_torch_pickles(const std::string& directory) {
  Evidence evidence{.source = directory};
  const Found found = find_files(directory);
  const FilesByRank* files = chosen_files(found);
  TESSERA_CHECK_AS(IoError, files != nullptr, "directory ", directory,
                   ": no PyTorch flight recorder pickle found (prefix and rank, as in ", kUsualPrefixes[0], "0)");
  std::map<int, Rank> ranks;
  for (const auto& [number, path] : *files) {
    try {
      const std::string bytes = read_regular_file(path, kMaxBytes);
      const detail::Pickle pickle = detail::Pickle::parse(bytes, path);
      ranks[number] = detail::read_torch_rank(pickle.root(), bytes.size(), number, path, evidence.problems);
    } catch (const Error& error) {
      evidence.problems.push_back(error.message());
    }
  }
  TESSERA_CHECK_AS(IoError, !ranks.empty(), "directory ", directory, ": none of its ", files->size(),
                   " files can be read: ", evidence.problems.front());
  for (const auto& [number, path] : *files) {
    if (!ranks.contains(number)) ranks[number] = Rank{.rank = number, .file = path};
  }
  complete_world(evidence, ranks);
  return evidence;
}

}  // namespace tessera::analysis

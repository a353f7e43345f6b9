// Reads corrupted pickles of the flight recorder. The reader may throw IoError or report problems. It must not crash,
// hang or use unbounded memory, and its results must be consistent.
//   record_torch_pickles_fuzz [--runs N] [--seed S] [--seconds T]
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tessera/analysis/testing/evidence_check.h"
#include "tessera/analysis/torch_pickles.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"

namespace tessera::analysis {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

Evidence random_evidence(Random& random) {
  static const char* const kKinds[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier",
                                       "broadcast",  "permute",    "send",           "recv",       "operation 19"};
  Evidence evidence{.world_size = 3};
  for (int number = 0; number < 3; ++number) {
    Rank rank{.rank = number, .state = static_cast<RankState>(random() % 5)};
    for (std::uint64_t g = random() % 3; g > 0; --g) {
      Group group{.name = "group" + std::to_string(g), .backend = "nccl", .ranks = {0, 1, 2}, .rank = number};
      for (std::uint32_t task = 1 + static_cast<std::uint32_t>(random() % 6); task > 0; --task) {
        CollectiveCall launch{.collective_number = random() % 9, .stage = static_cast<Stage>(random() % 5)};
        for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
          const std::size_t kind = random() % std::size(kKinds);
          const bool is_message = kind == 7 || kind == 8;
          launch.operations.push_back({.kind = kKinds[kind],
                                       .dtype = random() % 4 == 0 ? "" : "bf16",
                                       .count = static_cast<std::int64_t>(random() >> random() % 64 >> 1),
                                       .peer = is_message ? (number + 1) % 3 : -1});
        }
        std::stable_partition(launch.operations.begin(), launch.operations.end(),
                              [](const RecordedOperation& operation) { return operation.peer < 0; });
        group.launches.push_back(std::move(launch));
      }
      rank.groups.push_back(std::move(group));
    }
    evidence.ranks.push_back(std::move(rank));
  }
  return evidence;
}

void spoil(Random& random, std::string& bytes) {
  static constexpr char kOpcodes[] =
      "()]}KMJXUNGIFLSVTBCaestdulpqrghj012.\x80\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x94\x95"
      "cRbioPQ\x81\x93";
  for (std::uint64_t changes = 1 + random() % 6; changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 6) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8); break;
      case 1: bytes[at] = kOpcodes[random() % (sizeof kOpcodes - 1)]; break;
      case 2: bytes.insert(at, 1, kOpcodes[random() % (sizeof kOpcodes - 1)]); break;
      case 3: bytes.erase(at, 1 + random() % 8); break;
      case 4: {
        const std::size_t n = std::min<std::size_t>(random() % 64, bytes.size() - at);
        bytes.insert(random() % bytes.size(), bytes.substr(at, n));
        break;
      }
      default:
        if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    }
  }
}

std::string one(const std::string& directory, std::uint64_t seed) {
  Random random(seed);
  fs::remove_all(directory);
  const std::vector<std::string> files = write_torch_pickles(random_evidence(random), directory);
  const Evidence whole = read_torch_pickles(directory);
  if (!whole.problems.empty()) return "what was written was not read: " + whole.problems.front();
  if (std::string problem = testing::inconsistency(whole); !problem.empty()) return "as written: " + problem;
  for (const std::string& path : files) {
    if (random() % 2 == 0) continue;
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    spoil(random, bytes);
    std::ofstream(path, std::ios::binary) << bytes;
  }
  try {
    return testing::inconsistency(read_torch_pickles(directory));
  } catch (const IoError&) {
    return {};
  }
}

int run(int argc, char** argv) {
  char name[] = "/dev/shm/tessera_torch_fuzz_XXXXXX";
  if (::mkdtemp(name) == nullptr) return 1;
  const std::string directory = name;
  const int code = fuzz::run(argc, argv, "corrupted pickles read",
                             [&](std::uint64_t seed) { return one(directory + "/dump", seed); });
  fs::remove_all(directory);
  return code;
}

}  // namespace
}  // namespace tessera::analysis

int main(int argc, char** argv) { return tessera::analysis::run(argc, argv); }

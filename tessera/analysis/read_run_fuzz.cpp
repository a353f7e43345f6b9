// Reads run directories with corrupted record files and launch.json. The reader may throw IoError or report problems.
// It must not crash, hang or read out of bounds, and its results must be consistent: the evidence, Chrome traces and
// the spans of the report.
//   record_read_run_fuzz [--runs N] [--seed S] [--seconds T]
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/analysis/chrome_trace.h"
#include "tessera/analysis/read_run.h"
#include "tessera/analysis/report/detail/spans.h"
#include "tessera/analysis/testing/evidence_check.h"
#include "tessera/analysis/testing/trace_rows.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/annotation.h"
#include "tessera/base/probe/layout.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/work.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/device/graph.h"
#include "tessera/device/launch_records.h"

namespace tessera::analysis {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;
using namespace probe::detail;

constexpr int kRanks = 3;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Records of ranks with various activities, taken while they run.
std::vector<std::string> valid_files() {
  std::vector<std::string> files(kRanks);
  std::mutex mutex;
  simulate(kRanks, [&] {
    const device::Device host = device::Device::get("host");
    const device::Stream stream = host.create_stream();
    const comm::ProcessGroup world = comm::world();
    float x[64] = {};
    const int rank = world.rank();
    const device::ProfileWindow window;
    const probe::Annotation epoch("epoch", 1);
    for (int step = 0; step < 4; ++step) {
      const probe::Annotation scope("step", step);
      stream.run([] {}, {.label = "forward"});
      const probe::Annotation inner("data", step);
      stream.fill(x, 0, 4, 16, "filled");
    }
    world.all_reduce(x, x, 64, DType::kF32, {}, stream).wait();
    const comm::Operation send{.kind = comm::OpKind::kSend,
                               .dtype = DType::kF32,
                               .peer = (rank + 1) % kRanks,
                               .in = reinterpret_cast<const std::byte*>(x),
                               .count = 3};
    const comm::Operation recv{.kind = comm::OpKind::kRecv,
                               .dtype = DType::kF32,
                               .peer = (rank + kRanks - 1) % kRanks,
                               .out = reinterpret_cast<std::byte*>(x + 32),
                               .count = 3};
    const comm::Operation batch[] = {send, recv};
    world.launch(batch, stream).wait();
    const int pair[] = {0, 1};
    const comm::ProcessGroup some = world.subgroup(pair, {.name = "some"});
    if (rank < 2) some.launch({.kind = comm::OpKind::kBarrier}, stream).wait();
    stream.begin_capture();
    (void)world.all_reduce(x, x, 8, DType::kF32, {}, stream);
    const device::GraphExec graph = stream.end_capture().instantiate();
    for (int i = 0; i < 3; ++i) graph.launch(stream);
    stream.synchronize();
    world.launch({.kind = comm::OpKind::kBarrier}, stream).wait();
    const std::lock_guard lock(mutex);
    files[static_cast<std::size_t>(rank)] = content(probe::recorder().path());
  });
  return files;
}

std::uint64_t odd_number(Random& random) {
  switch (random() % 6) {
    case 0: return random();
    case 1: return random() % 64;
    case 2: return ~std::uint64_t{0} - random() % 64;
    case 3: return std::uint64_t{1} << random() % 64;
    case 4: return random() % 4 | (random() % 4) << 32;
    default: return random() & 0x0f0f0f0f0f0f0f0f;
  }
}

FileHeader header_of(const std::string& bytes) {
  FileHeader header{};
  std::memcpy(&header, bytes.data(), std::min(sizeof header, bytes.size()));
  return header;
}

// Replaces a word in ring slots and repairs the check, so that they reach the readers of groups and launches.
void spoil_slots(Random& random, std::string& bytes) {
  for (const Section& section : header_of(bytes).sections) {
    if (section.type != SectionType::kRing || std::string_view(section.name) == "memory") continue;
    for (std::uint64_t changes = 1 + random() % 20; changes > 0; --changes) {
      const std::uint64_t index = random() % 64;
      char* at = bytes.data() + section.offset + sizeof(RingHead) + index * kSlotBytes;
      std::uint64_t word[kSlotWords];
      std::memcpy(word, at, sizeof word);
      if (word[0] == 0) continue;
      std::uint64_t& changed = word[3 + random() % 5];
      changed = random() % 2 == 0 ? changed ^ std::uint64_t{1} << random() % 64 : odd_number(random);
      word[0] = slot_check(word, slot_place(section.number, index));
      std::memcpy(at, word, sizeof word);
    }
  }
}

// Replaces words in rows of state tables and repairs the check.
void spoil_rows(Random& random, std::string& bytes) {
  for (const Section& section : header_of(bytes).sections) {
    if (section.type != SectionType::kTables) continue;
    for (std::uint32_t i = 0; i < kMaxTables; ++i) {
      TableEntry entry{};
      std::memcpy(&entry, bytes.data() + section.offset + i * sizeof entry, sizeof entry);
      for (std::uint32_t row = 0; entry.check != 0 && row < std::min(entry.rows, 24U); ++row) {
        if (random() % 8 != 0) continue;
        char* at = bytes.data() + entry.offset + std::uint64_t{row} * entry.row_bytes;
        std::vector<std::uint64_t> words(entry.row_bytes / 8);
        std::memcpy(words.data(), at, entry.row_bytes);
        if (words[1] == 0) continue;
        const std::size_t payload = (entry.payload_bytes + 7U) / 8;
        std::uint64_t& changed = words[kRowHeadBytes / 8 + random() % payload];
        changed = random() % 2 == 0 ? changed ^ std::uint64_t{1} << random() % 64 : odd_number(random);
        if (random() % 8 != 0) words[2] = row_check(words.data(), payload, words[0], slot_place(entry.number, row));
        std::memcpy(at, words.data(), entry.row_bytes);
      }
    }
  }
}

void flip_bytes(Random& random, std::string& bytes) {
  for (std::uint64_t flips = 1 + random() % 32; flips > 0; --flips) {
    const std::size_t at = random() % (random() % 2 == 0 ? sizeof(FileHeader) : bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
  }
  if (random() % 16 == 0) bytes.resize(random() % bytes.size());
}

std::string launch_text(Random& random) {
  std::string text =
      R"json({"command": ["x"], "ranks": 3, "host": "h", "started": "2020-01-01T00:00:00Z", "exit_code": 1,
"ended": "2030-01-01T00:00:00Z", "starts": [{"time": "2020-01-01T00:00:00Z", "ranks": [{"rank": 0, "pid": 4},
{"rank": 1, "pid": 5, "end": "was killed by signal 9 (Killed)", "exit_code": 0, "signal": 9,
"time": "2030-01-01T00:00:00Z"}, {"rank": 2, "pid": 6, "end": "exited with 3", "exit_code": 3, "signal": 0}]}]})json";
  static constexpr char kParts[] = "{}[]\",:0123456789-.etfn";
  for (std::uint64_t changes = random() % 6; changes > 0; --changes) {
    const std::size_t at = random() % text.size();
    switch (random() % 3) {
      case 0: text[at] = kParts[random() % (sizeof kParts - 1)]; break;
      case 1: text.erase(at, 1 + random() % 6); break;
      default: text.insert(at, text.substr(random() % text.size(), random() % 20));
    }
    if (text.empty()) break;
  }
  return text;
}

// Checks the drawings of the evidence, which read the files again.
std::string wrong_in_drawings(const Evidence& evidence) {
  for (std::size_t i = 0; i < evidence.ranks.size(); ++i) {
    std::ostringstream out;
    (void)write_chrome_trace(out, evidence, i);
    if (std::string wrong = testing::overlap(nlohmann::json::parse(out.str())); !wrong.empty()) {
      return "slices of a trace overlap: " + wrong;
    }
  }
  for (const detail::Lane& lane : detail::spans_of(evidence).lanes) {
    for (const detail::Span& span : lane.spans) {
      if (span.end_ns < span.begin_ns) return "a span that ends before it begins";
    }
    if (!std::ranges::is_sorted(lane.spans, {}, &detail::Span::begin_ns)) return "spans of a lane out of order";
  }
  return {};
}

std::string one(const std::string& directory, const std::vector<std::string>& valid, std::uint64_t seed) {
  Random random(seed);
  for (const auto& entry : fs::directory_iterator(directory)) fs::remove(entry.path());
  for (std::size_t rank = 0; rank < valid.size(); ++rank) {
    std::string bytes = valid[rank];
    const std::uint64_t how = seed > 1 ? random() % 16 : 0;
    if ((how & 1) != 0) spoil_slots(random, bytes);
    if ((how & 2) != 0) spoil_rows(random, bytes);
    if ((how & 4) != 0 && random() % 2 == 0) flip_bytes(random, bytes);
    if (how == 8) continue;
    std::ofstream(directory + "/rank-" + std::to_string(rank) + ".host.7.0.record", std::ios::binary) << bytes;
  }
  if (seed > 1 && random() % 2 == 0) std::ofstream(directory + "/launch.json") << launch_text(random);
  try {
    const Evidence evidence = read_run(directory);
    if (std::string wrong = wrong_in_drawings(evidence); !wrong.empty()) return wrong;
    if (seed > 1) return testing::inconsistency(evidence);
    if (!evidence.problems.empty()) return "as written: " + evidence.problems.front();
    const std::vector<CollectiveCall>& launches = evidence.ranks.at(2).groups.at(0).launches;
    return launches.size() == 6 && launches.back().stage == Stage::kDone ? "" : "as written: launches are missing";
  } catch (const IoError& error) {
    return seed > 1 ? "" : std::string("as written: ") + error.what();
  }
}

int run(int argc, char** argv) {
  ::setenv("TESSERA_RECORD_BYTES", "256KiB", 1);
  char name[] = "/dev/shm/tessera_read_fuzz_XXXXXX";
  if (::mkdtemp(name) == nullptr) return 1;
  const std::string directory = name;
  const std::vector<std::string> valid = valid_files();
  const int code = fuzz::run(argc, argv, "corrupted run directories read",
                             [&](std::uint64_t seed) { return one(directory, valid, seed); });
  fs::remove_all(directory);
  return code;
}

}  // namespace
}  // namespace tessera::analysis

int main(int argc, char** argv) { return tessera::analysis::run(argc, argv); }

// A model (testing/history_model.h) writes histories into small rings that wrap; they are read back and compared with
// the model. Then the same file is corrupted: the reader must not crash and must return consistent results.
//   analysis_history_fuzz [--runs N] [--seed S] [--seconds T]
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "tessera/analysis/memory/detail/viewer_replay.h"
#include "tessera/analysis/memory/history_reader.h"
#include "tessera/analysis/memory/torch_snapshot.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/layout.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/memory/label_use.h"
#include "tessera/memory/testing/history_model.h"

namespace tessera::analysis {
namespace {

using memory::label_uses;
using memory::LabelUse;
using memory::Snapshot;

using probe::Recorder;
using probe::RecordFile;
using Random = std::mt19937_64;
using memory::testing::HistoryModel;

std::uint64_t ring_slots(const Recorder& recorder) {
  const RecordFile file = RecordFile::open(recorder.path());
  for (const probe::RingInfo& ring : file.rings()) {
    if (ring.name == "memory") return ring.slots;
  }
  return 0;
}

struct Run {
  std::string problem;
  std::vector<char> bytes;
};

// The seed selects the properties of the run: whether the ring wraps, whether keyframes are written, by which thread,
// and whether the last one is incomplete.
Run valid_run(std::uint64_t seed) {
  Random random(seed);
  Recorder recorder({}, {.nbytes = probe::RecordOptions::kMinBytes});
  static const std::uint64_t slots = ring_slots(recorder);
  std::vector<HistoryModel> models;
  models.reserve(2);
  const std::uint32_t count = 1 + static_cast<std::uint32_t>(random() % 2);
  for (std::uint32_t i = 0; i < count; ++i) models.emplace_back(recorder, i + 1, random());
  const bool wraps = random() % 4 != 0;
  const bool has_keyframes = wraps || random() % 2 == 0;
  const bool is_threaded = random() % 16 == 0;
  const std::uint64_t wanted =
      wraps ? slots + random() % (random() % 8 == 0 ? 4 * slots : slots / 2) : random() % (slots * 3 / 4);
  const auto written = [&] { return models[0].records() + (count > 1 ? models[1].records() : 0); };
  const auto some_steps = [&] {
    for (std::uint64_t i = random() % 4; i > 0; --i) models[random() % count].step();
  };
  std::uint64_t last = 0;
  while (written() < wanted) {
    models[random() % count].step();
    const std::uint64_t since = written() - last;
    if (!has_keyframes || since < slots / 4) continue;
    for (HistoryModel& model : models) {
      if (is_threaded) {
        std::thread([&] { model.keyframe(); }).join();
      } else {
        model.keyframe(some_steps);
      }
    }
    last = written();
  }
  if (has_keyframes && last != 0 && random() % 3 == 0) models[0].keyframe(some_steps, random() % 6);

  Run run;
  const RecordFile file = RecordFile::open(recorder.path());
  std::vector<std::string> notes;
  const std::vector<Snapshot> snapshots = read_history(file, &notes);
  if (snapshots.size() != count) run.problem = std::to_string(snapshots.size()) + " snapshots";
  for (std::size_t i = 0; i < snapshots.size() && run.problem.empty(); ++i) {
    run.problem = models[i].difference(snapshots[i]);
    if (run.problem.empty() && detail::viewer_events(snapshots[i]).size() != snapshots[i].trace.size())
      run.problem = "a trace that does not replay backwards";
    for (const LabelUse& use : label_uses(snapshots[i])) {
      if (run.problem.empty() && use.peak_nbytes < use.live_nbytes) run.problem = use.label + ": peak below live";
    }
  }
  if (run.problem.empty() && !notes.empty()) run.problem = "note: " + notes.front();
  std::ifstream in(recorder.path(), std::ios::binary);
  run.bytes.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  return run;
}

std::uint64_t odd_number(Random& random) {
  switch (random() % 6) {
    case 0: return random();
    case 1: return random() % 4096;
    case 2: return ~std::uint64_t{0} - random() % 1024;
    case 3: return std::uint64_t{1} << random() % 64;
    case 4: return (random() % 64 + 16) << 36;
    default: return ((random() % 64 + 16) << 36) + (random() % 32) * HistoryModel::kGranule;
  }
}

// Replaces a word in slots of the memory ring and repairs the check, so that they reach the history reader.
void spoil_slots(Random& random, std::vector<char>& bytes) {
  using namespace probe::detail;
  FileHeader header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  for (const Section& section : header.sections) {
    if (section.type != SectionType::kRing || std::string_view(section.name) != "memory") continue;
    const std::uint64_t slots = (section.nbytes - sizeof(RingHead)) / kSlotBytes;
    for (std::uint64_t changes = 1 + random() % 40; changes > 0; --changes) {
      const std::uint64_t index = random() % slots;
      char* at = bytes.data() + section.offset + sizeof(RingHead) + index * kSlotBytes;
      std::uint64_t word[kSlotWords];
      std::memcpy(word, at, sizeof word);
      if (word[0] == 0) continue;
      word[3 + random() % 5] = random() % 4 == 0 ? word[3] ^ std::uint64_t{1} << random() % 64 : odd_number(random);
      if (random() % 16 == 0) word[2] = (word[2] & ~std::uint64_t{0xffff}) | random() % 24;
      word[0] = slot_check(word, slot_place(section.number, index));
      std::memcpy(at, word, sizeof word);
    }
  }
}

void flip_bytes(Random& random, std::vector<char>& bytes) {
  for (std::uint64_t flips = random() % 64; flips > 0; --flips)
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
  if (random() % 16 == 0) bytes.resize(random() % bytes.size());
}

std::string read_spoilt(const std::string& path) {
  try {
    for (const Snapshot& snapshot : read_history(RecordFile::open(path))) {
      if (std::string problem = snapshot.inconsistency(); !problem.empty()) return "corrupt file: " + problem;
      if (!snapshot.totals().closes()) return "corrupt file: the sums do not close";
      (void)label_uses(snapshot);
      std::ostringstream out;
      write_torch_snapshot(out, {&snapshot, 1}, TorchFormat::kPickle);
    }
  } catch (const IoError&) {  // nothing is usable
  }
  return {};
}

int run(int argc, char** argv) {
  const int fd = memfd_create("history_fuzz", MFD_CLOEXEC);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return fuzz::run(argc, argv, "histories read back, and corrupted", [&](std::uint64_t seed) -> std::string {
    Run valid = valid_run(seed);
    if (!valid.problem.empty()) return valid.problem;
    Random random(seed + 1);
    const std::uint64_t how = random() % 4;
    if (how != 0) spoil_slots(random, valid.bytes);
    if (how != 1) flip_bytes(random, valid.bytes);
    const auto nbytes = static_cast<ssize_t>(valid.bytes.size());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, valid.bytes.data(), valid.bytes.size(), 0) != nbytes)
      return "the file could not be written";
    return read_spoilt(path);
  });
}

}  // namespace
}  // namespace tessera::analysis

int main(int argc, char** argv) { return tessera::analysis::run(argc, argv); }

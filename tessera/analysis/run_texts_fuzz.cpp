// Reads corrupted text files of a run directory (metrics.jsonl, loss.csv, summary.json, config.toml, launch.json,
// explain.json) and evidence.json: for the page, for `tessera watch`, and back. Readers may fail only with Tessera
// errors.
//   record_run_texts_fuzz [--runs N] [--seed S] [--seconds T]
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tessera/analysis/evidence_json.h"
#include "tessera/analysis/explain.h"
#include "tessera/analysis/live.h"
#include "tessera/analysis/read_run.h"
#include "tessera/analysis/report/live_report.h"
#include "tessera/analysis/report/report.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/base/testing/spoilt.h"

namespace tessera::analysis {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

struct Sample {
  const char* name;
  std::string bytes;
};

// Files of a run of two ranks.
const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = [] {
    std::string metrics;
    std::string losses = "step,loss,grad_norm,learning_rate,held_out_loss\n";
    for (int step = 1; step <= 5; ++step) {
      for (int rank = 0; rank < 2; ++rank) {
        metrics +=
            R"({"rank":)" + std::to_string(rank) + R"(,"step":)" + std::to_string(step) +
            R"(,"loss":2.5,"grad_norm":0.8,"learning_rate":0.003,"end":"done","tokens":2048,"seconds":0.21,)"
            R"("exposed_seconds":0.02,"tokens_per_second":9752.4,"time":1795032000.5,"memory":{"parameters":1048576,"total":9}})"
            "\n";
      }
      losses += std::to_string(step) + ",2.5,0.8,0.003,\n";
    }
    return std::vector<Sample>{
        {"metrics.jsonl", metrics},
        {"loss.csv", losses},
        {"summary.json", R"({"end":"done","world_size":2,"mesh":{"dp":2,"fsdp":1,"tp":1},"parameters":1000,"steps":5,
"skipped":{"nan":0,"spike":0},"tokens":10240,"loss":{"first":2.5,"last":2.5},"held_out":{"loss":2.5,"evaluations":[
{"step":5,"loss":2.5}]},"tokens_per_second":9000.5,"mfu":{"causal":"unknown","full":0.5},"resumed_from":[2],
"exposed_communication":{"seconds":0.1,"share":0.01},"checkpoints":{"last":4,"errors":["full"]},"ranks":[{"rank":0,
"tokens_per_second":{"p50":1,"p99":2},"step_seconds":1.5,"peak_memory":{"total":9},"missing":[]}]})"},
        {"config.toml",
         "[model]\n# Width (integer)\nwidth = 16  # default: 128\n[mesh]\ndp = 2\nfsdp = 1\ntp = 1\n[run]\ndirectory = "
         "\"x\"\n"},
        {"launch.json", R"json({"ranks":2,"host":"a","exit_code":137,"ended":"2026-11-17T10:00:09Z","starts":[
{"time":"2026-11-17T10:00:00Z","ranks":[{"rank":0,"pid":7,"exit_code":0,"signal":15,"time":"2026-11-17T10:00:08Z",
"end":"was killed by signal 15 (Terminated)","signals":[{"signal":15,"name":"SIGTERM","reason":"rank_failed",
"failed_rank":1,"text":"rank 1 was killed by signal 9 (Killed)","time":"2026-11-17T10:00:08Z"}]},
{"rank":1,"pid":8,"exit_code":0,"signal":9,"end":"was killed by signal 9 (Killed)","time":"2026-11-17T10:00:07Z"}]}]})json"},
        {"explain.json", R"({"verdict":"rank 0 was stopped","ranks":[{"rank":0,"pid":7,"state":"was stopped"},
{"rank":1,"pid":8,"state":"is running"}]})"}};
  }();
  return all;
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Writes evidence and reads it back, then reads the corrupted text.
std::string try_evidence(const Evidence& evidence, Random& random) {
  std::ostringstream text;
  write_evidence_json(text, evidence);
  (void)read_evidence_json(text.str());
  try {
    (void)explain(read_evidence_json(fuzz::spoilt(text.str(), random)));
  } catch (const Error&) {
  }
  return {};
}

// The samples must have the layout that the readers expect; otherwise most of a reader is never reached.
std::string try_samples(const fs::path& directory) {
  for (const Sample& each : samples()) write(directory / each.name, each.bytes);
  const Evidence evidence = read_run(directory.string());
  const bool is_read = evidence.ranks.size() == 2 && evidence.ranks[0].state == RankState::kStopped &&
                       !evidence.ranks[0].ended_by.empty() && evidence.ranks[1].state == RankState::kDied;
  return is_read ? "" : "the samples of launch.json and explain.json are not read";
}

// In memory; removed when the program ends.
struct ScratchDirectory {
  ScratchDirectory() {
    char name[] = "/dev/shm/tessera_texts_fuzz_XXXXXX";
    if (::mkdtemp(name) == nullptr) std::abort();
    path = name;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  fs::path path;
};

std::string run_one(std::uint64_t seed) {
  static const ScratchDirectory scratch;
  const fs::path& directory = scratch.path;
  static const std::string unread = try_samples(directory);
  if (!unread.empty()) return unread;
  Random random(seed);
  for (const Sample& each : samples()) {
    const bool is_sound = random() % 3 == 0;
    const bool is_random = random() % 8 == 0;
    write(directory / each.name, is_sound    ? each.bytes
                                 : is_random ? fuzz::random_bytes(random)
                                             : fuzz::spoilt(each.bytes, random));
    if (random() % 8 == 0) fs::remove(directory / each.name);
  }
  std::string problem;
  try {
    const auto metrics = read_metrics(directory.string(), 2);
    const Evidence evidence = read_run(directory.string());
    (void)live_view(evidence, metrics, nullptr, 1'000'000'000);
    problem = try_evidence(evidence, random);
  } catch (const Error&) {
  }
  try {
    (void)make_report_page(directory.string());
    LiveReport report(directory.string());
    (void)report.update("loss=0.0&metrics=0.0");
    (void)report.update(fuzz::spoilt("loss=1.2&metrics=3.4", random));
  } catch (const Error&) {
  }
  fs::remove_all(directory);
  fs::create_directory(directory);
  return problem;
}

}  // namespace
}  // namespace tessera::analysis

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "run directories", tessera::analysis::run_one);
}

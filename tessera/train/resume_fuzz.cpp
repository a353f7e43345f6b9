// A run resumes from its checkpoints, whatever happened to the other files of its directory. Each run of this program
// takes the directory of a run of 4 steps, removes, truncates or corrupts files outside of checkpoints/, and resumes to
// step 6. The result must be bitwise equal to that of a resume with intact files. Readers of the corrupt directory must
// fail only with Tessera errors.
//   train_resume_fuzz [--runs N] [--seed S] [--seconds T]
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "tessera/analysis/live.h"
#include "tessera/analysis/report/report.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/base/testing/spoilt.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/told_run.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;
using Left = std::map<std::string, std::string>;

std::string content(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The run that is resumed, and its result.
class Sample {
 public:
  Sample() {
    char name[] = "/dev/shm/tessera_resume_fuzz_XXXXXX";
    if (::mkdtemp(name) == nullptr) std::abort();
    base_ = name;
    (void)testing::write_text(base_);
    Config config = config_of(4);
    (void)run(config, nullptr);
    fs::copy(base_ / "run", base_ / "sound", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    want_ = resumed();
  }
  ~Sample() { fs::remove_all(base_); }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  [[nodiscard]] fs::path directory() const { return base_ / "run"; }
  [[nodiscard]] const Left& want() const { return want_; }
  void restore() const {
    fs::remove_all(directory());
    fs::copy(base_ / "sound", directory(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
  // Resumes, and returns the files of the last checkpoint.
  [[nodiscard]] Left resumed() const {
    const RunSummary summary = run(config_of(6), nullptr);
    Left left = testing::left_by(directory());
    left.erase("loss.csv");
    left["end"] = to_string(summary.end);
    left["from"] = summary.resumed_from.empty() ? "nothing" : std::to_string(summary.resumed_from.back());
    return left;
  }

 private:
  [[nodiscard]] Config config_of(std::int64_t steps) const {
    Config config = testing::told_config(base_);
    config.train.steps = steps;
    config.train.batch = 1;
    config.eval.samples = 1;
    config.model.sequence = 8;
    return config;
  }

  fs::path base_;
  Left want_;
};

void spoil(const fs::path& directory, Random& random) {
  static const char* const kFiles[] = {"config.toml", "metrics.jsonl", "summary.json", "loss.csv",
                                       "launch.json", "explain.json",  "report.html",  "profile.request"};
  for (std::size_t times = 1 + random() % 3; times > 0; --times) {
    const fs::path path = directory / kFiles[random() % std::size(kFiles)];
    switch (random() % 6) {
      case 0: fs::remove(path); break;
      case 1: std::ofstream(path, std::ios::binary) << fuzz::random_bytes(random); break;
      default: {
        const std::string bytes = fuzz::spoilt(content(path), random);
        std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
      }
    }
  }
}

std::string run_one(std::uint64_t seed) {
  static const Sample sample;
  Random random(seed);
  sample.restore();
  spoil(sample.directory(), random);
  const std::string directory = sample.directory().string();
  try {
    (void)analysis::read_metrics(directory, 1);
    if (seed % 8 == 0) (void)analysis::make_report_page(directory);
  } catch (const Error&) {
  }
  const Left got = sample.resumed();
  if (got == sample.want()) return {};
  return "the resumed run differs: " + testing::difference(got, sample.want());
}

}  // namespace
}  // namespace tessera::train

int main(int argc, char** argv) {
  tessera::log::set_level(tessera::log::Level::kOff);  // corrupt files cause warnings
  return tessera::fuzz::run(argc, argv, "resumed runs", tessera::train::run_one);
}

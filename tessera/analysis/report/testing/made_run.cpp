#include "tessera/analysis/report/testing/made_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/probe/annotation.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/comm/records.h"
#include "tessera/device/launch_records.h"

namespace tessera::analysis::testing {
namespace {

using Json = nlohmann::ordered_json;
using probe::Moment;
using probe::Ring;

int tp_of(const MadeRun& run) { return run.ranks % 2 == 0 ? 2 : 1; }
int fsdp_of(const MadeRun& run) { return run.ranks % 4 == 0 ? 2 : 1; }
int dp_of(const MadeRun& run) { return run.ranks / tp_of(run) / fsdp_of(run); }

Json owners_at_peak(const MadeRun& run, int rank, std::uint64_t off) {
  Json owners = {{"parameters" + run.odd, 800'000}, {"gradients", 800'000}, {"optimizer", 1'600'000}};
  owners["activations"] = made_activations(rank) + off;
  owners["total"] = 3'100'000 + made_activations(rank) + off;
  return owners;
}

void write_configuration(const std::string& directory, const MadeRun& run) {
  std::ofstream(directory + "/config.toml")
      << "[model]\n# Number of blocks; 0: value of the preset (integer, 0 or more)\nlayers = 6  # default: 4\n\n"
         "[train]\n# Number of steps (integer, 1 or more)\nsteps = "
      << run.steps << "  # default: 1000\n# Samples per step (integer, 1 or more)\nbatch = 8\n\n"
      << "[data]\n# Training data (list of texts)\nfiles = "
      << Json({"text # 1" + run.odd}).dump(-1, ' ', false, Json::error_handler_t::replace) << "  # default: []\n";
}

void write_tables(const std::string& directory, const MadeRun& run) {
  write_configuration(directory, run);
  std::ofstream losses(directory + "/loss.csv");
  std::ofstream metrics(directory + "/metrics.jsonl");
  losses << "step,loss,grad_norm,learning_rate,held_out_loss\n";
  for (int step = 1; step <= run.steps; ++step) {
    if (run.has_gaps && step >= 21 && step <= 25) continue;
    const bool has_held_out = step % 10 == 0 && !run.is_skipped;
    const bool is_finite = !run.is_skipped && !(run.has_gaps && step >= 11 && step <= 15);
    losses << fmt::format("{},{},{},0.001,{}\n", step, is_finite ? made_loss(step) : NAN, 2.0 / step,
                          has_held_out ? fmt::format("{}", made_loss(step) + 0.25) : "");
    for (int rank = 0; rank < run.ranks; ++rank) {
      const double seconds = 0.05 + 0.001 * rank;
      Json line = {{"rank", rank},
                   {"step", step},
                   {"loss", made_loss(step)},
                   {"grad_norm", 2.0 / step},
                   {"learning_rate", 0.001},
                   {"end", "done"},
                   {"tokens", 1024},
                   {"seconds", seconds},
                   {"exposed_seconds", 0.01},
                   {"tokens_per_second", 1024 / seconds},
                   {"time", kMadeBegin + 0.06 * step}};
      line["memory"] = {{"parameters" + run.odd, 800'000},
                        {"gradients", 0},
                        {"optimizer", 1'600'000},
                        {"activations", 1000 * step},
                        {"total", 2'400'000 + 1000 * step}};
      metrics << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    }
  }
}

void write_summary(const std::string& directory, const MadeRun& run) {
  Json ranks = Json::array();
  for (int rank = 0; rank < run.ranks; ++rank) {
    ranks.push_back({{"rank", rank},
                     {"tokens_per_second", {{"p50", 5000.0}, {"p99", 4000.0}}},
                     {"step_seconds", 2.5},
                     {"exposed_seconds", 0.5},
                     {"peak_memory", owners_at_peak(run, rank, 0)},
                     {"predicted_memory", owners_at_peak(run, rank, 50'000)}});
  }
  Json summary = {{"end", run.odd.empty() ? run.end : "stopped"}};
  if (!run.reason.empty() || !run.odd.empty())
    summary["reason"] = run.odd.empty() ? run.reason : "it was stopped: " + run.odd;
  summary["world_size"] = run.ranks;
  summary["mesh"] = {{"dp", dp_of(run)}, {"fsdp", fsdp_of(run)}, {"tp", tp_of(run)}};
  summary["parameters"] = 803'968;
  summary["steps"] = run.steps;
  summary["skipped"] = {{"nan", run.is_skipped ? run.steps : 0}, {"spike", 0}};
  summary["tokens"] = 1024 * run.steps;
  summary["loss"] = {{"first", made_loss(1)}, {"last", run.is_skipped ? NAN : made_loss(run.steps)}};
  summary["held_out"] = {{"loss", made_loss(run.steps) + 0.25}, {"bigram_entropy", 2.4759}};
  summary["tokens_per_second"] = 20'000.5;
  summary["exposed_communication"] = {{"seconds", 2.0}, {"share", 0.2}};
  summary["ranks"] = ranks;
  std::ofstream(directory + "/summary.json") << summary.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

// Record of one rank, with times in nanoseconds since the start of the run.
class RankRecord {
 public:
  RankRecord(const std::string& directory, const MadeRun& run, int rank, std::uint64_t& first)
      : run_(run),
        rank_(rank),
        recorder_(RankPlace{.rank = tessera::Rank{rank}, .world_size = run.ranks, .run_dir = directory},
                  probe::RecordOptions{.nbytes = nbytes_of(run)}) {
    const probe::ClockCalibration clock = probe::RecordFile::open(recorder_.path()).info().clock;
    ticks_per_ns_ = 1e9 / static_cast<double>(clock.duration_ns(1'000'000'000));
    const auto all = static_cast<std::uint64_t>(static_cast<double>(run.step_ns) * run.steps * ticks_per_ns_);
    if (first == 0) first = recorder_.begin().value() - all;  // of the first rank: all share a clock
    first_ = first;
  }

  void write() {
    device_ = recorder_.intern("host");
    label_ = recorder_.intern("layer" + run_.odd);
    const auto group = recorder_.table<comm::CommGroupRow>().claim(
        {.group = 1,
         .rank = rank_,
         .size = run_.ranks,
         .name = recorder_.intern("world" + run_.odd),
         .ranks = recorder_.intern(run_.ranks == 1 ? "0" : fmt::format("0-{}", run_.ranks - 1)),
         .backend = recorder_.intern("shm")});
    for (int step = 0; step < run_.steps; ++step) write_step(step);
    recorder_.close();  // while the row of the group exists
  }

 private:
  static std::uint64_t nbytes_of(const MadeRun& run) {
    if (run.record_nbytes > 0) return run.record_nbytes;
    const std::uint64_t comm = 4ull * 3 * 64 * static_cast<std::uint64_t>(run.steps * run.collectives);
    const std::uint64_t launch = 2ull * 64 * static_cast<std::uint64_t>(run.steps * (2 * run.kernels + 2));
    return std::max<std::uint64_t>(std::max(comm, launch) * 5 / 4 + (1 << 20), 2 << 20);
  }
  [[nodiscard]] Moment at(std::int64_t ns) const {
    return Moment{first_ + static_cast<std::uint64_t>(static_cast<double>(ns) * ticks_per_ns_)};
  }

  // A step: collectives in sequence, each with a wait of this rank, and kernels between them.
  void write_step(int step) {
    const std::int64_t begin = run_.step_ns * step;
    const std::int64_t end = begin + run_.step_ns * 19 / 20;
    const probe::StringId annotation = recorder_.intern("step" + run_.odd);
    recorder_.write_at(at(begin), Ring::kLaunch, probe::AnnotationBeginRecord{step + 1, annotation, 0});
    for (int i = 0; i < run_.kernels; ++i) {
      const std::int64_t each = (end - begin) / run_.kernels;
      write_kernel(begin + i * each, begin + i * each + each * 3 / 4);
    }
    for (int i = 0; i < run_.collectives; ++i) {
      const std::int64_t each = (end - begin) / run_.collectives;
      write_collective(begin + i * each + each / 2, each / 2);
    }
    recorder_.write_at(at(end), Ring::kLaunch, probe::AnnotationEndRecord{step + 1, annotation, 0});
  }

  // On another stream than collectives.
  void write_kernel(std::int64_t begin, std::int64_t end) {
    ++kernel_;
    recorder_.write_at(at(begin), Ring::kLaunch, device::LaunchRecord{label_, 2, device_, 0, kernel_, kernel_, 0});
    recorder_.write_at(at(end), Ring::kLaunch, device::LaunchEndRecord{kernel_, 2, device_, at(end), 0, 0});
  }

  // The last rank arrives last and does not wait.
  void write_collective(std::int64_t begin, std::int64_t length) {
    ++task_;
    const std::int64_t come = begin + length * rank_ / (4 * run_.ranks);
    const std::int64_t met = begin + length / 4;
    const auto kind = task_ % 2 == 0 ? comm::OpKind::kAllGather : comm::OpKind::kAllReduce;
    recorder_.write_at(
        at(begin), Ring::kComm,
        comm::OperationRecord{1024, task_, 1, 1, device_, 0, label_, kind, DType::kF32, Reduction::kSum, 0, -1});
    recorder_.write_at(at(come), Ring::kComm,
                       comm::BeginRecord{task_, 1024, task_, 1, kind, DType::kF32, Reduction::kSum, 1, -1, task_});
    recorder_.write_at(at(begin + length * 3 / 4), Ring::kComm, comm::EndRecord{task_, task_, 1, at(met), 0});
  }

  const MadeRun& run_;
  int rank_;
  probe::Recorder recorder_;
  double ticks_per_ns_ = 1;
  std::uint64_t first_ = 0;
  std::uint32_t task_ = 0;
  std::uint64_t kernel_ = 0;
  probe::StringId device_ = {};
  probe::StringId label_ = {};
};

}  // namespace

double made_loss(int step) { return 2.5 + 3.0 * std::exp(-0.05 * step) + 0.125 * (step % 3); }

std::uint64_t made_activations(int rank) { return 10'000'000 + 1000 * static_cast<std::uint64_t>(rank); }

void make_run(const std::string& directory, const MadeRun& run) {
  if (run.has_tables) write_tables(directory, run);
  if (run.has_summary) write_summary(directory, run);
  if (!run.has_records) return;
  std::uint64_t first = 0;
  for (int rank = 0; rank < run.ranks; ++rank) RankRecord(directory, run, rank, first).write();
}

MadeRun overwritten_records() {
  MadeRun run;
  run.ranks = 2;
  run.steps = 400;
  run.kernels = 20;
  run.record_nbytes = 1 << 20;
  return run;
}

MadeRun million_events() {
  MadeRun run;
  run.steps = 200;
  run.collectives = 125;  // two events each, on three ranks of four
  run.kernels = 1080;
  run.step_ns = 25'000'000;
  return run;
}

}  // namespace tessera::analysis::testing

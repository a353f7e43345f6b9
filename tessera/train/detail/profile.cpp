#include "tessera/train/detail/profile.h"

#include <filesystem>
#include <limits>
#include <tuple>
#include <utility>

#include "tessera/analysis/chrome_trace.h"
#include "tessera/analysis/memory/history_reader.h"
#include "tessera/analysis/memory/torch_snapshot.h"
#include "tessera/analysis/read_run.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/base/run_directory.h"

namespace tessera::train::detail {
namespace {

// Writes the record from this moment on: collectives, annotations, and the work on each stream.
void write_trace(const probe::RecordFile& file, std::uint64_t begin_ticks, const std::string& path) {
  analysis::Evidence evidence = analysis::read_record(
      file.info().path, {.last_launches = std::numeric_limits<std::size_t>::max(), .has_memory = false});
  evidence.ranks.front().state = analysis::RankState::kRunning;  // it is this process
  AtomicFile out(path, FileKind::kRun);
  (void)analysis::write_chrome_trace(out.stream(), evidence, 0, {.since_ns = file.info().clock.wall_ns(begin_ticks)});
  out.commit();
}

}  // namespace

Profile::Profile(const RunConfig& config, std::string directory) : directory_(std::move(directory)) {
  std::tie(first_, last_) = profiled_steps(config);
}

void Profile::ask(std::int64_t step) {
  if (step <= last_) return;
  first_ = step;
  last_ = step + kProfiledSteps - 1;
}

void Profile::before(std::int64_t step) {
  if (window_ || step < first_ || step > last_) return;
  begun_ = step;
  begin_ticks_ = probe::recorder().now().value();
  window_.emplace();
}

std::string Profile::after(std::int64_t step, bool is_last) {
  if (!window_ || (step < last_ && !is_last)) return {};
  window_.reset();
  const std::string steps = "steps " + std::to_string(begun_) + " to " + std::to_string(step);
  try {
    return "profile of " + steps + ": " + write();
  } catch (const Error& error) {
    return "the profile of " + steps + " could not be written: " + error.message();
  }
}

std::string Profile::write() const {
  const std::string record = probe::recorder().path();
  TESSERA_CHECK_AS(IoError, !record.empty(), "no record file to create it from; ", probe::recorder().status());
  std::string folder = directory_ + "/profile-" + std::to_string(begun_);
  make_run_subdirectory(folder);
  const std::string rank = folder + "/rank-" + std::to_string(current_place().rank.value());
  const probe::RecordFile file = probe::RecordFile::open(record);
  write_trace(file, begin_ticks_, rank + ".trace.json");
  const auto snapshots = analysis::read_history(file, nullptr);
  analysis::write_torch_snapshot_file(rank + ".memory.pickle", snapshots, analysis::TorchFormat::kPickle, {},
                                      FileKind::kRun);
  return folder;
}

}  // namespace tessera::train::detail

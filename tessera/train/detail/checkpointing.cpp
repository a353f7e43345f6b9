#include "tessera/train/detail/checkpointing.h"

#include <unistd.h>

#include <utility>

#include "tessera/base/rank.h"
#include "tessera/comm/process_group.h"
#include "tessera/train/detail/resume.h"
#include "tessera/train/detail/run_directory.h"

namespace tessera::train::detail {
namespace {

// Polling interval of the run directory, which may be on a remote file system.
constexpr auto kBetweenLooks = std::chrono::milliseconds(250);
constexpr std::size_t kErrorsKept = 100;

std::function<std::vector<int>()> lost_ranks() {
  if (current_place().world_size == 1) return {};
  return [all = comm::world()] { return all.lost(); };
}

}  // namespace

Checkpointing::Checkpointing(const Trainer& trainer, RunSummary& summary, Progress& progress, std::string data_digest)
    : trainer_(trainer),
      summary_(summary),
      progress_(progress),
      data_digest_(std::move(data_digest)),
      writer_({.directory = checkpoint_directory(summary.config.checkpoint, summary.directory),
               .keep = summary.config.checkpoint.keep,
               .lost = lost_ranks()}),
      profile_(summary.config.run, summary.directory) {}

void Checkpointing::before(std::int64_t step) { profile_.before(step); }

StopRequests Checkpointing::asked() {
  StopRequests own{.stop = RunSignals::is_stop_asked(), .profile = RunSignals::take_profile_asked()};
  const auto now = std::chrono::steady_clock::now();
  if (current_place().rank != Rank(0) || now - looked_at_ < kBetweenLooks) return own;
  looked_at_ = now;
  own.profile |= ::unlink((summary_.directory + "/" + kProfileRequest).c_str()) == 0;
  return own;
}

void Checkpointing::after_batch() {
  const StopRequests agreed = agreement_.exchange_now(asked());
  is_profile_asked_ |= agreed.profile;
  if (!agreed.stop) return;
  is_interrupted_ = true;
  throw AskedToEnd();
}

bool Checkpointing::is_save_due(std::int64_t step) const {
  const std::int64_t every = summary_.config.checkpoint.every;
  return every > 0 && (step % every == 0 || step == summary_.config.train.steps);
}

bool Checkpointing::may_run_ahead(std::int64_t step) const {
  return !is_stop_asked_ && !is_save_due(step) && !profile_.is_edge(step);
}

bool Checkpointing::after(std::int64_t step, bool has_step_ahead, const std::function<void()>& sync_lines) {
  const std::string written = profile_.after(step, step == summary_.config.train.steps);
  if (!written.empty()) progress_.say(written + "\n");
  const StopRequests agreed = agreement_.exchange(asked());
  if (std::exchange(is_profile_asked_, false) || agreed.profile) profile_.ask(step + (has_step_ahead ? 2 : 1));
  const bool is_last = step == summary_.config.train.steps;
  is_stop_asked_ |= agreed.stop;
  is_interrupted_ |= is_stop_asked_ && !is_last && !has_step_ahead;
  const bool is_at_end = is_interrupted_ || (is_save_due(step) && is_last);
  if (is_at_end || is_save_due(step)) {
    sync_lines();
    is_at_end ? save_at_end(step) : save(step);
  }
  tell_errors();
  return !is_interrupted_;
}

// Errors from here on belong to the final checkpoint.
void Checkpointing::save_at_end(std::int64_t step) {
  writer_.finish();
  tell_errors();
  is_end_saved_ = true;
  save(step);
}

void Checkpointing::save(std::int64_t step) {
  CheckpointState state = trainer_.checkpoint_state();
  state.texts.merge(run_texts(summary_, data_digest_));
  writer_.save(step, state);
}

void Checkpointing::finish() {
  writer_.finish();
  tell_errors();
}

void Checkpointing::tell_errors() {
  for (const std::string& error : writer_.take_errors()) {
    const char* then = is_end_saved_ ? "\n" : "\nthe run continues\n";
    progress_.say("a checkpoint could not be written: " + error + then);  // its writer has logged it
    if (summary_.checkpoint_errors.size() < kErrorsKept) summary_.checkpoint_errors.push_back(error);
    if (is_end_saved_) summary_.unsaved = error;
  }
}

}  // namespace tessera::train::detail

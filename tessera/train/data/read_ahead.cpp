#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/train/data/samples.h"

namespace tessera::train {

struct ReadAhead::State {
  State(Samples from, std::int64_t sequence, std::function<std::vector<std::uint64_t>(std::uint64_t)> which, int ahead)
      : samples(std::move(from)),
        row(static_cast<std::size_t>(sequence) + 1),
        numbers(std::move(which)),
        depth(static_cast<std::size_t>(ahead)) {}

  std::vector<std::int32_t> read(std::uint64_t batch) const {
    const std::vector<std::uint64_t> rows = numbers(batch);
    std::vector<std::int32_t> tokens(rows.size() * row);
    for (std::size_t i = 0; i < rows.size(); ++i) samples.read(rows[i], std::span(tokens).subspan(i * row, row));
    return tokens;
  }

  // Runs until an error or the end. The failed batch comes after all successful ones.
  void run() {
    for (std::uint64_t batch = 0;; ++batch) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return ready.size() < depth || is_over; });
        if (is_over) return;
      }
      std::vector<std::int32_t> tokens;
      std::exception_ptr failed;
      try {
        tokens = read(batch);
      } catch (...) {
        failed = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      if (failed) {
        error = failed;
      } else {
        ready.push_back(std::move(tokens));
      }
      changed.notify_all();
      if (failed) return;
    }
  }

  const Samples samples;
  const std::size_t row;
  const std::function<std::vector<std::uint64_t>(std::uint64_t)> numbers;
  const std::size_t depth;
  std::uint64_t next_batch = 0;  // with depth 0

  std::mutex mutex;  // guards the following members
  std::condition_variable changed;
  std::deque<std::vector<std::int32_t>> ready;
  std::exception_ptr error;
  bool is_over = false;

  Thread thread;  // last: it ends before the members it uses
};

ReadAhead::ReadAhead(Samples samples, std::int64_t sequence,
                     std::function<std::vector<std::uint64_t>(std::uint64_t)> numbers, int depth) {
  TESSERA_CHECK(sequence >= 1, "model.sequence: must be at least 1, got ", sequence);
  TESSERA_CHECK(depth >= 0, "data.read_ahead: must be at least 0, got ", depth);
  TESSERA_CHECK(numbers != nullptr, "read ahead: a function that returns sample numbers is required");
  state_ = std::make_unique<State>(std::move(samples), sequence, std::move(numbers), depth);
  if (depth > 0) state_->thread = Thread("read ahead", [state = state_.get()] { state->run(); });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_over = true;
  }
  state_->changed.notify_all();
}

std::vector<std::int32_t> ReadAhead::next() {
  State& state = *state_;
  if (state.depth == 0) {
    std::vector<std::int32_t> tokens = state.read(state.next_batch);
    ++state.next_batch;
    return tokens;
  }
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return !state.ready.empty() || state.error; });
  if (state.ready.empty()) std::rethrow_exception(state.error);
  std::vector<std::int32_t> tokens = std::move(state.ready.front());
  state.ready.pop_front();
  state.changed.notify_all();
  return tokens;
}

}  // namespace tessera::train

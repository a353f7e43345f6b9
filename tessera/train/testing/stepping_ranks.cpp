#include "tessera/train/testing/stepping_ranks.h"

#include <chrono>

#include "tessera/comm/world.h"
#include "tessera/ops/parallel.h"
#include "tessera/train/testing/runs.h"
#include "tessera/train/trainer.h"

namespace tessera::train::testing {

SteppingRanks::SteppingRanks(const Config& config, int threads)
    : ranks_(config.mesh.dp * config.mesh.fsdp * config.mesh.tp), thread_([this, config, threads] {
        try {
          run(config, threads);
        } catch (...) {
          keep_error();
        }
      }) {}

SteppingRanks::~SteppingRanks() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
}

double SteppingRanks::milliseconds_per_step(int steps) {
  std::unique_lock lock(mutex_);
  ++requests_;
  steps_ = steps;
  finished_ = 0;
  const auto start = std::chrono::steady_clock::now();
  changed_.notify_all();
  changed_.wait(lock, [&] { return finished_ == ranks_ || error_; });
  if (error_) std::rethrow_exception(error_);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / steps;
}

void SteppingRanks::run(const Config& config, int threads) {
  simulate(ranks_, [&] {
    try {
      ops::detail::set_thread_budget(threads);
      Trainer trainer(config, synthetic_samples(config));
      int served = 0;
      while (const int steps = wait_for_request(&served)) {
        for (int i = 0; i < steps; ++i) trainer.step();
        finish();
      }
    } catch (...) {
      keep_error();  // before simulate() waits for the other ranks, which may wait for a request
      throw;
    }
  });
}

void SteppingRanks::keep_error() {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::current_exception();
  is_stopping_ = true;
  changed_.notify_all();
}

int SteppingRanks::wait_for_request(int* served) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_stopping_ || requests_ > *served; });
  if (is_stopping_) return 0;
  *served = requests_;
  return steps_;
}

void SteppingRanks::finish() {
  const std::lock_guard lock(mutex_);
  ++finished_;
  changed_.notify_all();
}

}  // namespace tessera::train::testing

// Ranks of one training run that take a step together on request, so that two runs can be sampled alternately.
//
//   SteppingRanks two(on_mesh(config, 2, 1, 1), 1);
//   const double milliseconds = two.milliseconds_per_step(4);
//
// The ranks are threads of this process and sleep between requests.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "tessera/train/config.h"

namespace tessera::train::testing {

/// Owns the ranks and their trainers. Requests come from one thread at a time.
class SteppingRanks {
 public:
  /// Starts the ranks of a resolved configuration, each with a budget of `threads` threads, on synthetic samples.
  SteppingRanks(const Config& config, int threads);
  /// Stops the ranks and waits for them.
  ~SteppingRanks();
  SteppingRanks(const SteppingRanks&) = delete;
  SteppingRanks& operator=(const SteppingRanks&) = delete;

  /// Takes `steps` steps. Returns the milliseconds of one, from the request to the end of the last rank. Rethrows the
  /// error of a rank that failed.
  double milliseconds_per_step(int steps);

 private:
  void run(const Config& config, int threads);
  // Returns the steps of the next request, or 0 if the ranks are to stop.
  int wait_for_request(int* served);
  void finish();
  // Keeps the first error and stops the ranks.
  void keep_error();

  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int requests_ = 0;  // requests so far
  int steps_ = 0;     // steps of the last request
  int finished_ = 0;  // ranks that have completed the last request
  bool is_stopping_ = false;
  std::exception_ptr error_;
  std::jthread thread_;  // last: it uses the other members
};

}  // namespace tessera::train::testing

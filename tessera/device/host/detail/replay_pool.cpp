#include "tessera/device/host/detail/replay_pool.h"

#include <algorithm>
#include <thread>

#include "tessera/base/caught.h"
#include "tessera/device/host/detail/graph_plan.h"

namespace tessera::device::host::detail {

ReplayJob::ReplayJob(const GraphPlan& plan) : plan_(plan), left_(plan.steps_.size()) {
  missing_.reserve(left_);
  for (std::uint32_t step = 0; step < left_; ++step) {
    missing_.push_back(plan.before_[step].size());
    if (missing_.back() == 0) ready_.push_back(step);
  }
}

// After a failure, the remaining steps are counted without being run.
void ReplayJob::run_step(std::uint32_t step) {
  try {
    const ReplayScope scope(plan_.number_);
    plan_.run_step(step);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = caught_error("work of a graph");
  }
}

void ReplayJob::work() {
  run_steps([this](std::uint32_t step) { run_step(step); });
}

void ReplayJob::help() {
  run_steps([this](std::uint32_t step) { rank_.enter([&] { run_step(step); }); });
}

std::uint32_t ReplayJob::take_first() {
  const auto first = std::ranges::min_element(ready_);
  const std::uint32_t step = *first;
  *first = ready_.back();
  ready_.pop_back();
  return step;
}

template <class RunStep>
void ReplayJob::run_steps(const RunStep& run) {
  std::unique_lock lock(mutex_);
  while (left_ > 0) {
    if (ready_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const std::uint32_t step = take_first();
    if (!error_) {
      lock.unlock();
      run(step);
      lock.lock();
    }
    std::size_t woken = 0;
    for (const std::uint32_t later : plan_.after_[step]) {
      if (--missing_[later] > 0) continue;
      ready_.push_back(later);
      if (++woken > 1) changed_.notify_one();  // this thread takes the first
    }
    if (--left_ == 0) changed_.notify_all();
  }
}

std::size_t ReplayPool::max_threads() { return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 2, 16); }

void ReplayPool::run(const GraphPlan& plan, std::size_t width) {
  const auto job = std::make_shared<ReplayJob>(plan);
  const std::size_t wanted = std::min(width, max_threads()) - 1;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < wanted; ++i) wanted_.push_back(job);
    while (helpers_ < wanted) {
      try {
        shared_->start_thread("replay helper", [self = shared_from_this()] { self->help(); });
        ++helpers_;
      } catch (const std::exception&) {
        break;  // the caller alone is slower, but correct
      }
    }
  }
  changed_.notify_all();
  job->work();
  {
    const std::lock_guard lock(mutex_);
    std::erase(wanted_, job);
  }
  if (const auto error = job->error()) std::rethrow_exception(error);
}

void ReplayPool::help() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !wanted_.empty(); });
    if (stopping_) return;
    auto job = std::move(wanted_.front());
    wanted_.pop_front();
    lock.unlock();
    job->help();
    job.reset();
    lock.lock();
  }
}

void ReplayPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

}  // namespace tessera::device::host::detail

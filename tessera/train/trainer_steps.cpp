// Steps of the trainer as the caller sees them: enqueued, and finished one after the other. At most one step is
// enqueued before the one before it is finished:
//
//   step(kNextStep)   enqueue 1   enqueue 2   wait for 1 -> report of step 1
//   step(kNextStep)               enqueue 3   wait for 2 -> report of step 2
//   step()                                    wait for 3 -> report of step 3
//
// Each enqueued step copies its values to its own pinned memory and then records an event. If a step is bad, the device
// skips it and the next one (step_values.h). The host then drops the next one and takes the bad step again, now with
// its gradients, so that parameters, random numbers and the order of batches are those of a trainer that waits.
#include <algorithm>
#include <chrono>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/probe/annotation.h"
#include "tessera/device/device.h"
#include "tessera/ops/create/generator.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/detail/trainer_state.h"
#include "tessera/train/trainer.h"

namespace tessera::train {
namespace {

using Clock = std::chrono::steady_clock;

double now_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1e3;
}

}  // namespace

void Trainer::State::enqueue_step(bool is_ahead, bool is_chained) {
  EnqueuedStep next{.report = {}, .begin = Clock::now(), .random = ops::generator_state(), .is_ahead = is_ahead};
  StepReport& report = next.report;
  report.step = ++steps;
  report.tokens = config.train.batch * work->units_per_sample();
  report.learning_rate =
      nn::learning_rate(config.schedule, config.optimizer.learning_rate, report.step, config.train.steps);
  next.is_replayed = is_replayed();
  if (next.is_replayed) {
    replay_step(report, is_chained);
  } else {
    take_step(report, is_ahead, is_chained);
  }
  next.done = tensor::default_device().create_event();
  stream().record(next.done);
  enqueued.push_back(std::move(next));
}

bool Trainer::State::may_enqueue_ahead() const {
  const EnqueuedStep& last = enqueued.back();
  const std::int64_t next = last.report.step + 1;
  const bool is_same_kind = !config.train.graph || (last.is_replayed && graph->is_ready());
  // Ranks of a mesh read the events of exposed communication, and the bound of spikes needs the norm of the step.
  return !last.error && last.is_ahead && is_same_kind && !plan.mesh() && config.train.spike == 0 &&
         next != looked_at_step && !is_check_due(last.report.step) && tensor::default_device().properties().has_values;
}

void Trainer::State::enqueue_ahead() {
  const probe::Annotation mark("step", steps + 1);
  try {
    enqueue_step(true, true);
  } catch (...) {
    EnqueuedStep& failed = enqueued.emplace_back();
    failed.report.step = steps;
    failed.error = std::current_exception();
  }
}

StepReport Trainer::State::finish_step() {
  EnqueuedStep step = std::move(enqueued.front());
  enqueued.pop_front();
  if (step.error) std::rethrow_exception(step.error);
  if (enqueued.empty()) {
    stream().synchronize();
  } else {
    step.done.synchronize();
  }
  StepReport& report = step.report;
  const bool has_values = tensor::default_device().properties().has_values;
  const bool is_skipped = has_values && readings_of(report).is_skipped();
  if (step.is_ahead && is_skipped) return take_again(step);
  if (!step.is_replayed) {
    report.exposed_seconds = exposed->take_seconds();
  } else if (has_values) {
    report.exposed_seconds = exposed->replayed_seconds();
    // Inspectors of a bad step find its gradients where those of other steps are.
    for (std::size_t i = 0; is_skipped && i < leaves.size(); ++i) autograd::set_grad(leaves[i], graph->gradients()[i]);
  }
  conclude(report);
  if (enqueued.empty()) {
    drop_gradients();
    check_replicas_if_due();
  }
  const Clock::time_point end = Clock::now();
  report.seconds = std::chrono::duration<double>(end - std::max(step.begin, finished_at)).count();
  report.time = now_since_1970();
  finished_at = end;
  return report;
}

StepReport Trainer::State::take_again(const EnqueuedStep& bad) {
  stream().synchronize();
  enqueued.clear();
  steps = bad.report.step - 1;
  ops::set_generator_state(bad.random);
  enqueue_step(false, false);
  enqueued.front().begin = bad.begin;
  return finish_step();
}

void Trainer::State::check_no_step_ahead(const char* what) const {
  TESSERA_CHECK(enqueued.empty(), what, ": requires that every enqueued step is finished, got step ",
                enqueued.back().report.step, " in progress; call step() without Ahead::kNextStep before");
}

StepReport Trainer::step(Ahead ahead) {
  State& state = *state_;
  const bool is_ahead = ahead == Ahead::kNextStep;
  const probe::Annotation mark("step", step_count() + 1);
  if (state.enqueued.empty()) state.enqueue_step(is_ahead, false);
  if (is_ahead && state.enqueued.size() == 1 && state.may_enqueue_ahead()) state.enqueue_ahead();
  return state.finish_step();
}

std::int64_t Trainer::step_count() const { return state_->steps - std::ssize(state_->enqueued); }

bool Trainer::has_step_ahead() const { return !state_->enqueued.empty(); }

}  // namespace tessera::train

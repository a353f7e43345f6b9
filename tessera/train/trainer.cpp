#include "tessera/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tessera/autograd/autograd.h"
#include "tessera/base/probe/annotation.h"
#include "tessera/base/rank.h"
#include "tessera/device/device.h"
#include "tessera/memory/label.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/generation.h"
#include "tessera/nn/packing.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/update/update.h"
#include "tessera/shard/gradients.h"
#include "tessera/shard/redistribute.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/bad_step.h"
#include "tessera/train/detail/activations.h"
#include "tessera/train/detail/batch.h"
#include "tessera/train/detail/replica_check.h"
#include "tessera/train/detail/trainer_state.h"
#include "tessera/train/evaluation.h"
#include "tessera/train/predict.h"

namespace tessera::train {
namespace {

using detail::StepReadings;
using detail::StepValues;

// Bytes of gradients that one launch reduces. Until it ends, the old and the new gradients coexist.
constexpr std::int64_t kSettledTogether = std::int64_t{64} << 20;

constexpr double kMeanStays = 0.9;  // weight of the previous running mean of gradient norms

// Returns a tensor of one element, complete on this rank.
Tensor whole(const Tensor& x) {
  return x.has_layout() ? shard::redistribute(x, layout::Layout::replicated(x.layout().mesh())).local() : x;
}

// Returns the plan of this rank and restarts its generator.
ParallelPlan begin(const Config& config) {
  ParallelPlan plan = ParallelPlan::create(config, current_place().world_size);
  ops::manual_seed(config.train.seed);
  return plan;
}

}  // namespace

std::function<std::vector<std::uint64_t>(std::uint64_t k)> own_samples(const Config& config) {
  return [plan = ParallelPlan::create(config, current_place().world_size),
          rank = current_place().rank](std::uint64_t k) { return plan.sample_numbers(k, rank); };
}

Trainer::State::State(const Config& given, const MakeWorkload& make)
    : config(given),
      deterministic(given.train.deterministic),
      plan(begin(given)),
      work(make(*this)),
      leaves(trained_leaves(work->module())),
      optimizer(make_optimizer(given.optimizer, work->module())),
      book(work->module(), *optimizer) {}

// Annotated, so that the record shows a rank that waits for its data.
Batch Trainer::State::read_batch(std::uint64_t k) const {
  const probe::Annotation mark("data", static_cast<std::int64_t>(k));
  const memory::Label label("activations");
  return work->batch(k);
}

Batch Trainer::State::next_batch(std::int64_t m) {
  const std::uint64_t k = number_of_batch(m);
  if (!prepared.empty() && prepared.front().number != k) prepared.clear();  // the step was changed
  if (prepared.empty()) return read_batch(k);
  Prepared next = std::move(prepared.front());
  prepared.pop_front();
  if (next.error) std::rethrow_exception(next.error);
  return std::move(next.batch);
}

void Trainer::State::prepare_batches(std::int64_t count) {
  const device::Device device = tensor::default_device();
  if (device == tensor::host_device() || !device.properties().has_values || steps >= config.train.steps) return;
  for (std::int64_t m = 0; m < count; ++m) {
    Prepared& next = prepared.emplace_back();
    next.number = number_of_batch(config.train.accumulate + m);
    try {
      next.batch = read_batch(next.number);
    } catch (...) {
      next.error = std::current_exception();
      return;
    }
  }
}

const detail::LanguageWorkload& Trainer::State::language(const char* what) const {
  const auto* language = dynamic_cast<const detail::LanguageWorkload*>(work.get());
  TESSERA_CHECK(language != nullptr, what, ": requires a language model, got the task of an own model");
  return *language;
}

StepValues Trainer::State::compute(const std::function<Batch(std::int64_t m)>& batch_at) {
  Tensor loss;
  std::optional<nn::CastScope> cast_once(work->module());
  for (std::int64_t m = 0; m < config.train.accumulate; ++m) {
    const memory::Label label("activations");
    const Batch batch = batch_at(m);
    const Tensor part = work->loss(batch);
    nn::release_gathered(work->module());
    book.note();
    autograd::backward(part);
    book.note();
    loss = loss ? ops::add(loss, part.detach()) : part.detach();
  }
  cast_once.reset();
  const autograd::NoGrad no_grad;
  std::optional<shard::ExposedTime::Scope> waiting;
  if (plan.mesh()) waiting.emplace(*exposed, stream());
  settle_gradients();
  std::vector<Tensor> gradients;
  for (const Tensor& leaf : leaves) gradients.push_back(autograd::grad(leaf));
  const double clip = config.optimizer.clip;
  ops::GradNorm norm = ops::grad_norm(gradients, clip > 0 ? clip : INFINITY);
  return {whole(loss), {whole(norm.norm), clip > 0 ? norm.factor : Tensor()}};
}

void Trainer::State::settle_gradients() {
  const memory::Label label("gradients");
  // In pieces: what is settled stands beside what it is made from until the launch has been asked for.
  std::vector<Tensor> together;
  std::int64_t nbytes = 0;
  for (const Tensor& leaf : leaves) {
    together.push_back(leaf);
    nbytes += static_cast<std::int64_t>(leaf.local().nbytes());
    if (nbytes < kSettledTogether && !leaf.is_same(leaves.back())) continue;
    shard::reduce_gradients(together);
    together.clear();
    nbytes = 0;
  }
}

void Trainer::State::keep(const StepReport& report) const {
  if (!keep_bad_step) return;
  BadStep step{.report = report, .samples = {}, .parameters = named_leaves(work->module())};
  for (std::int64_t m = 0; m < config.train.accumulate; ++m) {
    const std::vector<std::uint64_t> numbers = plan.sample_numbers(number_of_batch(m), current_place().rank);
    step.samples.insert(step.samples.end(), numbers.begin(), numbers.end());
  }
  keep_bad_step(step);
}

double Trainer::State::largest_norm() const {
  return config.train.spike > 0 && mean_norm ? config.train.spike * *mean_norm : INFINITY;
}

StepEnd Trainer::State::judged(StepReport& report) {
  // A NaN must have no sign, otherwise it is printed as -nan.
  for (double* value : {&report.loss, &report.grad_norm}) *value = std::isnan(*value) ? std::fabs(*value) : *value;
  const bool is_finite = std::isfinite(report.loss) && std::isfinite(report.grad_norm);
  const double most = largest_norm();
  if (is_finite && report.grad_norm <= most) {
    mean_norm = mean_norm ? kMeanStays * *mean_norm + (1 - kMeanStays) * report.grad_norm : report.grad_norm;
    return StepEnd::kDone;
  }
  keep(report);
  const bool stops = (is_finite ? config.train.on_spike : config.train.on_nan) == "stop";
  if (stops) drop_gradients();
  TESSERA_CHECK_AS(TrainingStopped, !stops, "step ", report.step, ": loss ", report.loss, ", gradient norm ",
                   report.grad_norm, is_finite ? ", a spike: more than " : ", not finite; ",
                   is_finite ? std::to_string(most) : "parameters are those before the step",
                   is_finite ? "; train.on_spike = skip continues without such steps"
                             : "; train.on_nan = skip continues without such steps");
  return is_finite ? StepEnd::kSkippedSpike : StepEnd::kSkippedNan;
}

void Trainer::State::take_step(StepReport& report, bool is_ahead, bool is_chained) {
  detail::Activations activations;
  const StepValues values = compute([&](std::int64_t m) {
    const bool is_observed = m == 0 && is_looked_at();
    work->module().set_observer(is_observed ? activations.observer() : nn::ModuleObserver());
    Batch batch = next_batch(m);
    if (graph) graph->set_batch(m, batch, plan);  // creates the batches of the graph
    return batch;
  });
  work->module().set_observer({});
  const autograd::NoGrad no_grad;
  const Tensor most = is_chained ? bound : ops::full({}, largest_norm(), {.dtype = DType::kF64});
  const Tensor skip = detail::skip_flag(values, most);
  bound = is_ahead ? detail::next_bound(skip, most) : Tensor();
  const StepReadings& own = readings_of(report);
  own.read(detail::outcome_of(values, skip));
  if (is_looked_at()) {
    stream().synchronize();
    report.loss = own.loss();
    report.grad_norm = own.grad_norm();
    before_update(report, activations.kept());
  }
  update(report.learning_rate, values.norm.factor, skip);
  if (is_ahead) drop_gradients();
  prepare_batches(1);
}

void Trainer::State::wait_for_copies() {
  for (const device::Event& copied : std::exchange(update_after, {})) stream().wait(copied);
}

void Trainer::State::update(double learning_rate, const Tensor& clip_factor, const Tensor& skip) {
  wait_for_copies();
  optimizer->set_learning_rate(learning_rate);
  optimizer->step({.scalars = {.clip_factor = clip_factor, .skip = skip}, .keeps_gradients = true});
}

void Trainer::State::conclude(StepReport& report) {
  if (!tensor::default_device().properties().has_values) return;
  const StepReadings& of = readings_of(report);
  report.loss = of.loss();
  report.grad_norm = of.grad_norm();
  report.end = judged(report);
  TESSERA_CHECK_AS(MismatchError, of.is_skipped() == (report.end != StepEnd::kDone), "step ", report.step,
                   ": the device ", of.is_skipped() ? "skipped" : "took", " a step with loss ", report.loss,
                   " and gradient norm ", report.grad_norm, ", the trainer did not");
}

void Trainer::State::check_replicas_if_due() {
  if (!is_check_due(steps)) return;
  was_checked = true;
  detail::check_replicas(named_leaves(work->module()), steps);
}

Trainer::Trainer(const Config& config, BatchSource batches, std::optional<std::uint32_t> end_of_text)
    : state_(std::make_unique<State>(config, [&](const State& state) {
        return std::make_unique<detail::LanguageWorkload>(config, state.plan, state.exposed, std::move(batches),
                                                          end_of_text);
      })) {}

Trainer::Trainer(const Config& config, const Task& task)
    : state_(std::make_unique<State>(config, [&](const State& state) {
        return std::make_unique<detail::TaskWorkload>(config, state.plan, state.exposed, task);
      })) {}

Trainer::Trainer(const Config& config, const SampleReader& samples, std::optional<std::uint32_t> end_of_text)
    : Trainer(config,
              BatchSource([samples, numbers = own_samples(config), width = config.model.sequence + 1](std::uint64_t k) {
                std::vector<std::int32_t> rows;
                for (const std::uint64_t number : numbers(k)) {
                  rows.resize(rows.size() + static_cast<std::size_t>(width));
                  samples(number, std::span(rows).last(static_cast<std::size_t>(width)));
                }
                return rows;
              }),
              end_of_text) {}

Trainer::~Trainer() = default;

void Trainer::keep_bad_steps(std::function<void(const BadStep&)> keep) { state_->keep_bad_step = std::move(keep); }

double Trainer::evaluate(const SampleReader& held_out, std::int64_t samples, const OnProgress& on_progress) {
  state_->check_no_step_ahead("evaluate");
  const probe::Annotation mark("evaluate", state_->steps);
  const detail::LanguageWorkload& language = state_->language("evaluate");
  const ParallelPlan& plan = state_->plan;
  const std::int64_t sequence = state_->config.model.sequence;
  const auto loss_of = [&](std::int64_t first) {
    const detail::HeldOutRows own = detail::held_out_rows(held_out, first, samples, sequence, plan);
    return language.loss(language.batch_of_rows(own.tokens, own.real), static_cast<double>(samples * sequence));
  };
  return detail::sum_of_losses(model(), plan.rows(), samples, loss_of, on_progress);
}

double Trainer::evaluate(std::int64_t samples, const OnProgress& on_progress) {
  state_->check_no_step_ahead("evaluate");
  const probe::Annotation mark("evaluate", state_->steps);
  const auto* task = dynamic_cast<const detail::TaskWorkload*>(state_->work.get());
  const std::int64_t rows = state_->plan.rows();
  TESSERA_CHECK(task != nullptr, "evaluate: requires samples of a language model, got none");
  TESSERA_CHECK(samples % rows == 0, "evaluate: samples must be a multiple of those of a micro-batch (", rows,
                "), got ", samples);
  const double share = static_cast<double>(rows) / static_cast<double>(samples);
  const auto loss_of = [&](std::int64_t first) {
    return ops::mul(task->held_out_loss(static_cast<std::uint64_t>(first)), share);
  };
  return detail::sum_of_losses(model(), rows, samples, loss_of, on_progress);
}

std::vector<std::uint32_t> Trainer::sample(const std::vector<std::uint32_t>& prompt, std::int64_t count,
                                           double temperature, std::uint64_t seed, const OnProgress& on_progress) {
  state_->check_no_step_ahead("sample");
  const nn::LanguageModel& language = state_->language("sample").model();
  nn::set_packing(model(), {});
  std::int64_t drawn = 0;
  const nn::GenerationOptions options{.max_tokens = count,
                                      .context = state_->config.model.sequence,
                                      .slides = true,
                                      .sampling = {.temperature = temperature, .seed = seed}};
  const nn::OnToken on_token = [&](std::int64_t /*prompt*/, std::uint32_t /*token*/) {
    if (on_progress && ++drawn < count)
      on_progress(static_cast<std::uint64_t>(drawn), static_cast<std::uint64_t>(count));
    return true;
  };
  return nn::generate(language, {&prompt, 1}, options, on_token)[0].tokens;
}

std::vector<OwnedBytes> Trainer::memory_now() const { return state_->book.now(); }

std::vector<OwnedBytes> Trainer::memory_peak() const { return state_->book.peak(); }

std::vector<OwnedBytes> Trainer::memory_predicted() const {
  if (is_own(state_->config.model)) return {};
  return predicted_memory(state_->config, current_place().world_size);
}

std::int64_t Trainer::parameter_count() const { return model().parameter_count(); }

const nn::Module& Trainer::model() const { return state_->work->module(); }

}  // namespace tessera::train

// Every operator on real ranks: threads call samples of each case through dispatch, under random layouts that its rule
// accepts. Assembled results and gradients must equal those of one device.
//
// A complete sweep on two ranks tries every sample under every combination, and the same samples with dimensions of
// size 1 and 0. It allows no redistribution except for transfers inside operators: if forward accepts a combination,
// backward must compute its gradient, without exceptions.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/layout/planner.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/testing/validator_subject.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using ops::testing::Combination;
using ops::testing::OpCaseInfo;
using ops::testing::OpSample;
using ops::testing::Parts;
using ops::testing::Random;
using ops::testing::Subject;
using ops::testing::Whole;
using tessera::detail::concat;

constexpr std::size_t kSamples = 3;        // per case and mesh
constexpr std::size_t kCombinations = 24;  // per sample in a complete sweep, drawn if there are more

// Scope of a test.
struct Sweep {
  bool with_gradients = false;
  bool is_complete = false;  // see the file head; otherwise operands are redistributed automatically
};

// Shard of a tensor on one rank after the call.
struct Held {
  Layout layout;
  Whole part;
};

// One call under one combination of layouts, and the results of each rank.
struct Trial {
  std::shared_ptr<const Subject> subject;
  Combination combination;
  std::vector<std::optional<Whole>> grads;  // of the results; empty: forward only
  std::vector<std::optional<Whole>> want;   // of the inputs
  bool is_pending = false;
  std::vector<std::vector<Held>> results;                  // by rank
  std::vector<std::vector<std::optional<Held>>> gradient;  // by rank
  std::vector<std::string> errors;                         // by rank
  std::uint64_t moves = 0;                                 // redistributed operands on rank 0
};

bool has_tensor(const Subject& subject) {
  for (std::size_t i = 0; i < subject.inputs().size(); ++i) {
    if (subject.has(i)) return true;
  }
  return false;
}

// Returns any layout of the result, for operators that create tensors.
std::optional<Combination> creation(const Subject& subject, const Mesh& mesh, Random& random) {
  if (subject.outputs().size() != 1) return std::nullopt;
  std::vector<layout::Placement> placements;
  for (int a = 0; a < mesh.ndim(); ++a) {
    const auto dim = static_cast<int>(random() % (subject.outputs()[0].shape.size() + 1));
    const bool is_whole = dim == subject.outputs()[0].shape.ndim();
    placements.push_back(is_whole ? layout::Replicate() : layout::Shard(dim));
  }
  return Combination{std::vector<Layout>(subject.inputs().size()), {Layout::create(mesh, placements)}};
}

std::vector<Combination> some_combinations(const Subject& subject, const Mesh& mesh, const Sweep& sweep,
                                           Random& random) {
  if (!has_tensor(subject)) {
    auto made = creation(subject, mesh, random);
    return made ? std::vector<Combination>{std::move(*made)} : std::vector<Combination>();
  }
  std::vector<Combination> found = ops::testing::admitted_combinations(subject, mesh, 4, random).list;
  std::ranges::shuffle(found, random);
  found.resize(std::min(found.size(), sweep.is_complete ? kCombinations : 1));
  return found;
}

// Returns the sample with each dimension of size `from` reduced to size `to`; indices are 0.
OpSample shrunk(const OpSample& sample, std::int64_t from, std::int64_t to) {
  OpSample out = sample;
  for (ops::testing::SampleInput& input : out.inputs) {
    std::vector<std::int64_t> sizes(input.value.shape.begin(), input.value.shape.end());
    std::ranges::replace(sizes, from, to);
    const Shape shape{std::span<const std::int64_t>(sizes)};
    if (shape == input.value.shape) continue;
    input.value.values.resize(static_cast<std::size_t>(shape.numel()));
    input.value.shape = shape;
  }
  for (ops::testing::SampleInput& input : out.inputs) {
    if (input.dtype && is_integral(*input.dtype)) std::ranges::fill(input.value.values, 0);
  }
  out.note = concat(out.note, out.note.empty() ? "" : ", ", "size ", from, " made ", to);
  return out;
}

std::vector<OpSample> samples_of(const OpCaseInfo& info, const Sweep& sweep, Random& random) {
  std::vector<OpSample> samples = info.samples(random);
  if (!sweep.is_complete) {
    std::ranges::shuffle(samples, random);
    samples.resize(std::min(samples.size(), kSamples));
    return samples;
  }
  const std::size_t given = samples.size();
  for (std::size_t s = 0; s < given; ++s) {
    std::vector<std::int64_t> sizes;
    for (const ops::testing::SampleInput& input : samples[s].inputs) {
      for (const std::int64_t size : input.value.shape) {
        if (size > 1 && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
      }
    }
    for (const std::int64_t size : sizes) {
      samples.push_back(shrunk(samples[s], size, 1));
      samples.push_back(shrunk(samples[s], size, 0));
    }
  }
  return samples;
}

// Returns the layout of the gradient of a result: sharded equally; on request, partial along unused axes.
Layout layout_of_gradient(const Layout& result, bool is_pending) {
  layout::LayoutParts parts = layout::gradient_layout(result).parts();
  for (std::int32_t axis = 0; is_pending && axis < result.mesh().ndim(); ++axis) {
    const auto uses = [axis](const auto& each) { return each.by.axis == axis; };
    bool is_used = std::ranges::any_of(result.partials(), uses);
    for (int d = 0; d < result.ndim(); ++d) is_used |= std::ranges::any_of(result.shardings(d), uses);
    if (!is_used) parts.partials.push_back({{axis, 1, result.mesh().axis(axis).size}, Reduction::kSum});
  }
  return Layout::create(result.mesh(), std::move(parts));
}

std::vector<Tensor> differentiable_inputs(const Subject& subject, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!subject.is_differentiable(i)) continue;
    autograd::set_requires_grad(inputs[i], true);
    out.push_back(inputs[i]);
  }
  return out;
}

// Runs backward from the outputs with a gradient. Returns the gradient, if any, of each differentiable input.
std::vector<Tensor> gradients_of(const std::vector<Tensor>& outputs, const std::vector<Tensor>& grads,
                                 const std::vector<Tensor>& inputs) {
  std::vector<Tensor> from;
  std::vector<Tensor> by;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!grads[o] || !outputs[o].is_tracked()) continue;
    from.push_back(outputs[o]);
    by.push_back(grads[o]);
  }
  if (from.empty()) return std::vector<Tensor>(inputs.size());
  return autograd::gradients(from, inputs, by, {.allow_unused = true});
}

// Computes gradients on one device. Results after the first are often statistics that are not differentiated.
bool add_gradients(Trial& trial, std::size_t outputs, Random& random) {
  const Subject& subject = *trial.subject;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < subject.inputs().size(); ++i) {
    inputs.push_back(subject.has(i) ? to_tensor(subject.inputs()[i]) : Tensor());
  }
  const std::vector<Tensor> wanted = differentiable_inputs(subject, inputs);
  if (wanted.empty() || subject.op()->def.gradient == nullptr) return false;
  std::vector<Tensor> results(subject.outputs().size());
  tensor::call_into({subject.op(), inputs, subject.attributes(), results});
  std::vector<Tensor> grads;
  for (const Whole& result : subject.outputs()) {
    const bool flows = (is_floating(result.dtype) || is_complex(result.dtype)) && grads.size() < outputs;
    Whole grad{result.shape, result.dtype, result.values};
    std::normal_distribution<double> normal;
    for (double& value : grad.values) value = normal(random);
    trial.grads.push_back(flows ? std::optional(grad) : std::nullopt);
    grads.push_back(flows ? to_tensor(grad) : Tensor());
  }
  const std::vector<Tensor> got = gradients_of(results, grads, wanted);
  ops::testing::wait_for_work();
  for (const Tensor& each : got) trial.want.push_back(each ? std::optional(ops::testing::read(each)) : std::nullopt);
  return true;
}

Held held_of(const Tensor& tensor) { return {tensor.layout(), ops::testing::read(tensor.local())}; }

// Runs one rank of a trial.
void run(Trial& trial, std::size_t rank) {
  const Subject& subject = *trial.subject;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < subject.inputs().size(); ++i) {
    const Layout& layout = trial.combination.inputs[i];
    inputs.push_back(layout ? testing::placed(subject.inputs()[i], layout) : Tensor());
  }
  const bool has_backward = !trial.grads.empty();
  std::vector<Tensor> wanted;
  if (has_backward) wanted = differentiable_inputs(subject, inputs);
  std::vector<Tensor> results(subject.outputs().size());
  if (!has_tensor(subject)) {
    const Whole& out = subject.outputs()[0];
    results[0] = ops::empty(out.shape, {.dtype = out.dtype, .layout = trial.combination.outputs[0]});
  }
  const std::uint64_t before = shard_counts().automatic;
  tensor::call_into({subject.op(), inputs, subject.attributes(), results});
  std::vector<Tensor> gradients;
  if (has_backward) {
    std::vector<Tensor> grads;
    for (std::size_t o = 0; o < results.size(); ++o) {
      const Layout layout = layout_of_gradient(trial.combination.outputs[o], trial.is_pending);
      grads.push_back(trial.grads[o] ? testing::placed(*trial.grads[o], layout) : Tensor());
    }
    gradients = gradients_of(results, grads, wanted);
  }
  ops::testing::wait_for_work();
  if (rank == 0) trial.moves = shard_counts().automatic - before;
  for (const Tensor& each : results) trial.results[rank].push_back(held_of(each));
  for (const Tensor& each : gradients) {
    trial.gradient[rank].push_back(each ? std::optional(held_of(each)) : std::nullopt);
  }
}

// Returns the difference of a tensor that all ranks hold from its expected value; empty if it matches.
std::string wrong_with(const std::vector<const Held*>& by_rank, const Whole& want, const Layout& layout,
                       double tolerance) {
  Parts parts{want.shape, want.dtype, layout, {}};
  for (const Held* held : by_rank) {
    if (!(held->layout == layout)) return concat("is ", held->layout.text(), ", not ", layout.text());
    parts.by_rank.push_back(to_tensor(held->part));
  }
  std::string wrong;
  const auto whole = ops::testing::recombine(parts, wrong);
  return whole ? ops::testing::difference(*whole, want, tolerance, layout) : wrong;
}

// Backward is linear in the gradient, so partial sums pass through it without redistribution. Exceptions are backward
// functions that read partial values and those in which ranks cooperate.
bool may_move(const Trial& trial) {
  if (trial.grads.empty()) return false;
  const bool cooperates = trial.subject->op()->def.cooperation != nullptr;
  if (trial.combination.is_partial() || (trial.is_pending && cooperates)) return true;
  return std::ranges::any_of(trial.combination.outputs, [](const Layout& output) {
    return std::ranges::any_of(output.partials(), [](const layout::PartialAxis& partial) {
      return !layout::can_mix(partial.reduction, Reduction::kSum);
    });
  });
}

std::string wrong_with(const Trial& trial) {
  const Subject& subject = *trial.subject;
  for (std::size_t r = 0; r < trial.errors.size(); ++r) {
    if (!trial.errors[r].empty()) return concat("rank ", r, ": ", trial.errors[r]);
  }
  for (std::size_t o = 0; o < subject.outputs().size(); ++o) {
    std::vector<const Held*> held;
    for (const auto& of_rank : trial.results) held.push_back(&of_rank[o]);
    std::string wrong = wrong_with(held, subject.outputs()[o], trial.combination.outputs[o], subject.tolerance());
    if (!wrong.empty()) return concat("result ", o, ": ", wrong);
  }
  for (std::size_t g = 0; g < trial.want.size(); ++g) {
    std::vector<const Held*> held;
    for (const auto& of_rank : trial.gradient) {
      if (of_rank[g].has_value() != trial.want[g].has_value()) return concat("gradient ", g, " is given for one alone");
      if (of_rank[g]) held.push_back(&*of_rank[g]);
    }
    if (!trial.want[g]) continue;
    std::string wrong = wrong_with(held, *trial.want[g], held[0]->layout, subject.tolerance() * 10);
    if (!wrong.empty()) return concat("gradient ", g, ": ", wrong);
  }
  if (trial.moves != 0 && !may_move(trial)) return concat(trial.moves, " operands had to move");
  return {};
}

std::uint64_t seed() { return static_cast<std::uint64_t>(std::max(1, static_cast<int>(GTEST_FLAG_GET(random_seed)))); }

// Returns a trial with its gradients on one device; nothing if nothing is differentiable.
std::optional<Trial> trial_of(const std::shared_ptr<const Subject>& subject, const Combination& combination,
                              const Mesh& mesh, const Sweep& sweep, Random& random) {
  Trial trial;
  trial.subject = subject;
  trial.combination = combination;
  // For partial gradients, settle() decides what is sent, not the operator.
  trial.is_pending = !sweep.is_complete && random() % 2 == 0;
  if (sweep.with_gradients) {
    bool has_some = false;
    try {
      has_some = add_gradients(trial, subject->outputs().size(), random);
    } catch (const Error&) {
      trial.grads.clear();
      trial.want.clear();
      has_some = add_gradients(trial, 1, random);
    }
    if (!has_some) return std::nullopt;
  }
  trial.results.resize(static_cast<std::size_t>(mesh.size()));
  trial.gradient.resize(trial.results.size());
  trial.errors.resize(trial.results.size());
  return trial;
}

// The subject refers to its sample: they live together. Null if the operator rejects a shrunk sample.
std::shared_ptr<const Subject> subject_of(const OpCaseInfo& info, const OpSample& sample, const Sweep& sweep) {
  auto kept = std::make_shared<std::pair<OpSample, std::optional<Subject>>>(sample, std::nullopt);
  try {
    kept->second.emplace(info, kept->first);
  } catch (const Error&) {
    if (!sweep.is_complete) throw;
    return nullptr;
  }
  return {kept, &*kept->second};
}

std::vector<Trial> trials_on(const Mesh& mesh, Random& random, const Sweep& sweep) {
  std::vector<Trial> out;
  for (const OpCaseInfo& info : ops::testing::all_cases()) {
    if (!info.samples) continue;
    for (const OpSample& sample : samples_of(info, sweep, random)) {
      const auto subject = subject_of(info, sample, sweep);
      if (subject == nullptr || subject->op()->def.rule == nullptr) continue;
      for (const Combination& combination : some_combinations(*subject, mesh, sweep, random)) {
        if (auto trial = trial_of(subject, combination, mesh, sweep, random)) out.push_back(std::move(*trial));
      }
    }
  }
  return out;
}

void run_all(const Mesh& mesh, const Sweep& sweep, const SimulateOptions& how = {}) {
  Random random(seed() + static_cast<std::uint64_t>(mesh.size()));
  std::vector<Trial> trials = trials_on(mesh, random, sweep);
  simulate(
      static_cast<int>(mesh.size()),
      [&] {
        const auto rank = static_cast<std::size_t>(current_place().rank.value());
        std::optional<AutoRedistribute> automatic;
        if (!sweep.is_complete) automatic.emplace();
        for (Trial& trial : trials) {
          try {
            run(trial, rank);
          } catch (const Error& error) {
            trial.errors[rank] = error.message();
          }
        }
      },
      how);
  int wrong = 0;
  for (const Trial& trial : trials) {
    const std::string what = wrong_with(trial);
    if (what.empty() || ++wrong > 5) continue;
    ADD_FAILURE() << trial.subject->text() << " on " << trial.combination.text()
                  << (trial.is_pending ? ", pending" : "") << ": " << what;
  }
  EXPECT_EQ(wrong, 0) << "of " << trials.size() << " trials on " << mesh.text();
  EXPECT_GT(trials.size(), 200U);
}

class Operators : public ::testing::TestWithParam<const char*> {};

TEST_P(Operators, GiveWhatOneDeviceGives) { run_all(Mesh::parse(GetParam()), {}); }
TEST_P(Operators, HaveTheGradientsOfOneDevice) { run_all(Mesh::parse(GetParam()), {.with_gradients = true}); }

// One rank at a time, in the order of a seed: a rank that waits forever is an error immediately.
TEST(OperatorsInTurns, GiveWhatOneDeviceGives) { run_all(Mesh::parse("x=2,y=2"), {}, {.seed = seed()}); }

TEST(OperatorsAccepted, GiveWhatOneDeviceGives) { run_all(Mesh::parse("x=2"), {.is_complete = true}); }
TEST(OperatorsAccepted, HaveTheGradientsOfOneDevice) {
  run_all(Mesh::parse("x=2"), {.with_gradients = true, .is_complete = true});
}

INSTANTIATE_TEST_SUITE_P(Meshes, Operators, ::testing::Values("x=2", "x=4", "x=2,y=2", "x=2,y=4", "x=8"));

}  // namespace
}  // namespace tessera::shard

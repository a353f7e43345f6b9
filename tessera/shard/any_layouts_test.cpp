// Every operator under layouts that its rule may reject. In an AutoRedistribute scope each call succeeds, with the
// necessary redistributions, and results and gradients equal those of one device. Layouts are drawn per input,
// including cuts with blocks and with explicit sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/planner.h"
#include "tessera/ops/testing/validator_subject.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using ops::testing::OpCaseInfo;
using ops::testing::OpSample;
using ops::testing::Random;
using ops::testing::Subject;
using testing::Results;
using testing::Whole;
using Tensors = std::vector<Tensor>;

constexpr std::size_t kSamples = 3;  // per case

struct Trial {
  std::shared_ptr<const Subject> subject;
  std::vector<Layout> layouts;                        // empty for an omitted argument
  std::size_t first = 0;                              // number of the first result; gradients follow
  std::optional<Whole> grad;                          // of the first result; unset: forward only
  std::vector<std::pair<std::size_t, Whole>> wanted;  // inputs and their gradients
  std::string error;
};

// Varies the sharding of a dimension: blocks, or all but one element on the last rank.
void vary(layout::DimShardings& dim, std::int64_t size, Random& random) {
  if (dim.shardings.size() != 1 || random() % 3 != 0) return;
  if (size % 2 == 0 && random() % 2 == 0) {
    dim.shardings[0].blocks = 2;
  } else if (size > 1) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(dim.shardings[0].by.size), 0);
    sizes.front() = 1;
    sizes.back() = size - 1;
    dim.sizes = std::make_shared<const std::vector<std::int64_t>>(std::move(sizes));
  }
}

// Partial only if values do not change: under max, each is the value of some rank.
Layout some_layout(const Whole& input, const Mesh& mesh, Random& random) {
  std::vector<layout::Placement> placements;
  for (int a = 0; a < mesh.ndim(); ++a) {
    const auto dim = static_cast<int>(random() % (input.shape.size() + 2));
    const bool is_partial = dim > input.shape.ndim() && is_signed(input.dtype) && random() % 2 == 0;
    placements.push_back(dim < input.shape.ndim() ? layout::Shard(dim)
                         : is_partial             ? layout::Partial(Reduction::kMax)
                                                  : layout::Replicate());
  }
  layout::LayoutParts parts = Layout::create(mesh, placements).parts();
  for (std::size_t d = 0; d < parts.dims.size(); ++d) vary(parts.dims[d], input.shape[d], random);
  return Layout::create(mesh, std::move(parts));
}

bool is_differentiated(const Subject& subject) {
  return subject.op()->def.gradient != nullptr && is_floating(subject.outputs()[0].dtype);
}

Tensors tracked_inputs(const Subject& subject, const Tensors& inputs, std::vector<std::size_t>& places) {
  Tensors out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_differentiated(subject) || !subject.is_differentiable(i)) continue;
    autograd::set_requires_grad(inputs[i], true);
    out.push_back(inputs[i]);
    places.push_back(i);
  }
  return out;
}

Tensors call(const Subject& subject, const Tensors& inputs) {
  Tensors results(subject.outputs().size());
  tensor::call_into({subject.op(), inputs, subject.attributes(), results});
  return results;
}

// Computes gradients of the first result on one device.
void add_gradients(Trial& trial, Random& random) {
  const Subject& subject = *trial.subject;
  Tensors inputs;
  for (std::size_t i = 0; i < subject.inputs().size(); ++i) {
    inputs.push_back(subject.has(i) ? testing::plain(subject.inputs()[i]) : Tensor());
  }
  std::vector<std::size_t> places;
  const Tensors wanted = tracked_inputs(subject, inputs, places);
  if (wanted.empty()) return;
  const Tensors results = call(subject, inputs);
  if (!results[0].is_tracked()) return;
  Whole grad{subject.outputs()[0].shape, subject.outputs()[0].dtype, subject.outputs()[0].values};
  std::normal_distribution<double> normal;
  for (double& value : grad.values) value = normal(random);
  const Tensors found = autograd::gradients({results[0]}, wanted, {testing::plain(grad)}, {.allow_unused = true});
  ops::testing::wait_for_work();
  trial.grad = std::move(grad);
  for (std::size_t g = 0; g < found.size(); ++g) {
    if (found[g]) trial.wanted.emplace_back(places[g], ops::testing::read(found[g]));
  }
}

std::vector<Trial> trials_on(const Mesh& mesh, Random& random) {
  std::vector<Trial> out;
  std::size_t number = 0;
  for (const OpCaseInfo& info : ops::testing::all_cases()) {
    if (!info.samples) continue;
    std::vector<OpSample> samples = info.samples(random);
    std::shuffle(samples.begin(), samples.end(), random);
    samples.resize(std::min(samples.size(), kSamples));
    for (const OpSample& sample : samples) {
      // The subject refers to its sample: they live together.
      auto kept = std::make_shared<std::pair<OpSample, std::optional<Subject>>>(sample, std::nullopt);
      kept->second.emplace(info, kept->first);
      Trial trial;
      trial.subject = std::shared_ptr<const Subject>(kept, &*kept->second);
      bool has_tensor = false;
      for (std::size_t i = 0; i < trial.subject->inputs().size(); ++i) {
        const bool is_there = trial.subject->has(i);
        has_tensor |= is_there;
        trial.layouts.push_back(is_there ? some_layout(trial.subject->inputs()[i], mesh, random) : Layout());
      }
      if (!has_tensor) continue;
      trial.first = number;
      add_gradients(trial, random);
      number += trial.subject->outputs().size() + trial.wanted.size();
      out.push_back(std::move(trial));
    }
  }
  return out;
}

// Runs one rank.
void run(Trial& trial, Results& results) {
  const Subject& subject = *trial.subject;
  Tensors inputs;
  for (std::size_t i = 0; i < trial.layouts.size(); ++i) {
    inputs.push_back(trial.layouts[i] ? testing::placed(subject.inputs()[i], trial.layouts[i]) : Tensor());
  }
  if (trial.grad) {
    for (const auto& [place, gradient] : trial.wanted) autograd::set_requires_grad(inputs[place], true);
  }
  const Tensors outputs = call(subject, inputs);
  std::size_t number = trial.first;
  for (const Tensor& output : outputs) results.hand_in(number++, output);
  if (!trial.grad || trial.wanted.empty()) return;
  Tensors wanted;
  for (const auto& [place, gradient] : trial.wanted) wanted.push_back(inputs[place]);
  const Tensor grad = testing::placed(*trial.grad, layout::gradient_layout(outputs[0].layout()));
  for (const Tensor& each : autograd::gradients({outputs[0]}, wanted, {grad})) results.hand_in(number++, each);
}

std::string wrong_with(const Trial& trial, const Results& results) {
  if (!trial.error.empty()) return trial.error;
  std::size_t number = trial.first;
  const double tolerance = 10 * trial.subject->tolerance();
  for (const Whole& want : trial.subject->outputs()) {
    std::string wrong = ops::testing::difference(results.whole(number), want, tolerance, results.layout(number));
    if (!wrong.empty()) return wrong;
    ++number;
  }
  for (const auto& [place, want] : trial.wanted) {
    const std::string wrong =
        ops::testing::difference(results.whole(number), want, 10 * tolerance, results.layout(number));
    if (!wrong.empty()) return tessera::detail::concat("gradient of input ", place, ": ", wrong);
    ++number;
  }
  return {};
}

class AnyLayouts : public ::testing::TestWithParam<const char*> {};

TEST_P(AnyLayouts, GiveWhatOneDeviceGives) {
  const Mesh mesh = Mesh::parse(GetParam());
  Random random(static_cast<std::uint64_t>(std::max(1, static_cast<int>(GTEST_FLAG_GET(random_seed)))));
  std::vector<Trial> trials = trials_on(mesh, random);
  Results results(static_cast<int>(mesh.size()));
  simulate(static_cast<int>(mesh.size()), [&] {
    const AutoRedistribute automatic;
    for (Trial& trial : trials) {
      try {
        run(trial, results);
      } catch (const Error& error) {
        if (current_place().rank.value() == 0) trial.error = error.message();
      }
    }
  });
  int wrong = 0;
  for (const Trial& trial : trials) {
    const std::string what = wrong_with(trial, results);
    if (what.empty() || ++wrong > 8) continue;
    std::string layouts;
    for (const Layout& each : trial.layouts) layouts += " " + (each ? each.placements_text() : std::string("none"));
    ADD_FAILURE() << trial.subject->text() << " on" << layouts << ": " << what;
  }
  EXPECT_EQ(wrong, 0) << "of " << trials.size();
  EXPECT_GT(trials.size(), 200U);
}

INSTANTIATE_TEST_SUITE_P(Meshes, AnyLayouts, ::testing::Values("x=2", "x=4", "x=2,y=2"));

}  // namespace
}  // namespace tessera::shard

// Upper bounds of the bytes that operators send along sharded dimensions, with the results of one device. Each case
// runs on ranks that are threads, sharded along every dimension, by one axis and by two, into uneven and empty shards.
// Bytes are those of the busiest receiver, in forward (with reduced partial results) and in backward.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <mutex>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/layout/planner.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::placed;
using testing::Results;
using testing::Whole;
using Tensors = std::vector<Tensor>;

// An upper bound by the number of ranks that shard a dimension.
using Ceiling = std::function<double(double ranks)>;

Ceiling nothing() {
  return [](double) { return 0.0; };
}
// Bytes reduced over all ranks, which transfers almost twice as many.
Ceiling reduced(double nbytes) {
  return [nbytes](double ranks) { return 2 * (ranks - 1) / ranks * nbytes; };
}
// Values of 8 bytes, partial and then reduced: the same, with the work divided equally.
Ceiling settled(double count) {
  return [count](double ranks) { return 2 * (ranks - 1) * std::ceil(count / ranks) * 8; };
}
// Bytes of every rank sent to all.
Ceiling from_each(double nbytes) {
  return [nbytes](double ranks) { return (ranks - 1) * nbytes; };
}

struct Case {
  std::string name;
  std::vector<Whole> inputs;
  std::function<Tensor(const Tensors&)> call;
  std::vector<std::vector<const char*>> layouts;  // of the inputs; a comma separates two axes
  Ceiling forward = nothing();
  Ceiling backward = nothing();
  std::vector<std::size_t> tracked = {0};  // inputs whose gradient is requested
  bool is_rearranged = false;              // transfers are determined by comparing every element
};

Whole values(const Shape& shape) {
  Whole whole = counted(shape, DType::kF64);
  for (double& value : whole.values) value = (value - 40) / 16;
  return whole;
}
Whole targets(const Shape& shape, int classes) {
  Whole whole = counted(shape, DType::kI64);
  for (double& value : whole.values) value = static_cast<double>(static_cast<std::int64_t>(value) % classes);
  return whole;
}

constexpr double kF64 = 8;
constexpr double kI64 = 8;
// A matrix sharded along the second dimension, which the operator uses, and along both.
const std::vector<std::vector<const char*>> kAlong = {{"S1"}, {"R,S1"}, {"S1,S1"}, {"S0,S1"}};
const std::vector<std::vector<const char*>> kAcross = {{"S0"}, {"S0,S0"}, {"R,S0"}};
const std::vector<std::vector<const char*>> kEvery = {{"S0"},    {"S1"},    {"S0,S0"}, {"S1,S1"},
                                                      {"S0,S1"}, {"S1,S0"}, {"R,S0"},  {"S1,R"}};

Case unary(const std::string& name, const std::function<Tensor(const Tensor&)>& call, Ceiling forward, Ceiling backward,
           bool is_tracked = true) {
  Case out{name,
           {values({5, 7})},
           [call](const Tensors& x) { return call(x[0]); },
           kAlong,
           std::move(forward),
           std::move(backward),
           {},
           false};
  if (is_tracked) out.tracked = {0};
  return out;
}

// Cases with 5 rows.
std::vector<Case> statistics_cases() {
  using T = const Tensor&;
  std::vector<Case> out = {
      unary(
          "argmax", [](T x) { return ops::argmax(x, 1); }, reduced(5 * (kF64 + kI64)), nothing(), false),
      unary(
          "argmin", [](T x) { return ops::argmin(x, -1, true); }, reduced(5 * (kF64 + kI64)), nothing(), false),
      // Equal elements share the gradient, so that backward needs their number.
      unary(
          "amax", [](T x) { return ops::amax(x, {1}); }, settled(5),
          [](double ranks) { return 2 * settled(5)(ranks); }),
      unary(
          "sum", [](T x) { return ops::sum(x, {1}); }, settled(5), nothing()),
      unary(
          "mean", [](T x) { return ops::mean(x, {1}); }, settled(5), nothing()),
      unary(
          "logsumexp", [](T x) { return ops::logsumexp(x, {1}); }, reduced(2 * 5 * kF64), nothing()),
      unary(
          "var", [](T x) { return ops::var(x, {1}); }, reduced(2 * 5 * kF64), reduced(5 * kF64)),
      unary(
          "norm", [](T x) { return ops::norm(x, 2, {1}); }, reduced(5 * kF64), nothing()),
      unary(
          "softmax", [](T x) { return ops::softmax(x, 1); }, reduced(2 * 5 * kF64), reduced(5 * kF64)),
      unary(
          "log_softmax", [](T x) { return ops::log_softmax(x, 1); }, reduced(2 * 5 * kF64), reduced(5 * kF64)),
      unary(
          "topk", [](T x) { return ops::topk(x, 2, 1).first; }, from_each(2 * 5 * (kF64 + kI64)), nothing()),
      unary(
          "topk indices", [](T x) { return ops::topk(x, 3, 1, false).second; }, from_each(3 * 5 * (kF64 + kI64)),
          nothing(), false),
      unary(
          "cumsum", [](T x) { return ops::cumsum(x, 1); }, from_each(5 * kF64 + kI64), from_each(5 * kF64 + kI64)),
      unary(
          "histc", [](T x) { return ops::histc(x, 4, -3, 3); }, settled(4), nothing(), false),
  };
  const std::size_t along = out.size();
  for (std::size_t i = 0; i < along; ++i) {
    if (out[i].name == "histc") continue;
    out.push_back(out[i]);
    out.back().layouts = kAcross;
    out.back().forward = out.back().backward = nothing();
  }
  return out;
}

std::vector<Case> network_cases() {
  ops::CrossEntropyAttributes how;
  const auto loss = [how](const Tensors& x) { return ops::cross_entropy(x[0], x[1], how); };
  const auto linear_loss = [how](const Tensors& x) { return ops::linear_cross_entropy(x[0], x[1], x[2], how); };
  const auto layer = [](const Tensors& x) { return ops::layer_norm(x[0], x[1], x[2]); };
  const auto rms = [](const Tensors& x) { return ops::rms_norm(x[0], x[1]); };
  const auto attention = [](const Tensors& x) { return ops::scaled_dot_product_attention(x[0], x[1], x[2]); };
  const Shape heads = {4, 4, 6, 8};  // batch, heads, length, features
  return {
      {"cross_entropy",
       {values({5, 7}), targets({5}, 7)},
       loss,
       {{"S1", "R"}, {"S1,S1", "R,R"}, {"R,S1", "R,R"}},
       reduced(3 * 5 * kF64),
       nothing(),
       {0}},
      {"linear_cross_entropy",
       {values({5, 3}), values({7, 3}), targets({5}, 7)},
       linear_loss,
       {{"R", "S0", "R"}, {"R,R", "S0,S0", "R,R"}},
       reduced(3 * 5 * kF64),
       nothing(),
       {0, 1}},
      {"layer_norm",
       {values({5, 7}), values({7}), values({7})},
       layer,
       {{"S1", "S0", "S0"}, {"S1,S1", "S0,S0", "S0,S0"}, {"S0,S1", "R,S0", "R,S0"}},
       reduced(2 * 5 * kF64),
       reduced(2 * 5 * kF64),
       {0, 1, 2}},
      {"rms_norm",
       {values({5, 7}), values({7})},
       rms,
       {{"S1", "S0"}, {"S1,S1", "S0,S0"}, {"S0,S1", "R,S0"}},
       reduced(5 * kF64),
       reduced(5 * kF64),
       {0, 1}},
      {"embedding",
       {values({7, 3}), targets({5}, 7)},
       [](const Tensors& x) { return ops::embedding(x[0], x[1]); },
       {{"S0", "R"}, {"S0,S0", "R,R"}},
       settled(5 * 3),
       nothing(),
       {0}},
      {"attention",
       {values(heads), values(heads), values(heads)},
       attention,
       {{"S0", "S0", "S0"}, {"S1", "S1", "S1"}, {"S0,S1", "S0,S1", "S0,S1"}},
       nothing(),
       nothing(),
       {0, 1, 2}},
  };
}

Case moved(const std::string& name, const std::function<Tensor(const Tensors&)>& call,
           const std::vector<std::vector<const char*>>& layouts = kEvery, std::vector<Whole> inputs = {}) {
  if (inputs.empty()) inputs = {values({6, 9})};
  std::vector<std::size_t> tracked;
  for (std::size_t i = 0; i < inputs.size(); ++i) tracked.push_back(i);
  return {name, std::move(inputs), call, layouts, nothing(), nothing(), tracked, true};
}

std::vector<Case> moved_cases() {
  using X = const Tensors&;
  std::vector<Case> out = {
      moved("flip", [](X x) { return ops::flip(x[0], {1}); }),
      moved("flip of all",
            [](X x) {
              return ops::flip(x[0], {0, 1});
            }),
      moved("roll", [](X x) { return ops::roll(x[0], {2}, {1}); }),
      moved("roll of all",
            [](X x) {
              return ops::roll(x[0], {-1, 4}, {0, 1});
            }),
      moved("pad",
            [](X x) {
              return ops::pad(x[0], {2, 3});
            }),
      moved("pad of all",
            [](X x) {
              return ops::pad(x[0], {0, 5, 1, 0}, 7);
            }),
      moved("slice", [](X x) { return ops::slice(x[0], 1, 2, 7); }),
      moved("slice of rows", [](X x) { return ops::slice(x[0], 0, 3); }),
      moved("slice by steps", [](X x) { return ops::slice(x[0], 1, 1, 9, 3); }),
      moved("unslice", [](X x) { return ops::unslice(x[0], 1, 21, 2, 2); }),
      moved("narrow of blocks", [](X x) { return ops::narrow(ops::flatten(x[0]), 0, 5, 30); }, {{"S1"}, {"S1,S1"}},
            {values({6, 8})}),
      moved("cat", [](X x) { return ops::cat(x, 1); }, {{"S1", "S1"}, {"S0,S1", "S0,S1"}, {"S1,S1", "S1,S1"}},
            {values({6, 9}), values({6, 4})}),
      moved("cat of one that is whole", [](X x) { return ops::cat(x, 1); }, {{"S1", "R"}, {"R", "S1"}},
            {values({6, 9}), values({6, 4})}),
      moved("cat of what other axes cut", [](X x) { return ops::cat(x, 1); }, {{"S1,R", "R,S1"}},
            {values({6, 9}), values({6, 4})}),
      moved("stack",
            [](X x) {
              return ops::cat(Tensors{x[0], x[0], x[1]}, 0);
            },
            {{"S0", "S0"}, {"S1", "S1"}}, {values({6, 9}), values({2, 9})}),
  };
  // Their gradients are redistributed to other layouts than those of the results.
  for (Case& each : out) {
    if (each.name == "narrow of blocks" || each.name == "cat of what other axes cut") each.tracked.clear();
  }
  return out;
}

struct Trial {
  const Case* of;
  std::vector<Layout> layouts;
  double ranks = 1;  // ranks that shard the dimension
  Whole want;
  std::vector<std::optional<Whole>> want_gradients;
  Whole grad;
  std::size_t first = 0;  // number of the result; gradients follow
  // Maximum over the ranks.
  std::uint64_t forward = 0;
  std::uint64_t backward = 0;
  std::string error;
};

std::vector<Tensor> tracked_of(const Case& of, const Tensors& inputs) {
  Tensors out;
  for (const std::size_t i : of.tracked) {
    autograd::set_requires_grad(inputs[i], true);
    out.push_back(inputs[i]);
  }
  return out;
}

// Input and element that an element of the result comes from; unset for a fill value.
struct Source {
  std::size_t input = 0;
  std::int64_t element = -1;
  int use = 0;  // number of earlier uses
};
// Calls the operator on inputs whose values encode their positions.
std::vector<Source> sources_of(const Case& of) {
  constexpr std::int64_t kFirst = 1000;  // greater than fill values
  Tensors inputs;
  std::vector<std::int64_t> starts;
  std::int64_t start = kFirst;
  for (const Whole& input : of.inputs) {
    starts.push_back(start);
    Whole places{input.shape, DType::kI64, {}};
    for (std::int64_t i = 0; i < input.shape.numel(); ++i) places.values.push_back(static_cast<double>(start + i));
    start += input.shape.numel();
    inputs.push_back(testing::plain(places));
  }
  const Tensor out = ops::add(of.call(inputs), 0);
  ops::testing::wait_for_work();
  std::vector<Source> sources;
  std::map<std::int64_t, int> uses;
  for (const double value : ops::testing::read(out).values) {
    const auto place = static_cast<std::int64_t>(value);
    Source& source = sources.emplace_back();
    if (place < kFirst) continue;
    while (source.input + 1 < starts.size() && place >= starts[source.input + 1]) ++source.input;
    source.element = place - starts[source.input];
    source.use = uses[place]++;
  }
  return sources;
}

bool holds(const Layout& layout, const Shape& shape, std::int64_t element, Rank rank) {
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    const std::int64_t size = shape[static_cast<std::size_t>(d)];
    if (!layout::index_map(layout, shape, d, rank).local(element % size)) return false;
    element /= size;
  }
  return true;
}

// Bytes that the busiest receiver lacks, counted element by element: of its shard of the result, and in backward, which
// is one call for each use of an input, of its shards of the inputs.
struct Lacking {
  double forward = 0;
  double backward = 0;
};
Lacking lacking(const Trial& trial, const Layout& result) {
  const std::vector<Source> sources = sources_of(*trial.of);
  Lacking most;
  std::map<std::pair<std::size_t, int>, double> back;
  const layout::RankSet ranks = result.mesh().ranks();
  for (std::int64_t r = 0; r < ranks.size(); ++r) {
    double forward = 0;
    std::map<std::pair<std::size_t, int>, double> backward;
    for (std::size_t e = 0; e < sources.size(); ++e) {
      const Source& source = sources[e];
      if (source.element < 0) continue;
      const Layout& layout = trial.layouts[source.input];
      const bool has = holds(layout, trial.of->inputs[source.input].shape, source.element, ranks.at(r));
      const bool gets = holds(result, trial.want.shape, static_cast<std::int64_t>(e), ranks.at(r));
      if (gets && !has) forward += kF64;
      if (has && !gets) backward[{source.input, source.use}] += kF64;
    }
    most.forward = std::max(most.forward, forward);
    for (const auto& [use, nbytes] : backward) back[use] = std::max(back[use], nbytes);
  }
  for (const auto& [use, nbytes] : back) most.backward += nbytes;
  return most;
}

// Computes the expected values on one device.
void compute_wanted(Trial& trial) {
  Tensors inputs;
  for (const Whole& input : trial.of->inputs) inputs.push_back(testing::plain(input));
  const Tensors wanted = tracked_of(*trial.of, inputs);
  const Tensor out = trial.of->call(inputs);
  ops::testing::wait_for_work();
  trial.want = ops::testing::read(out);
  if (wanted.empty()) return;
  trial.grad = values(out.shape());
  for (const Tensor& each : autograd::gradients({out}, wanted, {testing::plain(trial.grad)})) {
    ops::testing::wait_for_work();
    trial.want_gradients.emplace_back(ops::testing::read(each));
  }
}

double ranks_sharding(const std::vector<Layout>& layouts) {
  double most = 1;
  for (const Layout& layout : layouts) {
    double ranks = 1;
    for (int d = 0; d < layout.ndim(); ++d) {
      for (const layout::Sharding& sharding : layout.shardings(d)) ranks *= static_cast<double>(sharding.by.size);
    }
    most = std::max(most, ranks);
  }
  return most;
}

std::vector<Trial> trials_of(const std::vector<Case>& cases) {
  const Mesh line = Mesh::parse("x=4");
  const Mesh grid = Mesh::parse("x=2,y=2");
  std::vector<Trial> out;
  std::size_t number = 0;
  for (const Case& of : cases) {
    for (const std::vector<const char*>& texts : of.layouts) {
      Trial& trial = out.emplace_back();
      trial.of = &of;
      for (const char* text : texts) {
        const bool has_two = std::string_view(text).find(',') != std::string_view::npos;
        trial.layouts.push_back(Layout::parse(has_two ? grid : line, text));
      }
      trial.ranks = ranks_sharding(trial.layouts);
      trial.first = number;
      number += 1 + of.tracked.size();
      compute_wanted(trial);
    }
  }
  return out;
}

// Runs one rank.
void run(Trial& trial, Results& results, std::mutex& mutex) {
  const Case& of = *trial.of;
  Tensors inputs;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) inputs.push_back(placed(of.inputs[i], trial.layouts[i]));
  const Tensors wanted = tracked_of(of, inputs);
  const std::uint64_t before = shard_counts().nbytes;
  Tensor out;
  {
    const RedistributeModeScope scope(of.is_rearranged ? RedistributeMode::kAutomatic : RedistributeMode::kRefused);
    out = of.call(inputs);
    out = redistribute(out, layout::gradient_layout(out.layout()));
  }
  const std::uint64_t between = shard_counts().nbytes;
  Tensors gradients;
  if (!wanted.empty()) {
    const AutoRedistribute automatic;
    gradients = autograd::gradients({out}, wanted, {placed(trial.grad, out.layout())});
  }
  const std::uint64_t after = shard_counts().nbytes;
  results.hand_in(trial.first, out);
  for (std::size_t g = 0; g < gradients.size(); ++g) results.hand_in(trial.first + 1 + g, gradients[g]);
  const std::lock_guard lock(mutex);
  trial.forward = std::max(trial.forward, between - before);
  trial.backward = std::max(trial.backward, after - between);
}

std::string text_of(const Trial& trial) {
  std::string text = trial.of->name;
  for (const Layout& layout : trial.layouts) text += " " + layout.placements_text();
  return text;
}

void check(const Trial& trial, const Results& results) {
  SCOPED_TRACE(text_of(trial));
  ASSERT_EQ(trial.error, "");
  const Layout& layout = results.layout(trial.first);
  EXPECT_EQ(ops::testing::difference(results.whole(trial.first), trial.want, 1e-12, layout), "");
  for (std::size_t g = 0; g < trial.want_gradients.size(); ++g) {
    const std::size_t number = trial.first + 1 + g;
    EXPECT_EQ(ops::testing::difference(results.whole(number), *trial.want_gradients[g], 1e-11, results.layout(number)),
              "")
        << "gradient " << g;
  }
  if (!trial.of->is_rearranged) {
    EXPECT_LE(static_cast<double>(trial.forward), trial.of->forward(trial.ranks)) << "bytes in forward";
    EXPECT_LE(static_cast<double>(trial.backward), trial.of->backward(trial.ranks)) << "bytes in backward";
    return;
  }
  const Lacking most = lacking(trial, layout);
  EXPECT_LE(static_cast<double>(trial.forward), most.forward) << "bytes in forward";
  EXPECT_LE(static_cast<double>(trial.backward), most.backward) << "bytes in backward";
}

void run_all(const std::vector<Case>& cases) {
  std::vector<Trial> trials = trials_of(cases);
  Results results(4);
  std::mutex mutex;
  simulate(4, [&] {
    for (Trial& trial : trials) {
      try {
        run(trial, results, mutex);
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        trial.error = error.message();
      }
    }
  });
  for (const Trial& trial : trials) check(trial, results);
}

TEST(Ceilings, StatisticsOfRowsAndNothingElse) { run_all(statistics_cases()); }
TEST(Ceilings, NetworksShareStatisticsOfRows) { run_all(network_cases()); }
TEST(Ceilings, OnlyWhatChangesItsRankMoves) { run_all(moved_cases()); }

}  // namespace
}  // namespace tessera::shard

// A training step of a model that is sharded over data, weights and tensors: it equals one device, with exactly the
// required collectives, and deliberate faults are detected.
#include <gtest/gtest.h>

#include <map>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/testing/all_ranks.h"
#include "tessera/shard/testing/llama.h"
#include "tessera/shard/trace.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::leaf;
using testing::Llama;
using testing::LlamaFault;
using testing::LlamaSizes;
using testing::placed;
using testing::Results;
using testing::Whole;

// Launches and bytes by kind and axes, "all-gather over tp", as traced by a scope.
struct Sent {
  int steps = 0;
  std::int64_t nbytes = 0;
  friend bool operator==(const Sent&, const Sent&) = default;
  friend void PrintTo(const Sent& sent, std::ostream* out) { *out << sent.steps << " of " << sent.nbytes << " B"; }
};
using SentByKind = std::map<std::string, Sent>;

SentByKind sent_in(const TraceLayouts& trace) {
  SentByKind out;
  for (const TraceEvent& event : trace.events()) {
    if (event.kind == TraceEvent::Kind::kCooperation) {
      Sent& sent = out[event.op + " over " + event.axes];
      ++sent.steps;
      sent.nbytes += event.nbytes;
    }
    if (event.kind != TraceEvent::Kind::kMove) continue;
    for (const layout::Step& step : event.plan->steps) {
      if (!layout::communicates(step.kind)) continue;
      EXPECT_FALSE(event.is_automatic) << event.text();
      std::string axes;
      for (const layout::SubAxis& by : step.axes) {
        axes += (axes.empty() ? "" : ",") + step.before.mesh().axis(by.axis).name;
      }
      Sent& sent = out[std::string(to_string(step.kind)) + " over " + axes];
      ++sent.steps;
      sent.nbytes += step.nbytes;
    }
  }
  return out;
}

template <class F>
SentByKind sent_by(const F& body) {
  const TraceLayouts trace;
  body();
  return sent_in(trace);
}

// A tensor of ones would hide values that are summed twice.
Tensor part(const Mesh& mesh, const Shape& shape, const char* layout) {
  return placed(counted(shape), Layout::parse(mesh, layout));
}

// y = relu(x up) down: up is sharded by columns, down by rows. x [8, 16], hidden 32, in f32 over 4 ranks.
TEST(CollectiveCounts, ColumnThenRowParallel) {
  const Mesh mesh = Mesh::parse("tp=4");
  simulate(4, [&] {
    const Tensor x = leaf(part(mesh, {8, 16}, "R"));
    const Tensor up = leaf(part(mesh, {16, 32}, "S1"));
    const Tensor down = leaf(part(mesh, {32, 16}, "S0"));
    Tensor hidden;
    EXPECT_EQ(sent_by([&] { hidden = ops::relu(ops::mm(x, up)); }), SentByKind());
    Tensor y;
    EXPECT_EQ(sent_by([&] { y = redistribute(ops::mm(hidden, down), Layout::parse(mesh, "R")); }),
              (SentByKind{{"all-reduce over tp", {1, 2 * 3 * 8 * 16 * 4 / 4}}}));
    // Backward of the all-reduce sends nothing; the gradient of x stays partial until a caller reduces it.
    EXPECT_EQ(sent_by([&] { autograd::backward(ops::sum(ops::mul(y, y))); }), SentByKind());
    EXPECT_EQ(autograd::grad(up).layout(), up.layout());
    EXPECT_EQ(autograd::grad(down).layout(), down.layout());
    EXPECT_EQ(autograd::grad(x).layout(), Layout::parse(mesh, "P"));
    EXPECT_EQ(sent_by([&] { (void)redistribute(autograd::grad(x), x.layout()); }),
              (SentByKind{{"all-reduce over tp", {1, 2 * 3 * 8 * 16 * 4 / 4}}}));
  });
}

// Column then row parallel with the sequence sharded outside: the all-reduce becomes an all-gather before and a
// reduce-scatter after.
TEST(CollectiveCounts, SequenceParallel) {
  const Mesh mesh = Mesh::parse("tp=4");
  const std::int64_t three_quarters = 3 * 8 * 16 * 4 / 4;
  simulate(4, [&] {
    const Tensor x = leaf(part(mesh, {8, 16}, "S0"));
    const Tensor up = leaf(part(mesh, {16, 32}, "S1"));
    const Tensor down = leaf(part(mesh, {32, 16}, "S0"));
    Tensor y;
    EXPECT_EQ(
        sent_by([&] {
          const Tensor whole = redistribute(x, Layout::parse(mesh, "R"));
          y = redistribute(ops::mm(ops::relu(ops::mm(whole, up)), down), Layout::parse(mesh, "S0"));
        }),
        (SentByKind{{"all-gather over tp", {1, three_quarters}}, {"reduce-scatter over tp", {1, three_quarters}}}));
    EXPECT_EQ(
        sent_by([&] { autograd::backward(ops::sum(ops::mul(y, y))); }),
        (SentByKind{{"all-gather over tp", {1, three_quarters}}, {"reduce-scatter over tp", {1, three_quarters}}}));
    EXPECT_EQ(autograd::grad(x).layout(), x.layout());
  });
}

// The batch and every weight are sharded over fsdp: an all-gather before use, again in backward with remat, and a
// reduce-scatter of the gradient. Two weights [16, 16] in f32 over 4 ranks.
TEST(CollectiveCounts, FullyShardedDataParallel) {
  const Mesh mesh = Mesh::parse("fsdp=4");
  const std::int64_t chunk = 3 * 16 * 16 * 4 / 4;
  for (const bool remat : {false, true}) {
    simulate(4, [&] {
      const Tensor x = part(mesh, {8, 16}, "S0");
      const Tensor first = leaf(part(mesh, {16, 16}, "S0"));
      const Tensor second = leaf(part(mesh, {16, 16}, "S0"));
      const Layout whole = Layout::parse(mesh, "R");
      Tensor loss;
      EXPECT_EQ(sent_by([&] {
                  const Tensor h = ops::relu(ops::mm(x, redistribute(first, whole, {.remat = remat})));
                  loss = ops::sum(ops::mm(h, redistribute(second, whole, {.remat = remat})));
                }),
                (SentByKind{{"all-gather over fsdp", {2, 2 * chunk}}}));
      SentByKind want{{"reduce-scatter over fsdp", {2, 2 * chunk}}};
      // The first product needs no gradient of the batch, hence its weight only once.
      if (remat) want["all-gather over fsdp"] = {1, chunk};
      EXPECT_EQ(sent_by([&] { autograd::backward(loss); }), want);
      EXPECT_EQ(autograd::grad(first).layout(), first.layout());
      EXPECT_EQ(autograd::grad(second).layout(), second.layout());
    });
  }
}

constexpr std::uint64_t kSeed = 11;

// One step on one device: the loss, and the weights before and after.
struct Step {
  Whole loss;
  std::vector<Whole> weights;
};
Step step_on_one_device(const LlamaSizes& sizes) {
  ops::manual_seed(kSeed);
  const Llama model(sizes, std::nullopt);
  const Tensor tokens = model.numbers();
  const Tensor targets = model.numbers();
  const Tensor loss = model.train(tokens, targets, 0.5);
  ops::testing::wait_for_work();
  Step step{ops::testing::read(loss), {}};
  for (const Tensor& weight : model.parameters()) step.weights.push_back(ops::testing::read(weight));
  return step;
}

// Adds the results of a step on the mesh by number: weights, then the loss.
void step_on_mesh(const LlamaSizes& sizes, const Mesh& mesh, LlamaFault fault, Results& results) {
  ops::manual_seed(kSeed);
  const Llama model(sizes, mesh, fault);
  const Tensor tokens = model.numbers();
  const Tensor targets = model.numbers();
  const Tensor loss = model.train(tokens, targets, 0.5);
  for (std::size_t i = 0; i < model.parameters().size(); ++i) results.hand_in(i, model.parameters()[i]);
  results.hand_in(model.parameters().size(), loss);
}

std::string wrong_step(const Results& results, const Step& want) {
  for (std::size_t i = 0; i < want.weights.size(); ++i) {
    const std::string wrong = results.wrong_with(i, want.weights[i], 1e-10);
    if (!wrong.empty()) return "weight " + std::to_string(i) + ": " + wrong;
  }
  const std::string wrong = results.wrong_with(want.weights.size(), want.loss, 1e-10);
  return wrong.empty() ? wrong : "loss: " + wrong;
}

TEST(TrainingStep, OnAnyMeshIsThatOfOneDevice) {
  const LlamaSizes sizes;
  const Step want = step_on_one_device(sizes);
  for (const char* text :
       {"dp=1,fsdp=1,tp=4", "dp=2,fsdp=2,tp=2", "dp=2,fsdp=3,tp=1", "dp=1,fsdp=4,tp=2", "dp=2:1,fsdp=2:4,tp=2:2"}) {
    const Mesh mesh = Mesh::parse(text);
    Results results(static_cast<int>(mesh.size()));
    simulate(static_cast<int>(mesh.size()), [&] { step_on_mesh(sizes, mesh, LlamaFault::kNone, results); });
    EXPECT_EQ(wrong_step(results, want), "") << text;
  }
}

TEST(TrainingStep, WithAFaultIsNotThatOfOneDevice) {
  const LlamaSizes sizes;
  const Step want = step_on_one_device(sizes);
  const Mesh mesh = Mesh::parse("dp=2,fsdp=2,tp=2");
  for (const LlamaFault fault : {LlamaFault::kSumOverData, LlamaFault::kUnreducedNorm, LlamaFault::kSkippedTpReduce}) {
    Results results(8);
    simulate(8, [&] { step_on_mesh(sizes, mesh, fault, results); });
    EXPECT_NE(wrong_step(results, want), "") << "fault " << static_cast<int>(fault);
  }
}

// The complete model in f64, on a mesh of 2x2x2: x [4, 8, 16]; a rank has 1 row of the batch and half the sequence.
TEST(TrainingStep, SendsExactlyWhatItMust) {
  const LlamaSizes sizes;
  const Mesh mesh = Mesh::parse("dp=2,fsdp=2,tp=2");
  const std::int64_t activation = 4 * 16 * 8;  // the other half of the sequence is received
  // Gathered weights of a rank: norms replicated, matrices sharded over tp.
  const std::int64_t norms = 5 * 16 * 8;
  const std::int64_t matrices = (2 * 16 * 16 + 2 * (4 * 16 * 16 + 3 * 24 * 16)) / 2 * 8;
  const std::int64_t rows = 8 * 8;  // one value per token of the rank
  simulate(8, [&] {
    ops::manual_seed(kSeed);
    const Llama model(sizes, mesh);
    const Tensor tokens = model.numbers();
    const Tensor targets = model.numbers();
    Tensor loss;
    const std::uint64_t start = shard_counts().collectives;
    EXPECT_EQ(sent_by([&] { loss = model.loss(tokens, targets); }),
              (SentByKind{{"all-gather over fsdp", {21, (norms + matrices) / 2}},
                          {"all-gather over tp", {5, 5 * activation}},
                          {"reduce-scatter over tp", {5, 5 * activation}},
                          {"linear_cross_entropy over tp", {1, rows}},
                          {"linear_cross_entropy over tp, 2 statistics in one launch", {1, 2 * rows}}}));
    const std::uint64_t forward = shard_counts().collectives - start;
    EXPECT_EQ(forward, 4U + 5 + 5 + 2);  // weights of a layer are gathered in one launch
    // One reduction per gradient, over all axes along which it is partial; those of a layer in one launch.
    EXPECT_EQ(sent_by([&] { autograd::backward(loss); }),
              (SentByKind{{"all-gather over fsdp", {21, (norms + matrices) / 2}},
                          {"all-gather over tp", {5, 5 * activation}},
                          {"reduce-scatter over tp", {5, 5 * activation}},
                          {"all-reduce over dp,fsdp", {16, 2 * 3 * matrices / 4}},
                          {"all-reduce over dp,fsdp,tp", {5, 2 * 7 * norms / 8}}}));
    EXPECT_EQ(shard_counts().collectives - start - forward, 21U + 5 + 5 + 4 + 3);
  });
}

}  // namespace
}  // namespace tessera::shard

// Propagation: compatible layouts, resulting layouts, conflict messages, and fixes.
#include "tessera/layout/propagate.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/layout/testing/exhaustive_propagation.h"
#include "tessera/layout/testing/rule_values.h"

namespace tessera::layout {
namespace {

constexpr const char* kMm = "mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi";
constexpr const char* kAdd = "add: [i,j],[i,j]->[i,j]; joint+up, joint+up";

struct Input {
  Shape shape;
  const char* layout;
};

// Runs one call and returns the outputs or the conflict as text. Compatible calls are also run on values.
class Calls {
 public:
  explicit Calls(const char* mesh) : mesh_(Mesh::parse(mesh)) {}

  std::string operator()(const FactorRule& rule, const std::vector<Input>& inputs, const std::vector<Shape>& outputs) {
    const std::vector<Operand> operands = read(inputs);
    const Propagation found = propagate(rule, operands, outputs);
    EXPECT_EQ(found.is_match(), found.outputs.size() == outputs.size());
    if (!found.is_match()) return found.conflict;
    std::string text;
    for (const Layout& layout : found.outputs) text += (text.empty() ? "" : " ") + layout.placements_text();
    EXPECT_EQ(testing::check_values(rule, operands, outputs, found.outputs, 1), "") << text;
    return text;
  }
  std::string operator()(const char* rule, const std::vector<Input>& inputs, const std::vector<Shape>& outputs) {
    return (*this)(FactorRule::parse(rule), inputs, outputs);
  }
  std::string view(const Shape& from, const char* layout, const Shape& to) {
    return (*this)(view_rule(from, to), {{from, layout}}, {to});
  }
  std::vector<Operand> read(const std::vector<Input>& inputs) const {
    std::vector<Operand> operands;
    for (const Input& input : inputs) operands.push_back({input.shape, Layout::parse(mesh_, input.layout)});
    return operands;
  }
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }

 private:
  Mesh mesh_;
};

void expect_words(const std::string& text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << "\"" << word << "\" is missing: " << text;
  }
}

TEST(Propagate, MatrixProductRows) {
  Calls calls("tp=4");
  const auto mm = [&](const char* left, const char* right) {
    return calls(kMm, {{{8, 12}, left}, {{12, 16}, right}}, {{8, 16}});
  };
  EXPECT_EQ(mm("R", "R"), "{Replicate()}");
  EXPECT_EQ(mm("S0", "R"), "{Shard(0)}");
  EXPECT_EQ(mm("R", "S1"), "{Shard(1)}");
  EXPECT_EQ(mm("S1", "S0"), "{Partial()}");
  EXPECT_EQ(mm("P", "R"), "{Partial()}");
  EXPECT_EQ(mm("R", "P(avg)"), "{Partial(avg)}");
  expect_words(mm("P", "P"), {"mm: axis tp", "not linear in inputs 0, 1 together"});
  expect_words(mm("P(max)", "R"), {"not monotone in input 0"});
  expect_words(mm("P(prod)", "R"), {"cannot pass through an operator"});
  expect_words(mm("S1", "R"),
               {"axis tp shards dimension 1 of input 0 {Shard(1)}, but not dimension 0 of input 1 {Replicate()}"});
  expect_words(mm("S0", "S1"),
               {"axis tp shards dimension 0 of input 0 {Shard(0)} and shards dimension 1 of input 1 {Shard(1)}"});
  expect_words(mm("S0", "P"), {"axis tp shards dimension 0 of input 0", "is partial (sum) in input 1"});
  Calls batch("tp=2");
  EXPECT_EQ(
      batch("bmm: [b,i,k],[b,k,j]->[b,i,j]; k=sum; multi, multi", {{{4, 2, 3}, "S0"}, {{4, 3, 5}, "S0"}}, {{4, 2, 5}}),
      "{Shard(0)}");
}

TEST(Propagate, UnevenPiecesAndEmptyOnesMatch) {
  Calls calls("tp=4");
  EXPECT_EQ(calls(kMm, {{{5, 7}, "S1"}, {{7, 3}, "S0"}}, {{5, 3}}), "{Partial()}");
  EXPECT_EQ(calls(kMm, {{{5, 7}, "S0"}, {{7, 3}, "R"}}, {{5, 3}}), "{Shard(0)}");
  EXPECT_EQ(calls(kMm, {{{2, 7}, "S0"}, {{7, 3}, "R"}}, {{2, 3}}), "{Shard(0)}");
  EXPECT_EQ(calls(kMm, {{{0, 7}, "S0"}, {{7, 3}, "R"}}, {{0, 3}}), "{Shard(0)}");
  EXPECT_EQ(calls(kMm, {{{5, 7}, "{Shard(1, sizes=3/0/2/2)}"}, {{7, 3}, "{Shard(0, sizes=3/0/2/2)}"}}, {{5, 3}}),
            "{Partial()}");
  expect_words(calls(kMm, {{{5, 7}, "{Shard(1, sizes=3/0/2/2)}"}, {{7, 3}, "S0"}}, {{5, 3}}),
               {"axis tp shards factor k (7) differently in input 0"});
}

TEST(Propagate, SeveralAxesEachDoTheirPart) {
  Calls calls("dp=2,tp=3");
  EXPECT_EQ(calls(kMm, {{{8, 12}, "S0,S1"}, {{12, 16}, "R,S0"}}, {{8, 16}}), "{Shard(0), Partial()}");
  EXPECT_EQ(calls(kMm, {{{8, 12}, "S0,R"}, {{12, 16}, "R,S1"}}, {{8, 16}}), "{Shard(0), Shard(1)}");
  EXPECT_EQ(calls(kMm, {{{8, 12}, "P,S1"}, {{12, 16}, "R,S0"}}, {{8, 16}}), "{Partial(), Partial()}");
  EXPECT_EQ(calls(kMm, {{{8, 12}, "P(avg),S1"}, {{12, 16}, "R,S0"}}, {{8, 16}}), "{Partial(avg), Partial()}");
  EXPECT_EQ(calls(kMm, {{{8, 12}, "P,R"}, {{12, 16}, "R,P"}}, {{8, 16}}), "{Partial(), Partial()}");
}

TEST(Propagate, TheOrderOfCutsMatters) {
  Calls calls("dp=2,tp=3");
  const char* swapped = "{Shard(0, order=1), Shard(0, order=0)}";
  EXPECT_EQ(calls(kAdd, {{{12, 5}, swapped}, {{12, 5}, swapped}}, {{12, 5}}), swapped);
  expect_words(calls(kAdd, {{{12, 5}, swapped}, {{12, 5}, "S0,S0"}}, {{12, 5}}),
               {"shard factor i (12) differently in input 0", "than in input 1 {Shard(0), Shard(0)}"});
}

TEST(Propagate, BlocksThatSayTheSameAsAnOrderMatchIt) {
  Calls calls("dp=2,tp=2");
  // tp splits two blocks first, dp then takes one of them: dp is the major one.
  const char* strided = "{Shard(0, order=1), Shard(0, order=0, blocks=2)}";
  EXPECT_EQ(calls(kAdd, {{{12, 5}, strided}, {{12, 5}, "S0,S0"}}, {{12, 5}}), "{Shard(0), Shard(0)}");
}

TEST(Propagate, SumsFlowThroughJointInputsTogether) {
  Calls calls("tp=2");
  const auto add = [&](const char* left, const char* right) {
    return calls(kAdd, {{{4, 6}, left}, {{4, 6}, right}}, {{4, 6}});
  };
  EXPECT_EQ(add("P", "P"), "{Partial()}");
  EXPECT_EQ(add("P(avg)", "P(avg)"), "{Partial(avg)}");
  EXPECT_EQ(add("P(avg)", "R"), "{Partial(avg)}");
  EXPECT_EQ(add("R", "P(max)"), "{Partial(max)}");
  EXPECT_EQ(add("P(min)", "R"), "{Partial(min)}");
  expect_words(add("P", "R"), {"requires partial sums in all or none of inputs 0, 1"});
  expect_words(add("P", "P(avg)"), {"is partial (sum) in input 0", "is partial (avg) in input 1"});
  expect_words(add("P(max)", "P(max)"), {"max passes through one input at a time"});
  expect_words(add("P", "S0"), {"axis tp is partial (sum) in input 0", "shards dimension 0 of input 1"});
}

TEST(Propagate, AlgebraOfOneInput) {
  Calls calls("tp=2");
  const auto unary = [&](const char* rule, const char* layout) { return calls(rule, {{{6}, layout}}, {{6}}); };
  EXPECT_EQ(unary("neg: [i]->[i]; joint+down", "P(min)"), "{Partial(max)}");
  EXPECT_EQ(unary("neg: [i]->[i]; joint+down", "P(max)"), "{Partial(min)}");
  EXPECT_EQ(unary("neg: [i]->[i]; joint+down", "P"), "{Partial()}");
  EXPECT_EQ(unary("relu: [i]->[i]; none+up", "P(max)"), "{Partial(max)}");
  expect_words(unary("relu: [i]->[i]; none+up", "P"), {"relu: axis tp: input 0 {Partial()}", "relu is not linear"});
  const char* mul = "mul: [i],[i]->[i]; multi, multi";
  EXPECT_EQ(calls(mul, {{{6}, "P"}, {{6}, "R"}}, {{6}}), "{Partial()}");
  EXPECT_EQ(calls(mul, {{{6}, "R"}, {{6}, "P(avg)"}}, {{6}}), "{Partial(avg)}");
}

TEST(Propagate, ReductionsLeavePartials) {
  Calls calls("dp=2,tp=2");
  EXPECT_EQ(calls("sum: [i,k]->[i]; k=sum; joint", {{{6, 8}, "S0,S1"}}, {{6}}), "{Shard(0), Partial()}");
  EXPECT_EQ(calls("amax: [i,k]->[i]; k=max; none+up", {{{6, 8}, "P(max),S1"}}, {{6}}), "{Partial(max), Partial(max)}");
  EXPECT_EQ(calls("prod: [i,k]->[i]; k=prod", {{{6, 8}, "R,S1"}}, {{6}}), "{Replicate(), Partial(prod)}");
  // A minimum of maxima is not a maximum of minima, and a sum of maxima is not a maximum of sums.
  expect_words(calls("amax: [i,k]->[i]; k=max; none+up", {{{6, 8}, "P(min),R"}}, {{6}}),
               {"min does not pass through max over k"});
  expect_words(calls("f: [i,k]->[i]; k=sum; none+up", {{{6, 8}, "P(max),R"}}, {{6}}),
               {"max does not pass through sum over k"});
  EXPECT_EQ(calls("both: [i,k]->[k,i],[i]; k=sum; joint", {{{6, 8}, "S1,S0"}}, {{8, 6}, {6}}),
            "{Shard(0), Shard(1)} {Partial(), Shard(0)}");
}

TEST(Propagate, MixedPartialKindsOfAnOutputAreRefused) {
  Calls calls("dp=2,tp=2");
  expect_words(calls("f: [i,k],[i]->[i]; k=max; none+up, none+down", {{{6, 8}, "R,S1"}, {{6}, "P(max),R"}}, {{6}}),
               {"does not pass through max"});
  expect_words(calls(kAdd, {{{6, 8}, "P(max),R"}, {{6, 8}, "R,P(min)"}}, {{6, 8}}),
               {"output 0 would be partial in max and, along axis tp, in min"});
}

TEST(Propagate, BroadcastInputsAreReplicatedWhereTheyLackTheFactor) {
  Calls calls("dp=2,tp=2");
  const char* bias = "bias: [i,j],[j]->[i,j]; joint, joint";
  EXPECT_EQ(calls(bias, {{{4, 6}, "S0,S1"}, {{6}, "R,S0"}}, {{4, 6}}), "{Shard(0), Shard(1)}");
  expect_words(calls(bias, {{{4, 6}, "S0,S1"}, {{6}, "R,R"}}, {{4, 6}}),
               {"axis tp shards dimension 1 of input 0", "but not dimension 0 of input 1"});
  const char* scale = "mul: [i,j],[i,1]->[i,j]; multi, multi";
  expect_words(calls(scale, {{{4, 6}, "R,R"}, {{4, 1}, "S1,R"}}, {{4, 6}}),
               {"input 1 {Shard(1), Replicate()}", "dimension 1", "of size 1 that is broadcast"});
}

TEST(Propagate, KindsOfFactors) {
  Calls calls("tp=2");
  const auto one = [&](const char* rule, std::int64_t size, const char* layout) {
    return calls(rule, {{{4, size}, layout}}, {{4, size}});
  };
  EXPECT_EQ(one("softmax: [i,s]->[i,s]; s=replicate", 8, "S0"), "{Shard(0)}");
  expect_words(one("softmax: [i,s]->[i,s]; s=replicate", 8, "S1"),
               {"axis tp", "s (8) cannot be sharded", "requires all of it"});
  expect_words(one("flip: [i,p]->[i,p]; p=permuted", 8, "S1"), {"p (8) cannot be sharded", "reorders along it"});
  EXPECT_EQ(one("quantize: [i,b]->[i,b]; b=blocked(4)", 8, "S1"), "{Shard(1)}");
  expect_words(one("quantize: [i,b]->[i,b]; b=blocked(4)", 12, "S1"), {"b (12)", "only in multiples of 4"});
  EXPECT_EQ(one("quantize: [i,b]->[i,b]; b=blocked(4)", 16, "{Shard(1, blocks=2)}"), "{Shard(1, blocks=2)}");
  expect_words(one("quantize: [i,b]->[i,b]; b=blocked(4)", 8, "{Shard(1, blocks=2)}"), {"multiples of 4"});
}

// The result of cooperating ranks is not a function of each shard alone, so layouts are checked without values.
TEST(Propagate, CooperatingFactorsMayBeCutAndLeaveNothingPartial) {
  const Mesh mesh = Mesh::parse("dp=2,tp=2");
  const auto outputs = [&](const char* rule, const Shape& shape, const char* layout, const Shape& out) {
    const Operand input{shape, Layout::parse(mesh, layout)};
    const Shape outs[] = {out};
    const Propagation found = propagate(FactorRule::parse(rule), {&input, 1}, outs);
    return found.is_match() ? found.outputs[0].placements_text() : found.conflict;
  };
  EXPECT_EQ(outputs("softmax: [i,c]->[i,c]; c=cooperate", {4, 7}, "S0,S1", {4, 7}), "{Shard(0), Shard(1)}");
  EXPECT_EQ(outputs("logsumexp: [i,c]->[i]; c=cooperate", {4, 7}, "S0,S1", {4}), "{Shard(0), Replicate()}");
  expect_words(outputs("logsumexp: [i,c]->[i]; c=cooperate", {4, 7}, "S0,P", {4}), {"axis tp", "is not linear"});
}

TEST(Propagate, ViewsSplitAndMergeCuts) {
  Calls calls("dp=2,tp=4");
  EXPECT_EQ(calls.view({8, 6}, "S0,R", {48}), "{Shard(0), Replicate()}");
  EXPECT_EQ(calls.view({6, 8}, "R,S1", {48}), "{Replicate(), Shard(0, blocks=6)}");
  EXPECT_EQ(calls.view({6, 8}, "S0,S1", {48}), "{Shard(0), Shard(0, blocks=3)}");
  EXPECT_EQ(calls.view({48}, "{Replicate(), Shard(0, blocks=6)}", {6, 8}), "{Replicate(), Shard(1)}");
  EXPECT_EQ(calls.view({48}, "{Shard(0), Shard(0, blocks=3)}", {6, 8}), "{Shard(0), Shard(1)}");
  EXPECT_EQ(calls.view({48}, "S0,R", {6, 8}), "{Shard(0), Replicate()}");
  EXPECT_EQ(calls.view({8, 6, 5}, "S0,P(prod)", {8, 30}).substr(0, 5), "view:");
  EXPECT_EQ(calls.view({8, 6, 5}, "S0,P(max)", {8, 30}), "{Shard(0), Partial(max)}");
  EXPECT_EQ(calls.view({8, 6}, "P,S0", {4, 12}), "{Partial(), Shard(0)}");
  EXPECT_EQ(calls.view({1, 8, 1}, "S1,R", {8}), "{Shard(0), Replicate()}");
}

TEST(Propagate, AnAxisThatCutsAcrossTwoFactorsIsReadInParts) {
  Calls calls("tp=8");
  EXPECT_EQ(calls.view({48}, "S0", {2, 24}), "{2:Shard(0)*4:Shard(1)}");
  EXPECT_EQ(calls.view({2, 24}, "{2:Shard(0)*4:Shard(1)}", {48}), "{Shard(0)}");
  EXPECT_EQ(calls.view({48}, "S0", {4, 2, 6}), "{4:Shard(0)*2:Shard(1)}");
}

TEST(Propagate, UnevenPiecesOfTheLastFactorSurviveAView) {
  Calls calls("dp=2,tp=4");
  EXPECT_EQ(calls.view({6, 7}, "R,S1", {42}), "{Replicate(), Shard(0, blocks=6)}");
  EXPECT_EQ(calls.view({42}, "{Replicate(), Shard(0, blocks=6)}", {6, 7}), "{Replicate(), Shard(1)}");
  // Two rows of two each, and one: ceil-chunks of 5 are also ceil-chunks of 10.
  Calls three("tp=3");
  EXPECT_EQ(three.view({5, 2}, "S0", {10}), "{Shard(0)}");
  EXPECT_EQ(three.view({10}, "S0", {5, 2}), "{Shard(0)}");
}

TEST(Propagate, ImpossibleViewsSayWhy) {
  Calls calls("tp=4");
  expect_words(
      calls.view({6, 8}, "S0", {48}),
      {"axis tp shards factor a (6) into 4 uneven shards; merged with b (8) they would not be ceil-chunks of 48"});
  expect_words(calls.view({48}, "S0", {6, 8}),
               {"input 0 {Shard(0)}", "axis tp (4 shards) does not align with a (6) x b (8)"});
  expect_words(calls.view({50}, "S0", {10, 5}), {"axis tp shards 50 = a (10) x b (5) into 4 shards"});
  expect_words(calls.view({12, 8}, "S1", {16, 6}),
               {"axis tp shards factor c", "c (4) cannot be sharded", "no result has it"});
  EXPECT_EQ(calls.view({12, 8}, "S0", {16, 6}), "{Shard(0)}");
  expect_words(calls.view({8, 6}, "{Shard(0, sizes=1/2/3/2)}", {48}), {"explicit sizes"});
}

TEST(Propagate, RefusesWhatIsNotACall) {
  const Mesh mesh = Mesh::parse("tp=4");
  const Mesh other = Mesh::parse("tp=8");
  const FactorRule mm = FactorRule::parse(kMm);
  const std::vector<Shape> out = {{4, 6}};
  const auto call = [&](std::vector<Operand> inputs) { propagate(mm, inputs, out); };
  const Layout r = Layout::replicated(mesh);
  expect_error<InvalidArgument>([&] { call({{{4, 5}, r}, {{5, 6}, Layout()}}); }, {"input 1 has no layout"});
  expect_error<InvalidArgument>(
      [&] {
        call({{{4, 5}, r}, {{5, 6}, Layout::replicated(other)}});
      },
      {"tp=8", "tp=4", "one mesh"});
  expect_error<InvalidArgument>([&] { call({{{4, 5}, r}, {{6, 6}, r}}); }, {"factor k"});
  expect_error<InvalidArgument>([&] { call({{{4, 5}, Layout::create(mesh, {Shard(2)})}, {{5, 6}, r}}); }, {"2"});
  expect_error<InvalidArgument>([&] { propagate(FactorRule::parse("zeros: ->[a]; a:4"), {}, std::vector<Shape>{{4}}); },
                                {"requires at least one input"});
}

TEST(Localize, GivesShapesAndPlaces) {
  const Mesh mesh = Mesh::parse("dp=2,tp=2");
  const std::vector<Shape> shapes = {{6, 5}, {8}};
  const std::vector<Layout> layouts = {Layout::parse(mesh, "S0,S1"),
                                       Layout::parse(mesh, "{Replicate(), Shard(0, blocks=2)}")};
  const auto locals = localize(shapes, layouts, Rank(3));
  ASSERT_EQ(locals.size(), 2U);
  EXPECT_EQ(locals[0].shape, Shape({3, 2}));
  EXPECT_EQ(locals[0].index[0].global(0), 3);
  EXPECT_EQ(locals[0].index[1].global(1), 4);
  EXPECT_EQ(locals[1].shape, Shape({4}));
  EXPECT_EQ(locals[1].index[0].global(2), 6);
  expect_error<InvalidArgument>([&] { localize(shapes, {}, Rank(0)); }, {"got 2 shapes and 0 layouts"});
}

// ---- fixes ----

TEST(Fixes, MoveTheCheaperInput) {
  Calls calls("tp=4");
  Planner planner;
  // The small right side is gathered; the large left side stays.
  const auto inputs = calls.read({{{4096, 512}, "S0"}, {{512, 64}, "S0"}});
  const auto found = propagate_or_fix(FactorRule::parse(kMm), inputs, std::vector<Shape>{{4096, 64}}, planner);
  EXPECT_FALSE(found.is_match());
  expect_words(found.conflict, {"axis tp shards dimension 0 of input 0", "dimension 0 of input 1"});
  ASSERT_EQ(found.fixes.size(), 3U);
  const Fix& best = found.fixes[0];
  EXPECT_EQ(best.inputs[0], inputs[0].layout);
  EXPECT_EQ(best.inputs[1].placements_text(), "{Replicate()}");
  EXPECT_EQ(best.outputs[0].placements_text(), "{Shard(0)}");
  EXPECT_EQ(best.moves[0], nullptr);
  EXPECT_EQ(best.us, best.moves[1]->us);
  EXPECT_EQ(best.nbytes, best.moves[1]->nbytes);
  expect_words(best.text(), {"redistribute input 1 to {Replicate()}: all-gather over tp, 96 KiB, ", " us"});
  EXPECT_LE(best.us, found.fixes[1].us);
  EXPECT_LE(found.fixes[1].us, found.fixes[2].us);
}

TEST(Fixes, ASumMeetsAReplicatedInputByPartition) {
  Calls calls("tp=4");
  Planner planner;
  const auto found = propagate_or_fix(FactorRule::parse(kAdd), calls.read({{{512, 512}, "P"}, {{512, 512}, "R"}}),
                                      std::vector<Shape>{{512, 512}}, planner, 1);
  ASSERT_EQ(found.fixes.size(), 1U);
  EXPECT_EQ(found.fixes[0].inputs[1].placements_text(), "{Partial()}");
  EXPECT_EQ(found.fixes[0].nbytes, 0);
  expect_words(found.fixes[0].text(), {"partition over tp"});
}

TEST(Fixes, NoneAreMadeForAMatchOrWhenNoneAreAskedFor) {
  Calls calls("tp=4");
  Planner planner;
  const FactorRule mm = FactorRule::parse(kMm);
  const std::vector<Shape> out = {{8, 8}};
  EXPECT_TRUE(propagate_or_fix(mm, calls.read({{{8, 8}, "S0"}, {{8, 8}, "R"}}), out, planner).fixes.empty());
  const auto bare = propagate_or_fix(mm, calls.read({{{8, 8}, "S0"}, {{8, 8}, "S0"}}), out, planner, 0);
  EXPECT_TRUE(bare.fixes.empty());
  EXPECT_FALSE(bare.conflict.empty());
  EXPECT_EQ(planner.counts().misses, 0U);
}

TEST(Fixes, AnImpossibleViewIsBroughtToAPossibleOne) {
  Calls calls("tp=4");
  Planner planner;
  const auto found =
      propagate_or_fix(view_rule({6, 8}, {48}), calls.read({{{6, 8}, "S0"}}), std::vector<Shape>{{48}}, planner);
  ASSERT_FALSE(found.fixes.empty());
  EXPECT_EQ(found.fixes[0].inputs[0].placements_text(), "{Shard(1)}");
  EXPECT_EQ(found.fixes[0].outputs[0].placements_text(), "{Shard(0, blocks=6)}");
}

TEST(Fixes, ReuseTheBlocksAndSizesOfAnInput) {
  Calls calls("tp=4");
  Planner planner;
  const auto inputs = calls.read({{{4096, 4096}, "{Shard(0, blocks=2)}"}, {{4096, 4096}, "R"}});
  const auto found = propagate_or_fix(FactorRule::parse(kAdd), inputs, std::vector<Shape>{{4096, 4096}}, planner, 1);
  EXPECT_EQ(found.fixes[0].inputs[0], inputs[0].layout);
  EXPECT_EQ(found.fixes[0].inputs[1], inputs[0].layout);
  EXPECT_EQ(found.fixes[0].nbytes, 0);
}

TEST(Fixes, PartsThatDoNotNestAreFixedByMovingOne) {
  Calls calls("tp=12");
  Planner planner;
  const auto inputs = calls.read({{{24, 24}, "{2:Shard(0)*6:Replicate()}"}, {{24, 24}, "{3:Shard(0)*4:Replicate()}"}});
  const auto found = propagate_or_fix(FactorRule::parse(kAdd), inputs, std::vector<Shape>{{24, 24}}, planner, 2);
  expect_words(found.conflict, {"tp", "do not nest"});
  ASSERT_FALSE(found.fixes.empty());
  EXPECT_FALSE(found.fixes[0].outputs.empty());
}

// Compares every pair of layouts over these words per axis, both ways, with an exhaustive search.
void expect_best(const char* rule_text, const Mesh& mesh, const std::vector<Shape>& shapes, const Shape& out,
                 const std::vector<std::string>& words) {
  const FactorRule rule = FactorRule::parse(rule_text);
  const std::vector<Shape> outputs = {out};
  std::vector<std::string> texts = {""};
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      for (const std::string& word : words) longer.push_back(text + (text.empty() ? "" : ",") + word);
    }
    texts = longer;
  }
  std::vector<Layout> layouts;
  for (const std::string& text : texts) {
    try {
      layouts.push_back(Layout::parse(mesh, text));
    } catch (const InvalidArgument&) {  // mixed reductions
    }
  }
  Planner planner({}, 1 << 20);
  for (const Layout& left : layouts) {
    for (const Layout& right : layouts) {
      const std::vector<Operand> inputs = {{shapes[0], left, 1 << 8}, {shapes[1], right, 1 << 12}};
      const Propagation found = propagate_or_fix(rule, inputs, outputs, planner);
      if (found.is_match()) continue;
      const auto wanted = testing::exhaustive_fixes(rule, inputs, outputs, planner, 3);
      ASSERT_EQ(found.fixes.size(), wanted.size());
      for (std::size_t f = 0; f < wanted.size(); ++f) {
        ASSERT_EQ(found.fixes[f].us, wanted[f].us)
            << left.text() << " " << right.text() << ": " << found.fixes[f].text();
        ASSERT_EQ(found.fixes[f].inputs, wanted[f].inputs) << left.text() << " " << right.text();
      }
    }
  }
}

TEST(Fixes, AreTheCheapestOfAllOnEveryPairOfOneAxis) {
  const std::vector<std::string> all = {"R", "S0", "S1", "P", "P(avg)", "P(max)", "P(min)"};
  expect_best(kMm, Mesh::parse("p=4"), {{8, 6}, {6, 12}}, {8, 12}, all);
  expect_best(kAdd, Mesh::parse("p=4@network"), {{8, 6}, {8, 6}}, {8, 6}, all);
}

TEST(Fixes, AreTheCheapestOfAllOnEveryPairOfTwoAxes) {
  expect_best(kMm, Mesh::parse("p=2@network,q=3"), {{8, 6}, {6, 12}}, {8, 12}, {"R", "S0", "S1", "P"});
  expect_best(kAdd, Mesh::parse("p=2,q=2"), {{8, 6}, {8, 6}}, {8, 6}, {"R", "S0", "S1", "P", "P(avg)"});
}

TEST(Explain, ListsTheCandidatesAndWhyEachWasDropped) {
  Calls calls("tp=4");
  Planner planner;
  const auto inputs = calls.read({{{64, 64}, "S0"}, {{64, 64}, "R"}});
  const auto found = explain(FactorRule::parse("f: [i,s],[s,j]->[i,j]; s=replicate; multi, multi"), inputs,
                             std::vector<Shape>{{64, 64}}, planner);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].dropped, "");
  EXPECT_EQ(found[0].us, 0);
  EXPECT_EQ(found[0].outputs[0].placements_text(), "{Shard(0)}");
  bool has_refused = false;
  for (std::size_t c = 1; c < found.size(); ++c) {
    EXPECT_LE(found[c - 1].us, found[c].us);
    EXPECT_FALSE(found[c].dropped.empty());
    if (found[c].outputs.empty()) {
      has_refused = true;
      expect_words(found[c].dropped, {"axis tp", "factor s (64) cannot be sharded"});
    } else {
      expect_words(found[c].dropped, {"us more than the best"});
    }
  }
  EXPECT_TRUE(has_refused);
}

TEST(Explain, ShowsConflictsOfPartialsAndKeepsToTheMost) {
  Calls calls("dp=2,tp=2");
  Planner planner;
  const FactorRule rule = FactorRule::parse("f: [i,j],[i,j]->[i,j]; none+up, multi");
  const auto inputs = calls.read({{{64, 64}, "P(max),R"}, {{64, 64}, "R,P"}});
  const auto all = explain(rule, inputs, std::vector<Shape>{{64, 64}}, planner, 1000);
  const bool has_mixed = std::ranges::any_of(
      all, [](const Candidate& each) { return each.dropped.find("would be partial in") != std::string::npos; });
  EXPECT_TRUE(has_mixed);
  const auto few = explain(rule, inputs, std::vector<Shape>{{64, 64}}, planner, 5);
  EXPECT_EQ(few.size(), 5U);
}

}  // namespace
}  // namespace tessera::layout

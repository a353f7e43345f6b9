// Factor rules as text and data: parsed rules print the same text, invalid rules throw with a reason, and rules derived
// from shapes have the factors that the shapes share.
#include "tessera/layout/factor_rule.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::layout {
namespace {

std::vector<std::int64_t> sizes(const FactorRule& rule, std::vector<Shape> inputs, std::vector<Shape> outputs) {
  return rule.sizes(inputs, outputs);
}

void expect_refused(std::string_view text, std::initializer_list<std::string_view> words) {
  expect_error<InvalidArgument>([&] { FactorRule::parse(text); }, words);
}

TEST(FactorRule, PrintsWhatItReads) {
  for (const std::string_view text : {
           "mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi",
           "aten.add-1: [i,j],[1,j]->[i,j]; joint, joint",
           "relu: [i]->[i]; none+up",
           "neg: [i]->[i]; joint+down",
           "amax: [i,k]->[i]; k=max; none+up",
           "softmax: [i,s]->[i,s]; s=replicate",
           "quantize: [i,b]->[i,b]; b=blocked(32)",
           "flip: [i,p]->[i,p]; p=permuted",
           "logsumexp: [i,c]->[i]; c=cooperate",
           "view: [(a b),c]->[a,(b c)]; a:4, c:6",
           "scale: []->[]",
           "zeros: ->[a,b]; a:4, b:3",
           "check: [i]->",
           "split: [i,(h d)]->[i,h,d],[i]; h=sum, h:4, d=sum",
       }) {
    const FactorRule rule = FactorRule::parse(text);
    EXPECT_EQ(rule.text(), text);
    EXPECT_EQ(FactorRule::parse(rule.text()), rule);
  }
}

TEST(FactorRule, ReadsSpaceAndOneFactorInParentheses) {
  EXPECT_EQ(FactorRule::parse("  mm :[ i , k ] , [ k,(j) ] -> [i,j] ;k = sum; multi,multi ").text(),
            "mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi");
  EXPECT_EQ(FactorRule::parse("v: [a,()]->[a]").text(), "v: [a,1]->[a]");
}

TEST(FactorRule, KnowsWhatTheTextSays) {
  const FactorRule rule = FactorRule::parse("f: [(a b),1],[b]->[a,b]; b=blocked(4), a:3; multi+up, none+down");
  ASSERT_EQ(rule.factors.size(), 2U);
  EXPECT_EQ(rule.factors[0], (Factor{.name = "a", .size = 3}));
  EXPECT_EQ(rule.factors[1], (Factor{.name = "b", .kind = FactorKind::kBlocked, .block = 4}));
  EXPECT_EQ(rule.inputs[0], (OperandFactors{{0, 1}, {}}));
  EXPECT_EQ(rule.inputs[1], (OperandFactors{{1}}));
  EXPECT_EQ(rule.outputs[0], (OperandFactors{{0}, {1}}));
  EXPECT_EQ(rule.algebra[0], (Algebra{Linearity::kMulti, Monotony::kUp}));
  EXPECT_EQ(rule.algebra[1], (Algebra{Linearity::kNone, Monotony::kDown}));
}

TEST(FactorRule, RefusesTextNamingThePlace) {
  expect_refused("", {"the name of the operator", "at the end"});
  expect_refused("mm [i]->[i]", {"':'", "position 3"});
  expect_refused("mm: [i->[i]", {"']'"});
  expect_refused("mm: [i]->[i] x", {"';' or the end"});
  expect_refused("mm: [i]->[i]; i=sun", {"did you mean 'sum'"});
  expect_refused("mm: [i]->[i]; q=sum", {"a factor of an operand"});
  expect_refused("mm: [i]->[i]; mutli", {"none, joint or multi", "did you mean 'multi'"});
  expect_refused("mm: [i]->[i]; none+upp", {"up or down"});
  expect_refused("mm: [i]->[i]; joint; joint", {"at most one list of algebras"});
  expect_refused("mm: [i]->[i]; i:99999999999999999999", {"a number"});
  expect_refused("mm: [i]->[i]; i:0", {"at least 1"});
  expect_refused("mm: [(i ]->[i]", {"a factor or ')'"});
}

TEST(FactorRule, RefusesWhatMakesNoSense) {
  expect_refused("trace: [i,i]->[]; i=sum", {"appears twice in input 0"});
  expect_refused("sum: [i,k]->[i]", {"k is missing from output 0", "k=sum", "k=replicate"});
  expect_refused("expand: [i]->[i,j]", {"factor j, which no input has", "j:n"});
  expect_refused("mean: [i,k]->[i]; k=avg", {"avg", "divide by the global size"});
  expect_refused("f: [i,k,l]->[i]; k=sum, l=max", {"sum over k", "max over l"});
  expect_refused("f: [i,k]->[i]; k=max; joint", {"input 0", "linear", "max over k"});
  expect_refused("f: [i],[i]->[i]; joint", {"one algebra per input (2), got 1"});
  expect_refused("f: [i]->[i]; i=blocked(0)", {"block of factor i must be at least 1, got 0"});
  expect_refused("f: ->[k]; k=sum, k:4", {"reduced, but no input has it"});
  FactorRule rule{.name = "f", .factors = {{.name = "a"}}, .inputs = {}, .outputs = {}, .algebra = {}};
  expect_error<InvalidArgument>([&] { rule.check(); }, {"factor a must appear in an operand"});
  rule.inputs = {{{1}}};
  expect_error<InvalidArgument>([&] { rule.check(); }, {"must be in [0, 1), got 1"});
  rule.factors = {{.name = "a"}, {.name = "a"}};
  expect_error<InvalidArgument>([&] { rule.check(); }, {"factor names must be distinct, got a twice"});
  rule.factors = {{.name = "4"}};
  expect_error<InvalidArgument>([&] { rule.check(); },
                                {"factor name must be a letter, then letters and digits, got '4'"});
}

TEST(FactorRule, SizesComeFromShapes) {
  const FactorRule mm = FactorRule::parse("mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi");
  EXPECT_EQ(sizes(mm, {{4, 5}, {5, 6}}, {{4, 6}}), (std::vector<std::int64_t>{4, 5, 6}));
  const FactorRule view = FactorRule::parse("v: [(a b),c]->[a,(b c)]; b:3");
  EXPECT_EQ(sizes(view, {{12, 5}}, {{4, 15}}), (std::vector<std::int64_t>{4, 3, 5}));
  const FactorRule late = FactorRule::parse("v: [(a b)],[(b c)],[c]->[a,b,c]");
  EXPECT_EQ(sizes(late, {{12}, {15}, {5}}, {{4, 3, 5}}), (std::vector<std::int64_t>{4, 3, 5}));
}

TEST(FactorRule, SizesRefuseShapesThatDisagree) {
  const FactorRule mm = FactorRule::parse("mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi");
  expect_error<InvalidArgument>(
      [&] {
        sizes(mm, {{4, 5}, {7, 6}}, {{4, 6}});
      },
      {"factor k is 5 in dimension 1 of input 0 and 7 in dimension 0 of input 1"});
  expect_error<InvalidArgument>([&] { sizes(mm, {{4, 5}, {5, 6}}, {{4, 8}}); }, {"factor j", "of output 0"});
  expect_error<InvalidArgument>([&] { sizes(mm, {{4, 5}}, {{4, 6}}); }, {"requires 2 inputs, got 1"});
  expect_error<InvalidArgument>(
      [&] {
        sizes(mm, {{4, 5, 1}, {5, 6}}, {{4, 6}});
      },
      {"input 0 must have 2 dimensions, got shape [4, 5, 1]"});
  const FactorRule view = FactorRule::parse("v: [(a b)]->[a,b]; b:3");
  expect_error<InvalidArgument>(
      [&] {
        sizes(view, {{13}}, {{4, 3}});
      },
      {"dimension 0 of input 0 is 13", "not a product of factors", "b (3)"});
  expect_error<InvalidArgument>([&] { sizes(view, {{12}}, {{4, 4}}); }, {"factor b is 3 by the rule and 4"});
  const FactorRule bias = FactorRule::parse("f: [i,1]->[i]");
  expect_error<InvalidArgument>([&] { sizes(bias, {{4, 2}}, {{4}}); }, {"dimension 1 of input 0 is 2", "written 1"});
  const FactorRule open = FactorRule::parse("f: [(a b)]->[(a b)]");
  expect_error<InvalidArgument>([&] { sizes(open, {{4}}, {{4}}); }, {"do not determine the size of factor a", "a:n"});
}

TEST(FactorRule, PointwiseBroadcasts) {
  const std::vector<Shape> shapes = {{4, 1, 6}, {5, 6}, {}, {1, 1}};
  const FactorRule rule = pointwise_rule("add", shapes, {Linearity::kJoint, Monotony::kUp});
  rule.check();
  EXPECT_EQ(rule.text(), "add: [d0,1,d2],[d1,d2],[],[1,1]->[d0,d1,d2]; joint+up, joint+up, joint+up, joint+up");
  EXPECT_EQ(sizes(rule, shapes, {{4, 5, 6}}), (std::vector<std::int64_t>{4, 5, 6}));
  const std::vector<Shape> ones = {{1, 3}, {1, 3}};
  EXPECT_EQ(pointwise_rule("mul", ones).text(), "mul: [d0,d1],[d0,d1]->[d0,d1]");
  const std::vector<Shape> misfits = {{2}, {3}};
  expect_error<InvalidArgument>([&] { pointwise_rule("add", misfits); }, {"[2]", "[3]"});
  expect_error<InvalidArgument>([&] { pointwise_rule("add", {}); }, {"at least one input"});
}

// Returns the text of the rule without its algebra, which is the same for all views.
std::string view_text(const Shape& from, const Shape& to) {
  const FactorRule rule = view_rule(from, to);
  rule.check();
  const std::vector<Shape> inputs = {from};
  const std::vector<Shape> outputs = {to};
  static_cast<void>(rule.sizes(inputs, outputs));
  const std::string text = rule.text();
  EXPECT_TRUE(text.ends_with("; joint+up")) << text;
  return text.substr(0, text.size() - std::string_view("; joint+up").size());
}

TEST(ViewRule, FlattensAndUnflattens) {
  EXPECT_EQ(view_text({4, 6}, {24}), "view: [a,b]->[(a b)]; a:4, b:6");
  EXPECT_EQ(view_text({24}, {4, 6}), "view: [(a b)]->[a,b]; a:4, b:6");
  EXPECT_EQ(view_text({4, 6, 5}, {24, 5}), "view: [a,b,c]->[(a b),c]; a:4, b:6, c:5");
  EXPECT_EQ(view_text({4, 6, 5}, {4, 30}), "view: [a,b,c]->[a,(b c)]; a:4, b:6, c:5");
  EXPECT_EQ(view_text({12, 8}, {6, 16}), "view: [(a b),c]->[a,(b c)]; a:6, b:2, c:8");
  EXPECT_EQ(view_text({7, 3}, {7, 3}), "view: [a,b]->[a,b]; a:7, b:3");
}

TEST(ViewRule, MeetsAtCommonDivisorsAndKeepsTheRestWhole) {
  EXPECT_EQ(view_text({12, 8}, {16, 6}),
            "view: [(a b),(c d)]->[(a e),(f d)]; a:4, b=replicate, b:3, c=replicate, c:4, d:2, e=replicate, e:4, "
            "f=replicate, f:3");
  EXPECT_EQ(view_text({3, 4}, {4, 3}),
            "view: [a,b]->[c,d]; a=replicate, a:3, b=replicate, b:4, c=replicate, c:4, d=replicate, d:3");
  EXPECT_EQ(view_text({3, 4, 5}, {4, 15}),
            "view: [a,b,c]->[d,(e c)]; a=replicate, a:3, b=replicate, b:4, c:5, d=replicate, d:4, e=replicate, e:3");
  // The shapes meet again after a mismatch.
  EXPECT_EQ(view_text({3, 2, 7, 9}, {2, 3, 63}),
            "view: [a,b,c,d]->[e,f,(c d)]; a=replicate, a:3, b=replicate, b:2, c:7, d:9, e=replicate, e:2, "
            "f=replicate, f:3");
}

TEST(ViewRule, SizeOneDimensionsHaveNoFactor) {
  EXPECT_EQ(view_text({1, 8, 1}, {8}), "view: [1,a,1]->[a]; a:8");
  EXPECT_EQ(view_text({8}, {2, 1, 4, 1}), "view: [(a b)]->[a,1,b,1]; a:2, b:4");
  EXPECT_EQ(view_text({}, {1, 1}), "view: []->[1,1]");
  EXPECT_EQ(view_text({}, {}), "view: []->[]");
  EXPECT_EQ(view_text({1}, {}), "view: [1]->[]");
}

TEST(ViewRule, WithoutElementsEqualEndsAreTheSame) {
  EXPECT_EQ(view_text({0, 8}, {0}), "view: [a,b]->[a]; b=replicate, b:8");
  EXPECT_EQ(view_text({4, 0, 8}, {4, 3, 0, 8}), "view: [a,b,c]->[a,d,b,c]; a:4, c:8, d=replicate, d:3");
  EXPECT_EQ(view_text({0, 3}, {5, 0}),
            "view: [a,b]->[c,d]; a=replicate, b=replicate, b:3, c=replicate, c:5, "
            "d=replicate");
}

TEST(ViewRule, RefusesOtherElementCounts) {
  expect_error<InvalidArgument>(
      [] {
        view_rule({4, 6}, {25});
      },
      {"shape [25] must have as many elements as [4, 6] (24), got 25"});
}

TEST(ViewRule, EveryDimensionIsTheProductOfItsFactors) {
  const std::vector<std::vector<std::int64_t>> shapes = {{72},       {8, 9},    {9, 8},       {2, 36},       {36, 2},
                                                         {6, 12},    {12, 6},   {3, 4, 6},    {4, 18},       {18, 4},
                                                         {2, 3, 12}, {3, 24},   {2, 2, 2, 9}, {1, 72, 1},    {24, 3},
                                                         {4, 3, 6},  {3, 3, 8}, {6, 2, 6},    {2, 2, 18, 1}, {9, 2, 4}};
  for (const auto& from : shapes) {
    for (const auto& to : shapes) {
      static_cast<void>(view_text(Shape(from), Shape(to)));
      const FactorRule rule = view_rule(Shape(from), Shape(to));
      std::int64_t whole = 1;
      for (const DimFactors& dim : rule.inputs[0]) {
        for (const std::int32_t f : dim) whole *= rule.factors[static_cast<std::size_t>(f)].size;
      }
      EXPECT_EQ(whole, 72) << rule.text();
    }
  }
}

}  // namespace
}  // namespace tessera::layout

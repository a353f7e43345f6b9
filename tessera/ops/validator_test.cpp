// Runs the validator over every operator with a rule, and tests the validator itself: correct rules pass in all
// combinations, and typical wrong rules are reported.
#include "tessera/ops/testing/validator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "tessera/ops/testing/validator_operators.h"
#include "tessera/ops/testing/validator_subject.h"

namespace tessera::ops::testing {
namespace {

using namespace planted;  // NOLINT(google-build-using-namespace): operators of this test alone

using Samples = std::function<std::vector<OpSample>(Random&)>;

// Matrices whose shapes shard evenly, unevenly, and over more ranks than there are rows.
Samples matrices(int inputs, double low, double high) {
  return [=](Random& random) {
    std::vector<OpSample> out;
    for (const Shape& shape : {Shape{4, 6}, Shape{5, 3}}) {
      OpSample& sample = out.emplace_back();
      for (int i = 0; i < inputs; ++i) sample.inputs.push_back(uniform(random, shape, low, high));
      sample.attributes = Attributes(PlainAttributes{});
    }
    return out;
  };
}

OpCaseInfo plain_case(const std::string& op, Samples samples) {
  return {.op = op, .samples = std::move(samples), .why_no_reference = "an operator of this test"};
}

OpCaseInfo matrix_case(const std::string& op, int inputs = 1) { return plain_case(op, matrices(inputs, -2, 3)); }

OpCaseInfo product_case(const std::string& op, bool bias = false) {
  return plain_case(op, [bias](Random& random) -> std::vector<OpSample> {
    OpSample sample{.inputs = {normal(random, {4, 5}), normal(random, {5, 3})}};
    if (bias) sample.inputs.push_back(normal(random, {3}));
    sample.attributes = Attributes(PlainAttributes{});
    return {sample};
  });
}

OpCaseInfo shaped_case(const std::string& op, const Shape& from, const Shape& to) {
  return plain_case(op, [=](Random& random) -> std::vector<OpSample> {
    OpSample sample{.inputs = {normal(random, from)}, .attributes = Attributes(PlainAttributes{1, to, {}})};
    if (from.size() == 0) sample.inputs.clear();
    return {sample};
  });
}

std::string first_wrong(const Validation& validation) {
  return validation.wrong.empty() ? std::string() : validation.wrong[0];
}

// ---- correct rules ----

constexpr char kAddRule[] = "add: [i,j],[i,j]->[i,j]; joint+up, joint+up";
constexpr char kMulRule[] = "mul: [i,j],[i,j]->[i,j]; multi, multi";
constexpr char kPlainRule[] = "plain: [i,j]->[i,j]";
constexpr char kSumRule[] = "sum: [i,k]->[i]; k=sum; joint";
constexpr char kProductRule[] = "mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi";
constexpr char kRowsRule[] = "softmax: [i,k]->[i,k]; k=replicate";
constexpr char kCooperateRule[] = "softmax: [i,k]->[i,k]; k=cooperate";

const tensor::Operator kAdd = tensor::register_op({.name = "right.add",
                                                   .inputs = "a, b",
                                                   .infer = infer_like_first,
                                                   .host = kernel<each_pair<plus>>,
                                                   .rule = rule<kAddRule>});
const tensor::Operator kMul = tensor::register_op({.name = "right.mul",
                                                   .inputs = "a, b",
                                                   .infer = infer_like_first,
                                                   .host = kernel<each_pair<times>>,
                                                   .rule = rule<kMulRule>});
const tensor::Operator kAbs = tensor::register_op({.name = "right.abs",
                                                   .inputs = "x",
                                                   .infer = infer_like_first,
                                                   .host = kernel<each<absolute>>,
                                                   .rule = rule<kPlainRule>});
const tensor::Operator kSum = tensor::register_op({.name = "right.sum",
                                                   .inputs = "x",
                                                   .infer = infer_rows<DType::kF64>,
                                                   .host = kernel<fold_rows<plus, 0, same>>,
                                                   .rule = rule<kSumRule>});
const tensor::Operator kProduct = tensor::register_op({.name = "right.mm",
                                                       .inputs = "a, b",
                                                       .infer = infer_product,
                                                       .host = kernel<product>,
                                                       .rule = rule<kProductRule>});
const tensor::Operator kSoftmax = tensor::register_op({.name = "right.softmax",
                                                       .inputs = "x",
                                                       .infer = infer_like_first,
                                                       .host = kernel<softmax_rows>,
                                                       .rule = rule<kRowsRule>});
const tensor::Operator kTril = tensor::register_op({.name = "right.tril",
                                                    .inputs = "x",
                                                    .infer = infer_like_first,
                                                    .host = kernel<lower_triangle>,
                                                    .rule = rule<kPlainRule>,
                                                    .localize = with_index});
const tensor::Operator kView = tensor::register_op(
    {.name = "right.view",
     .inputs = "x",
     .infer = infer_attribute_shape,
     .host = kernel<copy_all>,
     .rule =
         [](const Call& call) { return layout::view_rule(call.inputs[0].shape(), call.as<PlainAttributes>().shape); },
     .localize = with_local_shape});
const tensor::Operator kIota = tensor::register_op(
    {.name = "right.iota", .inputs = "", .infer = infer_attribute_shape, .host = kernel<iota>, .localize = with_index});

Tensor row_sums_of_exp(const Tensor& x) {
  wait_for_work();
  const Whole rows = read(x);
  Whole sums{Shape({rows.shape[0]}), DType::kF64, std::vector<double>(static_cast<std::size_t>(rows.shape[0]), 0)};
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    sums.values[i / static_cast<std::size_t>(rows.shape[1])] += std::exp(rows.values[i]);
  }
  return to_tensor(sums);
}
std::vector<Tensor> divided_by(const Tensor& x, const Tensor& sums) {
  wait_for_work();
  Whole rows = read(x);
  const Whole by = read(sums);
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    rows.values[i] = std::exp(rows.values[i]) / by.values[i / static_cast<std::size_t>(rows.shape[1])];
  }
  return {to_tensor(rows)};
}
std::vector<Tensor> statistics(const tensor::CooperativeCall& call) { return {row_sums_of_exp(call.local.inputs[0])}; }

const tensor::Cooperation kTogether = {{{statistics, {Reduction::kSum}}}, [](const tensor::CooperativeCall& call) {
                                         return divided_by(call.local.inputs[0], call.reduced[0]);
                                       }};
const tensor::Operator kTogetherSoftmax = tensor::register_op({.name = "right.softmax_together",
                                                               .inputs = "x",
                                                               .infer = infer_like_first,
                                                               .host = kernel<softmax_rows>,
                                                               .rule = rule<kCooperateRule>,
                                                               .cooperation = &kTogether});

TEST(Validator, PassesRulesThatAreRight) {
  const OpCaseInfo cases[] = {matrix_case("right.add", 2),
                              matrix_case("right.mul", 2),
                              matrix_case("right.abs"),
                              matrix_case("right.sum"),
                              product_case("right.mm"),
                              matrix_case("right.softmax"),
                              matrix_case("right.softmax_together"),
                              matrix_case("right.tril"),
                              shaped_case("right.view", {4, 6}, {2, 2, 3, 2}),
                              shaped_case("right.view", {4, 6}, {24}),
                              shaped_case("right.iota", {}, {6})};
  for (const OpCaseInfo& info : cases) {
    const Validation found = validate(info);
    EXPECT_EQ(first_wrong(found), "") << info.op;
    EXPECT_GT(found.tried, 10) << info.op;
    EXPECT_GT(found.even, 0) << info.op;
    EXPECT_GT(found.empty, 0) << info.op;
    EXPECT_EQ(found.vacuous, 0) << info.op;
  }
}

TEST(Validator, AsksEveryCombinationThatMayBeAdmitted) {
  for (const OpCaseInfo& info : {matrix_case("right.add", 2), product_case("right.mm"), matrix_case("right.sum")}) {
    Random random(1);
    const auto samples = info.samples(random);
    const Subject subject(info, samples[0]);
    const layout::Mesh mesh = layout::Mesh::parse("x=2,y=2");
    std::set<std::string> composed;
    for (const Combination& each : admitted_combinations(subject, mesh, 100000, random).list)
      composed.insert(each.text());
    const auto all = all_combinations(subject, mesh);
    EXPECT_GT(all.size(), 10U);
    for (const Combination& each : all) EXPECT_TRUE(composed.contains(each.text())) << info.op << " " << each.text();
  }
}

// ---- wrong rules ----

struct Wrong {
  OpCaseInfo info;
  std::string seen_in;  // substring of the report
};

constexpr char kWrongAbsRule[] = "abs: [i,j]->[i,j]; joint";
constexpr char kWrongArgmaxRule[] = "argmax: [i,k]->[i]; k=replicate; none+up";
constexpr char kWrongNormOfSumsRule[] = "norm: [i,k]->[i]; k=replicate; joint";
constexpr char kWrongNormRule[] = "norm: [i,k]->[i]; k=sum";
constexpr char kWrongAnyRule[] = "any: [i,k]->[i]; k=sum";
constexpr char kMeanRule[] = "mean: [i,k]->[i]; k=sum";
constexpr char kWrongViewRule[] = "view: [(e f),c]->[(c e),f]; e=replicate, f=replicate, e:2";
constexpr char kWrongNegativeRule[] = "neg: [i,j]->[i,j]; joint+up";
constexpr char kProdRule[] = "prod: [i,k]->[i]; k=prod";
constexpr char kWrongMulRule[] = "mul: [i,j],[i,j]->[i,j]; joint, joint";
constexpr char kWrongMulMaxRule[] = "mul: [i,j],[i,j]->[i,j]; multi+up, multi";
constexpr char kWrongLogRule[] = "log: [i,j]->[i,j]; none+up";
constexpr char kWrongBiasRule[] = "addmm: [i,k],[k,j],[j]->[i,j]; k=sum";

const bool kHasWrong = [] {
  using tensor::register_op;
  const auto infer = infer_like_first;
  const auto rows = infer_rows<DType::kF64>;
  register_op({.name = "wrong.abs",
               .inputs = "x",
               .infer = infer,
               .host = kernel<each<absolute>>,
               .rule = rule<kWrongAbsRule>});
  register_op({.name = "wrong.argmax",
               .inputs = "x",
               .infer = infer_rows<DType::kI64>,
               .host = kernel<argmax_rows>,
               .rule = rule<kWrongArgmaxRule>});
  register_op({.name = "wrong.norm_of_sums",
               .inputs = "x",
               .infer = rows,
               .host = kernel<fold_rows<plus_square, 0, root>>,
               .rule = rule<kWrongNormOfSumsRule>});
  register_op({.name = "wrong.norm",
               .inputs = "x",
               .infer = rows,
               .host = kernel<fold_rows<plus_square, 0, root>>,
               .rule = rule<kWrongNormRule>});
  register_op({.name = "wrong.any",
               .inputs = "x",
               .infer = infer_rows<DType::kBool>,
               .host = kernel<fold_rows<or_positive, 0, same>>,
               .rule = rule<kWrongAnyRule>});
  register_op({.name = "wrong.mean",
               .inputs = "x",
               .infer = rows,
               .host = kernel<mean_rows>,
               .rule = rule<kMeanRule>,
               .localize = with_share_of_equal_pieces});
  register_op({.name = "wrong.view",
               .inputs = "x",
               .infer = infer_attribute_shape,
               .host = kernel<copy_all>,
               .rule = rule<kWrongViewRule>,
               .localize = with_local_shape});
  register_op({.name = "wrong.neg",
               .inputs = "x",
               .infer = infer,
               .host = kernel<each<negative>>,
               .rule = rule<kWrongNegativeRule>});
  register_op(
      {.name = "wrong.softmax", .inputs = "x", .infer = infer, .host = kernel<softmax_rows>, .rule = rule<kPlainRule>});
  register_op({.name = "wrong.prod",
               .inputs = "x",
               .infer = rows,
               .host = kernel<prod_rows_nothing_is_0>,
               .rule = rule<kProdRule>});
  register_op(
      {.name = "wrong.tril", .inputs = "x", .infer = infer, .host = kernel<lower_triangle>, .rule = rule<kPlainRule>});
  register_op({.name = "wrong.mul",
               .inputs = "a, b",
               .infer = infer,
               .host = kernel<each_pair<times>>,
               .rule = rule<kWrongMulRule>});
  register_op({.name = "wrong.mul_max",
               .inputs = "a, b",
               .infer = infer,
               .host = kernel<each_pair<times>>,
               .rule = rule<kWrongMulMaxRule>});
  register_op({.name = "wrong.log",
               .inputs = "x",
               .infer = infer,
               .host = kernel<each<logarithm>>,
               .rule = rule<kWrongLogRule>});
  register_op({.name = "wrong.addmm",
               .inputs = "a, b, bias",
               .infer = infer_product,
               .host = kernel<product>,
               .rule = rule<kWrongBiasRule>});
  register_op({.name = "wrong.iota",
               .inputs = "",
               .infer = infer_attribute_shape,
               .host = kernel<iota>,
               .localize = with_local_shape});
  static const tensor::Cooperation kAlone = {
      {{statistics, {Reduction::kSum}}}, [](const tensor::CooperativeCall& call) {
        return divided_by(call.local.inputs[0], row_sums_of_exp(call.local.inputs[0]));
      }};
  register_op({.name = "wrong.softmax_together",
               .inputs = "x",
               .infer = infer,
               .host = kernel<softmax_rows>,
               .rule = rule<kCooperateRule>,
               .cooperation = &kAlone});
  return true;
}();

TEST(Validator, ReportsRulesThatAreWrong) {
  const Wrong all[] = {
      {matrix_case("wrong.abs"), "Partial()"},
      {matrix_case("wrong.argmax"), "Partial(m"},
      {matrix_case("wrong.norm_of_sums"), "Partial()"},
      {matrix_case("wrong.norm"), "Shard(1)"},
      {matrix_case("wrong.any"), "of bool is invalid"},
      {matrix_case("wrong.mean"), "Shard(1"},
      {shaped_case("wrong.view", {12, 8}, {16, 6}), "Shard(1)"},
      {matrix_case("wrong.neg"), "Partial(m"},
      {matrix_case("wrong.softmax"), "Shard(1)"},
      {matrix_case("wrong.prod"), "Shard(1"},
      {matrix_case("wrong.tril"), "Shard(0)"},
      {matrix_case("wrong.mul", 2), "Partial("},
      {plain_case("wrong.mul_max", matrices(2, 0.5, 3)), "Partial(m"},
      {plain_case("wrong.log", matrices(1, 0.5, 3)), "Partial(max)"},
      {product_case("wrong.addmm", true), "Shard(1)"},
      {shaped_case("wrong.iota", {}, {7}), "Shard(0)"},
      {matrix_case("wrong.softmax_together"), "Shard(1)"},
  };
  for (const Wrong& each : all) {
    const std::string report = first_wrong(validate(each.info));
    EXPECT_NE(report.find(each.seen_in), std::string::npos) << each.info.op << ": " << report;
    EXPECT_NE(report.find(each.info.op), std::string::npos) << each.info.op << ": " << report;
  }
}

// ---- layouts that a rule could admit ----

constexpr char kNarrowRule[] = "add: [i,j],[i,j]->[i,j]";

TEST(Validator, FindsWhatCouldBeAdmitted) {
  tensor::register_op({.name = "narrow.add",
                       .inputs = "a, b",
                       .infer = infer_like_first,
                       .host = kernel<each_pair<plus>>,
                       .rule = rule<kNarrowRule>});
  const std::vector<std::string> found = find_missing(matrix_case("narrow.add", 2));
  const auto has = [&](const std::string& what) {
    return std::ranges::any_of(found, [&](const std::string& line) { return line.find(what) != std::string::npos; });
  };
  EXPECT_TRUE(has("{Partial()}, {Partial()} -> {Partial()}"));
  EXPECT_TRUE(has("{Partial(max)}, {Replicate()} -> {Partial(max)}"));
  EXPECT_FALSE(has("{Partial()}, {Replicate()}"));
  EXPECT_FALSE(has("{Shard(0)}, {Shard(1)}"));
  EXPECT_TRUE(find_missing(matrix_case("right.softmax")).empty());
}

// ---- gradients ----

Tensor plain_call(const char* op, const std::vector<Tensor>& inputs) {
  const PlainAttributes attributes;
  Tensor out;
  tensor::call_into({tensor::find_op(op), inputs, attributes, std::span(&out, 1)});
  return out;
}

void mul_gradient(tensor::GradientCall& call) {
  call.set(0, plain_call("right.mul", {call.grad(), call.input(1)}));
  call.set(1, plain_call("right.mul", {call.grad(), call.input(0)}));
}

TEST(ValidatorBackward, PassesGradientsThatFollowTheirLayouts) {
  tensor::register_op({.name = "right.differentiable_mul",
                       .inputs = "a, b",
                       .infer = infer_like_first,
                       .host = kernel<each_pair<times>>,
                       .gradient = mul_gradient,
                       .saves = "a, b",
                       .rule = rule<kMulRule>});
  const Validation found = validate_backward(matrix_case("right.differentiable_mul", 2));
  EXPECT_EQ(first_wrong(found), "");
  EXPECT_GT(found.tried, 10);
}

// The gradient of a value times the number of rows, taken from a local tensor: correct only on a single rank.
void rows_gradient(tensor::GradientCall& call) {
  const auto rows = static_cast<double>(call.grad().local().shape()[0]);
  Tensor sum = call.grad();
  for (int i = 1; i < static_cast<int>(rows); ++i) sum = plain_call("right.add", {sum, call.grad()});
  call.set(0, sum);
}

TEST(ValidatorBackward, ReportsGradientsThatAreWrong) {
  tensor::register_op({.name = "wrong.rows",
                       .inputs = "x",
                       .infer = infer_like_first,
                       .host = kernel<each<absolute>>,
                       .gradient = rows_gradient,
                       .rule = rule<kPlainRule>});
  const std::string report = first_wrong(validate_backward(matrix_case("wrong.rows")));
  EXPECT_NE(report.find("Shard(0"), std::string::npos) << report;
  EXPECT_NE(report.find("gradient of input 0"), std::string::npos) << report;
  tensor::register_op(
      {.name = "wrong.differentiable_abs",
       .inputs = "x",
       .infer = infer_like_first,
       .host = kernel<each<absolute>>,
       .gradient = [](tensor::GradientCall& call) { call.set(0, plain_call("wrong.abs", {call.grad()})); },
       .rule = rule<kPlainRule>});
  EXPECT_NE(first_wrong(validate_backward(matrix_case("wrong.differentiable_abs"))).find("pending"), std::string::npos);
}

// ---- all operators ----

// --gtest_random_seed=7 draws other samples and combinations.
std::uint64_t seed() { return static_cast<std::uint64_t>(std::max(1, static_cast<int>(GTEST_FLAG_GET(random_seed)))); }

// Sanitizers slow a call down by about thirty times and check its execution, not its result. A few combinations of
// every operator suffice there.
ValidatorOptions options(std::size_t most) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {.seed = seed(), .most = std::min<std::size_t>(most, 1), .samples = 1};
#else
  return {.seed = seed(), .most = most};
#endif
}

TEST(Validator, EveryRuleHoldsInEveryCombinationItAdmits) {
  Validation all;
  std::int64_t operators = 0;
  for (const OpCaseInfo& info : all_cases()) {
    const Validation found = validate(info, options(64));
    for (const std::string& wrong : found.wrong) ADD_FAILURE() << wrong;
    operators += found.tried > 0 ? 1 : 0;
    all.add(found);
  }
  std::printf("%lld operators, %s\n", static_cast<long long>(operators), all.text().c_str());
}

TEST(ValidatorBackward, EveryGradientHoldsInEveryCombination) {
  Validation all;
  std::int64_t operators = 0;
  for (const OpCaseInfo& info : all_cases()) {
    const Validation found = validate_backward(info, options(16));
    for (const std::string& wrong : found.wrong) ADD_FAILURE() << wrong;
    for (const std::string& stuck : found.stuck) ADD_FAILURE() << "needs to move " << stuck;
    operators += found.tried > 0 ? 1 : 0;
    if (found.moves > 0) {
      std::printf("%s: %lld inputs of its gradient are gathered: %s\n", info.op.c_str(),
                  static_cast<long long>(found.moves), found.notes[0].c_str());
    }
    all.add(found);
  }
  std::printf("%lld operators, %s\n", static_cast<long long>(operators), all.text().c_str());
}

// Human-readable list: --gtest_also_run_disabled_tests --gtest_filter=*Lists*
TEST(Validator, DISABLED_ListsWhatCouldBeAdmitted) {
  for (const OpCaseInfo& info : all_cases()) {
    for (const std::string& line : find_missing(info)) std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tessera::ops::testing

// Updates in place: what they change, what they leave, and that they stay true when the step is replayed.
#include "tessera/ops/update/update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/memory/graph_capture.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::to_array;
using testing::to_tensor;

Tensor filled(const Shape& shape, double value, DType dtype = DType::kF32) {
  return to_tensor(Array(shape, value), dtype);
}
double value_of(const Tensor& tensor) { return to_array(tensor).values[0]; }

TEST(ClipGradNorm, BringsTheNormOfAllToTheBound) {
  const std::vector<Tensor> grads = {filled({2, 2}, 3), filled({5}, 4)};
  const double norm = std::sqrt(4 * 9 + 5 * 16);
  EXPECT_NEAR(value_of(clip_grad_norm_(grads, 1)), norm, 1e-5);
  EXPECT_NEAR(value_of(grads[0]), 3 / norm, 1e-6);
  EXPECT_NEAR(value_of(clip_grad_norm_(grads, 5)), 1, 1e-6);
  EXPECT_NEAR(value_of(grads[1]), 4 / norm, 1e-6) << "a norm below the bound changes nothing";
}

TEST(AdamW, FirstStepMovesByTheLearningRate) {
  const std::vector<Tensor> params = {filled({3}, 1)};
  const std::vector<Tensor> grads = {filled({3}, 123)};
  const std::vector<Tensor> first = {filled({3}, 0)};
  const std::vector<Tensor> second = {filled({3}, 0)};
  const Tensor step = filled({}, 0, DType::kI64);
  adamw_(params, grads, first, second, step, {.learning_rate = filled({}, 0.125)}, {.weight_decay = 0});
  EXPECT_NEAR(value_of(params[0]), 1 - 0.125, 1e-6);
  EXPECT_EQ(value_of(step), 1);
}

TEST(AdamW, ReadsItsScalarsWhenReplayed) {
  const std::vector<Tensor> params = {filled({3}, 1, DType::kF64)};
  const std::vector<Tensor> grads = {filled({3}, 1, DType::kF64)};
  const std::vector<Tensor> first = {filled({3}, 0, DType::kF64)};
  const std::vector<Tensor> second = {filled({3}, 0, DType::kF64)};
  const Tensor step = filled({}, 0, DType::kI64);
  const Tensor rate = filled({}, 0.5, DType::kF64);
  const Tensor skip = filled({}, 0, DType::kBool);
  const device::Device& device = params[0].device();
  const device::Stream& stream = tensor::current_stream(device);
  memory::GraphCapture capture(memory::Allocator::of(device), stream);
  adamw_(params, grads, first, second, step, {.learning_rate = rate, .skip = skip}, {.weight_decay = 0});
  const memory::CapturedGraph step_graph = capture.end();
  EXPECT_EQ(value_of(params[0]), 1) << "capturing runs nothing";
  step_graph.replay(stream);
  EXPECT_NEAR(value_of(params[0]), 0.5, 1e-6);
  *rate.data_as<double>() = 0.25;
  step_graph.replay(stream);
  EXPECT_NEAR(value_of(params[0]), 0.25, 1e-6);
  EXPECT_EQ(value_of(step), 2);
  *skip.data_as<bool>() = true;
  step_graph.replay(stream);
  EXPECT_NEAR(value_of(params[0]), 0.25, 1e-6);
  EXPECT_EQ(value_of(step), 2) << "a skipped step is not counted";
}

TEST(Updates, HaveTheSameBitsForAnyNumberOfThreads) {
  testing::Random random(5);
  std::vector<Array> values;
  for (int i = 0; i < 4; ++i) values.push_back(testing::uniform(random, {100003}, 0.1, 1).value);
  std::vector<Array> results;
  for (const int threads : {1, 3}) {
    detail::set_thread_budget(threads);
    std::vector<Tensor> tensors;
    for (const Array& value : values) tensors.push_back(to_tensor(value, DType::kF32));
    adamw_({&tensors[0], 1}, {&tensors[1], 1}, {&tensors[2], 1}, {&tensors[3], 1}, filled({}, 3, DType::kI64),
           {.learning_rate = filled({}, 0.1)});
    results.push_back(to_array(tensors[0]));
    results.push_back(to_array(grad_norm(tensors, 1).norm));
  }
  detail::set_thread_budget(1);
  EXPECT_EQ(results[0].values, results[2].values);
  EXPECT_EQ(results[1].values, results[3].values);
}

TEST(Updates, OfManySmallTensorsRunOnOneThread) {
  detail::set_thread_budget(8);
  std::vector<Tensor> lists[4];
  for (std::vector<Tensor>& list : lists) {
    for (int i = 0; i < 300; ++i) list.push_back(filled({8, 4}, 0.5));
  }
  const std::uint64_t before = detail::helpers_requested();
  adamw_(lists[0], lists[1], lists[2], lists[3], filled({}, 3, DType::kI64), {.learning_rate = filled({}, 0.1)});
  EXPECT_EQ(detail::helpers_requested(), before);
  detail::set_thread_budget(1);
}

TEST(Updates, OfATensorOfTwoStretchesRunOnTwoThreads) {
  const int budget = detail::thread_budget();
  detail::set_thread_budget(4);
  const std::vector<Tensor> params = {filled({32768}, 1)};
  const std::vector<Tensor> grads = {filled({32768}, 1)};
  params[0].device().synchronize();
  const std::uint64_t before = detail::helpers_requested();
  sgd_(params, grads, {}, {.learning_rate = filled({}, 0.5)});
  params[0].device().synchronize();
  EXPECT_EQ(detail::helpers_requested(), before + 1);
  detail::set_thread_budget(budget);
}

TEST(Updates, NameWhatDoesNotFit) {
  const auto message_of = [](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  const std::vector<Tensor> two = {filled({2}, 1), filled({3}, 1)};
  const std::vector<Tensor> other = {filled({2}, 1), filled({4}, 1)};
  EXPECT_THAT(message_of([&] { foreach_add(two, other); }), ::testing::HasSubstr("b[1] must have shape [3], got [4]"));
  EXPECT_THAT(message_of([&] { sgd_(two, two, {}, {.learning_rate = filled({}, 1)}, {.momentum = 0.9}); }),
              ::testing::HasSubstr("momentum requires a list of momenta"));
  EXPECT_THAT(message_of([&] { sgd_(two, two, {}, {.learning_rate = filled({2}, 1)}); }),
              ::testing::HasSubstr("learning_rate must have one element, got [2]"));
}

}  // namespace
}  // namespace tessera::ops

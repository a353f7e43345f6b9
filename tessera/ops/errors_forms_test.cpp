// Tests that functions composed of other operators name themselves, the value and the tensor in their errors.
#include <gtest/gtest.h>

#include <functional>

#include "tessera/base/testing/expect_error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/dropout.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/update/update.h"

namespace tessera::ops {
namespace {

struct Row {
  std::function<void()> call;
  std::vector<std::string_view> says;
};

void expect_all(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    try {
      row.call();
      ADD_FAILURE() << "no error was thrown; wanted one about " << row.says[0];
    } catch (const InvalidArgument& error) {
      const std::string text = error.what();
      for (const std::string_view word : row.says) {
        EXPECT_NE(text.find(word), std::string::npos) << "the message lacks \"" << word << "\": " << text;
      }
    }
  }
}

TEST(ErrorsOfForms, OfShapeNameThemselves) {
  const Tensor x = zeros({2, 3});
  const std::int64_t two[] = {1, 1};
  expect_all({{[&] {
                 (void)reshape(x, {4, -1});
               },
               {"reshape: ", "f32[2, 3]"}},
              {[&] {
                 (void)view(x, {-1, -1});
               },
               {"view: at most one size must be -1", "f32[2, 3]"}},
              {[&] { (void)transpose(x, 0, 2); }, {"transpose: dimension must be in [-2, 2), got 2", "f32[2, 3]"}},
              {[&] { (void)squeeze(x, {-3}); }, {"squeeze: dimension must be in [-2, 2), got -3", "f32[2, 3]"}},
              {[&] { (void)unsqueeze(x, 4); }, {"unsqueeze: dimension must be in [-3, 3), got 4", "f32[2, 3]"}},
              {[&] { (void)flatten(x, 1, 0); },
               {"flatten: first dimension must not be after the last, got 1 and 0", "f32[2, 3]"}},
              {[&] {
                 (void)unflatten(x, 1, {2, 2});
               },
               {"unflatten: sizes must have the product of dimension 1", "f32[2, 3]", "got [2, 2]"}},
              {[&] { (void)narrow(x, 1, 2, 2); },
               {"narrow: range must be in dimension 1", "got 2 indices from 2", "f32[2, 3]"}},
              {[&] { (void)narrow(x, 5, 0, 1); }, {"narrow: dimension must be in [-2, 2), got 5", "f32[2, 3]"}},
              {[&] { (void)split(x, 0, 0); }, {"split: size must be at least 1, got 0", "f32[2, 3]"}},
              {[&] { (void)split(x, two, 1); }, {"split: sizes must sum to dimension 1", "(3), got 2", "f32[2, 3]"}},
              {[&] { (void)chunk(x, 0, 0); }, {"chunk: count must be at least 1, got 0", "f32[2, 3]"}},
              {[&] {
                 (void)expand(x, {-2, 3});
               },
               {"expand: size must be at least 0", "got -2", "f32[2, 3]"}},
              {[&] { (void)cat({}, 0); }, {"cat: requires at least one tensor"}},
              {[&] {
                 const Tensor both[] = {x, zeros({3, 2})};
                 (void)stack(both, 0);
               },
               {"stack: ", "f32[3, 2]", "f32[2, 3]"}},
              {[&] { (void)pad(x, {1}, 0); }, {"pad: padding must have two values per dimension", "got 1 values"}}});
}

TEST(ErrorsOfForms, OfMatrixNameThemselves) {
  const Tensor a = zeros({2, 3});
  const Tensor b = zeros({4, 5});
  expect_all({{[&] { (void)matmul(a, b); },
               {"matmul: columns of the left operand", "got 3 of f32[2, 3]", "and 4 of f32[4, 5]"}},
              {[&] { (void)matmul(zeros({}), a); }, {"matmul: ", "f32[]"}},
              {[&] {
                 (void)matmul(zeros({2, 2, 3}), zeros({3, 3, 4}));
               },
               {"matmul: "}},
              {[&] {
                 (void)linear(a, zeros({4, 3}), zeros({3}));
               },
               {"linear: bias must have one value per row of weight f32[4, 3]", "got f32[3]"}},
              {[&] {
                 (void)addmm(zeros({3, 2, 3}), a, zeros({3, 3}));
               },
               {"addmm: input must broadcast to the shape of the product, [2, 3], got f32[3, 2, 3]"}},
              {[&] {
                 (void)addmm(zeros({4}), a, zeros({3, 3}), 0);
               },
               {"addmm: input must broadcast to the shape of the product", "got f32[4]"}},
              {[&] {
                 (void)baddbmm(zeros({4}), zeros({1, 2, 3}), zeros({1, 3, 3}));
               },
               {"baddbmm: input must broadcast to the shape of the product", "got f32[4]"}},
              {[&] { (void)einsum("ij,jk", {a}); }, {"einsum: 'ij,jk' requires 2 tensors, got 1"}},
              {[&] {
                 (void)einsum("ij,jk->ik", {a, b});
               },
               {"einsum: sizes of 'j' must be equal, got 3", "4"}},
              {[&] { (void)einsum("ijk->i", {a}); }, {"einsum: 'ijk'"}},
              {[&] { (void)einsum("i2->i", {a}); }, {"einsum: 'i2->i' must consist of letters, got '2'"}}});
}

TEST(ErrorsOfForms, OfTheRestNameThemselves) {
  const Tensor x = zeros({2, 3});
  const device::Device there = device::host::make_host_device({.name = "there"});
  const std::vector<Tensor> one = {x};
  expect_all({{[&] { (void)item(x); }, {"item: x must have one element, got f32[2, 3]"}},
              {[&] { (void)allclose(x, zeros({2})); },
               {"allclose: tensors must have the same shape and dtype, got f32[2, 3]", "f32[2]"}},
              {[&] { (void)sum_to(x, {2}); }, {"sum_to: shape must broadcast to f32[2, 3]", "got [2]"}},
              {[&] { copy_(x, zeros({4})); }, {"copy_: source must broadcast to [2, 3], got f32[4]"}},
              {[&] {
                 (void)add(x, zeros({2, 3}, {.device = there}));
               },
               {"add: tensors must be on one device, got host and there", "to()"}},
              {[&] { (void)dropout(x, -0.5); }, {"dropout: p must be in [0, 1], got -0.5"}},
              {[&] { (void)multinomial(x, 9); },
               {"multinomial: count must be at least 0, and at most 3 without replacement, got 9"}},
              {[&] { (void)multinomial(zeros({}), 1); },
               {"multinomial: probabilities must have a dimension of classes, got f32[]"}},
              {[&] { (void)arange(0, 3, 0); }, {"arange: step must not be 0"}},
              {[&] { (void)zeros({-1}); }, {"-1"}},
              {[&] { (void)foreach_add(one, {}); }, {"foreach_add: lists must have the same length, got 1 and 0"}},
              {[&] { (void)grad_norm({}, 1); }, {"grad_norm: requires at least one gradient"}}});
}

TEST(Forms, TakeTensorsOfNoDimensions) {
  const Tensor x = full({}, 3);
  EXPECT_EQ(transpose(x, 0, -1).shape(), Shape());
  EXPECT_EQ(squeeze(x, {0}).shape(), Shape());
  EXPECT_EQ(squeeze(x).shape(), Shape());
  EXPECT_EQ(unsqueeze(x, 0).shape(), Shape({1}));
  EXPECT_EQ(flatten(x).shape(), Shape({1}));
  EXPECT_EQ(reshape(x, {1, 1}).shape(), Shape({1, 1}));
  EXPECT_EQ(matmul(full({1}, 2), full({1}, 4)).shape(), Shape());
}

}  // namespace
}  // namespace tessera::ops

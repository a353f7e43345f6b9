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
               {"view: more than one size of -1", "f32[2, 3]"}},
              {[&] { (void)transpose(x, 0, 2); }, {"transpose: dimension 2", "f32[2, 3]"}},
              {[&] { (void)squeeze(x, {-3}); }, {"squeeze: dimension -3", "f32[2, 3]"}},
              {[&] { (void)unsqueeze(x, 4); }, {"unsqueeze: dimension 4", "f32[2, 3]"}},
              {[&] { (void)flatten(x, 1, 0); }, {"flatten: dimension 1", "f32[2, 3]"}},
              {[&] {
                 (void)unflatten(x, 1, {2, 2});
               },
               {"unflatten: dimension 1", "f32[2, 3]", "[2, 2]"}},
              {[&] { (void)narrow(x, 1, 2, 2); }, {"narrow: 2 indices from 2", "dimension 1", "f32[2, 3]"}},
              {[&] { (void)narrow(x, 5, 0, 1); }, {"narrow: dimension 5", "f32[2, 3]"}},
              {[&] { (void)split(x, 0, 0); }, {"split: pieces of 0", "f32[2, 3]"}},
              {[&] { (void)split(x, two, 1); }, {"split: sizes add up to 2", "f32[2, 3]"}},
              {[&] { (void)chunk(x, 0, 0); }, {"chunk: 0 pieces", "f32[2, 3]"}},
              {[&] {
                 (void)expand(x, {-2, 3});
               },
               {"expand: a size of -2", "f32[2, 3]"}},
              {[&] { (void)cat({}, 0); }, {"cat: no tensors"}},
              {[&] {
                 const Tensor both[] = {x, zeros({3, 2})};
                 (void)stack(both, 0);
               },
               {"stack: ", "f32[3, 2]", "f32[2, 3]"}},
              {[&] { (void)pad(x, {1}, 0); }, {"pad: 1"}}});
}

TEST(ErrorsOfForms, OfMatrixNameThemselves) {
  const Tensor a = zeros({2, 3});
  const Tensor b = zeros({4, 5});
  expect_all({{[&] { (void)matmul(a, b); }, {"matmul: f32[2, 3]", "3 columns", "f32[4, 5]", "4 rows"}},
              {[&] { (void)matmul(zeros({}), a); }, {"matmul: ", "f32[]"}},
              {[&] {
                 (void)matmul(zeros({2, 2, 3}), zeros({3, 3, 4}));
               },
               {"matmul: "}},
              {[&] {
                 (void)linear(a, zeros({4, 3}), zeros({3}));
               },
               {"linear: the bias is f32[3]", "f32[4, 3]"}},
              {[&] {
                 (void)addmm(zeros({3, 2, 3}), a, zeros({3, 3}));
               },
               {"addmm: the input f32[3, 2, 3]", "is not broadcast to the product's [2, 3]"}},
              {[&] {
                 (void)addmm(zeros({4}), a, zeros({3, 3}), 0);
               },
               {"addmm: the input f32[4]"}},
              {[&] {
                 (void)baddbmm(zeros({4}), zeros({1, 2, 3}), zeros({1, 3, 3}));
               },
               {"baddbmm: the input f32[4]"}},
              {[&] { (void)einsum("ij,jk", {a}); }, {"einsum: 'ij,jk' names 2"}},
              {[&] {
                 (void)einsum("ij,jk->ik", {a, b});
               },
               {"einsum: 'j' is 3", "4"}},
              {[&] { (void)einsum("ijk->i", {a}); }, {"einsum: 'ijk'"}},
              {[&] { (void)einsum("i2->i", {a}); }, {"einsum: 'i2->i' has '2'"}}});
}

TEST(ErrorsOfForms, OfTheRestNameThemselves) {
  const Tensor x = zeros({2, 3});
  const device::Device there = device::host::make_host_device({.name = "there"});
  const std::vector<Tensor> one = {x};
  expect_all({{[&] { (void)item(x); }, {"item: f32[2, 3]"}},
              {[&] { (void)allclose(x, zeros({2})); }, {"allclose: f32[2, 3]", "f32[2]"}},
              {[&] { (void)sum_to(x, {2}); }, {"sum_to: [2]", "f32[2, 3]"}},
              {[&] { copy_(x, zeros({4})); }, {"copy_: f32[4]", "[2, 3]"}},
              {[&] {
                 (void)add(x, zeros({2, 3}, {.device = there}));
               },
               {"add: tensors on host and there", "to()"}},
              {[&] { (void)dropout(x, -0.5); }, {"dropout: a probability of -0.5"}},
              {[&] { (void)multinomial(x, 9); }, {"multinomial: 9 different ones of 3"}},
              {[&] { (void)multinomial(zeros({}), 1); }, {"multinomial: f32[]"}},
              {[&] { (void)arange(0, 3, 0); }, {"arange: a step of 0"}},
              {[&] { (void)zeros({-1}); }, {"-1"}},
              {[&] { (void)foreach_add(one, {}); }, {"foreach_add: lists of 1 and 0"}},
              {[&] { (void)grad_norm({}, 1); }, {"grad_norm: there are no gradients"}}});
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

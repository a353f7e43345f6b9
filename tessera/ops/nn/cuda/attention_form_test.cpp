// Tests the choice between attention kernels: one row per rule.
#include "tessera/ops/nn/cuda/attention_form.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace tessera::ops::cuda {
namespace {

alignas(16) std::byte memory[64];

AttentionTensor plain_tensor(std::int64_t width) {
  return {.data = memory, .dtype = DType::kBF16, .batch = 64 * width, .head = 8 * width, .row = width};
}

// A call that tensor cores can compute.
AttentionArgs halves(std::int32_t width, bool is_backward = false) {
  AttentionArgs of;
  of.d = of.e = width;
  for (AttentionTensor* x : {&of.q, &of.k, &of.v, &of.out}) *x = plain_tensor(width);
  if (is_backward) {
    for (AttentionTensor* x : {&of.grad, &of.dq, &of.dk, &of.dv}) *x = plain_tensor(width);
  }
  return of;
}

TEST(AttentionForm, TensorCoresTakeWholeWordsOfHalves) {
  for (const std::int32_t width : {8, 64, 72, 128, 192, 256}) {
    EXPECT_EQ(attention_form(halves(width)), AttentionForm::kTensorCores) << width;
    EXPECT_EQ(attention_form(halves(width, true)), AttentionForm::kTensorCores) << width;
  }
  AttentionArgs of = halves(128);
  of.d = 192;
  EXPECT_EQ(attention_form(of), AttentionForm::kTensorCores) << "different widths";
}

TEST(AttentionForm, OtherCallsArePlain) {
  struct Row {
    std::string why;
    std::function<void(AttentionArgs&)> change;
  };
  const Row rows[] = {
      {"f32", [](AttentionArgs& of) { of.q.dtype = of.k.dtype = of.v.dtype = of.out.dtype = DType::kF32; }},
      {"width above 256", [](AttentionArgs& of) { of.d = 264; }},
      {"width not a multiple of 8", [](AttentionArgs& of) { of.e = 60; }},
      {"no width", [](AttentionArgs& of) { of.e = 0; }},
      {"column stride", [](AttentionArgs& of) { of.k.col = 2; }},
      {"row stride", [](AttentionArgs& of) { of.v.row += 4; }},
      {"head stride", [](AttentionArgs& of) { of.q.head += 1; }},
      {"batch stride", [](AttentionArgs& of) { of.dk.batch += 2; }},
      {"address", [](AttentionArgs& of) { of.k.data += 2; }},
      {"address of a result", [](AttentionArgs& of) { of.dq.data += 8; }},
      {"dtype of the gradient", [](AttentionArgs& of) { of.grad.dtype = DType::kF32; }},
  };
  for (const Row& row : rows) {
    AttentionArgs of = halves(64, true);
    row.change(of);
    EXPECT_EQ(attention_form(of), AttentionForm::kPlain) << row.why;
  }
  AttentionArgs of = halves(64, true);
  of.out.dtype = DType::kF32;
  EXPECT_EQ(attention_form(of), AttentionForm::kTensorCores) << "a plain kernel reads the forward result";
}

TEST(AttentionForm, KernelsHaveThreeWidths) {
  const auto widths = [](int width) { return tensor_width(width); };
  EXPECT_EQ(widths(8), 64);
  EXPECT_EQ(widths(64), 64);
  EXPECT_EQ(widths(72), 128);
  EXPECT_EQ(widths(136), 256);
  for (const int width : {64, 128, 256}) EXPECT_LE(tensor_shared_nbytes(width, true), 227U << 10);
}

TEST(AttentionForm, KeysAreSplitIfTilesAreFew) {
  EXPECT_EQ(attention_splits(1, 100, 132), 1) << "few keys";
  EXPECT_EQ(attention_splits(1, 4096, 132), 16) << "256 keys each";
  EXPECT_EQ(attention_splits(64, 4096, 132), 4);
  EXPECT_EQ(attention_splits(1000, 4096, 132), 1) << "many tiles";
  EXPECT_EQ(attention_splits(1, 1 << 30, 132), 64);
}

}  // namespace
}  // namespace tessera::ops::cuda

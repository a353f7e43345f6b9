// Tests the choice between cuDNN and the kernels of Tessera: one row per rule.
#include "tessera/ops/nn/cuda/attention_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tessera/base/error.h"

namespace tessera::ops::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

alignas(16) std::byte memory[64];

// A causal call that cuDNN can compute.
AttentionArgs call_of(bool is_backward = true) {
  AttentionArgs of;
  of.batch = 2;
  of.heads = 4;
  of.kv_heads = 2;
  of.queries = 30;
  of.keys = 40;
  of.d = of.e = 64;
  of.right = 0;
  const auto tensor = [](std::int64_t heads, std::int64_t rows) {
    return AttentionTensor{
        .data = memory, .dtype = DType::kBF16, .batch = heads * rows * 64, .head = 64, .row = heads * 64};
  };
  for (AttentionTensor* x : {&of.q, &of.out}) *x = tensor(4, 30);
  for (AttentionTensor* x : {&of.k, &of.v}) *x = tensor(2, 40);
  of.logsumexp = {.data = memory, .dtype = DType::kF32, .batch = 120, .head = 30, .row = 1};
  if (!is_backward) return of;
  for (AttentionTensor* x : {&of.grad, &of.dq}) *x = tensor(4, 30);
  for (AttentionTensor* x : {&of.dk, &of.dv}) *x = tensor(2, 40);
  return of;
}

struct Row {
  std::string why;  // part of the reason
  std::function<void(AttentionArgs&)> change;
};

TEST(AttentionBackend, CudnnTakesTheseCalls) {
  const Row rows[] = {
      {"causal", [](AttentionArgs&) {}},
      {"no mask", [](AttentionArgs& of) { of.right = -1; }},
      {"bottom right", [](AttentionArgs& of) { of.is_bottom_right = true; }},
      {"window", [](AttentionArgs& of) { of.left = 16; }},
      {"more queries than keys", [](AttentionArgs& of) { of.keys = 20; }},
      {"192 and 128", [](AttentionArgs& of) { of.d = 192, of.e = 128; }},
      {"64 and 128", [](AttentionArgs& of) { of.e = 128; }},
      {"256", [](AttentionArgs& of) { of.d = of.e = 256; }},
      {"a batch of 1 with any stride", [](AttentionArgs& of) { of.batch = 1, of.q.batch = of.k.batch = 0; }},
  };
  for (const Row& row : rows) {
    for (const bool is_backward : {false, true}) {
      AttentionArgs of = call_of(is_backward);
      row.change(of);
      EXPECT_EQ(why_not_cudnn(of, false), "") << row.why;
    }
  }
}

TEST(AttentionBackend, CudnnDoesNotTakeTheseCalls) {
  const Row rows[] = {
      {"bf16 or f16", [](AttentionArgs& of) { of.q.dtype = DType::kF32; }},
      {"dtype of q", [](AttentionArgs& of) { of.v.dtype = DType::kF16; }},
      {"at least one", [](AttentionArgs& of) { of.keys = 0; }},
      {"multiples of 8", [](AttentionArgs& of) { of.d = 60; }},
      {"multiples of 8", [](AttentionArgs& of) { of.d = of.e = 264; }},
      {"equal head widths", [](AttentionArgs& of) { of.e = 192; }},
      {"not packed", [](AttentionArgs& of) { of.offsets.q = memory; }},
      {"causal", [](AttentionArgs& of) { of.right = 3; }},
      {"causal", [](AttentionArgs& of) { of.right = -1, of.left = 5; }},
      {"as many keys", [](AttentionArgs& of) { of.keys = 20, of.is_bottom_right = true; }},
      {"as many keys", [](AttentionArgs& of) { of.keys = 20, of.left = 5; }},
      {"contiguous rows", [](AttentionArgs& of) { of.k.col = 2; }},
      {"16 bytes", [](AttentionArgs& of) { of.q.row += 4; }},
      {"16 bytes", [](AttentionArgs& of) { of.v.head = 0; }},
      {"16 bytes", [](AttentionArgs& of) { of.out.batch = -64; }},
      {"16 bytes", [](AttentionArgs& of) { of.k.data += 8; }},
      {"logsumexp", [](AttentionArgs& of) { of.logsumexp.row = 2; }},
  };
  for (const Row& row : rows) {
    for (const bool is_backward : {false, true}) {
      AttentionArgs of = call_of(is_backward);
      row.change(of);
      EXPECT_THAT(why_not_cudnn(of, false), HasSubstr(row.why));
    }
  }
}

TEST(AttentionBackend, CudnnIsForSizesThatRepeat) {
  AttentionArgs of = call_of();
  EXPECT_FALSE(is_for_cudnn(of)) << "more keys than queries";
  of.keys = of.queries;
  EXPECT_TRUE(is_for_cudnn(of));
}

TEST(AttentionBackend, TheBackwardPassHasMoreRules) {
  AttentionArgs of = call_of();
  of.grad_logsumexp.data = memory;
  EXPECT_THAT(why_not_cudnn(of, false), HasSubstr("no gradient of logsumexp"));
  of = call_of();
  of.queries = 1;
  EXPECT_THAT(why_not_cudnn(of, false), HasSubstr("more than one query"));
  of = call_of(false);
  of.queries = 1;
  of.logsumexp.head = 1;
  of.logsumexp.batch = of.heads;
  EXPECT_EQ(why_not_cudnn(of, false), "");
  of = call_of();
  of.queries = of.keys = 1 << 16;
  of.logsumexp.head = of.queries;
  of.logsumexp.batch = of.heads * std::int64_t{of.queries};
  EXPECT_EQ(why_not_cudnn(of, false), "");
  EXPECT_THAT(why_not_cudnn(of, true), HasSubstr("8 GiB"));
  of = call_of();
  of.dk.data += 4;
  EXPECT_THAT(why_not_cudnn(of, true), HasSubstr("dk at a multiple of 16 bytes"));
}

TEST(AttentionBackend, OptionsDecide) {
  using enum AttentionBackend;
  EXPECT_TRUE(uses_cudnn("op", kAuto, "", ""));
  EXPECT_TRUE(uses_cudnn("op", kCudnn, "", ""));
  EXPECT_FALSE(uses_cudnn("op", kTiled, "", ""));
  EXPECT_FALSE(uses_cudnn("op", kAuto, "no library", ""));
  EXPECT_FALSE(uses_cudnn("op", kAuto, "", "bf16"));
  EXPECT_THAT([] { (void)uses_cudnn("op", kCudnn, "", "bf16 or f16"); },
              ThrowsMessage<NotSupported>(HasSubstr("op: the backend cudnn requires bf16 or f16; use the backend")));
  EXPECT_THAT([] { (void)uses_cudnn("op", kCudnn, "no library", ""); },
              ThrowsMessage<NotSupported>(HasSubstr("op: the backend cudnn cannot be used: no library; use")));
}

TEST(AttentionBackend, AMissingLibraryIsNamed) {
  const std::string why(why_no_cudnn());
  if (why.empty()) return;
  EXPECT_THAT(why, ::testing::AnyOf(HasSubstr("libcudnn.so.9"), HasSubstr("libcudart.so.13"), HasSubstr("no cuDNN")));
  EXPECT_THAT(why, ::testing::AnyOf(HasSubstr("LD_LIBRARY_PATH"), HasSubstr("no cuDNN")));
}

TEST(AttentionBackend, OptionsAreThoseThatWereSet) {
  const AttentionOptions before = attention_options();
  set_attention_options({.backend = AttentionBackend::kTiled, .is_deterministic = true});
  EXPECT_EQ(attention_options().backend, AttentionBackend::kTiled);
  EXPECT_TRUE(attention_options().is_deterministic);
  set_attention_options(before);
}

}  // namespace
}  // namespace tessera::ops::cuda

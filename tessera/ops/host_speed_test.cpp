#include "tessera/ops/host_speed.h"

#include <gtest/gtest.h>

#include "tessera/base/amx.h"
#include "tessera/ops/instruction_set.h"
#include "tessera/ops/matrix/detail/product_library.h"
#include "tessera/ops/nn/detail/row_kernels.h"

namespace tessera::ops {
namespace {

HostSpeed speed_of(double product, double peak) {
  return {.processor = "Some CPU",
          .vectors = "AVX2",
          .products = "oneDNN 2.6.3 (avx2)",
          .widest = "AVX3",
          .peak_gflops = peak,
          .product_gflops = product};
}

TEST(HostSpeed, IsMeasured) {
  const HostSpeed& speed = host_speed();
  EXPECT_GT(speed.peak_gflops, 0);
  EXPECT_GT(speed.product_gflops, 0);
  EXPECT_GT(speed.bf16_product_gflops, 0);
  EXPECT_EQ(speed.bf16_products, detail::bf16_products_text());
  EXPECT_EQ(speed.amx, to_text(amx_state()));
  EXPECT_NE(speed.products.find("oneDNN"), std::string::npos) << speed.products;
  EXPECT_FALSE(speed.processor.empty());
  EXPECT_FALSE(speed.vectors.empty());
  EXPECT_EQ(&host_speed(), &speed) << "measured again";
}

// Ranks compare the instruction set; it must be the widest that any kernel is compiled for.
TEST(HostSpeed, TheInstructionSetIsThatOfTheVectorMath) {
  EXPECT_EQ(detail::instruction_set(), detail::row_kernels_target());
  EXPECT_EQ(host_speed().vectors, detail::instruction_set());
}

TEST(HostSpeed, ChoosesBf16ProductsByTheProcessor) {
  using detail::Bf16Products;
  EXPECT_EQ(detail::choose_bf16_products(true, false, false), Bf16Products::kAmx);
  EXPECT_EQ(detail::choose_bf16_products(false, true, true), Bf16Products::kAvx512);
  EXPECT_EQ(detail::choose_bf16_products(false, true, false), Bf16Products::kConverted) << "slower than f32 on Intel";
  EXPECT_EQ(detail::choose_bf16_products(false, false, true), Bf16Products::kConverted);
}

TEST(HostSpeed, KeepsAmxFromTheLibraryUnlessItWorks) {
  EXPECT_EQ(detail::product_instructions() == "avx512_core_amx", amx_state() == AmxState::kWorks);
}

TEST(HostSpeed, WarnsOfProductsBelowHalfOfThePeak) {
  EXPECT_FALSE(speed_of(51, 100).is_slow());
  EXPECT_EQ(speed_of(51, 100).warning(), "");
  const HostSpeed slow = speed_of(32, 156);
  EXPECT_TRUE(slow.is_slow());
  for (const char* part : {"Some CPU", "oneDNN 2.6.3 (avx2)", "32 GFLOP/s", "AVX3", "156"})
    EXPECT_NE(slow.warning().find(part), std::string::npos) << part << " in " << slow.warning();
}

TEST(HostSpeed, WarnsOfAProcessorWithoutAvx2) {
  HostSpeed old = speed_of(10, 10);
  old.vectors = "SSE2";
  EXPECT_TRUE(old.is_slow());
  EXPECT_NE(old.warning().find("no AVX2"), std::string::npos) << old.warning();
}

}  // namespace
}  // namespace tessera::ops

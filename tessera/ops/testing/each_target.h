// A fixture whose tests run the vector code of each target: that of this processor, and that of processors without
// AVX2.
//
//   class SpecialValues : public OnEachTarget {};
//   TEST_P(SpecialValues, AreIEEEs) { ... }
//   INSTANTIATE_TEST_SUITE_P(Targets, SpecialValues, kEachTarget);
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include <hwy/detect_targets.h>
#include <hwy/targets.h>

namespace tessera::ops::testing {

/// Values of the parameter of OnEachTarget: the target that every processor has, and AVX2.
inline const auto kEachTarget = ::testing::Values(HWY_STATIC_TARGET, HWY_AVX2);

/// Selects the target that is the parameter. Skips the test if the processor lacks it.
class OnEachTarget : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam()) == 0) GTEST_SKIP() << "not on this machine";
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

}  // namespace tessera::ops::testing

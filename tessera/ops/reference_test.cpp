// Compares every operator with its reference in plain loops on the host. Fails for an operator without a case.
#include <gtest/gtest.h>

#include <set>

#include "tessera/ops/testing/reference.h"

namespace tessera::ops::testing {
namespace {

TEST(Reference, EveryOperatorGivesWhatPlainLoopsGive) {
  for (const OpCaseInfo& info : all_cases()) {
    run_case(info, device::Device::get("host"));
    if (HasFatalFailure()) return;
  }
}

TEST(Reference, EveryOperatorHasACase) {
  std::set<std::string> names;
  for (const OpCaseInfo& info : all_cases()) {
    EXPECT_TRUE(names.insert(info.op).second) << info.op << " has two cases";
    EXPECT_TRUE(info.reference || !info.why_no_reference.empty()) << info.op << " has no reference and no reason";
  }
  for (const tensor::Operator op : tensor::all_ops()) {
    EXPECT_TRUE(names.contains(op.name())) << op.name() << " has no case in its folder's testing/";
  }
}

}  // namespace
}  // namespace tessera::ops::testing

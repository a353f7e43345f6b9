// Policies as text: written text is read back, and errors for bad names and values list what is allowed.
#include "tessera/memory/policy.h"

#include <gtest/gtest.h>

#include <map>

#include "tessera/base/env.h"
#include "tessera/base/error.h"

namespace tessera::memory {
namespace {

template <class F>
std::string message_of(F&& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  ADD_FAILURE() << "no InvalidArgument was thrown";
  return {};
}

std::map<std::string, std::string> fields_of(const Policy& policy) {
  const auto fields = policy.fields();
  return {fields.begin(), fields.end()};
}

TEST(Policy, TheDefaultIsAllowedAndShowsEveryField) {
  const Policy policy;
  policy.check();
  EXPECT_EQ(fields_of(policy), (std::map<std::string, std::string>{{"expandable", "true"},
                                                                   {"granule_nbytes", "2MiB"},
                                                                   {"max_piece_nbytes", "32MiB"},
                                                                   {"move_above", "0.03125"},
                                                                   {"shared_segment_nbytes", "20MiB"},
                                                                   {"min_remainder_nbytes", "512B"},
                                                                   {"roundup_divisions", "0"},
                                                                   {"cross_stream", "wait"},
                                                                   {"pending_slack", "0.08"},
                                                                   {"limit_nbytes", "0B"},
                                                                   {"collect_above", "0"},
                                                                   {"may_synchronize", "true"}}));
}

TEST(Policy, ParsesEveryFieldAndShowsIt) {
  const Policy policy = Policy::parse(
      "expandable=false,granule_nbytes=4MiB, max_piece_nbytes = 64 MiB ,move_above=0.5,shared_segment_nbytes=40MiB,"
      "min_remainder_nbytes=1000,roundup_divisions=8,cross_stream=grow,pending_slack=0.25,limit_nbytes=12345678,"
      "collect_above=0.8,"
      "may_synchronize=false");
  EXPECT_FALSE(policy.expandable);
  EXPECT_EQ(policy.granule_nbytes, std::size_t{4} << 20);
  EXPECT_EQ(policy.max_piece_nbytes, std::size_t{64} << 20);
  EXPECT_DOUBLE_EQ(policy.move_above, 0.5);
  EXPECT_EQ(policy.shared_segment_nbytes, std::size_t{40} << 20);
  EXPECT_EQ(policy.min_remainder_nbytes, 1000u);
  EXPECT_EQ(policy.roundup_divisions, 8u);
  EXPECT_EQ(policy.cross_stream, CrossStream::kGrow);
  EXPECT_DOUBLE_EQ(policy.pending_slack, 0.25);
  EXPECT_EQ(policy.limit_nbytes, 12345678u);
  EXPECT_DOUBLE_EQ(policy.collect_above, 0.8);
  EXPECT_FALSE(policy.may_synchronize);
}

TEST(Policy, WhatIsShownIsReadBackExactly) {
  const Policy policy = Policy::parse("limit_nbytes=12345678,collect_above=0.1,granule_nbytes=512,roundup_divisions=4");
  std::string text;
  for (const auto& [name, value] : policy.fields()) text += (text.empty() ? "" : ",") + name + "=" + value;
  EXPECT_EQ(Policy::parse(text).fields(), policy.fields());
  EXPECT_EQ(Policy::parse(text).limit_nbytes, 12345678u);
}

TEST(Policy, EmptyTextIsTheDefault) {
  EXPECT_EQ(Policy::parse("").fields(), Policy().fields());
  EXPECT_EQ(Policy::parse("  ").fields(), Policy().fields());
  EXPECT_EQ(Policy::parse(env::memory_policy()).fields(), Policy().fields());
}

TEST(Policy, UnknownFieldsAreNamedWithTheNearest) {
  EXPECT_EQ(message_of([] { Policy::parse("granul_nbytes=4MiB"); }),
            "memory policy: unknown field 'granul_nbytes' (did you mean 'granule_nbytes'?); fields: [expandable, "
            "granule_nbytes, max_piece_nbytes, move_above, shared_segment_nbytes, min_remainder_nbytes, "
            "roundup_divisions, "
            "cross_stream, pending_slack, limit_nbytes, collect_above, may_synchronize]");
}

TEST(Policy, BadValuesAreNamedWithWhatIsAllowed) {
  const std::map<std::string, std::string> refused = {
      {"granule_nbytes=lots",
       "memory policy: granule_nbytes: size must be a number and a unit, as in 4096, 64KiB or 1.5 GiB, got 'lots'; "
       "allowed: a power of two from 512 B to 1 EiB"},
      {"granule_nbytes=3MiB", "memory policy: granule_nbytes=3MiB must be a power of two from 512 B to 1 EiB"},
      {"granule_nbytes=256", "memory policy: granule_nbytes=256B must be a power of two from 512 B to 1 EiB"},
      {"max_piece_nbytes=3MiB", "memory policy: max_piece_nbytes=3MiB must be a multiple of granule_nbytes (2MiB)"},
      {"max_piece_nbytes=0", "memory policy: max_piece_nbytes=0B must be a multiple of granule_nbytes (2MiB)"},
      {"granule_nbytes=64MiB", "memory policy: max_piece_nbytes=32MiB must be a multiple of granule_nbytes (64MiB)"},
      {"shared_segment_nbytes=1",
       "memory policy: shared_segment_nbytes=1B must be a multiple of granule_nbytes (2MiB)"},
      {"min_remainder_nbytes=100", "memory policy: min_remainder_nbytes=100B must be at least 512 B"},
      {"roundup_divisions=3", "memory policy: roundup_divisions=3 must be 0 or a power of two up to 1024"},
      {"roundup_divisions=-1",
       "memory policy: roundup_divisions: must be an integer, got '-1'; allowed: 0 or a power of two up to 1024"},
      {"cross_stream=wiat",
       "memory policy: cross_stream: must be one of [wait, grow], got 'wiat' (did you mean 'wait'?); allowed: wait or "
       "grow"},
      {"expandable=yes", "memory policy: expandable: must be one of [true, false], got 'yes'; allowed: true or false"},
      {"limit_nbytes=1MiB", "memory policy: limit_nbytes=1MiB must be 0 or at least granule_nbytes (2MiB)"},
      {"collect_above=-0.1", "memory policy: collect_above=-0.1 must be at least 0 and below 1"},
      {"collect_above=1.1", "memory policy: collect_above=1.1 must be at least 0 and below 1"},
      {"collect_above=nan", "memory policy: collect_above=nan must be at least 0 and below 1"},
      {"collect_above=0.5x",
       "memory policy: collect_above: must be a number, got '0.5x'; allowed: at least 0 and below 1"},
      {"expandable",
       "memory policy: 'expandable' in 'expandable' is not a setting; write field=value, separated by commas"},
      {"expandable=true,,",
       "memory policy: '' in 'expandable=true,,' is not a setting; write field=value, separated by commas"},
      {"roundup_divisions=2,roundup_divisions=4",
       "memory policy: roundup_divisions is set twice in 'roundup_divisions=2,roundup_divisions=4'"},
  };
  for (const auto& [text, message] : refused) {
    EXPECT_EQ(message_of([&text = text] { Policy::parse(text); }), message) << text;
  }
}

TEST(Policy, ARefusedSettingChangesNothing) {
  Policy policy = Policy::parse("collect_above=0.5");
  EXPECT_THROW(policy.set("collect_above", "1.5"), InvalidArgument);
  EXPECT_THROW(policy.set("granule_nbytes", "1000"), InvalidArgument);
  EXPECT_EQ(policy.fields(), Policy::parse("collect_above=0.5").fields());
}

TEST(Policy, FieldsThatBelongTogetherAreCheckedTogether) {
  Policy policy;
  policy.set("max_piece_nbytes", "1MiB");  // not a multiple of the current granule
  EXPECT_THROW(policy.check(), InvalidArgument);
  policy.set("granule_nbytes", "1MiB");
  policy.check();
}

}  // namespace
}  // namespace tessera::memory

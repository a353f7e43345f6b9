#include "tessera/train/data/detail/pre_tokenize.h"

#include <gtest/gtest.h>

#include <random>

#include "tessera/train/data/testing/small_tokenizer.h"

namespace tessera::train::detail {
namespace {

using testing::kLlama3Pattern;
using testing::kQwen2Pattern;
using Words = std::vector<std::string>;
using Prepend = SplitStep::Prepend;

Words split(std::string_view text, std::vector<SplitStep> steps, bool is_start = true) {
  Words words;
  PreTokenizer{std::move(steps)}.split(text, is_start, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

SplitStep at_pattern(std::string_view pattern, SplitBehavior behavior = SplitBehavior::kIsolated) {
  return {.pattern = {.text = {}, .regex = Regex(pattern)}, .behavior = behavior};
}

// Expected results are from a regular expression library.
TEST(PreTokenizer, DividesAsGpt2Does) {
  const auto words = [](std::string_view text) { return split(text, {at_pattern(kGpt2Pattern)}); };
  EXPECT_EQ(words("Hello world's  end"), (Words{"Hello", " world", "'s", " ", " end"}));
  EXPECT_EQ(words("it'S we'll 've"), (Words{"it", "'", "S", " we", "'ll", " '", "ve"}));
  EXPECT_EQ(words("x = 1234;\n\n  y"), (Words{"x", " =", " 1234", ";", "\n\n ", " y"}));
  EXPECT_EQ(words("a \t\n"), (Words{"a", " \t\n"}));
  EXPECT_EQ(words("a\nb"), (Words{"a", "\n", "b"}));
  EXPECT_EQ(words("日本 語²"), (Words{"日本", " 語", "²"}));
  EXPECT_EQ(words("a\u00a0 b"), (Words{"a", "\u00a0", " b"}));
  EXPECT_EQ(words("e\u0301!"), (Words{"e", "\u0301!"})) << "a combining accent is no letter";
}

TEST(PreTokenizer, DividesAsLlama3Does) {
  const auto words = [](std::string_view text) { return split(text, {at_pattern(kLlama3Pattern)}); };
  EXPECT_EQ(words("it'S we'LL"), (Words{"it", "'S", " we", "'LL"}));
  EXPECT_EQ(words("1234567 x"), (Words{"123", "456", "7", " x"}));
  EXPECT_EQ(words("(foo) $bar"), (Words{"(foo", ")", " $", "bar"}));
  EXPECT_EQ(words("f();\n\n  g"), (Words{"f", "();\n\n", " ", " g"}));
  EXPECT_EQ(words("a  \n\n  b"), (Words{"a", "  \n\n", " ", " b"}));
  EXPECT_EQ(words("\tx\r\ny"), (Words{"\tx", "\r\n", "y"}));
  EXPECT_EQ(words("   "), (Words{"   "}));
  EXPECT_EQ(words("  12"), (Words{" ", " ", "12"}));
  EXPECT_EQ(split("1234", {at_pattern(kQwen2Pattern)}), (Words{"1", "2", "3", "4"}));
}

TEST(PreTokenizer, BytesOutsideOfUtf8AreLikePunctuation) {
  EXPECT_EQ(split("a\xff\xfe z", {at_pattern(kGpt2Pattern)}), (Words{"a", "\xff\xfe", " z"}));
  EXPECT_EQ(split("\xe6\x97", {at_pattern(kGpt2Pattern)}), (Words{"\xe6\x97"}));
  EXPECT_EQ(split("\xff"
                  "abc",
                  {at_pattern(kLlama3Pattern)}),
            (Words{"\xff"
                   "abc"}));
}

TEST(PreTokenizer, WordsPutTogetherAreTheText) {
  std::mt19937_64 random(7);
  const std::string_view pieces[] = {" ", "\n", "\r", "'", "s", "LL", "7", "ä", "字", "\xc3", "\x80", ".", "\t", "½"};
  for (int run = 0; run < 2000; ++run) {
    std::string text;
    for (std::size_t i = random() % 12; i > 0; --i) text += pieces[random() % std::size(pieces)];
    for (const std::string_view pattern : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern}) {
      std::string joined;
      for (const std::string& word : split(text, {at_pattern(pattern)})) joined += word;
      ASSERT_EQ(joined, text);
    }
  }
}

// Expected results are those of Hugging Face's library.
TEST(PreTokenizer, MatchesStayAloneOrJoinTheirNeighbors) {
  const auto words = [](SplitBehavior behavior) { return split("--a--b-", {at_pattern("-", behavior)}); };
  EXPECT_EQ(words(SplitBehavior::kIsolated), (Words{"-", "-", "a", "-", "-", "b", "-"}));
  EXPECT_EQ(words(SplitBehavior::kRemoved), (Words{"a", "b"}));
  EXPECT_EQ(words(SplitBehavior::kMergedWithPrevious), (Words{"-", "-", "a-", "-", "b-"}));
  EXPECT_EQ(words(SplitBehavior::kMergedWithNext), (Words{"-", "-a", "-", "-b", "-"}));
  EXPECT_EQ(words(SplitBehavior::kContiguous), (Words{"--", "a", "--", "b", "-"}));
  SplitStep inverted = at_pattern("[a-z]+", SplitBehavior::kRemoved);
  inverted.is_inverted = true;
  EXPECT_EQ(split("ab, c", {inverted}), (Words{"ab", "c"}));
  EXPECT_EQ(split("a<>b<>", {{.pattern = {.text = "<>", .regex = {}}}}), (Words{"a", "<>", "b", "<>"}));
}

TEST(PreTokenizer, StepsFollowEachOther) {
  const SplitStep numbers = {.kind = SplitStep::Kind::kNumbers};
  EXPECT_EQ(split("a12 b²", {numbers, at_pattern(" ")}), (Words{"a", "1", "2", " ", "b", "²"}));
  const SplitStep runs = {.kind = SplitStep::Kind::kNumbers, .behavior = SplitBehavior::kContiguous};
  EXPECT_EQ(split("12a345", {runs}), (Words{"12", "a", "345"}));
  EXPECT_EQ(split("a b", {}), (Words{"a b"}));
  EXPECT_EQ(split("", {numbers}), (Words{}));
  EXPECT_EQ(split("a b", {{.kind = SplitStep::Kind::kPrefix}, at_pattern(" ")}), (Words{" ", "a", " ", "b"}));
  EXPECT_EQ(split(" a", {{.kind = SplitStep::Kind::kPrefix}}), (Words{" a"}));
}

TEST(PreTokenizer, WordsBeginAtAMarkForASpace) {
  const auto mark = [](Prepend prepend, bool splits = true) {
    return SplitStep{.kind = SplitStep::Kind::kMetaspace, .space = "_", .prepend = prepend, .splits = splits};
  };
  EXPECT_EQ(split("a  bc", {mark(Prepend::kAlways)}), (Words{"_a", "_", "_bc"}));
  EXPECT_EQ(split(" a ", {mark(Prepend::kAlways)}), (Words{"_a", "_"}));
  EXPECT_EQ(split("a b", {mark(Prepend::kNever)}), (Words{"a", "_b"}));
  EXPECT_EQ(split("a b", {mark(Prepend::kFirst)}), (Words{"_a", "_b"}));
  EXPECT_EQ(split("a b", {mark(Prepend::kFirst)}, false), (Words{"a", "_b"}));
  EXPECT_EQ(split("a b", {mark(Prepend::kAlways, false)}), (Words{"_a_b"}));
  EXPECT_EQ(split("1a", {SplitStep{.kind = SplitStep::Kind::kNumbers}, mark(Prepend::kFirst)}), (Words{"_1", "a"}));
}

}  // namespace
}  // namespace tessera::train::detail

#include "tessera/train/data/detail/split.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tessera/train/data/detail/unicode.h"
#include "tessera/train/data/detail/unicode_ranges.h"

namespace tessera::train::detail {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view text, SplitRule rule) {
  Words words;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = word_end(text, start, rule);
    EXPECT_GT(end, start);
    words.emplace_back(text.substr(start, end - start));
    start = end;
  }
  return words;
}

// Expected results are from a regular expression library.
TEST(Split, DividesAsGpt2Does) {
  const auto words = [](std::string_view text) { return split(text, SplitRule::kGpt2); };
  EXPECT_EQ(words("Hello world's  end"), (Words{"Hello", " world", "'s", " ", " end"}));
  EXPECT_EQ(words("it'S we'll 've"), (Words{"it", "'", "S", " we", "'ll", " '", "ve"}));
  EXPECT_EQ(words("x = 1234;\n\n  y"), (Words{"x", " =", " 1234", ";", "\n\n ", " y"}));
  EXPECT_EQ(words("a \t\n"), (Words{"a", " \t\n"}));
  EXPECT_EQ(words("a\nb"), (Words{"a", "\n", "b"}));
  EXPECT_EQ(words("日本 語²"), (Words{"日本", " 語", "²"}));
  EXPECT_EQ(words("a\u00a0 b"), (Words{"a", "\u00a0", " b"}));
  EXPECT_EQ(words("e\u0301!"), (Words{"e", "\u0301!"})) << "a combining accent is no letter";
}

TEST(Split, DividesAsLlama3Does) {
  const auto words = [](std::string_view text) { return split(text, SplitRule::kLlama3); };
  EXPECT_EQ(words("it'S we'LL"), (Words{"it", "'S", " we", "'LL"}));
  EXPECT_EQ(words("1234567 x"), (Words{"123", "456", "7", " x"}));
  EXPECT_EQ(words("(foo) $bar"), (Words{"(foo", ")", " $", "bar"}));
  EXPECT_EQ(words("f();\n\n  g"), (Words{"f", "();\n\n", " ", " g"}));
  EXPECT_EQ(words("a  \n\n  b"), (Words{"a", "  \n\n", " ", " b"}));
  EXPECT_EQ(words("\tx\r\ny"), (Words{"\tx", "\r\n", "y"}));
  EXPECT_EQ(words("   "), (Words{"   "}));
  EXPECT_EQ(words("  12"), (Words{" ", " ", "12"}));
  EXPECT_EQ(split("1234", SplitRule::kQwen2), (Words{"1", "2", "3", "4"}));
}

TEST(Split, BytesOutsideOfUtf8AreLikePunctuation) {
  EXPECT_EQ(split("a\xff\xfe z", SplitRule::kGpt2), (Words{"a", "\xff\xfe", " z"}));
  EXPECT_EQ(split("\xe6\x97", SplitRule::kGpt2), (Words{"\xe6\x97"}));
  EXPECT_EQ(split("\xff"
                  "abc",
                  SplitRule::kLlama3),
            (Words{"\xff"
                   "abc"}));
}

TEST(Split, WordsPutTogetherAreTheText) {
  std::mt19937_64 random(7);
  const std::string_view pieces[] = {" ", "\n", "\r", "'", "s", "LL", "7", "ä", "字", "\xc3", "\x80", ".", "\t", "½"};
  for (int run = 0; run < 2000; ++run) {
    std::string text;
    for (std::size_t i = random() % 12; i > 0; --i) text += pieces[random() % std::size(pieces)];
    for (const SplitRule rule : {SplitRule::kGpt2, SplitRule::kLlama3, SplitRule::kQwen2}) {
      std::string joined;
      for (const std::string& word : split(text, rule)) joined += word;
      ASSERT_EQ(joined, text);
    }
  }
}

TEST(Split, KnowsItsExpressions) {
  for (const SplitRule rule : {SplitRule::kGpt2, SplitRule::kLlama3, SplitRule::kQwen2}) {
    EXPECT_EQ(rule_of(pattern_of(rule)), rule);
  }
  EXPECT_EQ(rule_of("\\w+"), std::nullopt);
}

TEST(Unicode, ReadsShortestSequencesAlone) {
  const auto read = [](std::string_view text) {
    const CodePoint point = code_point_at(text, 0);
    return point.is_valid ? static_cast<std::int64_t>(point.value) : -1;
  };
  EXPECT_EQ(read("A"), 'A');
  EXPECT_EQ(read("\xc3\xa4"), 0xE4);
  EXPECT_EQ(read("\xe2\x82\xac"), 0x20AC);
  EXPECT_EQ(read("\xf0\x9f\x98\x80"), 0x1F600);
  EXPECT_EQ(read("\xf4\x8f\xbf\xbf"), 0x10FFFF);
  for (const std::string_view wrong :
       {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\xaf", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xc3(", "\xe2(\xac"}) {
    EXPECT_EQ(read(wrong), -1);
    EXPECT_EQ(code_point_at(wrong, 0).nbytes, 1U);
  }
}

TEST(Unicode, WritesWhatItReads) {
  for (std::uint32_t value = 0; value <= 0x10FFFF; ++value) {
    if (value >= 0xD800 && value <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, value);
    const CodePoint point = code_point_at(text, 0);
    ASSERT_TRUE(point.is_valid && point.value == value && point.nbytes == text.size()) << value;
  }
}

TEST(Unicode, KnowsKinds) {
  for (const std::uint32_t letter : {U'a', U'Z', U'ß', U'ж', U'字', U'ª', U'𝒜'})
    EXPECT_EQ(kind_of(letter), Kind::kLetter);
  for (const std::uint32_t number : {U'0', U'9', U'²', U'½', U'Ⅷ', U'٣'}) EXPECT_EQ(kind_of(number), Kind::kNumber);
  for (const std::uint32_t space : {0x20, 0x09, 0x0D, 0x85, 0xA0, 0x2003, 0x3000})
    EXPECT_EQ(kind_of(space), Kind::kSpace);
  for (const std::uint32_t other : {0x5F, 0x301, 0x200B, 0x20AC, 0x1F600, 0x00, 0x10FFFF}) {
    EXPECT_EQ(kind_of(other), Kind::kOther);
  }
}

TEST(Unicode, RangesRiseAndKeepApart) {
  for (const auto ranges : {letter_ranges(), number_ranges()}) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      EXPECT_LE(ranges[i].first, ranges[i].last);
      EXPECT_TRUE(i == 0 || ranges[i].first > ranges[i - 1].last + 1);
    }
  }
}

}  // namespace
}  // namespace tessera::train::detail

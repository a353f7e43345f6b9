#include "tessera/train/data/detail/unicode.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera::train::detail {
namespace {

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
    ASSERT_EQ(before("a" + text, text.size() + 1), 1U) << value;
    for (std::size_t nbytes = 1; nbytes < text.size(); ++nbytes) {
      ASSERT_TRUE(is_interrupted(text.substr(0, nbytes), 0)) << value;
    }
    ASSERT_FALSE(is_interrupted(text, 0));
  }
}

TEST(Unicode, KnowsWhatCanStillBecomeACharacter) {
  for (const std::string_view never :
       {"\x80", "\xc1", "\xff", "\xe0\x80", "\xed\xa0", "\xf4\x90", "\xf0\x8f", "\xe2\x82(", "\xc3(", "a"}) {
    EXPECT_FALSE(is_interrupted(never, 0));
  }
  EXPECT_TRUE(is_interrupted("ab\xf0\x9f", 2));
  EXPECT_EQ(before("\xe2\x82", 2), 1U) << "bytes outside of UTF-8 stand alone";
}

TEST(Unicode, KnowsCategories) {
  const std::uint32_t letters = category_bits("L").value();
  const std::uint32_t numbers = category_bits("N").value();
  for (const std::uint32_t letter : {U'a', U'Z', U'ß', U'ж', U'字', U'ª', U'𝒜'})
    EXPECT_NE(category_of(letter) & letters, 0U);
  for (const std::uint32_t number : {U'0', U'9', U'²', U'½', U'Ⅷ', U'٣'}) EXPECT_NE(category_of(number) & numbers, 0U);
  for (const std::uint32_t space : {0x20, 0x09, 0x0D, 0x85, 0xA0, 0x2003, 0x3000}) EXPECT_TRUE(is_space(space));
  for (const std::uint32_t other : {0x5FU, 0x301U, 0x200BU, 0x20ACU, 0x1F600U, 0U, 0x10FFFFU, kNoCodePoint}) {
    EXPECT_EQ(category_of(other) & (letters | numbers), 0U);
    EXPECT_FALSE(is_space(other));
  }
  EXPECT_EQ(category_of('A'), category_bits("Lu"));
  EXPECT_EQ(category_bits("Letter"), std::nullopt);
  EXPECT_EQ(category_bits(""), std::nullopt);
  for (const std::uint32_t word : {0x5FU, 0x301U, 0x200DU, 0x24B6U}) EXPECT_TRUE(is_word(word));
  EXPECT_FALSE(is_word(0xB2)) << "superscript two";
}

TEST(Unicode, ChangesCase) {
  EXPECT_EQ(folded('K'), 'k');
  EXPECT_EQ(folded(0x212A), 'k') << "Kelvin";
  EXPECT_EQ(folded(0x17F), 's') << "long s";
  EXPECT_EQ(folded(U'ß'), U'ß') << "two letters without case";
  EXPECT_EQ(folded(kNoCodePoint), kNoCodePoint);
  std::string text;
  for (const std::uint32_t upper : {U'A', U'Ä', U'Σ', U'İ', U'字'}) append_lower(text, upper);
  EXPECT_EQ(text, "aäσi\u0307字");
}

TEST(Unicode, NormalizesAsTheStandardDoes) {
  const auto nfc = [](std::string_view text) { return normalized(text, Form::kNfc); };
  EXPECT_EQ(nfc("e\u0301a\u0323\u0307"), "\u00e9\u1ea1\u0307");
  EXPECT_EQ(nfc("\u1112\u1161\u11ab\uac00\u11a8"), "\ud55c\uac01") << "syllables";
  EXPECT_EQ(nfc("\u304b\u3099"), "\u304c");
  EXPECT_EQ(nfc("\u212b\u0340"), "\u00c5\u0300");
  EXPECT_EQ(nfc("a\u0307\u0323"), "\u1ea1\u0307") << "marks are ordered";
  EXPECT_EQ(nfc("plain \u00e9\u4e00"), "plain \u00e9\u4e00");
  EXPECT_EQ(nfc("\u0301\xff\u0301"
                "e\xc3"),
            "\u0301\xff\u0301"
            "e\xc3")
      << "bytes outside of UTF-8 remain";
  EXPECT_EQ(normalized("\u00e9", Form::kNfd), "e\u0301");
  EXPECT_EQ(normalized("\ufb01\u2460x\u00b2", Form::kNfkc), "fi1x2");
  EXPECT_EQ(normalized("\ufb01\u00e9", Form::kNfkd), "fie\u0301");
}

// The parts that are normalized alone must not depend on what surrounds them.
TEST(Unicode, NormalizesPartsAsTheWhole) {
  std::mt19937_64 random(5);
  const std::string_view pieces[] = {"a",      "\u0301", "\u0323", "\u00e9", "\u0400", "\u0306", "\u304b", "\u3099",
                                     "\uac00", "\u11a8", "\u4e00", "\u1100", "\u1161", "\u05d0", "\u05bc", "\u0344"};
  for (int run = 0; run < 3000; ++run) {
    std::string text;
    for (std::size_t i = random() % 10; i > 0; --i) text += pieces[random() % std::size(pieces)];
    for (const Form form : {Form::kNfc, Form::kNfkc}) {
      const std::string once = normalized(text, form);
      ASSERT_EQ(normalized(once, form), once) << "stable";
      ASSERT_EQ(normalized(normalized(text, Form::kNfd), form), once) << "the same from decomposed text";
    }
  }
}

}  // namespace
}  // namespace tessera::train::detail

#include "tessera/train/data/detail/regex.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::train::detail {
namespace {

// Returns the match at the start of a text; "-" without one.
std::string match(std::string_view pattern, std::string_view text) {
  Regex::Scratch scratch;
  const std::optional<std::size_t> end = Regex(pattern).match(text, 0, scratch);
  return end ? std::string(text.substr(0, *end)) : "-";
}

TEST(Regex, TakesTheFirstAlternativeThatFits) {
  EXPECT_EQ(match("a|ab", "ab"), "a");
  EXPECT_EQ(match("(?:a|ab)c", "abc"), "abc");
  EXPECT_EQ(match("x|", "abc"), "");
  EXPECT_EQ(match("b", "abc"), "-");
  EXPECT_EQ(match("", ""), "");
  EXPECT_EQ(match("ab", "a"), "-");
}

TEST(Regex, GivesBackWhatItTook) {
  EXPECT_EQ(match("a*ab", "aaab"), "aaab");
  EXPECT_EQ(match("\u00e9+\u00e9x", "\u00e9\u00e9\u00e9x"), "\u00e9\u00e9\u00e9x");
  EXPECT_EQ(match(".{2,3}c", "abcc"), "abcc");
  EXPECT_EQ(match(".{2}c", "abcc"), "abc");
  EXPECT_EQ(match("a{2,}", "a"), "-");
  EXPECT_EQ(match("a?+a", "a"), "-") << "possessive";
  EXPECT_EQ(match("a++b", "aab"), "aab");
  EXPECT_EQ(match("(ab|a)*b", "aabab"), "aabab");
  EXPECT_EQ(match("(?:ab){1,2}", "ababab"), "abab");
  EXPECT_EQ(match("(?:ab){2}", "ab"), "-");
  EXPECT_EQ(match("(?:ab)?abc", "abc"), "abc");
  EXPECT_EQ(match("[^x]+y", "\xe2\x82y"), "\xe2\x82y") << "bytes outside of UTF-8 one by one";
}

TEST(Regex, LooksAhead) {
  EXPECT_EQ(match(R"(\s+(?!\S))", "   a"), "  ");
  EXPECT_EQ(match(R"(\s+(?!\S))", "   "), "   ");
  EXPECT_EQ(match(R"(\s+(?!\S))", " a"), "-");
  EXPECT_EQ(match("a(?=b|c)", "ac"), "a");
  EXPECT_EQ(match("a(?=b|c)", "ad"), "-");
  EXPECT_EQ(match("(?:a(?!b)|ab)+", "aab"), "aab");
}

TEST(Regex, KnowsSets) {
  EXPECT_EQ(match("[a-c-]+", "ab-d"), "ab-");
  EXPECT_EQ(match(R"([\]\\^-]+)", "]\\^-a"), "]\\^-");
  EXPECT_EQ(match(R"([^\s\p{L}\p{N}]+)", "!\u20aca"), "!\u20ac");
  EXPECT_EQ(match(R"(\p{Lu}\p{Ll}\P{L})", "Ab1"), "Ab1");
  EXPECT_EQ(match(R"(\p{^L}+)", "1!a"), "1!");
  EXPECT_EQ(match("[\u4e00-\u9fa5]+", "\u4e00\u9fa5a"), "\u4e00\u9fa5");
  EXPECT_EQ(match(R"([\p{Lu}\p{M}]+)", "A\u0301a"), "A\u0301");
  EXPECT_EQ(match(R"(\w+\W)", "a_\u0301 "), "a_\u0301 ");
  EXPECT_EQ(match(R"(\d+\D)", "1\u0663\u00b2"), "1\u0663\u00b2") << "superscripts are no digits";
  EXPECT_EQ(match(".+", "a\u00e9\nb"), "a\u00e9");
  EXPECT_EQ(match(R"(\S+)", "a\xff b"), "a\xff");
}

TEST(Regex, IgnoresCaseInGroups) {
  EXPECT_EQ(match("(?i:'s|'ll)", "'S"), "'S");
  EXPECT_EQ(match("(?i:'s)", "'\u017f"), "'\u017f") << "the long s is an s";
  EXPECT_EQ(match("(?i:K)", "\u212a"), "\u212a");
  EXPECT_EQ(match("(?i:\u00e4)x", "\u00c4x"), "\u00c4x");
  EXPECT_EQ(match("(?i:a)b", "AB"), "-") << "only in the group";
  EXPECT_EQ(match("(?i:[a-c]+)", "aBCd"), "aBC");
}

TEST(Regex, LongTextsNeedNoStack) {
  const std::string text(std::size_t{1} << 19, 'a');
  EXPECT_EQ(match("(?:a|b)*", text), text);
  EXPECT_EQ(match("(?:(?:ab?)+)*", text), text);
  EXPECT_EQ(match("(?:aa)*", text), text);
}

TEST(Regex, NamesWhatIsNotSupported) {
  const auto refused = [](std::string_view pattern, std::initializer_list<std::string_view> words) {
    expect_error<NotSupported>([&] { (void)Regex(pattern); }, words);
  };
  refused("a+?", {"lazy quantifier '+?'", "a+?"});
  refused("a{2}?", {"lazy"});
  refused("^a", {"anchor '^'"});
  refused("a$", {"anchor '$'"});
  refused(R"(\bx)", {"escape '\\b'"});
  refused(R"((a)\1)", {"escape '\\1'"});
  refused("(?<=a)b", {"group '(?<='"});
  refused("(?i)a", {"group '(?i)'"});
  refused("[a[b]]", {"class in a class"});
  refused("[a&&b]", {"intersection"});
  refused(R"(\p{Han})", {"property 'Han'"});
  refused("(?:ab)++", {"possessive"});
  refused("a{2}+", {"possessive"});
  refused("a**", {"quantifier of a quantifier"});
  refused("(a?)*", {"unlimited repetition of what can be empty"});
  refused("a{2000}", {"1000"});
  refused("a{,3}", {"'{' without a count"});
  refused("(?:(?:(?:ab){100}){100}){100}", {"10000"});
  refused(std::string(100, '(') + std::string(100, ')'), {"64"});
}

TEST(Regex, SaysWhatIsWrong) {
  const auto wrong = [](std::string_view pattern, std::initializer_list<std::string_view> words) {
    expect_error<InvalidArgument>([&] { (void)Regex(pattern); }, words);
  };
  wrong("(a", {"'(' has no ')'"});
  wrong("a)", {"')' has no '('"});
  wrong("[a", {"'[' has no ']'"});
  wrong("[]", {"empty class"});
  wrong("[b-a]", {"must rise"});
  wrong("*a", {"repeats nothing"});
  wrong("a{3,2}", {"must rise"});
  wrong(R"(\p{L)", {"'{' has no '}'"});
  wrong("\\", {"ends too early"});
  wrong("\xff", {"UTF-8"});
}

TEST(Regex, StopsIfItBacktracksTooOften) {
  const Regex regex("(?:a|a)*b");
  Regex::Scratch scratch;
  expect_error<NotSupported>([&] { (void)regex.match(std::string(40, 'a'), 0, scratch); }, {"backtracks"});
}

}  // namespace
}  // namespace tessera::train::detail

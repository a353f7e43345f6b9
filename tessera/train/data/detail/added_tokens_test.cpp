#include "tessera/train/data/detail/added_tokens.h"

#include <gtest/gtest.h>

namespace tessera::train::detail {
namespace {

// Returns pieces as text; tokens in brackets.
std::string split(const std::vector<AddedToken>& tokens, std::string_view text, bool finds_special = true) {
  std::string pieces;
  AddedTokenMatcher(tokens).split(text, finds_special, [&](const AddedTokenMatcher::Piece& piece) {
    const std::string part(text.substr(piece.begin, piece.end - piece.begin));
    pieces += piece.token != nullptr ? "[" + part + "=" + std::to_string(piece.token->id) + "]" : part + "|";
  });
  return pieces;
}

TEST(AddedTokens, TheLongestIsFound) {
  const std::vector<AddedToken> tokens = {
      {.id = 1, .content = "<a"}, {.id = 2, .content = "<a>"}, {.id = 3, .content = "a>"}};
  EXPECT_EQ(split(tokens, "x<a>y<aa>"), "x|[<a>=2]y|[<a=1][a>=3]");
  EXPECT_EQ(split(tokens, "<"), "<|");
  EXPECT_EQ(split(tokens, ""), "");
  EXPECT_EQ(split({}, "ab"), "ab|");
}

TEST(AddedTokens, SpecialOnesAreTextUnlessRequested) {
  const std::vector<AddedToken> tokens = {{.id = 1, .content = "<s>", .is_special = true}, {.id = 2, .content = "s>x"}};
  EXPECT_EQ(split(tokens, "a<s>x"), "a|[<s>=1]x|");
  EXPECT_EQ(split(tokens, "a<s>x", false), "a<s>x|") << "what a special token covers is not searched again";
  EXPECT_EQ(split(tokens, "s>x", false), "[s>x=2]");
}

TEST(AddedTokens, TakeSpacesAndRespectWords) {
  EXPECT_EQ(split({{.id = 1, .content = "x", .strips_left = true}}, "a \u00a0x b"), "a|[ \u00a0x=1] b|");
  EXPECT_EQ(split({{.id = 1, .content = "x", .strips_right = true}}, "a x \nb"), "a |[x \n=1]b|");
  EXPECT_EQ(split({{.id = 1, .content = "x", .strips_left = true, .strips_right = true}}, "x x"), "[x =1][x=1]");
  const std::vector<AddedToken> word = {{.id = 1, .content = "ab", .is_single_word = true}};
  EXPECT_EQ(split(word, "ab abc xab ab_ ab-ab"), "[ab=1] abc xab ab_ |[ab=1]-|[ab=1]");
  EXPECT_EQ(split(word, "ab\u0301 \u00e4ab"), "ab\u0301 \u00e4ab|");
}

}  // namespace
}  // namespace tessera::train::detail

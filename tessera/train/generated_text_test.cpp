#include "tessera/train/generated_text.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera::train {
namespace {

struct Received {
  std::vector<std::string> pieces;
  std::string all;
  bool is_stopped = false;
};

// Adds the bytes of a text one by one.
Received add_bytes(std::string_view bytes, std::vector<std::string> stops = {}) {
  Received got;
  GeneratedText text(Tokenizer::bytes(), std::move(stops), [&](std::string_view more) {
    got.pieces.emplace_back(more);
    got.all += more;
  });
  for (const char c : bytes) {
    if (text.add(static_cast<unsigned char>(c))) continue;
    got.is_stopped = true;
    break;
  }
  text.finish();
  EXPECT_EQ(text.text(), got.all);
  return got;
}

TEST(GeneratedText, NeverSplitsACharacter) {
  const Received got = add_bytes("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z");
  EXPECT_EQ(got.pieces, (std::vector<std::string>{"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "z"}));
}

TEST(GeneratedText, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(add_bytes("a\xffz").all, "a\xef\xbf\xbdz");
  EXPECT_EQ(add_bytes("\xe2\x82").all, "\xef\xbf\xbd") << "an incomplete character at the end";
  EXPECT_EQ(add_bytes("\xc3(").all, "\xef\xbf\xbd(");
  EXPECT_EQ(add_bytes("\xed\xa0\x80").all, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd") << "half of a surrogate pair";
  EXPECT_EQ(add_bytes("\xc0\x80").all, "\xef\xbf\xbd\xef\xbf\xbd") << "an overlong form";
  EXPECT_EQ(add_bytes("\xf5\x80").all, "\xef\xbf\xbd\xef\xbf\xbd") << "above U+10FFFF";
}

TEST(GeneratedText, EndsBeforeTheFirstStopString) {
  Received got = add_bytes("one two three", {"two", "three"});
  EXPECT_TRUE(got.is_stopped);
  EXPECT_EQ(got.all, "one ");
  got = add_bytes("a tworld and a two.", {"two."});
  EXPECT_EQ(got.all, "a tworld and a ");
  EXPECT_EQ(got.pieces[2], "twor") << "held back while it may begin a stop string";
  got = add_bytes("ends in tw", {"two"});
  EXPECT_FALSE(got.is_stopped);
  EXPECT_EQ(got.all, "ends in tw");
  got = add_bytes("aaab", {"aab"});
  EXPECT_EQ(got.all, "a");
  got = add_bytes("x\xe2\x82\xacy", {"\xe2\x82\xac"});
  EXPECT_EQ(got.all, "x");
  EXPECT_THROW(add_bytes("a", {""}), InvalidArgument);
}

}  // namespace
}  // namespace tessera::train

// Texts of megabytes: encoded block by block, and interrupted.
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/train/data/testing/data_directory.h"
#include "tessera/train/data/testing/small_tokenizer.h"
#include "tessera/train/data/tokenizer.h"

namespace tessera::train {
namespace {

using nlohmann::ordered_json;
using testing::DataDirectory;
using Tokens = std::vector<std::uint32_t>;

Tokenizer read(const DataDirectory& directory, const ordered_json& file) {
  return Tokenizer::read(directory.write("tokenizer.json", file.dump()));
}

// Without a pre-tokenizer, a text is one word, which is divided where no merge goes.
TEST(LongText, WithoutAPreTokenizerIsEncodedBlockByBlock) {
  const DataDirectory directory;
  const Tokenizer tokenizer = read(directory, testing::small_sentencepiece());
  std::mt19937 random(3);
  std::string text = "the";
  Tokens want = tokenizer.encode(text);
  while (text.size() < 300000) {
    static const char* const kWords[] = {"the", "he", "x", "\u00e9", "e", "\u20ac"};
    const char* word = kWords[random() % std::size(kWords)];
    text += std::string(" ") + word;
    const Tokens more = tokenizer.encode(word);  // begins with a space
    want.insert(want.end(), more.begin(), more.end());
  }
  EXPECT_EQ(tokenizer.encode(text), want);
}

// Steps before the first token call twice in 9 MiB, with 0 bytes done.
TEST(LongText, CanBeInterruptedInEachStep) {
  struct Stop {};
  const DataDirectory directory;
  std::string text;
  while (text.size() < (std::size_t{9} << 20)) text += "a line of words\n";
  const auto calls_before_tokens = [&](const Tokenizer& tokenizer) {
    int calls = 0;
    const auto count = [&](std::uint64_t done, std::uint64_t /*all*/) {
      if (done > 0) throw Stop();
      ++calls;
    };
    EXPECT_THROW((void)tokenizer.encode(text, count), Stop);
    return calls;
  };
  EXPECT_EQ(calls_before_tokens(Tokenizer::bytes()), 0);
  ordered_json file = testing::small_sentencepiece();
  EXPECT_EQ(calls_before_tokens(read(directory, file)), 4) << "a search for added tokens, and a replacement";
  for (const char* kind : {"NFC", "Lowercase"}) {
    file["normalizer"] = {{"type", kind}};
    EXPECT_EQ(calls_before_tokens(read(directory, file)), 4) << kind;
  }
  file["normalizer"] = nullptr;
  EXPECT_EQ(calls_before_tokens(read(directory, file)), 2);
}

}  // namespace
}  // namespace tessera::train

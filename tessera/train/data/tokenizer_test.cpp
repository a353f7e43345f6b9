#include "tessera/train/data/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/train/data/detail/split.h"
#include "tessera/train/data/testing/data_directory.h"
#include "tessera/train/data/testing/small_tokenizer.h"

namespace tessera::train {
namespace {

using nlohmann::ordered_json;
using testing::byte_character;
using testing::DataDirectory;
using testing::small_tokenizer;
using Tokens = std::vector<std::uint32_t>;

std::string all_bytes() {
  std::string bytes;
  for (int first = 0; first < 256; ++first) {
    bytes += static_cast<char>(first);
    bytes += static_cast<char>(255 - first * 7 % 256);
  }
  return bytes;
}

Tokenizer read(const DataDirectory& directory, const ordered_json& file) {
  return Tokenizer::read(directory.write("tokenizer.json", file.dump()));
}

TEST(Tokenizer, BytesAreThemselves) {
  const Tokenizer bytes = Tokenizer::bytes();
  EXPECT_EQ(bytes.encode("a\xff"), (Tokens{97, 255}));
  EXPECT_EQ(bytes.decode(bytes.encode(all_bytes())), all_bytes());
  EXPECT_EQ(bytes.vocabulary(), 256);
  EXPECT_EQ(bytes.end_of_text(), 0U);
  EXPECT_EQ(bytes.digest().size(), 32U);
  expect_error<NotSupported>([&] { bytes.write("/nowhere/x.json"); }, {"bytes"});
}

TEST(Tokenizer, MergesByRankAndFromTheLeft) {
  const DataDirectory directory;
  const Tokenizer tokenizer = read(directory, small_tokenizer());
  EXPECT_EQ(tokenizer.vocabulary(), 263);
  EXPECT_EQ(tokenizer.end_of_text(), 262U);
  EXPECT_EQ(tokenizer.encode(" the"), (Tokens{259}));
  // he is merged before er and th: t + he + r, although the longest match is ther.
  EXPECT_EQ(tokenizer.encode("ther"), (Tokens{'t', 256, 'r'}));
  // By rank, not by number: of " t" (258) and "th" (257) the former comes first.
  EXPECT_EQ(tokenizer.encode(" th"), (Tokens{258, 'h'}));
  EXPECT_EQ(tokenizer.encode("th er"), (Tokens{257, ' ', 260}));
  EXPECT_EQ(tokenizer.encode("hehe"), (Tokens{256, 256}));
  EXPECT_EQ(tokenizer.encode(""), (Tokens{}));
  EXPECT_EQ(tokenizer.decode(Tokens{259, 262, 256}), " the<|endoftext|>he");
}

TEST(Tokenizer, TakesSpecialTokensInTextAsText) {
  const DataDirectory directory;
  ordered_json file = small_tokenizer();
  file["model"]["ignore_merges"] = true;
  file["added_tokens"].push_back({{"id", 263}, {"content", "pad"}, {"special", true}});
  const Tokenizer tokenizer = read(directory, file);
  EXPECT_EQ(tokenizer.encode("<|endoftext|>").size(), 13U);
  EXPECT_EQ(tokenizer.encode("pad"), (Tokens{'p', 'a', 'd'})) << "though the word is a token, and merges are ignored";
  EXPECT_EQ(tokenizer.decode(Tokens{263}), "pad");
}

TEST(Tokenizer, MergesAreIgnoredForAWholeTokenIfTheFileSaysSo) {
  const DataDirectory directory;
  ordered_json file = small_tokenizer();
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(read(directory, file).encode("ther"), (Tokens{261}));
}

TEST(Tokenizer, ReadsBothFormsOfMerges) {
  const DataDirectory directory;
  ordered_json file = small_tokenizer();
  const Tokenizer texts = read(directory, file);
  for (ordered_json& merge : file["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    merge = {text.substr(0, space), text.substr(space + 1)};
  }
  EXPECT_EQ(read(directory, file).digest(), texts.digest());
}

TEST(Tokenizer, ReadsTheFormOfLlama3) {
  const DataDirectory directory;
  ordered_json file = small_tokenizer();
  file["model"]["vocab"].erase("<|endoftext|>");  // in such files, special tokens are outside of the vocabulary
  file["added_tokens"] = {{{"id", 263}, {"content", "<|end_of_text|>"}, {"special", true}},
                          {{"id", 262}, {"content", "<|begin_of_text|>"}, {"special", true}}};
  file["model"]["ignore_merges"] = true;
  const ordered_json split = {{"type", "Split"},
                              {"pattern", {{"Regex", detail::pattern_of(detail::SplitRule::kLlama3)}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  const ordered_json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}};
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors", ordered_json::array({{{"type", "ByteLevel"}}, {{"type", "TemplateProcessing"}}})}};
  const Tokenizer tokenizer = read(directory, file);
  EXPECT_EQ(tokenizer.end_of_text(), 263U);
  EXPECT_EQ(tokenizer.vocabulary(), 264);
  EXPECT_EQ(tokenizer.encode("(the"), (Tokens{'(', 't', 256})) << "one word, but begins with (";
  tokenizer.write(directory.path("again.json"));
  EXPECT_EQ(Tokenizer::read(directory.path("again.json")).digest(), tokenizer.digest());
}

TEST(Tokenizer, IsReadBackAsItWasWritten) {
  const DataDirectory directory;
  const Tokenizer tokenizer = read(directory, small_tokenizer());
  tokenizer.write(directory.path("again.json"));
  const Tokenizer again = Tokenizer::read(directory.path("again.json"));
  EXPECT_EQ(again.digest(), tokenizer.digest());
  EXPECT_EQ(again.encode(" the other"), tokenizer.encode(" the other"));
  ordered_json other = small_tokenizer();
  std::swap(other["model"]["merges"][0], other["model"]["merges"][1]);
  EXPECT_NE(read(directory, other).digest(), tokenizer.digest()) << "the order of merges matters";
}

TEST(Tokenizer, NamesWhatIsNotSupported) {
  const DataDirectory directory;
  const auto refused = [&](const std::string& pointer, const ordered_json& value,
                           std::initializer_list<std::string_view> words) {
    ordered_json file = small_tokenizer();
    file[ordered_json::json_pointer(pointer)] = value;
    expect_error<NotSupported>([&] { (void)read(directory, file); }, words);
  };
  refused("/normalizer", {{"type", "NFC"}}, {"tokenizer.json", "normalizer", "NFC"});
  refused("/truncation", {{"max_length", 5}}, {"truncation"});
  refused("/padding", {{"strategy", "x"}}, {"padding"});
  refused("/model/type", "WordPiece", {"model type", "WordPiece"});
  refused("/model/dropout", 0.1, {"dropout", "0.1"});
  refused("/model/byte_fallback", true, {"byte_fallback"});
  refused("/model/end_of_word_suffix", "</w>", {"end_of_word_suffix", "</w>"});
  refused("/model/novelty", 1, {"novelty"});
  refused("/novelty", 1, {"novelty"});
  refused("/pre_tokenizer", {{"type", "Metaspace"}}, {"pre_tokenizer", "Metaspace"});
  refused("/pre_tokenizer", nullptr, {"pre_tokenizer"});
  refused("/pre_tokenizer/add_prefix_space", true, {"add_prefix_space"});
  refused("/pre_tokenizer/use_regex", false, {"use_regex"});
  refused("/post_processor", {{"type", "BertProcessing"}}, {"post_processor", "BertProcessing"});
  refused("/decoder", {{"type", "WordPiece"}}, {"decoder", "WordPiece"});
  refused("/added_tokens/0/special", false, {"not special", "<|endoftext|>"});
  const ordered_json split = {{"type", "Split"}, {"pattern", {{"Regex", "\\w+"}}}, {"behavior", "Isolated"}};
  refused("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, {{"type", "ByteLevel"}}}}},
          {"pattern", "w+"});
}

TEST(Tokenizer, SaysWhatIsWrongWithAFile) {
  const DataDirectory directory;
  const auto refused = [&](const std::function<void(ordered_json&)>& spoil,
                           std::initializer_list<std::string_view> words) {
    ordered_json file = small_tokenizer();
    spoil(file);
    expect_error<IoError>([&] { (void)read(directory, file); }, words);
  };
  const std::string odd = byte_character(0x80);
  refused([&](auto& file) { file["model"]["vocab"].erase(odd); }, {"without gaps"});
  refused([&](auto& file) { file["model"]["vocab"].erase(odd), file["model"]["vocab"]["hh"] = 128; }, {"byte 128"});
  refused([&](auto& file) { file["model"]["vocab"]["he"] = 97; }, {"97", "twice"});
  refused([&](auto& file) { file["model"]["vocab"]["he"] = -1; }, {"\"he\"", "-1"});
  refused([&](auto& file) { file["model"]["vocab"]["he"] = 1U << 30; }, {"1073741824"});
  refused([&](auto& file) { file["model"]["vocab"]["he"] = "x"; }, {"\"he\""});
  refused([&](auto& file) { file["model"]["vocab"]["\u2581x"] = 263; }, {"characters of bytes"});
  refused([&](auto& file) { file["model"]["vocab"]["<|endoftext|>"] = 3; }, {"262", "added"});
  refused([&](auto& file) { file["model"]["merges"][2] = "x y"; }, {"merge 2", "x y"});
  refused([&](auto& file) { file["model"]["merges"][2] = "xy"; }, {"merge 2", "must be a pair of tokens"});
  refused([&](auto& file) { file["model"]["merges"][2] = {"a"}; }, {"merge 2", "must be a pair of tokens"});
  refused([&](auto& file) { file["model"]["merges"][2] = "h e"; }, {"merge 2", "twice"});
  refused([&](auto& file) { file["model"].erase("merges"); }, {"merges"});
  refused([&](auto& file) { file["model"].erase("vocab"); }, {"vocab"});
  refused([&](auto& file) { file.erase("model"); }, {"model is missing"});
  refused(
      [&](auto& file) { file["added_tokens"][0]["content"] = "<pad>", file["model"]["vocab"].erase("<|endoftext|>"); },
      {"ends a document", "<|endoftext|>"});
  expect_error<IoError>([&] { (void)Tokenizer::read(directory.write("x", "{\"model\": ")); }, {"/x", "tokenizer.json"});
  expect_error<IoError>([&] { (void)Tokenizer::read(directory.write("x", "")); }, {"/x"});
  expect_error<IoError>([&] { (void)Tokenizer::read(directory.write("x", std::string(100000, '['))); }, {"nested"});
  expect_error<IoError>([&] { (void)Tokenizer::read(directory.path("missing.json")); }, {"missing.json", "No such"});
  expect_error<IoError>([&] { (void)Tokenizer::read(directory.path()); }, {"not a regular file"});
}

TEST(Tokenizer, DecodeRefusesWhatIsNoToken) {
  expect_error<InvalidArgument>([] { (void)Tokenizer::bytes().decode(Tokens{256}); }, {"256"});
}

// The definition of learning, without optimization.
std::vector<std::string> learn_slowly(const std::vector<std::string>& texts, std::size_t vocabulary) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.emplace_back("<|endoftext|>");
  std::vector<Tokens> words;
  for (const std::string& text : texts) {
    for (std::size_t start = 0; start < text.size();) {
      const std::size_t end = detail::word_end(text, start, detail::SplitRule::kGpt2);
      Tokens& word = words.emplace_back();
      for (std::size_t i = start; i < end; ++i) word.push_back(static_cast<unsigned char>(text[i]));
      start = end;
    }
  }
  while (tokens.size() < vocabulary) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, int> counts;
    for (const Tokens& word : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    }
    const auto best = std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
    const std::string bytes = tokens[best.first] + tokens[best.second];
    EXPECT_EQ(std::ranges::count(tokens, bytes), 0) << "bytes have one way to a token";
    const auto result = static_cast<std::uint32_t>(tokens.size());
    tokens.push_back(bytes);
    for (Tokens& word : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != best.first || word[i + 1] != best.second) continue;
        word[i] = result;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return tokens;
}

TEST(Learn, FindsTheMostFrequentPairsFirst) {
  std::mt19937_64 random(3);
  for (int run = 0; run < 40; ++run) {
    std::vector<std::string> texts(1 + random() % 3);
    for (std::string& text : texts) {
      for (int i = 0; i < 150; ++i) text += "aaabbc dé "[random() % 11];
    }
    std::vector<std::string_view> views(texts.begin(), texts.end());
    const std::size_t vocabulary = 257 + random() % 40;
    const Tokenizer learned = Tokenizer::learn(views, static_cast<std::int64_t>(vocabulary));
    ASSERT_EQ(learned.vocabulary(), static_cast<std::int64_t>(vocabulary));
    const std::vector<std::string> expected = learn_slowly(texts, vocabulary);
    for (std::uint32_t id = 0; id < vocabulary; ++id)
      ASSERT_EQ(learned.decode(Tokens{id}), expected[id]) << "run " << run;
    std::reverse(views.begin(), views.end());
    EXPECT_EQ(Tokenizer::learn(views, static_cast<std::int64_t>(vocabulary)).digest(), learned.digest());
  }
}

TEST(Learn, MakesATokenizerThatIsReadBackAndLosesNothing) {
  const DataDirectory directory;
  const std::string text = "the theme of the theatre is the thesis: then, 12 \xff\xfe\n\tthemes äöü äöü";
  const std::string_view views[] = {text};
  const Tokenizer learned = Tokenizer::learn(views, 280);
  learned.write(directory.path("learned.json"));
  const Tokenizer again = Tokenizer::read(directory.path("learned.json"));
  EXPECT_EQ(again.digest(), learned.digest());
  EXPECT_EQ(again.end_of_text(), 256U);
  EXPECT_EQ(again.encode(text), learned.encode(text));
  EXPECT_LT(learned.encode(text).size(), text.size() * 2 / 3);
  EXPECT_EQ(learned.encode(" the").size(), 1U);
  for (const std::string& each : {text, all_bytes(), std::string(100000, 'e')}) {
    EXPECT_EQ(again.decode(again.encode(each)), each);
  }
}

TEST(Learn, AndEncodingTellHowFarTheyCame) {
  std::string text;
  while (text.size() < (std::size_t{1} << 20)) text += "one word after another ";
  std::vector<std::uint64_t> done;
  const auto tell = [&](std::uint64_t so_far, std::uint64_t all) {
    done.push_back(so_far);
    EXPECT_LE(so_far, all);
  };
  const std::string_view texts[] = {text};
  const Tokenizer tokenizer = Tokenizer::learn(texts, 260, tell);
  EXPECT_EQ(done, (std::vector<std::uint64_t>{258, 259, 260}));
  done.clear();
  EXPECT_EQ(tokenizer.encode(text, tell), tokenizer.encode(text));
  EXPECT_EQ(done.size(), 4u) << "every 256 KiB";
  EXPECT_TRUE(std::ranges::is_sorted(done));
}

TEST(Learn, SaysWhatCannotBeLearned) {
  const std::string_view texts[] = {"ab ab"};
  expect_error<InvalidArgument>([&] { (void)Tokenizer::learn(texts, 256); }, {"256", "257"});
  expect_error<InvalidArgument>([&] { (void)Tokenizer::learn(texts, 1000); }, {"1000", "only 259"});
  expect_error<InvalidArgument>([&] { (void)Tokenizer::learn({}, 258); }, {"only 257"});
  EXPECT_EQ(Tokenizer::learn({}, 257).vocabulary(), 257);
}

}  // namespace
}  // namespace tessera::train

#include "tessera/train/data/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/train/data/detail/pre_tokenize.h"
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
                              {"pattern", {{"Regex", testing::kLlama3Pattern}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  const ordered_json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}};
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       ordered_json::array(
           {{{"type", "ByteLevel"}},
            {{"type", "TemplateProcessing"},
             {"single", ordered_json::array({{{"SpecialToken", {{"id", "begin"}}}}, {{"Sequence", {{"id", "A"}}}}})},
             {"special_tokens", {{"begin", {{"ids", {262}}}}}}}})}};
  const Tokenizer tokenizer = read(directory, file);
  EXPECT_EQ(tokenizer.end_of_text(), 263U);
  EXPECT_EQ(tokenizer.vocabulary(), 264);
  EXPECT_EQ(tokenizer.encode("(the"), (Tokens{'(', 't', 256})) << "one word, but begins with (";
  EXPECT_EQ(tokenizer.encode("he", {.adds_template = true}), (Tokens{262, 256}));
  EXPECT_EQ(tokenizer.encode("<|end_of_text|>he", {.finds_special = true}), (Tokens{263, 256}));
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
  refused("/normalizer", {{"type", "StripAccents"}}, {"tokenizer.json", "normalizer", "StripAccents"});
  refused("/normalizer", {{"type", "NFC"}, {"novelty", 1}}, {"normalizer NFC field", "novelty"});
  refused("/truncation", {{"max_length", 5}}, {"truncation"});
  refused("/padding", {{"strategy", "x"}}, {"padding"});
  refused("/model/type", "WordPiece", {"model type", "WordPiece"});
  refused("/model/dropout", 0.1, {"dropout", "0.1"});
  refused("/model/end_of_word_suffix", "</w>", {"end_of_word_suffix", "</w>"});
  refused("/model/novelty", 1, {"novelty"});
  refused("/novelty", 1, {"novelty"});
  refused("/added_tokens/0/novelty", 1, {"added_tokens", "novelty"});
  refused("/pre_tokenizer", {{"type", "BertPreTokenizer"}}, {"pre_tokenizer", "BertPreTokenizer"});
  refused("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "odd"}},
          {"prepend_scheme", "odd"});
  refused("/post_processor", {{"type", "BertProcessing"}}, {"post_processor", "BertProcessing"});
  refused("/decoder", {{"type", "WordPiece"}}, {"decoder", "WordPiece"});
  const ordered_json byte_level = {{"type", "ByteLevel"}};
  const auto sequence = [](const char* name, const ordered_json& first, const ordered_json& second) {
    return ordered_json{{"type", "Sequence"}, {name, ordered_json::array({first, second})}};
  };
  refused("/decoder", sequence("decoders", byte_level, {{"type", "ByteFallback"}}),
          {"decoder after Fuse", "ByteFallback"});
  refused("/pre_tokenizer", sequence("pretokenizers", byte_level, {{"type", "Digits"}}),
          {"pre_tokenizer after ByteLevel", "Digits"});
  const auto split = [&](const char* pattern, const char* behavior) {
    return ordered_json{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", behavior}};
  };
  refused("/pre_tokenizer", sequence("pretokenizers", split("a+?", "Isolated"), byte_level),
          {"tokenizer.json", "pre_tokenizer Split", "lazy quantifier", "a+?"});
  refused("/pre_tokenizer", sequence("pretokenizers", split("a", "Odd"), byte_level), {"behavior", "Odd"});
  ordered_json file = testing::small_sentencepiece();
  file["decoder"] = nullptr;
  expect_error<NotSupported>([&] { (void)read(directory, file); }, {"decoder", "null"});
}

// Expected results are those of Hugging Face's library for the same file.
TEST(Tokenizer, ReadsTheFormOfLlama2) {
  const DataDirectory directory;
  const Tokenizer tokenizer = read(directory, testing::small_sentencepiece());
  EXPECT_EQ(tokenizer.vocabulary(), 268);
  EXPECT_EQ(tokenizer.end_of_text(), 2U);
  EXPECT_EQ(tokenizer.encode("the the"), (Tokens{266, 266}));
  EXPECT_EQ(tokenizer.encode("  he"), (Tokens{267, 259, 265}));
  EXPECT_EQ(tokenizer.encode("\u00e9x"), (Tokens{259, 263, 3 + 'x'})) << "é is a token, x its byte";
  EXPECT_EQ(tokenizer.encode("\u20ac\xff"), (Tokens{259, 3 + 0xE2, 3 + 0x82, 3 + 0xAC, 3 + 0xFF}));
  EXPECT_EQ(tokenizer.encode("<s>"), (Tokens{259, 3 + '<', 3 + 's', 3 + '>'}));
  EXPECT_EQ(tokenizer.encode("<s>the", {.finds_special = true, .adds_template = true}), (Tokens{1, 1, 266}));
  EXPECT_EQ(tokenizer.decode(Tokens{266, 266, 265}), "the thehe");
  EXPECT_EQ(tokenizer.decode(Tokens{267, 265}), " he") << "one space at the start is not of the text";
  for (const std::string text : {"the", " the  \u00e9 \u20ac\n", "", "\xff\xe2\x82 the"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  Tokens long_word(10001, 262);
  long_word[0] = 259;
  EXPECT_EQ(tokenizer.encode(std::string(10000, 'e')), long_word);
}

TEST(Tokenizer, UnknownCharactersBecomeTheUnknownToken) {
  const DataDirectory directory;
  ordered_json file = testing::small_sentencepiece();
  file["model"]["byte_fallback"] = false;
  EXPECT_EQ(read(directory, file).encode("xyez"), (Tokens{259, 0, 262, 0})) << "adjacent ones are one token";
  file["model"]["fuse_unk"] = false;
  EXPECT_EQ(read(directory, file).encode("xyez"), (Tokens{259, 0, 0, 262, 0}));
  file["model"]["unk_token"] = nullptr;
  EXPECT_EQ(read(directory, file).encode("xyez"), (Tokens{259, 262})) << "left out";
}

TEST(Tokenizer, NormalizesBetweenAddedTokens) {
  const DataDirectory directory;
  ordered_json file = small_tokenizer();
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", ordered_json::array({{{"type", "NFC"}}, {{"type", "Lowercase"}}})}};
  file["added_tokens"].push_back({{"id", 263}, {"content", "HER"}, {"special", false}, {"normalized", true}});
  file["added_tokens"].push_back({{"id", 264}, {"content", "THE"}, {"special", false}, {"normalized", false}});
  const Tokenizer tokenizer = read(directory, file);
  EXPECT_EQ(tokenizer.encode("He\u0301"), (Tokens{'h', 0xC3, 0xA9}));
  EXPECT_EQ(tokenizer.encode("her HER"), (Tokens{263, ' ', 263})) << "found in lower case";
  EXPECT_EQ(tokenizer.encode("the THE"), (Tokens{'t', 256, ' ', 264})) << "found as written";
  EXPECT_EQ(tokenizer.added_token("THE"), 264U);
  EXPECT_EQ(tokenizer.added_token("the"), std::nullopt);
  EXPECT_FALSE(tokenizer.is_special(264));
  EXPECT_TRUE(tokenizer.is_special(262));
  EXPECT_NE(tokenizer.digest(), read(directory, small_tokenizer()).digest());
  ordered_json other = file;
  other["normalizer"] = {{"type", "NFC"}};
  EXPECT_NE(read(directory, other).digest(), tokenizer.digest()) << "steps change tokens";
}

TEST(Tokenizer, ReadsADirectory) {
  const DataDirectory directory;
  const Tokenizer tokenizer = read(directory, small_tokenizer());
  EXPECT_EQ(Tokenizer::read(directory.path()).digest(), tokenizer.digest());
  EXPECT_EQ(Tokenizer::file_of(directory.path()), directory.path("tokenizer.json"));
  tokenizer.write(directory.path("again.json"));
  EXPECT_EQ(directory.content("again.json"), directory.content("tokenizer.json")) << "byte for byte";
}

TEST(TextStream, NeverSplitsACharacter) {
  const Tokenizer bytes = Tokenizer::bytes();
  TextStream stream(bytes);
  const auto add_all = [&](std::string_view text) {
    std::vector<std::string> parts;
    for (const char c : text) parts.push_back(stream.add(static_cast<unsigned char>(c)));
    parts.push_back(stream.finish());
    return parts;
  };
  using Parts = std::vector<std::string>;
  EXPECT_EQ(add_all("a\u00e9\u20ac"), (Parts{"a", "", "\u00e9", "", "", "\u20ac", ""}));
  EXPECT_EQ(add_all("\xff"
                    "a"),
            (Parts{"\ufffd", "a", ""}));
  EXPECT_EQ(add_all("\xe2\x82"
                    "a"),
            (Parts{"", "", "\ufffda", ""}))
      << "an incomplete character is one";
  EXPECT_EQ(add_all("\xe2\x82"), (Parts{"", "", "\ufffd"}));
  EXPECT_EQ(add_all("\xed\xa0\x80"), (Parts{"", "\ufffd\ufffd", "\ufffd", ""})) << "no character can begin so";
  EXPECT_EQ(add_all("b"), (Parts{"b", ""})) << "finish() begins a new text";
}

TEST(TextStream, LeavesOutSpecialTokensAndTheFirstSpace) {
  const DataDirectory directory;
  const Tokenizer tokenizer = read(directory, testing::small_sentencepiece());
  TextStream stream(tokenizer);
  for (int text = 0; text < 2; ++text) {
    EXPECT_EQ(stream.add(1), "");
    EXPECT_EQ(stream.add(266), "the");
    EXPECT_EQ(stream.add(266), " the");
    EXPECT_EQ(stream.add(3 + 0xC3), "");
    EXPECT_EQ(stream.add(3 + 0xA9), "\u00e9");
    EXPECT_EQ(stream.finish(), "");
  }
  TextStream all(tokenizer, /*shows_special=*/true);
  EXPECT_EQ(all.add(1), "<s>");
  EXPECT_EQ(all.add(266), " the");
  expect_error<InvalidArgument>([&] { (void)all.add(268); }, {"268"});
  ordered_json file = testing::small_sentencepiece();
  file["decoder"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}};
  EXPECT_EQ(read(directory, file).decode(Tokens{267, 266, 266}), " the the") << "the first token loses its spaces";
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
  expect_error<IoError>([&] { (void)Tokenizer::read(DataDirectory().path()); }, {"tokenizer.json", "No such"});
  expect_error<IoError>([&] { (void)Tokenizer::read(directory.write("x", R"({"model": 1, "model": 2})")); },
                        {"\"model\" appears twice"});
}

TEST(Tokenizer, SaysWhatIsWrongWithStepsAndTokens) {
  const DataDirectory directory;
  const auto refused = [&](const std::string& pointer, const ordered_json& value,
                           std::initializer_list<std::string_view> words) {
    ordered_json file = testing::small_sentencepiece();
    file[ordered_json::json_pointer(pointer)] = value;
    expect_error<IoError>([&] { (void)read(directory, file); }, words);
  };
  ordered_json added = testing::small_sentencepiece()["added_tokens"];
  added.push_back(added[0]);
  refused("/added_tokens", added, {"<unk>", "appears twice"});
  refused("/added_tokens/0/content", "", {"without content"});
  refused("/added_tokens/0/lstrip", 1, {"lstrip must be true or false, got 1"});
  refused("/model/unk_token", "<none>", {"unk_token", "<none>", "vocabulary"});
  refused("/model/unk_token", 7, {"unk_token must be a text"});
  ordered_json vocabulary = testing::small_sentencepiece()["model"]["vocab"];
  vocabulary.erase("<0x41>");
  vocabulary["A"] = 3 + 0x41;
  refused("/model/vocab", vocabulary, {"byte_fallback: no token for byte 65"});
  refused("/normalizer", 5, {"normalizer must be an object, got 5"});
  refused("/normalizer/normalizers", "x", {"normalizers must be a list"});
  refused("/normalizer/normalizers/1/pattern", 5, {"normalizer Replace", "got 5"});
  refused("/normalizer/normalizers/1/pattern/String", "", {"must not be empty"});
  refused("/normalizer/normalizers/1/pattern", {{"Regex", "(a"}}, {"normalizer Replace", "'(' has no ')'"});
  refused("/normalizer/normalizers/0/prepend", nullptr, {"prepend must be a text"});
  refused("/normalizer/normalizers", ordered_json(std::vector<ordered_json>(101, {{"type", "NFC"}})), {"100 steps"});
  refused("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "ab"}}, {"must be one character", "ab"});
  refused("/decoder/decoders/3/start", -1, {"decoder Strip must have numbers"});
  refused("/decoder/decoders/3/content", "ab", {"must be one character"});
  refused("/post_processor/single/0", 5, {"part of a template"});
  refused("/post_processor/single/1", {{"Sequence", {{"id", "B"}}}}, {"must use A"});
  refused("/post_processor/single", ordered_json::array(), {"use it once, got 0"});
  refused("/post_processor/special_tokens/<s>/ids/0", 268, {"id must be in [0, 268), got 268"});
  refused("/post_processor/special_tokens", ordered_json::object(), {"special_tokens of the template", "<s>"});
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
    detail::PreTokenizer split;
    split.steps.push_back({.pattern = {.text = {}, .regex = detail::Regex(detail::kGpt2Pattern)}});
    split.split(text, true, [&](std::string_view found) {
      Tokens& word = words.emplace_back();
      for (const char c : found) word.push_back(static_cast<unsigned char>(c));
    });
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

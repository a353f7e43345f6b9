// Corrupted tokenizer.json files, as text and as values, must be rejected with a Tessera error, or yield tokenizers
// whose tokens exist, and whose streamed text is the decoded text. Tokenizers that change no text preserve every byte
// of it. Learned ones are read back as written. Random expressions agree with std::regex.
//   train_tokenizer_fuzz [--runs N] [--seed S] [--seconds T]
#include <unistd.h>

#include <fstream>
#include <random>
#include <regex>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/train/data/detail/bpe_learn.h"
#include "tessera/train/data/detail/tokenizer_json.h"
#include "tessera/train/data/testing/small_tokenizer.h"
#include "tessera/train/data/tokenizer.h"

namespace tessera::train::detail {
namespace {

using nlohmann::ordered_json;
using Random = std::mt19937_64;

std::string random_text(Random& random) {
  static const std::string_view kPieces[] = {"the", "he", " ", "th", "er", "\n", "ä", "\xff", "'s", "123", ".", "<|"};
  std::string text;
  for (std::size_t i = random() % 20; i > 0; --i) {
    if (random() % 4 == 0)
      text += static_cast<char>(random());
    else
      text += kPieces[random() % std::size(kPieces)];
  }
  return text;
}

std::string spoilt_text(std::string text, Random& random) {
  for (std::size_t times = 1 + random() % 4; times > 0 && !text.empty(); --times) {
    const std::size_t at = random() % text.size();
    switch (random() % 5) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text[at] = "{}[]\",:0189-\\"[random() % 13]; break;
      case 2: text.erase(at, random() % 12); break;
      case 3: text.insert(at, text.substr(random() % text.size(), random() % 40)); break;
      default: text.resize(at);
    }
  }
  return text;
}

ordered_json any_form(Random& random) {
  const auto pick = [&](std::initializer_list<const char*> texts) {
    return ordered_json::parse(*std::next(texts.begin(), static_cast<int>(random() % texts.size())));
  };
  const bool is_byte_level = random() % 2 == 0;
  ordered_json file = is_byte_level ? testing::small_tokenizer() : testing::small_sentencepiece();
  if (random() % 2 == 0) return file;
  file["normalizer"] =
      pick({R"(null)", R"({"type":"NFC"})", R"({"type":"NFKC"})", R"({"type":"Lowercase"})",
            R"({"type":"Replace","pattern":{"Regex":"h|\\s+"},"content":"t"})", R"({"type":"Prepend","prepend":"t"})"});
  const ordered_json split = pick(
      {R"({"type":"Split","pattern":{"Regex":"\\s+(?!\\S)|(?i:THE|he)|\\p{N}{1,3}"},"behavior":"Isolated","invert":false})",
       R"({"type":"Split","pattern":{"String":"he"},"behavior":"MergedWithNext","invert":true})",
       R"({"type":"Digits","individual_digits":false})",
       R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":true})"});
  const ordered_json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", random() % 2 == 0}};
  file["pre_tokenizer"] = split;
  if (is_byte_level) {
    file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({split, bytes})}};
  }
  file["decoder"] = pick({R"({"type":"ByteLevel"})", R"({"type":"ByteFallback"})",
                          R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always"})",
                          R"({"type":"Strip","content":"t","start":1,"stop":1})"});
  const int next = static_cast<int>(file["model"]["vocab"].size());
  file["added_tokens"].push_back({{"id", next},
                                  {"content", random() % 2 == 0 ? "the" : " <|"},
                                  {"single_word", random() % 2 == 0},
                                  {"lstrip", random() % 2 == 0},
                                  {"rstrip", random() % 2 == 0},
                                  {"normalized", random() % 2 == 0},
                                  {"special", random() % 2 == 0}});
  return file;
}

// Adds a merge of any two tokens, or changes a random value.
std::string spoilt_value(Random& random) {
  ordered_json file = any_form(random);
  if (random() % 3 == 0) {
    const ordered_json& vocabulary = file["model"]["vocab"];
    const auto token = [&] { return std::next(vocabulary.begin(), static_cast<int>(90 + random() % 173)).key(); };
    file["model"]["merges"][random() % 4] = ordered_json::array({token(), token()});
    return file.dump();
  }
  if (random() % 4 == 0) return file.dump();
  ordered_json* at = &file;
  while (at->is_structured() && !at->empty() && random() % 5 != 0) {
    auto inside = at->begin();
    std::advance(inside, static_cast<std::ptrdiff_t>(random() % at->size()));
    at = &*inside;
  }
  switch (random() % 8) {
    case 0: *at = nullptr; break;
    case 1: *at = random() % 300; break;
    case 2: *at = -1.5; break;
    case 3: *at = "he"; break;
    case 4: *at = ordered_json::array({"t", "he"}); break;
    case 5: *at = ordered_json::object({{"type", "ByteLevel"}}); break;
    case 6: *at = random() % 2 == 0; break;
    default: *at = random();
  }
  return file.dump();
}

// Characters of the text that no invalid byte interrupts.
std::string repaired(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint point = code_point_at(bytes, at);
    text += point.is_valid ? std::string(bytes.substr(at, point.nbytes)) : "";
    at += point.nbytes;
  }
  return text;
}

std::string problem_of(const Tokenizer& tokenizer, bool keeps_text, Random& random) {
  const std::string text = random_text(random);
  const EncodeOptions options = {.finds_special = random() % 2 == 0, .adds_template = !keeps_text && random() % 2 == 0};
  const std::vector<std::uint32_t> tokens = tokenizer.encode(text, options);
  for (const std::uint32_t token : tokens) {
    if (static_cast<std::int64_t>(token) >= tokenizer.vocabulary()) return "a token that does not exist";
    if (tokenizer.is_special(token) && !options.finds_special && !options.adds_template &&
        token != tokenizer.added_token("<unk>")) {
      return "a special token came from text";
    }
  }
  const std::string decoded = tokenizer.decode(tokens);
  if (keeps_text && decoded != text) return "a text was changed";
  TextStream stream(tokenizer, true);
  std::string shown;
  for (const std::uint32_t token : tokens) {
    const std::string more = stream.add(token);
    if (repaired(more) != more) return "the stream is not UTF-8";
    shown += more;
  }
  shown += stream.finish();
  if (repaired(decoded) == decoded && shown != decoded) return "the stream differs from the decoded text";
  return {};
}

// A file that ends with the program.
struct ScratchFile {
  ~ScratchFile() { ::unlink(path.c_str()); }
  std::string path = "/dev/shm/tessera_tokenizer_fuzz_" + std::to_string(::getpid()) + ".json";
};

std::string try_text(const std::string& text, Random& random) {
  static const ScratchFile scratch;
  const std::string& path = scratch.path;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  try {
    const Tokenizer tokenizer = Tokenizer::read(path);
    const TextModel model = read_tokenizer(text, "fuzz");
    const bool keeps_text = model.bpe.is_byte_level && model.features.empty() && model.decoder.steps.size() == 1 &&
                            model.decoder.steps[0].kind == DecoderStep::Kind::kByteLevel;
    return problem_of(tokenizer, keeps_text, random);
  } catch (const IoError&) {
  } catch (const NotSupported&) {
  }
  return {};
}

// Expressions of characters, groups and counts, in which both libraries have the same meaning.
std::string random_pattern(Random& random, int depth) {
  std::string pattern;
  for (std::size_t i = 1 + random() % 3; i > 0; --i) {
    const bool is_group = depth > 0 && random() % 3 == 0;
    std::string atom = is_group ? "(?:" + random_pattern(random, depth - 1) + ")" : std::string(1, "abc"[random() % 3]);
    if (!is_group && random() % 4 == 0) atom = random() % 2 == 0 ? "[^ab]" : "[a-b]";
    static const char* const kCounts[] = {"", "", "?", "*", "+", "{2}", "{1,2}"};
    const char* count = kCounts[random() % std::size(kCounts)];
    pattern += atom + (is_group && (*count == '*' || *count == '+') ? "?" : count);
    if (random() % 6 == 0) pattern += random() % 2 == 0 ? "(?=a|b)" : "(?!a)";
    if (random() % 5 == 0 && i > 1) pattern += "|";
  }
  return pattern;
}

std::string problem_of_regex(Random& random) {
  const std::string pattern = random_pattern(random, 2);
  std::string text;
  for (std::size_t i = random() % 12; i > 0; --i) text += "abcc"[random() % 4];
  Regex::Scratch scratch;
  const std::optional<std::size_t> end = Regex(pattern).match(text, 0, scratch);
  std::smatch expected;
  const bool is_match = std::regex_search(text, expected, std::regex(pattern), std::regex_constants::match_continuous);
  if (end.has_value() != is_match || (end && *end != static_cast<std::size_t>(expected.length(0)))) {
    return "pattern " + pattern + " on " + text + " differs from std::regex";
  }
  return {};
}

std::string problem_of_learning(Random& random) {
  // Few letters: the same bytes can be merged in many ways.
  std::string repeated;
  for (int i = 0; i < 120; ++i) repeated += "aaabbc "[random() % 7];
  const std::string texts[] = {random_text(random), random() % 2 == 0 ? repeated : random_text(random)};
  const std::string_view views[] = {texts[0], texts[1]};
  try {
    const Bpe learned = learn_bpe(views, static_cast<std::int64_t>(257 + random() % 60));
    const std::string file = write_gpt2_tokenizer(learned);
    const TextModel again = read_tokenizer(file, "written");
    if (again.bpe.tokens != learned.tokens || again.bpe.merges != learned.merges ||
        again.bpe.end_of_text != learned.end_of_text || again.bpe.is_added != learned.is_added) {
      return "read back as another";
    }
    return try_text(file, random);
  } catch (const InvalidArgument&) {  // too little text for so many tokens
    return {};
  }
}

std::string run_one(std::uint64_t seed) {
  Random random(seed);
  const std::string sound = random() % 2 == 0 ? "" : any_form(random).dump();
  std::string problem = try_text(sound.empty() ? spoilt_value(random) : spoilt_text(sound, random), random);
  if (problem.empty()) problem = problem_of_regex(random);
  return problem.empty() ? problem_of_learning(random) : problem;
}

}  // namespace
}  // namespace tessera::train::detail

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "tokenizers", tessera::train::detail::run_one);
}

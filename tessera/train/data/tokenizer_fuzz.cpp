// Corrupted tokenizer.json files, as text and as values, must be rejected with a Tessera error, or yield tokenizers
// that preserve every byte of a text and are read back as written. The same holds for learned ones.
//   train_tokenizer_fuzz [--runs N] [--seed S] [--seconds T]
#include <random>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/train/data/detail/bpe_json.h"
#include "tessera/train/data/detail/bpe_learn.h"
#include "tessera/train/data/testing/small_tokenizer.h"

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

// Adds a merge of any two tokens, or changes a random value.
std::string spoilt_value(Random& random) {
  ordered_json file = testing::small_tokenizer();
  if (random() % 3 == 0) {
    const ordered_json& vocabulary = file["model"]["vocab"];
    const auto token = [&] { return std::next(vocabulary.begin(), static_cast<int>(90 + random() % 173)).key(); };
    file["model"]["merges"][random() % 6] = ordered_json::array({token(), token()});
    return file.dump();
  }
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

std::string problem_of(const Bpe& bpe, Random& random) {
  const std::string text = random_text(random);
  std::string joined;
  WordEncoder encoder(bpe);
  std::vector<std::uint32_t> tokens;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = word_end(text, start, bpe.rule);
    encoder.encode(std::string_view(text).substr(start, end - start), tokens);
    start = end;
  }
  for (const std::uint32_t token : tokens) {
    if (token >= bpe.tokens.size()) return "a token that does not exist";
    if (bpe.is_added[token]) return "an added token came from text";
    joined += bpe.tokens[token];
  }
  if (joined != text) return "a text was changed";
  const Bpe again = read_bpe(write_bpe(bpe), "written");
  if (again.tokens != bpe.tokens || again.merges != bpe.merges || again.end_of_text != bpe.end_of_text ||
      again.rule != bpe.rule || again.ignore_merges != bpe.ignore_merges || again.is_added != bpe.is_added) {
    return "read back as another";
  }
  return {};
}

std::string try_text(const std::string& text, Random& random) {
  try {
    return problem_of(read_bpe(text, "fuzz"), random);
  } catch (const IoError&) {
  } catch (const NotSupported&) {
  }
  return {};
}

std::string run_one(std::uint64_t seed) {
  Random random(seed);
  static const std::string kSound = testing::small_tokenizer().dump();
  std::string problem = try_text(random() % 2 == 0 ? spoilt_value(random) : spoilt_text(kSound, random), random);
  if (!problem.empty()) return problem;
  // Few letters: the same bytes can be merged in many ways.
  std::string repeated;
  for (int i = 0; i < 120; ++i) repeated += "aaabbc "[random() % 7];
  const std::string texts[] = {random_text(random), random() % 2 == 0 ? repeated : random_text(random)};
  const std::string_view views[] = {texts[0], texts[1]};
  try {
    return problem_of(learn_bpe(views, static_cast<std::int64_t>(257 + random() % 60)), random);
  } catch (const InvalidArgument&) {  // too little text for so many tokens
    return {};
  }
}

}  // namespace
}  // namespace tessera::train::detail

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "tokenizers", tessera::train::detail::run_one);
}

// Random documents written to a file must be read back unchanged. The same file is corrupted at random, with its check
// repaired or not. It must be rejected with a Tessera error, when opened or at a wrong token, or return only tokens
// inside the vocabulary.
//   train_token_file_fuzz [--runs N] [--seed S] [--seconds T]
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/base/fnv1a.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/train/data/token_file.h"

namespace tessera::train {
namespace {

using Random = std::mt19937_64;

class Directory {
 public:
  Directory() {
    // In memory: each file is synced.
    char name[] = "/dev/shm/tessera_token_fuzz_XXXXXX";
    if (::mkdtemp(name) == nullptr) std::abort();
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  [[nodiscard]] std::string file() const { return path_ + "/tokens"; }

 private:
  std::string path_;
};

std::string spoilt(std::string bytes, Random& random) {
  for (std::size_t times = 1 + random() % 3; times > 0 && !bytes.empty(); --times) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 6) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[random() % std::min<std::size_t>(bytes.size(), 64)] = static_cast<char>(random()); break;
      case 2: bytes.erase(at, random() % 12); break;
      case 3: bytes.resize(at); break;
      case 4: bytes.append(random() % 9, static_cast<char>(random())); break;
      default: bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
    }
  }
  if (bytes.size() >= 64 && random() % 4 != 0) {
    const std::uint64_t check = tessera::detail::fnv1a(std::string_view(bytes).substr(0, 56));
    bytes.replace(56, 8, reinterpret_cast<const char*>(&check), 8);
  }
  return bytes;
}

std::string try_bytes(const std::string& path, const std::string& bytes, Random& random) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  for (int way = 0; way < 3; ++way) {
    try {
      const TokenFile file = way == 0   ? TokenFile::open(path)
                             : way == 1 ? TokenFile::open_plain(path, TokenWidth::kU16)
                                        : TokenFile::open_plain(path, TokenWidth::kU32);
      if (file.tokens() > bytes.size() / 2) return "more tokens than the file has room for";
      (void)file.largest();
      std::vector<std::int32_t> tokens(file.tokens() == 0 ? 0 : random() % file.tokens() + 1);
      const std::uint64_t first = file.tokens() - tokens.size();
      file.read(first, tokens);
      for (const std::int32_t token : tokens) {
        if (token < 0 || (file.header() && static_cast<std::uint32_t>(token) >= file.header()->vocabulary)) {
          return "a token outside of the vocabulary";
        }
      }
    } catch (const IoError&) {
    }
  }
  return {};
}

std::string run_one(std::uint64_t seed) {
  Random random(seed);
  static const Directory directory;
  const std::string path = directory.file();
  const Tokenizer tokenizer = Tokenizer::bytes();
  const TokenWidth width = random() % 2 == 0 ? TokenWidth::kU16 : TokenWidth::kU32;
  std::vector<std::int32_t> expected;
  {
    TokenFileWriter writer(path, tokenizer, width);
    for (std::size_t documents = random() % 4; documents > 0; --documents) {
      std::string text(random() % 20, '\0');
      for (char& c : text) c = static_cast<char>(random());
      for (const char c : text) expected.push_back(static_cast<unsigned char>(c));
      expected.push_back(0);
      writer.add_document(tokenizer.encode(text));
    }
    writer.commit();
  }
  {
    const TokenFile file = TokenFile::open(path);
    std::vector<std::int32_t> found(file.tokens());
    file.read(0, found);
    if (found != expected) return "the tokens are not what was written";
  }
  std::stringstream sound;
  sound << std::ifstream(path, std::ios::binary).rdbuf();
  for (int i = 0; i < 8; ++i) {
    std::string problem = try_bytes(path, spoilt(sound.str(), random), random);
    if (!problem.empty()) return problem;
  }
  return {};
}

}  // namespace
}  // namespace tessera::train

int main(int argc, char** argv) { return tessera::fuzz::run(argc, argv, "files", tessera::train::run_one); }

// Encodes or decodes documents with a tokenizer, for comparisons with other libraries (tools/check_tokenizers.py).
//
//   train_tokenizer_documents MODE TOKENIZER INPUT OUTPUT       MODE: text, special, template, decode, shown
//
// Files hold documents: a length of 4 bytes, little-endian, then as many bytes, or tokens of 4 bytes. `text` encodes,
// `special` finds special tokens, `template` adds the template too, `decode` returns all bytes, and `shown` streams the
// tokens without special ones. Prints the seconds that this took on one thread.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/train/data/tokenizer.h"

namespace tessera::train {
namespace {

using Tokens = std::vector<std::uint32_t>;

template <class Items>
std::vector<Items> read_documents(const char* path) {
  std::stringstream file;
  file << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = file.str();
  std::vector<Items> documents;
  for (std::size_t at = 0; at + 4 <= bytes.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, bytes.data() + at, 4);
    Items& items = documents.emplace_back(length, typename Items::value_type{});
    const std::size_t nbytes = length * sizeof(items[0]);
    TESSERA_CHECK(bytes.size() - at - 4 >= nbytes, path, " is truncated");
    std::memcpy(items.data(), bytes.data() + at + 4, nbytes);
    at += 4 + nbytes;
  }
  return documents;
}

template <class Items>
void write_document(std::ofstream& file, const Items& items) {
  const auto length = static_cast<std::uint32_t>(items.size());
  file.write(reinterpret_cast<const char*>(&length), 4);
  file.write(reinterpret_cast<const char*>(items.data()),
             static_cast<std::streamsize>(items.size() * sizeof(typename Items::value_type)));
}

std::string streamed(const Tokenizer& tokenizer, const Tokens& tokens) {
  TextStream stream(tokenizer);
  std::string text;
  for (const std::uint32_t token : tokens) text += stream.add(token);
  return text + stream.finish();
}

template <class From, class To, class Convert>
void convert_all(const char* input, const char* output, const Convert& convert) {
  const std::vector<From> documents = read_documents<From>(input);
  std::vector<To> results;
  const auto start = std::chrono::steady_clock::now();
  for (const From& document : documents) results.push_back(convert(document));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::ofstream file(output, std::ios::binary);
  for (const To& result : results) write_document(file, result);
  std::printf("%.6f\n", seconds.count());
}

int run(std::string_view mode, const Tokenizer& tokenizer, const char* input, const char* output) {
  if (mode == "decode") {
    convert_all<Tokens, std::string>(input, output, [&](const Tokens& tokens) { return tokenizer.decode(tokens); });
  } else if (mode == "shown") {
    convert_all<Tokens, std::string>(input, output, [&](const Tokens& tokens) { return streamed(tokenizer, tokens); });
  } else {
    const EncodeOptions options = {.finds_special = mode != "text", .adds_template = mode == "template"};
    convert_all<std::string, Tokens>(input, output,
                                     [&](const std::string& text) { return tokenizer.encode(text, options); });
  }
  return 0;
}

}  // namespace
}  // namespace tessera::train

int main(int argc, char** argv) {
  try {
    TESSERA_CHECK(argc == 5, "usage: train_tokenizer_documents MODE TOKENIZER INPUT OUTPUT");
    return tessera::train::run(argv[1], tessera::train::Tokenizer::read(argv[2]), argv[3], argv[4]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

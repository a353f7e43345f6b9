// A tokenizer.json as other programs write it, for tests to modify.
#pragma once

#include <string>
#include <nlohmann/json.hpp>

namespace tessera::train::testing {

/// Returns the character of byte `byte` in such files.
inline std::string byte_character(unsigned byte) {
  const auto is_own = [](unsigned b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  unsigned point = byte;
  if (!is_own(byte)) {
    point = 256;
    for (unsigned before = 0; before < byte; ++before) point += is_own(before) ? 0 : 1;
  }
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xC0U | point >> 6), static_cast<char>(0x80U | (point & 0x3FU))};
}

/// Returns the form of GPT-2: bytes, the words " the" and "ther", <|endoftext|> last.
inline nlohmann::ordered_json small_tokenizer() {
  using nlohmann::ordered_json;
  ordered_json vocabulary = ordered_json::object();
  for (unsigned byte = 0; byte < 256; ++byte) vocabulary[byte_character(byte)] = byte;
  const std::string space = byte_character(' ');
  int next = 256;
  for (const std::string& token :
       {std::string("he"), std::string("th"), space + "t", space + "the", std::string("er"), std::string("ther")}) {
    vocabulary[token] = next++;
  }
  vocabulary["<|endoftext|>"] = next;
  const ordered_json merges = {"h e", space + " t", "e r", space + "t he", "t h", "th er"};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", ordered_json::array({{{"id", next},
                                                 {"content", "<|endoftext|>"},
                                                 {"single_word", false},
                                                 {"lstrip", false},
                                                 {"rstrip", false},
                                                 {"normalized", false},
                                                 {"special", true}}})},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
          {"post_processor", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}}},
          {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

}  // namespace tessera::train::testing

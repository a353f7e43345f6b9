// A tokenizer.json as other programs write it, for tests to modify.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <nlohmann/json.hpp>

namespace tessera::train::testing {

/// The expression with which Llama 3 splits text into words.
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// The expression of Qwen 2: numbers are split into digits.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

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

/// Returns the form of Llama 2: characters with a mark for a space, byte fallback, <unk>, <s> and </s>.
inline nlohmann::ordered_json small_sentencepiece() {
  using nlohmann::ordered_json;
  ordered_json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    vocabulary[name] = 3 + byte;
  }
  int next = 259;
  for (const char* token : {"\u2581", "t", "h", "e", "\u00e9", "\u2581t", "he", "\u2581the", "\u2581\u2581"}) {
    vocabulary[token] = next++;
  }
  const auto special = [](int id, const char* content) {
    return ordered_json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                        {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  const ordered_json mark_spaces = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  const ordered_json unmark_spaces = {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
  const ordered_json prepend = {{"type", "Prepend"}, {"prepend", "\u2581"}};
  const ordered_json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  const ordered_json merges = {"\u2581 t", "h e", "\u2581t he", "\u2581 \u2581"};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", ordered_json::array({special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")})},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", ordered_json::array({prepend, mark_spaces})}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", ordered_json::array({{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                                            {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
            {"pair", ordered_json::array()},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders", ordered_json::array({unmark_spaces, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, strip})}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", "<unk>"},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

}  // namespace tessera::train::testing

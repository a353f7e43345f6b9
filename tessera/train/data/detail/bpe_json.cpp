#include "tessera/train/data/detail/bpe_json.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/train/data/detail/unicode.h"

namespace tessera::train::detail {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kMaxDepth = 32;
constexpr std::size_t kMaxTokens = std::size_t{1} << 24;
// Names of the token between documents, in order of preference.
constexpr std::string_view kEndsOfText[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

constexpr bool is_own_character(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteCharacters {
  std::array<std::uint32_t, 256> of_byte = {};
  std::array<int, 512> to_byte = {};  // -1: no byte
};
constexpr ByteCharacters make_byte_characters() {
  ByteCharacters table;
  for (int& byte : table.to_byte) byte = -1;
  std::uint32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    table.of_byte[byte] = is_own_character(byte) ? byte : next++;
    table.to_byte[table.of_byte[byte]] = static_cast<int>(byte);
  }
  return table;
}
constexpr ByteCharacters kByteCharacters = make_byte_characters();

std::string written(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) append_utf8(text, kByteCharacters.of_byte[static_cast<unsigned char>(c)]);
  return text;
}

std::optional<std::string> bytes_of(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (!point.is_valid || point.value >= kByteCharacters.to_byte.size()) return std::nullopt;
    const int byte = kByteCharacters.to_byte[point.value];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    at += point.nbytes;
  }
  return bytes;
}

// Shortens a value of the file for a message: one line.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 80) + "...";
  return text;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& path) : path_(path) {
    file_ = json::parse(text, [this](int depth, json::parse_event_t, const json&) {
      check(depth <= kMaxDepth, "values must be nested at most ", kMaxDepth, " levels deep");
      return true;
    });
    check(file_.is_object(), "must be an object, got ", shown(file_));
  }

  Bpe read() {
    knows(file_, "file",
          {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
           "decoder", "model"});
    for (const char* name : {"truncation", "padding", "normalizer"}) {
      supports(get(file_, name).is_null(), name, get(file_, name));
    }
    read_pre_tokenizer();
    check_post_processor(get(file_, "post_processor"));
    const json& decoder = get(file_, "decoder");
    supports(decoder.is_null() || type_of(decoder) == "ByteLevel", "decoder", decoder);
    read_added();
    read_model(get(file_, "model"));
    bpe_.finish();
    find_end_of_text();
    return std::move(bpe_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    TESSERA_THROW(IoError, "'", path_, "': ", parts...);
  }
  // If formatting a value is costly and frequent, callers use refuse() after an if.
  template <class... Parts>
  void check(bool holds, const Parts&... parts) const {
    if (!holds) refuse(parts...);
  }
  void supports(bool holds, std::string_view what, const json& value) const {
    TESSERA_CHECK_AS(NotSupported, holds, "'", path_, "': ", what, " ", shown(value),
                     " is not supported; use a byte-level BPE tokenizer, such as those of GPT-2 and Llama 3, that does "
                     "not change the text");
  }
  void knows(const json& object, std::string_view what, std::initializer_list<std::string_view> names) const {
    for (const auto& [name, value] : object.items()) {
      supports(std::ranges::count(names, name) != 0, std::string(what) + " field '" + shown(name) + "' =", value);
    }
  }
  static const json& get(const json& object, const char* name) {
    static const json kNull;
    const auto found = object.is_object() ? object.find(name) : object.end();
    return object.is_object() && found != object.end() ? *found : kNull;
  }
  static std::string type_of(const json& object) {
    const json& type = get(object, "type");
    return type.is_string() ? type.get<std::string>() : "";
  }
  // Returns true if a field is absent, null, false, "" or 0.
  static bool is_off(const json& value) {
    return value.is_null() || value == json(false) || value == json("") || (value.is_number() && value == json(0));
  }

  void read_pre_tokenizer() {
    const json& whole = get(file_, "pre_tokenizer");
    const json* byte_level = &whole;
    if (type_of(whole) == "Sequence") {
      const json& parts = get(whole, "pretokenizers");
      supports(parts.is_array() && parts.size() == 2, "pre_tokenizer", whole);
      read_split(parts[0]);
      byte_level = &parts[1];
    }
    supports(type_of(*byte_level) == "ByteLevel", "pre_tokenizer", whole);
    supports(is_off(get(*byte_level, "add_prefix_space")), "add_prefix_space of pre_tokenizer", *byte_level);
    const json& splits = get(*byte_level, "use_regex");
    supports(is_off(splits) && !splits.is_null() ? byte_level != &whole : byte_level == &whole,
             "use_regex of pre_tokenizer", *byte_level);
  }

  void read_split(const json& split) {
    supports(type_of(split) == "Split", "pre_tokenizer", split);
    const json& pattern = get(get(split, "pattern"), "Regex");
    supports(pattern.is_string(), "pattern of pre_tokenizer", split);
    const std::optional<SplitRule> rule = rule_of(pattern.get_ref<const std::string&>());
    supports(rule.has_value(), "pattern of pre_tokenizer", pattern);
    supports(get(split, "behavior") == json("Isolated"), "behavior of pre_tokenizer", split);
    supports(is_off(get(split, "invert")), "invert of pre_tokenizer", split);
    bpe_.rule = *rule;
  }

  // A post-processor adds tokens around a text, which is a task of the sample code: it is never applied.
  // Post-processors that do more are rejected.
  void check_post_processor(const json& processor) const {
    if (type_of(processor) == "Sequence") {
      for (const json& part : get(processor, "processors")) check_post_processor(part);
      return;
    }
    const std::string type = type_of(processor);
    supports(processor.is_null() || type == "ByteLevel" || type == "TemplateProcessing", "post_processor", processor);
  }

  [[nodiscard]] std::uint32_t id_of(const json& value, const std::string& token) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= kMaxTokens) {
      refuse("token ", shown(token), ": id must be in [0, ", kMaxTokens - 1, "], got ", shown(value));
    }
    return value.get<std::uint32_t>();
  }

  void read_added() {
    const json& list = get(file_, "added_tokens");
    check(list.is_null() || list.is_array(), "added_tokens must be a list");
    for (const json& each : list) {
      const json& content = get(each, "content");
      check(content.is_string(), "an added token without content: ", shown(each));
      supports(get(each, "special") == json(true), "an added token that is not special,", each);
      const auto& text = content.get_ref<const std::string&>();
      check(added_.emplace(text, id_of(get(each, "id"), text)).second, "the added token ", shown(content),
            " appears twice");
    }
  }

  void put(std::uint32_t id, std::string bytes, bool is_added) {
    check(id < bpe_.tokens.size(), "token id must be in [0, ", bpe_.tokens.size(), "), got ", id,
          "; ids must be 0, 1, ... without gaps");
    check(!is_taken_[id], "token id ", id, " appears twice");
    is_taken_[id] = true;
    bpe_.tokens[id] = std::move(bytes);
    bpe_.is_added[id] = is_added;
  }

  void read_model(const json& model) {
    check(model.is_object(), "model is missing");
    supports(model.find("type") == model.end() || type_of(model) == "BPE", "model type", get(model, "type"));
    knows(model, "model",
          {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
           "byte_fallback", "ignore_merges", "vocab", "merges"});
    for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
      supports(is_off(get(model, name)), std::string("model field ") + name, get(model, name));
    }
    bpe_.ignore_merges = !is_off(get(model, "ignore_merges"));
    read_vocabulary(get(model, "vocab"));
    read_merges(get(model, "merges"));
  }

  void read_vocabulary(const json& vocabulary) {
    check(vocabulary.is_object() && !vocabulary.empty(), "model.vocab must be a non-empty table of tokens");
    std::size_t count = vocabulary.size();
    for (const auto& [text, id] : added_) count += vocabulary.contains(text) ? 0 : 1;
    check(count <= kMaxTokens, "must have at most ", kMaxTokens, " tokens, got ", count);
    bpe_.tokens.resize(count);
    bpe_.is_added.resize(count);
    is_taken_.resize(count);
    for (const auto& [text, number] : vocabulary.items()) {
      const std::uint32_t id = id_of(number, text);
      const auto added = added_.find(text);
      if (added != added_.end()) {
        check(added->second == id, "token ", shown(text), " is ", id, " in the vocabulary, but ", added->second,
              " among the added tokens");
        continue;
      }
      std::optional<std::string> bytes = bytes_of(text);
      if (!bytes || bytes->empty()) {
        refuse("token ", shown(text), " (", id, ") must be written in the characters of bytes");
      }
      put(id, std::move(*bytes), false);
    }
    for (const auto& [text, id] : added_) put(id, text, true);
    std::set<unsigned> missing;
    for (unsigned byte = 0; byte < 256; ++byte) missing.insert(byte);
    for (std::size_t id = 0; id < count; ++id) {
      if (bpe_.is_added[id] || bpe_.tokens[id].size() != 1) continue;
      const auto byte = static_cast<unsigned char>(bpe_.tokens[id][0]);
      bpe_.of_byte[byte] = static_cast<std::uint32_t>(id);
      missing.erase(byte);
    }
    check(missing.empty(), "no token for byte ", missing.empty() ? 0 : *missing.begin());
  }

  void read_merges(const json& merges) {
    check(merges.is_array(), "model.merges must be a list");
    std::map<std::string_view, std::uint32_t> by_text;
    for (std::size_t id = 0; id < bpe_.tokens.size(); ++id) {
      if (!bpe_.is_added[id]) by_text.emplace(bpe_.tokens[id], static_cast<std::uint32_t>(id));
    }
    std::set<TokenPair> seen;
    for (const json& merge : merges) {
      const auto [left, right] = halves_of(merge);
      const std::optional<std::string> both[] = {bytes_of(left), bytes_of(right)};
      const bool is_known = both[0] && both[1] && by_text.contains(*both[0]) && by_text.contains(*both[1]) &&
                            by_text.contains(*both[0] + *both[1]);
      if (!is_known) {
        refuse("merge ", bpe_.merges.size(), ", ", shown(merge), ": must consist of tokens of the vocabulary");
      }
      const TokenPair pair = {by_text.at(*both[0]), by_text.at(*both[1])};
      if (!seen.insert(pair).second) refuse("merge ", bpe_.merges.size(), ", ", shown(merge), ", appears twice");
      bpe_.merges.push_back(pair);
    }
  }

  [[nodiscard]] std::pair<std::string, std::string> halves_of(const json& merge) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    }
    const std::string text = merge.is_string() ? merge.get<std::string>() : "";
    const std::size_t space = text.find(' ');
    if (space == std::string::npos) {
      refuse("merge ", bpe_.merges.size(), ", ", shown(merge), ", must be a pair of tokens");
    }
    return {text.substr(0, space), text.substr(space + 1)};
  }

  void find_end_of_text() {
    for (const std::string_view name : kEndsOfText) {
      const auto found = added_.find(name);
      if (found == added_.end()) continue;
      bpe_.end_of_text = found->second;
      return;
    }
    TESSERA_THROW(IoError, "'", path_, "': no token ends a document; added_tokens must contain one of ", kEndsOfText);
  }

  const std::string& path_;
  json file_;
  Bpe bpe_;
  std::map<std::string, std::uint32_t, std::less<>> added_;
  std::vector<bool> is_taken_;
};

}  // namespace

Bpe read_bpe(std::string_view text, const std::string& path) {
  try {
    return Reader(text, path).read();
  } catch (const json::exception& error) {
    TESSERA_THROW(IoError, "'", path, "' is not a tokenizer.json: ", error.what());
  }
}

std::string write_bpe(const Bpe& bpe) {
  ordered_json added = ordered_json::array();
  ordered_json vocabulary = ordered_json::object();
  std::vector<std::string> texts;
  for (std::size_t id = 0; id < bpe.tokens.size(); ++id) {
    texts.push_back(bpe.is_added[id] ? bpe.tokens[id] : written(bpe.tokens[id]));
    // Not by operator[], which searches linearly.
    vocabulary.get_ref<ordered_json::object_t&>().emplace_back(texts.back(), id);
    if (!bpe.is_added[id]) continue;
    added.push_back({{"id", id},
                     {"content", texts.back()},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  ordered_json merges = ordered_json::array();
  for (const auto& [left, right] : bpe.merges) merges.push_back(texts[left] + " " + texts[right]);
  const auto byte_level = [](bool splits) {
    return ordered_json{
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", splits}};
  };
  ordered_json splitting = byte_level(true);
  if (bpe.rule != SplitRule::kGpt2) {
    const ordered_json split = {
        {"type", "Split"}, {"pattern", {{"Regex", pattern_of(bpe.rule)}}}, {"behavior", "Isolated"}, {"invert", false}};
    splitting = {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({split, byte_level(false)})}};
  }
  const ordered_json model = {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", bpe.ignore_merges},
                              {"vocab", std::move(vocabulary)},
                              {"merges", std::move(merges)}};
  const ordered_json file = {{"version", "1.0"},          {"truncation", nullptr},       {"padding", nullptr},
                             {"added_tokens", added},     {"normalizer", nullptr},       {"pre_tokenizer", splitting},
                             {"post_processor", nullptr}, {"decoder", byte_level(true)}, {"model", model}};
  return file.dump(1) + "\n";
}

}  // namespace tessera::train::detail

#include "tessera/train/data/detail/model_json.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace tessera::train::detail {
namespace {

using nlohmann::json;

class ModelReader {
 public:
  ModelReader(const JsonFields& fields, TextModel& made) : fields_(fields), made_(made), bpe_(made.bpe) {}

  void read(const json& model) {
    fields_.check(model.is_object(), "model is missing");
    fields_.supports(model.find("type") == model.end() || JsonFields::type_of(model) == "BPE", "model type",
                     JsonFields::get(model, "type"));
    fields_.knows(model, "model",
                  {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                   "byte_fallback", "ignore_merges", "vocab", "merges"});
    for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      fields_.supports(JsonFields::is_off(JsonFields::get(model, name)), std::string("model field ") + name,
                       JsonFields::get(model, name));
    }
    bpe_.ignore_merges = fields_.flag(model, "ignore_merges", false);
    bpe_.fuses_unknown = fields_.flag(model, "fuse_unk", false);
    read_vocabulary(JsonFields::get(model, "vocab"));
    read_unknown(JsonFields::get(model, "unk_token"));
    if (bpe_.is_byte_level) {
      find_bytes();
    } else if (fields_.flag(model, "byte_fallback", false)) {
      find_byte_fallback();
    }
    read_merges(JsonFields::get(model, "merges"));
  }

 private:
  void put(std::uint32_t id, std::string text, bool is_added) {
    fields_.check(id < bpe_.tokens.size(), "token id must be in [0, ", bpe_.tokens.size(), "), got ", id,
                  "; ids must be 0, 1, ... without gaps");
    fields_.check(!is_taken_[id], "token id ", id, " appears twice");
    is_taken_[id] = true;
    bpe_.tokens[id] = std::move(text);
    bpe_.is_added[id] = is_added;
  }

  void read_vocabulary(const json& vocabulary) {
    fields_.check(vocabulary.is_object() && !vocabulary.empty(), "model.vocab must be a non-empty table of tokens");
    std::size_t count = vocabulary.size();
    for (const auto& [text, added] : made_.added) count += vocabulary.contains(text) ? 0 : 1;
    fields_.check(count <= kMaxTokens, "must have at most ", kMaxTokens, " tokens, got ", count);
    bpe_.tokens.resize(count);
    bpe_.is_added.resize(count);
    is_taken_.resize(count);
    for (const auto& [text, number] : vocabulary.items()) {
      const std::uint32_t id = read_token_id(fields_, number, text);
      const auto added = made_.added.find(text);
      const bool is_listed = added != made_.added.end();
      if (is_listed && added->second.id != id) {
        fields_.refuse("token ", shown(text), " is ", id, " in the vocabulary, but ", added->second.id,
                       " among the added tokens");
      }
      put_word(id, text, is_listed, is_listed && added->second.is_special);
      by_text_.emplace(text, id);
    }
    for (const auto& [text, added] : made_.added) {
      if (!by_text_.contains(text)) put(added.id, text, true);
    }
  }

  void put_word(std::uint32_t id, const std::string& text, bool is_listed, bool is_special) {
    const std::optional<std::string> bytes = bpe_.is_byte_level ? bytes_of_characters(text) : text;
    const bool is_written = bytes && !bytes->empty();
    if (!is_written && !is_listed) {
      fields_.refuse("token ", shown(text), " (", id, ") must be written in the characters of bytes");
    }
    const bool is_added = is_special || !is_written;
    put(id, is_added ? text : *bytes, is_added);
  }

  void read_unknown(const json& unknown) {
    if (unknown.is_null()) return;
    fields_.check(unknown.is_string(), "unk_token must be a text, got ", shown(unknown));
    const auto found = by_text_.find(unknown.get_ref<const std::string&>());
    fields_.check(found != by_text_.end(), "unk_token ", shown(unknown), " must be in the vocabulary");
    bpe_.unknown = found->second;
  }

  void find_bytes() {
    for (std::size_t id = 0; id < bpe_.tokens.size(); ++id) {
      if (bpe_.is_added[id] || bpe_.tokens[id].size() != 1) continue;
      bpe_.of_byte[static_cast<unsigned char>(bpe_.tokens[id][0])] = static_cast<std::uint32_t>(id);
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
      fields_.check(bpe_.of_byte[byte] != kNoToken, "no token for byte ", byte);
    }
  }

  void find_byte_fallback() {
    int found = 0;
    for (const auto& [text, id] : by_text_) {
      const int byte = byte_of_fallback(text);
      const bool is_upper = byte >= 0 && std::ranges::none_of(text, [](char c) { return c >= 'a' && c <= 'f'; });
      if (!is_upper) continue;
      bpe_.of_byte[static_cast<unsigned>(byte)] = id;
      ++found;
    }
    for (unsigned byte = 0; found != 0 && byte < 256; ++byte) {
      fields_.check(bpe_.of_byte[byte] != kNoToken, "byte_fallback: no token for byte ", byte);
    }
  }

  void read_merges(const json& merges) {
    fields_.check(merges.is_array(), "model.merges must be a list");
    std::unordered_set<std::uint64_t> seen;
    for (const json& merge : merges) {
      const auto [left, right] = halves_of(merge);
      const auto first = by_text_.find(left);
      const auto second = by_text_.find(right);
      if (first == by_text_.end() || second == by_text_.end() || !by_text_.contains(left + right)) {
        fields_.refuse("merge ", bpe_.merges.size(), ", ", shown(merge), ": must consist of tokens of the vocabulary");
      }
      if (!seen.insert(pair_key(first->second, second->second)).second) {
        fields_.refuse("merge ", bpe_.merges.size(), ", ", shown(merge), ", appears twice");
      }
      bpe_.merges.emplace_back(first->second, second->second);
    }
  }

  [[nodiscard]] std::pair<std::string, std::string> halves_of(const json& merge) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    }
    const std::string text = merge.is_string() ? merge.get<std::string>() : "";
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      fields_.refuse("merge ", bpe_.merges.size(), ", ", shown(merge), ", must be a pair of tokens");
    }
    return {text.substr(0, space), text.substr(space + 1)};
  }

  const JsonFields& fields_;
  TextModel& made_;
  Bpe& bpe_;
  std::unordered_map<std::string, std::uint32_t> by_text_;  // as written in the file
  std::vector<bool> is_taken_;
};

}  // namespace

std::uint32_t read_token_id(const JsonFields& fields, const json& value, const std::string& token) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= kMaxTokens) {
    fields.refuse("token ", shown(token), ": id must be in [0, ", kMaxTokens - 1, "], got ", shown(value));
  }
  return value.get<std::uint32_t>();
}

void read_model(const JsonFields& fields, const json& model, TextModel& made) { ModelReader(fields, made).read(model); }

}  // namespace tessera::train::detail

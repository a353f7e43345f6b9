#include "tessera/train/data/detail/tokenizer_json.h"

#include <unordered_set>

#include "tessera/base/json_depth.h"
#include "tessera/train/data/detail/model_json.h"
#include "tessera/train/data/detail/steps_json.h"

namespace tessera::train::detail {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMaxDepth = 32;
// Names of the token between documents, in order of preference.
constexpr std::string_view kEndsOfText[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>",
                                            "<\uff5cend\u2581of\u2581sentence\uff5c>"};

// Parses the text. A name that appears twice in an object is an error.
json parse(const JsonFields& fields, std::string_view text) {
  fields.check(tessera::detail::json_depth(text) <= kMaxDepth, "values must be nested at most ", kMaxDepth,
               " levels deep");
  std::vector<std::unordered_set<std::string>> names;
  return json::parse(text, [&](int, json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second) {
      fields.refuse("the name ", shown(value), " appears twice in an object");
    }
    return true;
  });
}

void read_added(const JsonFields& fields, const json& list, TextModel& made) {
  fields.check(list.is_null() || list.is_array(), "added_tokens must be a list");
  for (const json& each : list) {
    fields.knows(each, "added_tokens", {"id", "content", "special", "single_word", "lstrip", "rstrip", "normalized"});
    const json& content = JsonFields::get(each, "content");
    fields.check(content.is_string() && content != json(""), "an added token without content: ", shown(each));
    AddedToken token;
    token.content = content.get<std::string>();
    token.id = read_token_id(fields, JsonFields::get(each, "id"), token.content);
    token.is_special = fields.flag(each, "special", false);
    token.is_single_word = fields.flag(each, "single_word", false);
    token.strips_left = fields.flag(each, "lstrip", false);
    token.strips_right = fields.flag(each, "rstrip", false);
    token.is_normalized = fields.flag(each, "normalized", !token.is_special);
    fields.check(made.added.emplace(token.content, token).second, "the added token ", shown(content), " appears twice");
  }
}

void find_end_of_text(const JsonFields& fields, TextModel& made) {
  for (const std::string_view name : kEndsOfText) {
    const auto found = made.added.find(name);
    if (found == made.added.end()) continue;
    made.bpe.end_of_text = found->second.id;
    return;
  }
  fields.refuse("no token ends a document; added_tokens must contain one of ", kEndsOfText);
}

bool is_plain(const AddedToken& token) {
  return token.is_special && !token.is_single_word && !token.strips_left && !token.strips_right;
}

// Returns what changes tokens beyond what the digest always covers: nothing for a byte-level model that splits words by
// one expression, as Tessera learns it.
std::string features_of(const json& file, const TextModel& made) {
  const bool has_one_split = made.pre_tokenizer.steps.size() == 1 && made.pre_tokenizer.steps[0].pattern.regex &&
                             made.pre_tokenizer.steps[0].behavior == SplitBehavior::kIsolated;
  const bool has_plain_tokens = std::ranges::all_of(made.added, [](const auto& each) { return is_plain(each.second); });
  if (made.bpe.is_byte_level && has_one_split && has_plain_tokens && made.normalizer.steps.empty()) return "";
  json features = {JsonFields::get(file, "normalizer"), JsonFields::get(file, "pre_tokenizer"), json::array()};
  for (const auto& [content, token] : made.added) {
    features.back().push_back(
        {content, token.is_special, token.is_single_word, token.strips_left, token.strips_right, token.is_normalized});
  }
  features.push_back(made.bpe.unknown);
  features.push_back(made.bpe.fuses_unknown);
  features.push_back(made.bpe.of_byte[0]);
  return features.dump();
}

}  // namespace

TextModel read_tokenizer(std::string_view text, const std::string& path) {
  const JsonFields fields(path);
  try {
    const json file = parse(fields, text);
    fields.check(file.is_object(), "must be an object, got ", shown(file));
    fields.knows(file, "file",
                 {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                  "decoder", "model"});
    for (const char* name : {"truncation", "padding"}) {
      fields.supports(JsonFields::get(file, name).is_null(), name, JsonFields::get(file, name));
    }
    TextModel made;
    made.source = text;
    made.normalizer = read_normalizer(fields, JsonFields::get(file, "normalizer"));
    made.pre_tokenizer = read_pre_tokenizer(fields, JsonFields::get(file, "pre_tokenizer"), made.bpe.is_byte_level);
    made.decoder = read_decoder(fields, JsonFields::get(file, "decoder"), made.bpe.is_byte_level);
    read_added(fields, JsonFields::get(file, "added_tokens"), made);
    read_model(fields, JsonFields::get(file, "model"), made);
    read_post_processor(fields, JsonFields::get(file, "post_processor"), made);
    find_end_of_text(fields, made);
    made.features = features_of(file, made);
    made.finish();
    return made;
  } catch (const json::exception& error) {
    fields.refuse("is not a tokenizer.json: ", error.what());
  }
}

std::string write_gpt2_tokenizer(const Bpe& bpe) {
  ordered_json added = ordered_json::array();
  ordered_json vocabulary = ordered_json::object();
  std::vector<std::string> texts;
  for (std::size_t id = 0; id < bpe.tokens.size(); ++id) {
    texts.push_back(bpe.is_added[id] ? bpe.tokens[id] : characters_of_bytes(bpe.tokens[id]));
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
  const ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
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
  const ordered_json file = {{"version", "1.0"},          {"truncation", nullptr}, {"padding", nullptr},
                             {"added_tokens", added},     {"normalizer", nullptr}, {"pre_tokenizer", byte_level},
                             {"post_processor", nullptr}, {"decoder", byte_level}, {"model", model}};
  return file.dump(1) + "\n";
}

}  // namespace tessera::train::detail

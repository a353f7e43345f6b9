#include "tessera/train/data/detail/steps_json.h"

#include <functional>
#include <utility>

namespace tessera::train::detail {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxSteps = 100;
constexpr std::size_t kMaxTemplate = 1000;

// Calls `on_step` for each step: the parts of a "Sequence", at any depth, or the value itself. Nothing for null.
void for_each_step(const JsonFields& fields, const json& value, const char* what, const char* parts,
                   const std::function<void(const json&)>& on_step) {
  if (value.is_null()) return;
  fields.check(value.is_object(), what, " must be an object, got ", shown(value));
  if (JsonFields::type_of(value) != "Sequence") {
    on_step(value);
    return;
  }
  fields.knows(value, what, {"type", parts});
  const json& list = fields.list(value, parts);
  fields.check(list.size() <= kMaxSteps, what, " must have at most ", kMaxSteps, " steps, got ", list.size());
  for (const json& part : list) for_each_step(fields, part, what, parts, on_step);
}

Pattern read_pattern(const JsonFields& fields, const json& object, std::string_view what) {
  const json& value = JsonFields::get(object, "pattern");
  Pattern pattern;
  const json& text = JsonFields::get(value, "String");
  if (text.is_string()) {
    pattern.text = text.get<std::string>();
    fields.check(!pattern.text.empty(), "pattern of ", what, " must not be empty");
    return pattern;
  }
  const json& regex = JsonFields::get(value, "Regex");
  fields.check(regex.is_string(), "pattern of ", what, " must be {\"String\": ...} or {\"Regex\": ...}, got ",
               shown(value));
  try {
    pattern.regex.emplace(regex.get_ref<const std::string&>());
  } catch (const NotSupported& error) {
    TESSERA_THROW(NotSupported, "'", fields.path(), "': ", what, ": ", error.message());
  } catch (const InvalidArgument& error) {
    fields.refuse(what, ": ", error.message());
  }
  return pattern;
}

Replacement read_replacement(const JsonFields& fields, const json& object, std::string_view what) {
  fields.knows(object, what, {"type", "pattern", "content"});
  return {read_pattern(fields, object, what), fields.text(object, "content")};
}

bool is_character(std::string_view text) { return !text.empty() && code_point_at(text, 0).nbytes == text.size(); }

SplitBehavior read_behavior(const JsonFields& fields, const json& step) {
  constexpr std::pair<std::string_view, SplitBehavior> kNames[] = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  const json& value = JsonFields::get(step, "behavior");
  for (const auto& [name, behavior] : kNames) {
    if (value == json(name)) return behavior;
  }
  fields.supports(false, "behavior of pre_tokenizer", value);
  return SplitBehavior::kIsolated;
}

std::string read_space(const JsonFields& fields, const json& step) {
  const std::string space = fields.text(step, "replacement");
  fields.check(is_character(space) && space != " ",
               "replacement of Metaspace must be one character other than a space, got ",
               shown(JsonFields::get(step, "replacement")));
  return space;
}

SplitStep::Prepend read_prepend(const JsonFields& fields, const json& step) {
  if (!fields.flag(step, "add_prefix_space", true)) return SplitStep::Prepend::kNever;
  const json& value = JsonFields::get(step, "prepend_scheme");
  if (value.is_null() || value == json("always")) return SplitStep::Prepend::kAlways;
  if (value == json("first")) return SplitStep::Prepend::kFirst;
  fields.supports(value == json("never"), "prepend_scheme of Metaspace", value);
  return SplitStep::Prepend::kNever;
}

void read_byte_level(const JsonFields& fields, const json& step, PreTokenizer& made) {
  fields.knows(step, "pre_tokenizer ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (fields.flag(step, "add_prefix_space", false)) made.steps.push_back({.kind = SplitStep::Kind::kPrefix});
  if (!fields.flag(step, "use_regex", true)) return;
  made.steps.push_back({.pattern = {.text = {}, .regex = Regex(kGpt2Pattern)}});
}

void add_split(const JsonFields& fields, const json& step, PreTokenizer& made) {
  const std::string type = JsonFields::type_of(step);
  if (type == "Split") {
    fields.knows(step, "pre_tokenizer Split", {"type", "pattern", "behavior", "invert"});
    made.steps.push_back({.pattern = read_pattern(fields, step, "pre_tokenizer Split"),
                          .behavior = read_behavior(fields, step),
                          .is_inverted = fields.flag(step, "invert", false)});
  } else if (type == "Digits") {
    fields.knows(step, "pre_tokenizer Digits", {"type", "individual_digits"});
    const bool is_single = fields.flag(step, "individual_digits", false);
    made.steps.push_back({.kind = SplitStep::Kind::kNumbers,
                          .behavior = is_single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
  } else if (type == "Metaspace") {
    fields.knows(step, "pre_tokenizer Metaspace",
                 {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    made.steps.push_back({.kind = SplitStep::Kind::kMetaspace,
                          .space = read_space(fields, step),
                          .prepend = read_prepend(fields, step),
                          .splits = fields.flag(step, "split", true)});
  } else {
    fields.supports(false, "pre_tokenizer", step);
  }
}

void add_decoder_step(const JsonFields& fields, const json& step, Decoder& made, bool& is_fused) {
  using Kind = DecoderStep::Kind;
  const std::string type = JsonFields::type_of(step);
  const std::string what = "decoder " + type;
  if (type == "Strip") {
    fields.knows(step, what, {"type", "content", "start", "stop"});
    const json& start = JsonFields::get(step, "start");
    const json& stop = JsonFields::get(step, "stop");
    fields.check(start.is_number_unsigned() && stop.is_number_unsigned(), what, " must have numbers, got ",
                 shown(step));
    const std::string content = fields.text(step, "content");
    fields.check(is_character(content), "content of ", what, " must be one character, got ", shown(step));
    if (is_fused) {  // the end of a text is unknown while it is written
      fields.supports(stop == json(0) && content.size() == 1 && made.stripped_count == 0, "decoder after Fuse", step);
      made.stripped = content[0];
      made.stripped_count = start.get<std::size_t>();
    } else {
      made.steps.push_back(
          {Kind::kStrip, {}, content, start.get<std::size_t>(), stop.get<std::size_t>(), /*keeps_first=*/false});
    }
    return;
  }
  if (type == "Fuse") {
    fields.knows(step, what, {"type"});
    is_fused = true;
    return;
  }
  fields.supports(!is_fused, "decoder after Fuse", step);
  if (type == "ByteLevel") {
    fields.knows(step, what, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    made.steps.push_back({.kind = Kind::kByteLevel});
    is_fused = true;
  } else if (type == "ByteFallback") {
    fields.knows(step, what, {"type"});
    made.steps.push_back({.kind = Kind::kByteFallback});
  } else if (type == "Replace") {
    made.steps.push_back({.kind = Kind::kReplace, .replacement = read_replacement(fields, step, what)});
  } else if (type == "Metaspace") {
    fields.knows(step, what, {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    const bool never = read_prepend(fields, step) == SplitStep::Prepend::kNever;
    made.steps.push_back({.kind = Kind::kMetaspace, .content = read_space(fields, step), .keeps_first = never});
  } else {
    fields.supports(false, "decoder", step);
  }
}

// The tokens of {"SpecialToken": {"id": NAME}}, which `special_tokens` lists.
std::vector<std::uint32_t> tokens_of(const JsonFields& fields, const json& processor, const json& part,
                                     std::size_t count) {
  const json& name = JsonFields::get(JsonFields::get(part, "SpecialToken"), "id");
  fields.check(name.is_string(), "a part of a template must be a SpecialToken or a Sequence, got ", shown(part));
  const json& entry = JsonFields::get(JsonFields::get(processor, "special_tokens"), name.get<std::string>().c_str());
  fields.check(entry.is_object(), "special_tokens of the template must have ", shown(name));
  std::vector<std::uint32_t> tokens;
  for (const json& id : fields.list(entry, "ids")) {
    fields.check(id.is_number_unsigned() && id.get<std::uint64_t>() < count, "special token ", shown(name),
                 ": id must be in [0, ", count, "), got ", shown(id));
    tokens.push_back(id.get<std::uint32_t>());
  }
  return tokens;
}

void add_template(const JsonFields& fields, const json& processor, TextModel& model) {
  fields.knows(processor, "post_processor TemplateProcessing", {"type", "single", "pair", "special_tokens"});
  std::vector<std::uint32_t> before;
  std::vector<std::uint32_t> after;
  int texts = 0;
  for (const json& part : fields.list(processor, "single")) {
    const json& sequence = JsonFields::get(part, "Sequence");
    if (!sequence.is_null()) {
      fields.check(JsonFields::get(sequence, "id") == json("A"), "a template of one text must use A, got ",
                   shown(part));
      ++texts;
      continue;
    }
    std::vector<std::uint32_t>& side = texts == 0 ? before : after;
    for (const std::uint32_t token : tokens_of(fields, processor, part, model.bpe.tokens.size())) {
      side.push_back(token);
    }
    fields.check(side.size() <= kMaxTemplate, "a template must add at most ", kMaxTemplate, " tokens");
  }
  fields.check(texts == 1, "a template of one text must use it once, got ", texts, " times");
  model.prefix.insert(model.prefix.begin(), before.begin(), before.end());
  model.suffix.insert(model.suffix.end(), after.begin(), after.end());
}

}  // namespace

Normalizer read_normalizer(const JsonFields& fields, const json& value) {
  using Kind = NormalizerStep::Kind;
  constexpr std::pair<std::string_view, Form> kForms[] = {
      {"NFC", Form::kNfc}, {"NFD", Form::kNfd}, {"NFKC", Form::kNfkc}, {"NFKD", Form::kNfkd}};
  Normalizer made;
  for_each_step(fields, value, "normalizer", "normalizers", [&](const json& step) {
    const std::string type = JsonFields::type_of(step);
    for (const auto& [name, form] : kForms) {
      if (type != name) continue;
      fields.knows(step, "normalizer " + type, {"type"});
      made.steps.push_back({.kind = Kind::kForm, .form = form});
      return;
    }
    if (type == "Lowercase") {
      fields.knows(step, "normalizer Lowercase", {"type"});
      made.steps.push_back({.kind = Kind::kLowercase});
    } else if (type == "Prepend") {
      fields.knows(step, "normalizer Prepend", {"type", "prepend"});
      made.steps.push_back({.kind = Kind::kPrepend, .replacement = {{}, fields.text(step, "prepend")}});
    } else {
      fields.supports(type == "Replace", "normalizer", step);
      made.steps.push_back(
          {.kind = Kind::kReplace, .replacement = read_replacement(fields, step, "normalizer Replace")});
    }
  });
  return made;
}

PreTokenizer read_pre_tokenizer(const JsonFields& fields, const json& value, bool& is_byte_level) {
  PreTokenizer made;
  is_byte_level = false;
  for_each_step(fields, value, "pre_tokenizer", "pretokenizers", [&](const json& step) {
    fields.supports(!is_byte_level, "pre_tokenizer after ByteLevel", step);
    is_byte_level = JsonFields::type_of(step) == "ByteLevel";
    if (is_byte_level) {
      read_byte_level(fields, step, made);
    } else {
      add_split(fields, step, made);
    }
  });
  return made;
}

Decoder read_decoder(const JsonFields& fields, const json& value, bool is_byte_level) {
  Decoder made;
  if (value.is_null()) {
    fields.supports(is_byte_level, "decoder", value);
    made.steps.push_back({.kind = DecoderStep::Kind::kByteLevel});
    return made;
  }
  bool is_fused = false;
  for_each_step(fields, value, "decoder", "decoders",
                [&](const json& step) { add_decoder_step(fields, step, made, is_fused); });
  return made;
}

void read_post_processor(const JsonFields& fields, const json& value, TextModel& model) {
  for_each_step(fields, value, "post_processor", "processors", [&](const json& step) {
    const std::string type = JsonFields::type_of(step);
    if (type == "ByteLevel") return;  // changes offsets, which Tessera does not compute
    fields.supports(type == "TemplateProcessing", "post_processor", step);
    add_template(fields, step, model);
  });
}

}  // namespace tessera::train::detail

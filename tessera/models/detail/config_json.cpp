#include "tessera/models/detail/config_json.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/base/json_depth.h"

namespace tessera::models::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxShown = 64;  // letters of a value in a message

Json parsed(const std::string& text) {
  TESSERA_CHECK(tessera::detail::json_depth(text) <= kMaxDepth, "config.json: must be nested at most ", kMaxDepth,
                " levels deep");
  Json root = Json::parse(text, nullptr, false);
  TESSERA_CHECK(root.is_object(), "config.json: must be a JSON object");
  return root;
}

bool is_set(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  return !value.is_null() && !value.empty();
}

}  // namespace

ConfigJson::ConfigJson(const std::string& text) : root_(parsed(text)) {}

const Json* ConfigJson::find(std::string_view name) const {
  const auto found = root_.find(name);
  return found == root_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigJson::fault_of(std::string_view name, std::string_view requirement, const Json& value) {
  std::string shown = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (shown.size() > kMaxShown) shown = shown.substr(0, kMaxShown) + "...";
  fault(prefix_ + std::string(name) + " must be " + std::string(requirement) + ", got " + shown);
}

std::int64_t ConfigJson::size(std::string_view name, std::optional<std::int64_t> by_default, std::int64_t least,
                              std::int64_t most) {
  const Json* value = find(name);
  if (value == nullptr) {
    if (!by_default) fault(prefix_ + std::string(name) + " is missing");
    return by_default.value_or(1);
  }
  const bool is_huge = value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  if (value->is_number_integer() && !is_huge) {
    const auto number = value->get<std::int64_t>();
    if (number >= least && number <= most) return number;
  }
  fault_of(name, "an integer from " + std::to_string(least) + " to " + std::to_string(most), *value);
  return by_default.value_or(1);
}

double ConfigJson::number(std::string_view name, double by_default) {
  const Json* value = find(name);
  if (value == nullptr) return by_default;
  if (value->is_number() && value->get<double>() > 0 && std::isfinite(value->get<double>()))
    return value->get<double>();
  fault_of(name, "a number above 0", *value);
  return by_default;
}

bool ConfigJson::flag(std::string_view name, bool by_default) {
  const Json* value = find(name);
  if (value == nullptr) return by_default;
  if (value->is_boolean()) return value->get<bool>();
  fault_of(name, "true or false", *value);
  return by_default;
}

std::string ConfigJson::text(std::string_view name, std::string_view by_default) {
  const Json* value = find(name);
  if (value == nullptr) return std::string(by_default);
  if (value->is_string()) return value->get<std::string>();
  fault_of(name, "a text", *value);
  return std::string(by_default);
}

std::vector<std::string> ConfigJson::texts(std::string_view name) {
  std::vector<std::string> out;
  const Json* value = find(name);
  if (value == nullptr) return out;
  const bool is_list =
      value->is_array() && std::ranges::all_of(*value, [](const Json& each) { return each.is_string(); });
  if (!is_list) {
    fault_of(name, "a list of texts", *value);
    return out;
  }
  for (const Json& each : *value) out.push_back(each.get<std::string>());
  return out;
}

void ConfigJson::require_absent(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const Json* value = find(name);
    if (value != nullptr && is_set(*value)) fault_of(name, "absent or false: it is not supported", *value);
  }
}

void ConfigJson::require_architecture(const std::vector<std::string>& names) {
  const std::vector<std::string> given = texts("architectures");
  if (given.empty()) return;
  const auto is_known = [&](const std::string& each) { return std::ranges::find(names, each) != names.end(); };
  if (given.size() == 1 && is_known(given.front())) return;
  std::string known;
  for (const std::string& each : names) known += (known.empty() ? "" : " or ") + each;
  fault_of("architectures", known, *find("architectures"));
}

void ConfigJson::read_scaling(ConfigJson& scaling, nn::ModelConfig& config) {
  const std::string kind = scaling.text("rope_type", scaling.text("type", "default"));
  config.rope_base = scaling.number("rope_theta", config.rope_base);
  if (scaling.number("partial_rotary_factor", 1) != 1)
    scaling.fault_of("partial_rotary_factor", "1", *scaling.find("partial_rotary_factor"));
  const auto require = [&scaling](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (!scaling.has(name)) scaling.fault(scaling.prefix_ + name + " is missing");
    }
  };
  if (kind == "linear") {
    require({"factor"});
    config.rope_factor = scaling.number("factor", 1);
  } else if (kind == "llama3") {
    require({"factor", "low_freq_factor", "high_freq_factor"});
    config.rope_factor = scaling.number("factor", 1);
    config.rope_context = scaling.size("original_max_position_embeddings");
    config.rope_low_turns = scaling.number("low_freq_factor", 1);
    config.rope_high_turns = scaling.number("high_freq_factor", 4);
    if (config.rope_low_turns >= config.rope_high_turns)
      scaling.fault(scaling.prefix_ + "low_freq_factor must be below high_freq_factor");
  } else if (kind != "default") {
    scaling.fault(scaling.prefix_ + "rope_type must be default, linear or llama3, got '" + kind.substr(0, kMaxShown) +
                  "'");
  }
}

void ConfigJson::read_rope(nn::ModelConfig& config) {
  config.rope_base = number("rope_theta", 10000);
  if (number("partial_rotary_factor", 1) != 1) fault("partial_rotary_factor must be 1");
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const Json* value = find(name);
    if (value == nullptr) continue;
    const bool is_flat =
        value->is_object() && std::ranges::none_of(*value, [](const Json& each) { return each.is_structured(); });
    if (!is_flat) {
      fault_of(name, "an object of numbers and texts", *value);
      continue;
    }
    ConfigJson scaling(*value, std::string(name) + ".");
    read_scaling(scaling, config);
    problems_ += scaling.problems_;
  }
}

void ConfigJson::finish() const {
  TESSERA_CHECK(problems_.empty(), "config.json: fields must describe a model of this library:", problems_);
}

Json fields_before(const std::string& before) {
  if (before.empty()) return Json::object();
  Json fields = parsed(before);
  for (const char* name : {"dtype", "torch_dtype", "rope_parameters", "rope_scaling", "rope_theta"}) fields.erase(name);
  return fields;
}

void write_rope(const nn::ModelConfig& config, Json& to) {
  to["rope_theta"] = config.rope_base;
  to["rope_scaling"] = nullptr;
  if (config.rope_context > 0) {
    to["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", config.rope_factor},
                          {"low_freq_factor", config.rope_low_turns},
                          {"high_freq_factor", config.rope_high_turns},
                          {"original_max_position_embeddings", config.rope_context}};
  } else if (config.rope_factor != 1) {
    to["rope_scaling"] = {{"rope_type", "linear"}, {"factor", config.rope_factor}};
  }
}

}  // namespace tessera::models::detail

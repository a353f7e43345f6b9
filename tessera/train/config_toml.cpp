// Configurations as TOML. The only file that uses the TOML library.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"

// With NDEBUG, the library asserts nothing and assumes all, so that a table like [!x] would be undefined behavior. Here
// its assertions throw in all builds.
namespace tessera::train {
namespace {
[[noreturn]] void reject_syntax() { TESSERA_THROW(InvalidArgument, "not TOML: a key or value is malformed"); }
}  // namespace
}  // namespace tessera::train
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(condition) ((condition) ? void() : tessera::train::reject_syntax())
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include "tessera/base/nearest.h"
#include "tessera/base/regular_file.h"
#include "tessera/nn/language_model.h"
#include "tessera/train/config.h"
#include "tessera/train/detail/option_values.h"

namespace tessera::train {
namespace {

constexpr std::uint64_t kMaxNbytes = std::uint64_t{1} << 24;  // maximum file size

// Returns "model" for "model.width".
std::string section_of(const Option& option) { return option.name.substr(0, option.name.find('.')); }
std::string key_of(const Option& option) { return option.name.substr(option.name.find('.') + 1); }

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Option& option : options()) {
    if (names.empty() || names.back() != section_of(option)) names.push_back(section_of(option));
  }
  return names;
}

std::string where(const std::string& file, const toml::source_region& place) {
  return file + ":" + std::to_string(place.begin.line);
}

// Reads one value into its location. Errors name the line and the file.
class ValueReader {
 public:
  ValueReader(const Option& option, const toml::node& node, const std::string& file)
      : option_(option), node_(node), file_(file) {}

  void read(Config& config) {
    std::visit([this](auto* place) { read_into(*place); }, option_.place(config));
    try {
      detail::check_value(option_, config);
    } catch (const InvalidArgument& error) {
      TESSERA_THROW(InvalidArgument, where(file_, node_.source()), ": ", error.message());
    }
  }

 private:
  [[noreturn]] void refuse(const toml::node& node, std::string_view what) {
    TESSERA_THROW(InvalidArgument, where(file_, node.source()), ": ", option_.name, " ", what, "; it must be ",
                  type_text(option_));
  }

  void read_into(bool& place) {
    if (!node_.is_boolean()) refuse(node_, "is not true or false");
    place = node_.as_boolean()->get();
  }
  void read_into(double& place) {
    if (!node_.is_number()) refuse(node_, "is not a number");
    place = node_.is_integer() ? static_cast<double>(node_.as_integer()->get()) : node_.as_floating_point()->get();
  }
  void read_into(std::string& place) {
    if (!node_.is_string()) refuse(node_, "is not a quoted string");
    place = node_.as_string()->get();
  }
  void read_into(std::vector<std::string>& place) {
    if (!node_.is_array()) refuse(node_, "is not a list, as in [\"a\", \"b\"]");
    place.clear();
    for (const toml::node& entry : *node_.as_array()) {
      if (!entry.is_string()) refuse(entry, "has an entry that is not a quoted string");
      place.push_back(entry.as_string()->get());
    }
  }
  template <class T>
  requires std::is_integral_v<T>
  void read_into(T& place) {
    if (!node_.is_integer()) refuse(node_, "is not an integer");
    const std::int64_t value = node_.as_integer()->get();
    if (!std::in_range<T>(value)) refuse(node_, "is " + std::to_string(value));
    place = static_cast<T>(value);
  }

  const Option& option_;
  const toml::node& node_;
  const std::string& file_;
};

void read_section(Config& config, const std::string& section, const toml::table& table, const std::string& file) {
  std::vector<std::string> keys;
  for (const Option& option : options()) {
    if (section_of(option) == section) keys.push_back(key_of(option));
  }
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    TESSERA_CHECK(std::find(keys.begin(), keys.end(), name) != keys.end(), where(file, key.source()), ": section [",
                  section, "] has no key '", name, "'", did_you_mean(name, keys),
                  "; `tessera train --help` lists the options");
    ValueReader(detail::find_option(section + "." + name), node, file).read(config);
  }
}

toml::table parse(const std::filesystem::path& path) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(path, error);
  TESSERA_CHECK_AS(IoError, is_file, "no configuration file '", path.string(), "'");
  const std::string text = read_regular_file(path.string(), kMaxNbytes);
  try {
    return toml::parse(text, path.string());
  } catch (const toml::parse_error& wrong) {
    TESSERA_THROW(InvalidArgument, where(path.string(), wrong.source()), ": not TOML: ", wrong.description());
  } catch (const InvalidArgument& wrong) {
    TESSERA_THROW(InvalidArgument, path.string(), ": ", wrong.message());
  }
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : detail::as_utf8(text)) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (code < 0x20 || code == 0x7f) {
      static constexpr const char* kDigits = "0123456789ABCDEF";
      out += std::string("\\u00") + kDigits[code >> 4] + kDigits[code & 15];
    } else {
      out += letter;
    }
  }
  return out + "\"";
}

std::string toml_value(const Option& option, const Config& config) {
  const std::vector<std::string> texts = value_texts(option, config);
  const auto write = [&texts](const auto* value) -> std::string {
    using T = std::remove_cvref_t<decltype(*value)>;
    if constexpr (std::is_same_v<T, std::string>) {
      return quoted(texts.front());
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      std::string list;
      for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + quoted(text);
      return "[" + list + "]";
    } else if constexpr (std::is_same_v<T, double>) {
      const bool is_whole = texts.front().find_first_not_of("-0123456789") == std::string::npos;
      return is_whole ? texts.front() + ".0" : texts.front();
    } else {
      return texts.front();
    }
  };
  return std::visit(write, detail::place_of(option, config));
}

}  // namespace

std::string detail::as_utf8(const std::string& text) {
  using Json = nlohmann::json;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

Config detail::defaults_for(const Config& config) {
  Config base;
  base.mesh.dp = config.mesh.dp;
  if (is_own(config.model)) return base;
  for (const nn::Preset& preset : nn::model_family(config.model.family).presets) {
    if (preset.name != config.model.preset) continue;
    const auto fill = [&](std::int64_t ModelConfig::*size, std::int64_t value) {
      if (config.model.*size != 0) base.model.*size = value;
    };
    fill(&ModelConfig::width, preset.width);
    fill(&ModelConfig::layers, preset.layers);
    fill(&ModelConfig::heads, preset.heads);
    fill(&ModelConfig::kv_heads, preset.kv_heads);
    fill(&ModelConfig::hidden, preset.hidden);
    fill(&ModelConfig::vocabulary, preset.vocabulary);
    fill(&ModelConfig::sequence, preset.sequence);
  }
  return base;
}

void read_toml(Config& config, const std::filesystem::path& path) {
  const std::string file = path.string();
  const toml::table root = parse(path);
  const std::vector<std::string> sections = section_names();
  Config changed = config;
  for (const auto& [key, node] : root) {
    const std::string name(key.str());
    const bool is_section = std::find(sections.begin(), sections.end(), name) != sections.end();
    TESSERA_CHECK(is_section || node.is_table(), where(file, key.source()), ": key '", name,
                  "' is in no section; put it in a section, as in [train]");
    TESSERA_CHECK(is_section, where(file, key.source()), ": unknown section [", name, "]", did_you_mean(name, sections),
                  "; sections: ", sections);
    TESSERA_CHECK(node.is_table(), where(file, key.source()), ": '", name, "' is a section, written [", name,
                  "], not a key");
    read_section(changed, name, *node.as_table(), file);
  }
  config = std::move(changed);
}

std::string to_toml(const Config& config) {
  const Config base = detail::defaults_for(config);
  std::string text;
  std::string section;
  for (const Option& option : options()) {
    if (section != section_of(option)) {
      section = section_of(option);
      text += (text.empty() ? "[" : "\n[") + section + "]\n";
    }
    text += "# " + option.help + " (" + type_text(option) + ")\n";
    text += key_of(option) + " = " + toml_value(option, config);
    const std::string by_default = toml_value(option, base);
    text += by_default == toml_value(option, config) ? "\n" : "  # default: " + by_default + "\n";
  }
  return text;
}

}  // namespace tessera::train

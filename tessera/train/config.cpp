#include "tessera/train/config.h"

#include <charconv>
#include <cmath>
#include <type_traits>

#include "tessera/base/error.h"
#include "tessera/base/nearest.h"
#include "tessera/train/detail/digest.h"
#include "tessera/train/detail/option_values.h"

namespace tessera::train {
namespace detail {

const Option& find_option(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Option& option : options()) {
    if (option.name == name) return option;
    names.push_back(option.name);
  }
  TESSERA_THROW(InvalidArgument, "unknown option '", name, "'", did_you_mean(name, names),
                "; `tessera train --help` lists the options");
}

namespace {

// Returns the requirement of an option for an error message: "an integer, 0 or more".
std::string requirement(const Option& option) {
  const std::string text = type_text(option);
  if (!option.choices.empty()) return "one of " + text;
  if (text.starts_with("true")) return text;
  return (text.starts_with("integer") ? "an " : "a ") + text;
}

}  // namespace

void check_range(const Option& option, double value, std::string_view text) {
  const OptionRange& range = option.range;
  const bool is_low = range.is_open_below ? !(value > range.least) : !(value >= range.least);
  const bool is_high = range.is_open_above ? !(value < range.most) : !(value <= range.most);
  const bool is_finite = std::isfinite(value);
  TESSERA_CHECK(!is_low && !is_high && is_finite, option.name, ": must be ", requirement(option), ", got ", text);
}

void check_choice(const Option& option, const std::string& value) {
  if (option.choices.empty()) return;
  for (const std::string& choice : option.choices) {
    if (choice == value) return;
  }
  TESSERA_THROW(InvalidArgument, option.name, ": must be ", requirement(option), ", got '", value, "'",
                did_you_mean(value, option.choices));
}

Option::Place place_of(const Option& option, const Config& config) {
  return option.place(const_cast<Config&>(config));  // callers only read
}

void check_value(const Option& option, const Config& config) {
  const auto check = [&option](const auto* value) {
    using T = std::remove_cvref_t<decltype(*value)>;
    if constexpr (std::is_same_v<T, std::string>) {
      check_choice(option, *value);
    } else if constexpr (std::is_same_v<T, double>) {
      check_range(option, *value, number_text(*value));
    } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      check_range(option, static_cast<double>(*value), std::to_string(*value));
    }
  };
  std::visit(check, place_of(option, config));
}

std::string kind_text(const Option& option) {
  const Config none;
  const auto text = [](const auto* value) -> std::string {
    using T = std::remove_cvref_t<decltype(*value)>;
    if constexpr (std::is_same_v<T, bool>) return "true or false";
    if constexpr (std::is_same_v<T, double>) return "number";
    if constexpr (std::is_same_v<T, std::string>) return "text";
    if constexpr (std::is_same_v<T, std::vector<std::string>>) return "list of texts";
    return "integer";
  };
  return std::visit(text, place_of(option, none));
}

std::string number_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace detail

namespace {

// Parses the complete text as a number, or throws.
template <class T>
T parsed(const Option& option, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  TESSERA_CHECK(error == std::errc() && end == text.data() + text.size(), option.name, ": must be ",
                detail::requirement(option), ", got '", text, "'");
  return value;
}

bool parsed_bool(const Option& option, std::string_view text) {
  TESSERA_CHECK(text == "true" || text == "false", option.name, ": must be true or false, got '", text, "'");
  return text == "true";
}

}  // namespace

std::string to_string(const OptionRange& range) {
  const bool has_least = std::isfinite(range.least);
  if (!has_least) return "";
  const std::string least = detail::number_text(range.least);
  if (!std::isfinite(range.most)) return range.is_open_below ? "above " + least : least + " or more";
  const std::string most = detail::number_text(range.most);
  std::string text = least + " to " + most;
  if (range.is_open_below) text += ", without " + least;
  if (range.is_open_above) text += ", without " + most;
  return text;
}

std::string type_text(const Option& option) {
  std::string choices;
  for (const std::string& choice : option.choices) choices += (choices.empty() ? "" : "|") + choice;
  if (!choices.empty()) return choices;
  std::string kind = detail::kind_text(option);
  const std::string range = to_string(option.range);
  return range.empty() ? kind : kind + ", " + range;
}

std::vector<std::string> value_texts(const Option& option, const Config& config) {
  const auto texts = [](const auto* value) -> std::vector<std::string> {
    using T = std::remove_cvref_t<decltype(*value)>;
    if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      return *value;
    } else if constexpr (std::is_same_v<T, std::string>) {
      return {*value};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {*value ? "true" : "false"};
    } else if constexpr (std::is_same_v<T, double>) {
      return {detail::number_text(*value)};
    } else {
      return {std::to_string(*value)};
    }
  };
  return std::visit(texts, detail::place_of(option, config));
}

void set(Config& config, std::string_view name, std::string_view value) {
  const Option& option = detail::find_option(name);
  Config changed = config;
  const auto put = [&](auto* place) {
    using T = std::remove_cvref_t<decltype(*place)>;
    if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      place->emplace_back(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      *place = value;
    } else if constexpr (std::is_same_v<T, bool>) {
      *place = parsed_bool(option, value);
    } else {
      *place = parsed<T>(option, value);
    }
  };
  std::visit(put, option.place(changed));
  detail::check_value(option, changed);
  config = std::move(changed);
}

std::pair<std::int64_t, std::int64_t> profiled_steps(const RunConfig& config) {
  const std::string_view text = config.profile_steps;
  if (text.empty()) return {0, 0};
  const std::size_t dots = text.find("..");
  const auto number = [&](std::string_view digits) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool is_number = error == std::errc() && end == digits.data() + digits.size() && value > 0;
    TESSERA_CHECK(is_number, "run.profile_steps: must be A..B with steps from 1 on, got '", text, "'");
    return value;
  };
  const std::int64_t first = number(text.substr(0, dots));
  const std::int64_t last = dots == std::string_view::npos ? first : number(text.substr(dots + 2));
  TESSERA_CHECK(first <= last, "run.profile_steps: must not end before it begins, got '", text, "'");
  return {first, last};
}

std::string hash_of(const Config& config) {
  detail::Digest digest;  // over every option that affects the results
  for (const Option& option : options()) {
    if (option.name.starts_with("run.") || option.name.starts_with("checkpoint.")) continue;
    digest.add(option.name);
    const std::vector<std::string> values = value_texts(option, config);
    digest.add(std::uint64_t{values.size()});
    for (const std::string& value : values) digest.add(value);
  }
  return digest.hex();
}

}  // namespace tessera::train

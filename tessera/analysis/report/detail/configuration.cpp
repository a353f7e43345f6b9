#include "tessera/analysis/report/detail/configuration.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/regular_file.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::uint64_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxOptions = 1000;
constexpr std::size_t kMaxText = 2000;  // bytes of a shown text
constexpr std::string_view kDefault = "default: ";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

std::string shown(std::string_view text) {
  return text.size() <= kMaxText ? std::string(text) : std::string(text.substr(0, kMaxText)) + "...";
}

// Returns the position of the comment after a value, or the size: a '#' within quotes belongs to the value.
std::size_t comment_in(std::string_view text) {
  bool is_quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (is_quoted && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      is_quoted = !is_quoted;
    } else if (text[at] == '#' && !is_quoted) {
      return at;
    }
  }
  return text.size();
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 100 && std::ranges::all_of(text, [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '_';
  });
}

}  // namespace

std::vector<ConfiguredOption> options_of_toml(std::string_view text) {
  std::vector<ConfiguredOption> options;
  std::string section;
  std::string_view help;
  while (!text.empty() && options.size() < kMaxOptions) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view last_help = help;
    help = {};
    if (line.starts_with("#")) {
      help = trimmed(line.substr(1));
    } else if (line.starts_with("[") && line.ends_with("]")) {
      section = is_name(line.substr(1, line.size() - 2)) ? line.substr(1, line.size() - 2) : "";
    } else if (const std::size_t equals = line.find('='); equals != std::string_view::npos && !section.empty()) {
      const std::string_view key = trimmed(line.substr(0, equals));
      const std::string_view rest = line.substr(equals + 1);
      const std::size_t comment = comment_in(rest);
      const std::string_view note = trimmed(rest.substr(std::min(comment + 1, rest.size())));
      if (!is_name(key)) continue;
      options.push_back({.name = section + "." + std::string(key),
                         .value = shown(trimmed(rest.substr(0, comment))),
                         .by_default = note.starts_with(kDefault) ? shown(trimmed(note.substr(kDefault.size()))) : "",
                         .help = shown(last_help)});
    }
  }
  return options;
}

std::vector<ConfiguredOption> configured_options(const std::string& directory) {
  try {
    return options_of_toml(read_regular_file(directory + "/config.toml", kMaxBytes));
  } catch (const IoError&) {  // not a training run
    return {};
  }
}

PageJson configuration_json(const std::vector<ConfiguredOption>& options) {
  PageJson rows = PageJson::array();
  for (const ConfiguredOption& each : options) {
    PageJson row = {{"name", each.name}, {"value", each.value}, {"default", nullptr}, {"help", each.help}};
    if (!each.by_default.empty()) row["default"] = each.by_default;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tessera::analysis::detail

#include "tessera/cli/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/base/version.h"

namespace tessera::cli {
namespace {

// Returns the text of one line in roff: a line must not begin with a control letter, and '-' would become a hyphen.
std::string roff(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\\') {
      result += "\\e";
    } else if (letter == '-') {
      result += "\\-";
    } else {
      result += letter;
    }
  }
  return (result.starts_with('.') || result.starts_with('\'') ? "\\&" : "") + result;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

// Examples of a footer, and its other lines.
struct Footer {
  std::vector<std::string> examples;
  std::vector<std::string> text;
};

Footer read_footer(const std::string& footer) {
  Footer parts;
  std::istringstream lines(footer);
  bool is_example = false;
  for (std::string line; std::getline(lines, line);) {
    const bool continues = is_example && line.starts_with("      ");
    is_example = continues || (line.starts_with("  ") && line.find("tessera ") != std::string::npos);
    (is_example ? parts.examples : parts.text).push_back(line);
  }
  return parts;
}

// Returns lines as they are.
std::string literal(const std::vector<std::string>& lines) {
  std::string text = ".nf\n";
  for (const std::string& line : lines) text += roff(line) + "\n";
  return text + ".fi\n";
}

// Returns paragraphs of a footer; indented lines are kept as they are.
std::string paragraphs(const std::vector<std::string>& lines) {
  std::string text;
  std::vector<std::string> kept;
  for (std::size_t at = 0; at <= lines.size(); ++at) {
    const bool is_kept = at < lines.size() && lines[at].starts_with("  ");
    if (is_kept) kept.push_back(lines[at]);
    if (is_kept) continue;
    if (!kept.empty()) text += literal(kept) + ".PP\n";
    kept.clear();
    if (at < lines.size()) text += roff(lines[at]) + "\n";
  }
  return text;
}

// Returns the names of an option with the placeholder of its value.
std::string heading_of(const Option& option) {
  const std::string type = option.type();
  if (option.is_argument()) return italic(option.names.front()) + (option.is_list() ? "..." : "");
  std::string text;
  for (const std::string& name : option.names) text += (text.empty() ? "" : ", ") + bold(name);
  return option.is_flag() ? text : text + " " + italic(type);
}

std::string entry_of(const Option& option) {
  std::string notes;
  if (option.rules.is_required) notes += " Required.";
  if (!option.rules.choices.empty()) notes += fmt::format(" Values: {}.", fmt::join(option.rules.choices, ", "));
  if (const auto& range = option.rules.range; range && range->max < std::numeric_limits<double>::infinity())
    notes += fmt::format(" Range: [{}, {}].", range->min, range->max);
  if (const std::string value = option.default_text(); !value.empty()) notes += fmt::format(" Default: {}.", value);
  if (!option.rules.needs.empty()) notes += fmt::format(" Requires {}.", option.rules.needs);
  if (!option.rules.excludes.empty()) notes += fmt::format(" Excludes {}.", option.rules.excludes);
  return ".TP\n" + heading_of(option) + "\n" + roff(option.help + (notes.empty() ? "" : "." + notes)) + "\n";
}

std::string synopsis_of(const Command& command) {
  const std::string path = command.path();
  std::string text = bold("tessera" + (path.empty() ? "" : " " + path)) + " [" + italic("OPTION") + "]...";
  for (const Option& option : command.options) {
    if (!option.is_argument()) continue;
    const std::string word = heading_of(option);
    text += " " + (option.rules.is_required ? word : "[" + word + "]");
  }
  return text + (command.commands.empty() ? "" : " " + italic("COMMAND")) + "\n";
}

// Returns the arguments, then the options by group. Sections of a page have no subsections for the groups.
std::string options_of(const Command& command, bool is_section) {
  const auto heading = [&](const std::string& title) { return (is_section ? ".PP\n" : ".SS ") + title + "\n"; };
  std::string arguments;
  std::vector<std::string> groups;
  for (const Option& option : command.options) {
    const std::string& group = option.rules.group;
    if (option.is_argument()) {
      arguments += entry_of(option);
    } else if (!group.empty() && std::ranges::count(groups, group) == 0) {
      groups.push_back(group);
    }
  }
  std::string text = arguments.empty() ? "" : heading("Arguments") + arguments;
  for (const std::string& group : groups) {
    text += heading(group);
    for (const Option& option : command.options) {
      if (!option.is_argument() && option.rules.group == group) text += entry_of(option);
    }
  }
  return text;
}

// Returns the list of commands: pages for the program, sections for a command with nested commands.
std::string commands_of(const Command& command) {
  if (command.commands.empty()) return {};
  std::string text = ".SH COMMANDS\n";
  for (const auto& nested : command.commands) {
    if (command.parent == nullptr) {
      text += ".TP\n" + bold(man_page_name(*nested)) + "(1)\n" + roff(nested->summary) + "\n";
      continue;
    }
    const Footer footer = read_footer(nested->footer);
    text += ".SS " + roff(nested->name) + "\n" + synopsis_of(*nested) + ".PP\n" + roff(nested->summary) + ".\n";
    text += paragraphs(footer.text) + options_of(*nested, true) + ".PP\n" + literal(footer.examples);
  }
  return text;
}

}  // namespace

std::string man_page_name(const Command& command) {
  return command.parent == nullptr ? command.name : command.parent->name + "-" + command.name;
}

std::string man_page(const Command& command) {
  TESSERA_CHECK(command.parent == nullptr || command.parent->parent == nullptr, "man page: '", command.path(),
                "' is described in the page of its command");
  const std::string name = man_page_name(command);
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](unsigned char letter) { return std::toupper(letter); });
  const Footer footer = read_footer(command.footer);
  std::string text = fmt::format(".TH \"{}\" 1 \"\" \"tessera {}\" \"Tessera manual\"\n", roff(title), version());
  text += ".SH NAME\n" + roff(name) + " \\- " + roff(command.summary) + "\n";
  text += ".SH SYNOPSIS\n" + synopsis_of(command);
  if (!footer.text.empty()) text += ".SH DESCRIPTION\n" + paragraphs(footer.text);
  text += ".SH OPTIONS\n" + options_of(command, false) + commands_of(command);
  if (!footer.examples.empty()) text += ".SH EXAMPLES\n" + literal(footer.examples);
  if (command.parent != nullptr) text += ".SH \"SEE ALSO\"\n" + bold(command.parent->name) + "(1)\n";
  return text;
}

}  // namespace tessera::cli

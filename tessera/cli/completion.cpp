#include "tessera/cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "tessera/base/error.h"

namespace tessera::cli {
namespace {

// Returns the words that name a command, joined: "memory/stat" for the separator '/'.
std::string joined_path(const Command& command, char separator) {
  std::string path = command.path();
  std::ranges::replace(path, ' ', separator);
  return path;
}

bool is_hidden(const Option& option) { return option.rules.group.empty(); }

const std::vector<std::string>& words_of(const Option& option) {
  return option.rules.choices.empty() ? option.rules.examples : option.rules.choices;
}

std::string names_of_commands(const Command& command) {
  std::vector<std::string> names;
  for (const auto& nested : command.commands) names.push_back(nested->name);
  return fmt::format("{}", fmt::join(names, " "));
}

// Returns the text with a backslash before each of these letters.
std::string escaped(const std::string& text, const std::string& letters) {
  std::string result;
  for (const char letter : text) {
    if (letters.find(letter) != std::string::npos) result += '\\';
    result += letter;
  }
  return result;
}

// --- bash ---

// Returns the assignments that select the words to offer.
std::string bash_values(const std::string& words, Paths paths) {
  std::string text = words.empty() ? "" : " words='" + words + "'";
  if (paths == Paths::kFiles) text += " paths=f";
  if (paths == Paths::kDirectories) text += " paths=d";
  return text.empty() ? " :" : text;
}

void add_bash_command(const Command& command, std::string& values, std::string& options, std::string& arguments) {
  const std::string path = joined_path(command, '/');
  std::string names;
  std::string words = names_of_commands(command);
  Paths paths = Paths::kNone;
  for (const Option& option : command.options) {
    if (is_hidden(option)) continue;
    const std::string own = fmt::format("{}", fmt::join(words_of(option), " "));
    if (option.is_argument()) {
      words += own;
      paths = std::max(paths, option.rules.paths);
      continue;
    }
    for (const std::string& name : option.names) names += (names.empty() ? "" : " ") + name;
    if (option.is_flag()) continue;
    values += fmt::format("    '{} {}'){} ;;\n", path, fmt::join(option.names, "' | '" + path + " "),
                          bash_values(own, option.rules.paths));
  }
  options += fmt::format("        '{}') words='{}' ;;\n", path, names);
  arguments += fmt::format("        '{}'){} ;;\n", path, bash_values(words, paths));
}

std::string bash_script(const Command& root) {
  std::vector<std::string> paths;
  std::string values;
  std::string options;
  std::string arguments;
  for (const Command* command : root.tree()) {
    add_bash_command(*command, values, options, arguments);
    if (command == &root) continue;
    paths.push_back((command->parent == &root ? "/" : "") + joined_path(*command, '/'));
  }
  return fmt::format(
      R"(# Completion of tessera for bash, written by `tessera help --completion bash`.
_tessera() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command= words= paths= i
  # Bash splits --option=value into three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command/${{COMP_WORDS[i]}}" in
      {}) command=${{command:+$command/}}${{COMP_WORDS[i]}} ;;
    esac
  done
  case "$command $previous" in
{}    *)
      if [[ $current == -* ]]; then
        case $command in
{}        esac
      else
        case $command in
{}        esac
      fi ;;
  esac
  COMPREPLY=()
  if [[ $words ]]; then mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current"); fi
  if [[ $paths ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen "-$paths" -- "$current")
  fi
}}
complete -F _tessera tessera
)",
      fmt::join(paths, " | "), values, options, arguments);
}

// --- zsh ---

// Returns the text inside single quotes; '[', ']' and ':' separate the fields of _arguments.
std::string zsh_field(const std::string& text) {
  std::string result;
  for (const char letter : escaped(text, "[]:\\")) {
    result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  }
  return result;
}

std::string zsh_action(const Option& option) {
  const auto& words = words_of(option);
  if (!words.empty()) return fmt::format("({})", fmt::join(words, " "));
  if (option.rules.paths == Paths::kFiles) return "_files";
  return option.rules.paths == Paths::kDirectories ? "_files -/" : " ";
}

// Returns the option as one argument of _arguments.
std::string zsh_option(const Option& option) {
  const std::string value = option.is_flag() ? "" : fmt::format(":{}:{}", zsh_field(option.type()), zsh_action(option));
  if (option.rules.is_rest) return fmt::format("'*::{}:_normal'", option.names.front());
  if (option.is_argument())
    return fmt::format("'{}:{}:{}'", option.is_list() ? "*" : "", option.names.front(), zsh_action(option));
  const std::string help = fmt::format("'[{}]{}'", zsh_field(option.help), value);
  const std::string prefix = option.rules.repeat == Repeat::kDefault && !option.is_list()
                                 ? fmt::format("'({})'", fmt::join(option.names, " "))
                                 : "'*'";
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    // "-n4" and "-n 4"; "--ranks=4" and "--ranks 4".
    names.push_back(name + (option.is_flag() ? "" : name.starts_with("--") ? "=" : "+"));
  }
  return prefix + (names.size() == 1 ? names.front() : fmt::format("{{{}}}", fmt::join(names, ","))) + help;
}

std::string zsh_function(const Command& command) {
  const std::string path = joined_path(command, '_');
  const std::string name = "_tessera" + (path.empty() ? "" : "_" + path);
  std::string options;
  for (const Option& option : command.options) {
    if (!is_hidden(option)) options += " \\\n    " + zsh_option(option);
  }
  if (command.commands.empty()) return fmt::format("{}() {{\n  _arguments -s -S{}\n}}\n\n", name, options);
  std::string rows;
  for (const auto& nested : command.commands) {
    rows += fmt::format("        '{}:{}'\n", nested->name, zsh_field(nested->summary));
  }
  return fmt::format(
      R"({}() {{
  local curcontext=$curcontext state
  local -a line
  _arguments -C{} \
    ': :->command' '*:: :->rest'
  case $state in
    command)
      local -a commands=(
{}      )
      _describe -t commands command commands ;;
    rest) (( $+functions[{}_$line[1]] )) && {}_$line[1] ;;
  esac
}}

)",
      name, options, rows, name, name);
}

std::string zsh_script(const Command& root) {
  std::string text =
      "#compdef tessera\n# Completion of tessera for zsh, written by `tessera help --completion zsh`.\n\n";
  for (const Command* command : root.tree()) text += zsh_function(*command);
  return text + "if [[ $funcstack[1] == _tessera ]]; then _tessera \"$@\"; else compdef _tessera tessera; fi\n";
}

// --- fish ---

std::string fish_quoted(const std::string& text) { return "'" + escaped(text, "'\\") + "'"; }

std::string fish_value(const Option& option, const char* is_exclusive) {
  const auto& words = words_of(option);
  if (!words.empty()) return fmt::format("{} -a '{}'", is_exclusive, fmt::join(words, " "));
  if (option.rules.paths == Paths::kFiles) return *is_exclusive == '\0' ? " -F" : " -r -F";
  if (option.rules.paths == Paths::kDirectories)
    return std::string(is_exclusive) + " -a '(__fish_complete_directories)'";
  return is_exclusive;
}

std::string fish_script(const Command& root) {
  std::vector<std::string> paths;
  std::string lines;
  for (const Command* command : root.tree()) {
    const std::string path = joined_path(*command, '/');
    if (command != &root) paths.push_back((command->parent == &root ? "/" : "") + path);
    const std::string start = fmt::format("complete -c tessera -n '__tessera_at \"{}\"'", path);
    for (const auto& nested : command->commands) {
      lines += fmt::format("{} -a {} -d {}\n", start, nested->name, fish_quoted(nested->summary));
    }
    for (const Option& option : command->options) {
      if (is_hidden(option)) continue;
      if (option.is_argument()) {
        if (const std::string value = fish_value(option, ""); !value.empty()) lines += start + value + "\n";
        continue;
      }
      lines += start;
      for (const std::string& name : option.names) {
        lines += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      lines += (option.is_flag() ? "" : fish_value(option, " -x")) + " -d " + fish_quoted(option.help) + "\n";
    }
  }
  return fmt::format(
      R"(# Completion of tessera for fish, written by `tessera help --completion fish`.
function __tessera_at
    set -l found ''
    for word in (commandline -opc)[2..-1]
        if contains -- "$found/$word" {}
            set found (string trim --left --chars=/ -- "$found/$word")
        end
    end
    test "$found" = "$argv[1]"
end
complete -c tessera -f
{})",
      fmt::join(paths, " "), lines);
}

}  // namespace

std::string completion_script(const Command& root, const std::string& shell) {
  if (shell == "bash") return bash_script(root);
  if (shell == "zsh") return zsh_script(root);
  if (shell == "fish") return fish_script(root);
  TESSERA_THROW(InvalidArgument, "completion: shell must be bash, zsh or fish, got ", shell);
}

}  // namespace tessera::cli

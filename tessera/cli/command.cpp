#include "tessera/cli/command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "tessera/base/nearest.h"

namespace tessera::cli {
namespace {

std::string comma_separated(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ",") + text;
  return list;
}

// Adds the option to the parser with the type of its variable.
struct AddTarget {
  CLI::App& app;
  const Option& option;

  CLI::Option* operator()(std::monostate /*none*/) const { return nullptr; }
  CLI::Option* operator()(bool* flag) const { return app.add_flag(comma_separated(option.names), *flag, option.help); }
  CLI::Option* operator()(std::vector<std::string>* texts) const {
    const std::string names = comma_separated(option.names);
    return option.rules.is_flag ? app.add_flag(names, *texts, option.help) : app.add_option(names, *texts, option.help);
  }
  template <class T>
  CLI::Option* operator()(T* variable) const {
    return app.add_option(comma_separated(option.names), *variable, option.help);
  }
};

void add_range(CLI::Option& added, const Range& range, bool is_real) {
  if (range.max == std::numeric_limits<double>::infinity()) {
    added.check(CLI::NonNegativeNumber);
  } else if (is_real) {
    added.check(CLI::Range(range.min, range.max));
  } else {
    added.check(CLI::Range(static_cast<std::int64_t>(range.min), static_cast<std::int64_t>(range.max)));
  }
}

void add_option(CLI::App& app, const Option& option) {
  const Rules& rules = option.rules;
  CLI::Option* added = std::visit(AddTarget{app, option}, option.target);
  added->group(rules.group)->required(rules.is_required);
  if (!rules.type.empty() || rules.is_rest) added->type_name(rules.type);
  if (rules.repeat == Repeat::kEach) {
    added->allow_extra_args(false);
  } else if (rules.repeat != Repeat::kDefault) {
    if (!option.is_flag()) added->type_size(1)->expected(1)->take_all();
    if (rules.repeat == Repeat::kLast) added->take_last()->trigger_on_parse();
  }
  if (rules.shows_default) added->capture_default_str();
  if (rules.separator != '\0') added->delimiter(rules.separator);
  if (!rules.choices.empty()) added->check(CLI::IsMember(rules.choices));
  if (rules.range) add_range(*added, *rules.range, std::holds_alternative<double*>(option.target));
  if (rules.fault) added->check(rules.fault);
  if (rules.is_rest) app.positionals_at_end();
}

void fill(CLI::App& app, const Command& command) {
  app.footer(command.footer);
  for (const Option& option : command.options) {
    const std::string names = comma_separated(option.names);
    if (!std::holds_alternative<std::monostate>(option.target)) {
      add_option(app, option);
    } else if (names == "--version") {
      app.set_version_flag(names, command.version, option.help);
    } else {
      app.set_help_flag(names, option.help);
    }
  }
  for (const Option& option : command.options) {
    if (!option.rules.needs.empty()) {
      app.get_option(option.names.front())->needs(app.get_option(option.rules.needs));
    }
    if (!option.rules.excludes.empty()) {
      app.get_option(option.names.front())->excludes(app.get_option(option.rules.excludes));
    }
  }
  for (const auto& nested : command.commands) {
    fill(*app.add_subcommand(nested->name, nested->summary)->group("Commands"), *nested);
  }
  if (!command.commands.empty()) app.require_subcommand(1);
}

int refuse(const Command& command, const std::string& message) {
  const std::string path = command.path();
  std::fprintf(stderr, "tessera: %s%s%s\n", path.c_str(), path.empty() ? "" : ": ", message.c_str());
  return kUsage;
}

int refuse_command(const Command& command, const std::string& word) {
  std::vector<std::string> names;
  std::string list;
  for (const auto& nested : command.commands) {
    names.push_back(nested->name);
    list += (list.empty() ? "" : ", ") + nested->name;
  }
  if (word.empty()) return refuse(command, "command required; commands: " + list);
  return refuse(command, "unknown command '" + word + "'" + did_you_mean(word, names) + "; commands: " + list);
}

int refuse_argument(const Command& command, const std::string& word) {
  std::vector<std::string> names;
  for (const Option& option : command.options) {
    for (const std::string& name : option.names) {
      if (name.starts_with("--")) names.push_back(name);
    }
  }
  const std::string path = command.path();
  return refuse(command, "unknown argument '" + word + "'" + did_you_mean(word, names) + "; see `tessera " + path +
                             (path.empty() ? "" : " ") + "--help`");
}

// Sets `chosen` of the commands that the parser reached, and returns the innermost.
Command& follow(const CLI::App& app, Command& root) {
  Command* at = &root;
  for (const CLI::App* parser = &app; !parser->get_subcommands().empty(); at = at->chosen) {
    parser = parser->get_subcommands().front();
    at->chosen = at->find(parser->get_name());
  }
  return *at;
}

// Reports a command line that the parser rejects.
int refuse_words(const CLI::App& app, Command& root, const CLI::ParseError& error) {
  const Command& reached = follow(app, root);
  const auto left = app.remaining(true);
  const std::string word = left.empty() ? "" : left.front();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return refuse_argument(reached, word);
  const bool is_required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (is_required && &reached != &root && !reached.commands.empty()) {
    return word.starts_with('-') ? refuse_argument(reached, word) : refuse_command(reached, word);
  }
  if (&reached == &root && !word.empty()) return refuse_argument(reached, word);
  return refuse(root, error.what());
}

}  // namespace

bool Option::is_list() const {
  const bool is_vector = std::holds_alternative<std::vector<std::int32_t>*>(target) ||
                         std::holds_alternative<std::vector<std::string>*>(target);
  return is_vector && !rules.is_flag && rules.repeat != Repeat::kLast;
}

std::string Option::type() const {
  if (!rules.type.empty() || is_flag()) return rules.type;
  return std::visit(
      [](const auto& variable) -> std::string {
        using Variable = std::decay_t<decltype(variable)>;
        if constexpr (std::is_pointer_v<Variable>) {
          return CLI::detail::type_name<std::remove_pointer_t<Variable>>();
        } else {
          return {};
        }
      },
      target);
}

std::string Option::default_text() const {
  if (!rules.shows_default) return {};
  return std::visit(
      [](const auto& variable) -> std::string {
        if constexpr (std::is_pointer_v<std::decay_t<decltype(variable)>>) {
          return CLI::detail::to_string(*variable);
        } else {
          return {};
        }
      },
      target);
}

Command::Command(std::string name_of_command, std::string summary_of_command, const Command* enclosing)
    : name(std::move(name_of_command)), summary(std::move(summary_of_command)), parent(enclosing) {
  if (parent == nullptr) options.push_back({{"--version"}, {}, "Print the version and exit", {}});
  options.push_back({{"-h", "--help"}, {}, "Print this help and exit", {}});
}

void Command::add(const std::string& names, Target target, std::string help, Rules rules) {
  std::vector<std::string> split;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    split.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  options.push_back({std::move(split), target, std::move(help), std::move(rules)});
}

Body Command::add_commands(const std::vector<Verb>& verbs) {
  for (const Verb& verb : verbs) {
    Command& nested = *commands.emplace_back(std::make_unique<Command>(verb.name, verb.summary, this));
    nested.body = verb.declare(nested);
  }
  return [this] { return chosen->body(); };
}

Command* Command::find(const std::string& nested) const {
  const auto found = std::ranges::find(commands, nested, [](const auto& each) { return each->name; });
  return found == commands.end() ? nullptr : found->get();
}

std::string Command::path() const {
  if (parent == nullptr) return {};
  const std::string above = parent->path();
  return above.empty() ? name : above + " " + name;
}

std::vector<const Command*> Command::tree() const {
  std::vector<const Command*> all = {this};
  for (const auto& nested : commands) {
    const auto below = nested->tree();
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

std::optional<int> parse(Command& root, const std::vector<std::string>& words) {
  // The parser would only report that a command is required.
  const auto first = std::ranges::find_if(words, [](const std::string& word) { return !word.starts_with('-'); });
  if (first != words.end() && root.find(*first) == nullptr) return refuse_command(root, *first);
  CLI::App app(root.summary, root.name);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->column_width(40);
  fill(app, root);
  if (words.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& shown) {  // --help and --version
    return app.exit(shown);
  } catch (const CLI::ParseError& error) {
    return refuse_words(app, root, error);
  }
  follow(app, root);
  return std::nullopt;
}

}  // namespace tessera::cli

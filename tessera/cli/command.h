// A command of the command line as data: its options, arguments, nested commands and help.
//
//   command.add("RUN_DIR", &values->run, "Run directory of a run", {.is_required = true, .paths =
//   Paths::kDirectories}); command.add("-n,--count", &values->count, "Number of rows per table", {.type = "N",
//   .shows_default = true}); command.add("--json", &values->json, "Print JSON");
//
// parse(), --help, the shell completion (completion.h) and the man pages (man_page.h) read this data, so that they
// agree. Only command.cpp includes CLI11, which takes seconds to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tessera::cli {

/// Exit codes of the command.
enum ExitCode : int {
  kDone = 0,    ///< success
  kFailed = 1,  ///< the subcommand failed; stderr states the reason
  kUsage = 2,   ///< the command line is invalid; nothing was done
};

/// The variable that receives the values of an option. A bool makes a flag. Only --help and --version have none.
using Target =
    std::variant<std::monostate, bool*, int*, std::uint16_t*, std::int64_t*, std::uint64_t*, double*, std::string*,
                 std::optional<std::string>*, std::vector<std::int32_t>*, std::vector<std::string>*>;

/// The paths that a shell offers as values.
enum class Paths : std::uint8_t {
  kNone,
  kFiles,  ///< files and directories
  kDirectories,
};

/// The values that count if an option is given more than once.
enum class Repeat : std::uint8_t {
  kDefault,  ///< A second value is an error, or, for a vector, all words up to the next option are values.
  kLast,     ///< The last value counts, also among options that share the variable.
  kAll,      ///< All values count, one or more per occurrence of the option.
  kEach,     ///< All values count, one per occurrence of the option.
};

/// Bounds of a number, both included.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();  ///< Infinity requires a `min` of 0.
};

/// Further properties of an option.
struct Rules {
  std::string type = {};                   ///< Placeholder of the value. Default: a word for the type of the variable.
  std::string group = "Options";           ///< Heading in the help. Empty: the option is hidden.
  bool is_required = false;                ///< The option must be given.
  bool shows_default = false;              ///< The help shows the initial value of the variable.
  bool is_flag = false;                    ///< The option has no value; a vector of texts receives "true".
  bool is_rest = false;                    ///< The argument takes the rest of the command line.
  std::vector<std::string> choices = {};   ///< Allowed values. Empty: any.
  std::vector<std::string> examples = {};  ///< Values that a shell offers; unlike `choices`, not the only ones.
  std::optional<Range> range = {};         ///< Allowed range of a number.
  std::function<std::string(const std::string&)> fault = {};  ///< Returns the fault of a value, or an empty text.
  std::string needs = {};                                     ///< Option that must be given too.
  std::string excludes = {};                                  ///< Option that must not be given.
  Repeat repeat = Repeat::kDefault;                           ///< Meaning of further values.
  char separator = '\0';                                      ///< Separator of the values of a vector in one word.
  Paths paths = Paths::kNone;                                 ///< The value is a path.
};

/// An option, a flag, or an argument if the name does not begin with '-'.
struct Option {
  std::vector<std::string> names;  ///< "-n" and "--ranks"
  Target target;
  std::string help;
  Rules rules;

  /// Returns true for an argument without a name on the command line.
  [[nodiscard]] bool is_argument() const { return !names.front().starts_with('-'); }
  /// Returns true if the option takes no value.
  [[nodiscard]] bool is_flag() const {
    return rules.is_flag || std::holds_alternative<bool*>(target) || std::holds_alternative<std::monostate>(target);
  }
  /// Returns true if several words may be values.
  [[nodiscard]] bool is_list() const;
  /// Returns the placeholder of the value, such as "N".
  [[nodiscard]] std::string type() const;
  /// Returns the initial value of the variable as text; empty if the help does not show it.
  [[nodiscard]] std::string default_text() const;
};

struct Command;

/// Runs a command after its options are parsed. Returns an ExitCode; an exception means kFailed.
using Body = std::function<int()>;

/// A command that is one file.
struct Verb {
  std::string name;
  std::string summary;  ///< one line for --help
  /// Adds the options of the command and returns its body.
  std::function<Body(Command& command)> declare;
};

/// A command with its options and nested commands. Nested commands refer to their parent, so commands stay in place.
struct Command {
  /// Constructs a command with the option --help.
  Command(std::string name_of_command, std::string summary_of_command, const Command* enclosing = nullptr);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Adds an option. `names` are separated by commas: "-n,--ranks", or "FILE" for an argument. The variable must live
  /// as long as the command.
  void add(const std::string& names, Target target, std::string help, Rules rules = {});
  /// Adds nested commands, returns the body that runs the one that the command line names. It must name one.
  Body add_commands(const std::vector<Verb>& verbs);
  /// Returns the nested command of this name, or nullptr.
  [[nodiscard]] Command* find(const std::string& nested) const;
  /// Returns the words that name the command, without that of the program: "memory stat".
  [[nodiscard]] std::string path() const;
  /// Returns this command and all commands nested in it, each before its own.
  [[nodiscard]] std::vector<const Command*> tree() const;

  std::string name;
  std::string summary;  ///< one line
  std::string footer;   ///< text after the options; indented lines with "tessera " are examples
  std::string version;  ///< output of --version, which only the root has
  std::vector<Option> options;
  std::vector<std::unique_ptr<Command>> commands;
  const Command* parent;
  Command* chosen = nullptr;  ///< the nested command that the command line names, after parse()
  Body body;
};

/// Parses the words of a command line, without that of the program, into the variables of the options. Returns nothing
/// if the body of `root` may run. Otherwise it has printed the help, the version or an error; returns the exit code.
std::optional<int> parse(Command& root, const std::vector<std::string>& words);

}  // namespace tessera::cli

// `tessera explain`: explains the failure of a run from the files of its ranks in the run directory. It only reads;
// ranks may still be running.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/read_run.h"
#include "tessera/analysis/torch_pickles.h"
#include "tessera/base/error.h"
#include "tessera/base/nearest.h"
#include "tessera/cli/newest_run.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

constexpr int kFaultFound = 3;      // exit code
constexpr int kMaxRanks = 1 << 20;  // in a list of ranks

struct Options {
  std::string directory;
  std::string ranks;
  std::string group;
  std::string color = "auto";
  std::size_t last = analysis::ShowOptions{}.last;
  bool json = false;
};

// Parses a number of a list; returns -1 if it is invalid.
int number_in(const std::string& text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos) return -1;
  return std::stoi(text);
}

// Parses "0,3-5"; returns an empty vector if the list is invalid.
std::vector<int> ranks_in(const std::string& text) {
  std::vector<int> ranks;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const int first = number_in(part.substr(0, dash));
    const int last = dash == std::string::npos ? first : number_in(part.substr(dash + 1));
    if (first < 0 || last < first || last - first > kMaxRanks) return {};
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

bool has_colors(const std::string& color) {
  if (color != "auto") return color == "always";
  const char* off = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (off == nullptr || *off == '\0');
}

// Throws if the run does not have the selected ranks or groups: the output would be empty.
void check_chosen(const analysis::Evidence& evidence, const analysis::ShowOptions& chosen) {
  std::set<std::string> groups;
  for (const analysis::Rank& rank : evidence.ranks) {
    for (const analysis::Group& group : rank.groups) groups.insert(group.name);
  }
  for (const int rank : chosen.ranks) {
    TESSERA_CHECK(rank < evidence.world_size, "explain: --ranks: must be in [0, ", evidence.world_size, "), got ",
                  rank);
  }
  if (chosen.group.empty() || groups.contains(chosen.group)) return;
  const std::vector<std::string> names(groups.begin(), groups.end());
  TESSERA_THROW(InvalidArgument, "explain: --group: unknown group '", chosen.group, "'",
                did_you_mean(chosen.group, names), "; ",
                names.empty() ? "the records name no group" : fmt::format("groups: {}", fmt::join(names, ", ")));
}

int show(const Options& options) {
  const std::string directory = run_or_newest(options.directory);
  const analysis::Evidence evidence =
      analysis::has_torch_pickles(directory) ? analysis::read_torch_pickles(directory) : analysis::read_run(directory);
  const analysis::Explanation found = analysis::explain(evidence);
  analysis::ShowOptions chosen{.group = options.group, .last = options.last, .has_colors = has_colors(options.color)};
  if (!options.ranks.empty()) chosen.ranks = ranks_in(options.ranks);
  check_chosen(evidence, chosen);
  const std::string text =
      options.json ? analysis::to_json(evidence, found, chosen) + "\n" : analysis::to_text(evidence, found, chosen);
  std::fputs(text.c_str(), stdout);
  return found.verdict.fault == analysis::Fault::kNone ? kDone : kFaultFound;
}

Body declare(Command& command) {
  const auto options = std::make_shared<Options>();
  command.add("RUN_DIR", &options->directory,
              "Run directory, or a directory of PyTorch flight recorder pickles (default: the newest under ./runs)",
              {.paths = Paths::kDirectories});
  command.add("--ranks", &options->ranks, "Ranks to show, as in 0,3-5 (default: all)",
              {.fault = [](const std::string& text) {
                return ranks_in(text).empty() ? "must be a list of ranks and ranges, as in 0,3-5, got '" + text + "'"
                                              : std::string();
              }});
  command.add("--group", &options->group, "Group to show (default: all)");
  command.add("--last", &options->last, "Launches to show per group and rank", {.shows_default = true});
  command.add("--color", &options->color, "Colors; auto uses them on a terminal",
              {.shows_default = true, .choices = {"auto", "always", "never"}});
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "Explains active, hanging and ended runs. The last lines are the verdict, its confidence and the next action.\n"
      "Exit codes: 0 no fault found, 1 the run cannot be read, 2 invalid command line, 3 a fault was found.\n"
      "  tessera explain runs/20261116-070000-4242 --ranks 0,3-5 --last 20";
  return [options]() -> int {
    try {
      return show(*options);
    } catch (const InvalidArgument& error) {
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kUsage;
    } catch (const IoError& error) {  // unreadable input: the source location does not matter
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kFailed;
    }
  };
}

const VerbRegistration kExplain({"explain", "Find the fault of a run and the rank that caused it", declare});

}  // namespace
}  // namespace tessera::cli

#include "tessera/analysis/report/detail/page_data.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <optional>

#include "tessera/analysis/read_run.h"
#include "tessera/analysis/report/detail/collective_table.h"
#include "tessera/analysis/report/detail/configuration.h"
#include "tessera/analysis/report/detail/run_json.h"
#include "tessera/base/error.h"
#include "tessera/base/version.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::size_t kProblems = 50;
constexpr std::size_t kOthers = 10;

PageJson verdict_json(const Verdict& verdict) {
  return {{"fault", to_string(verdict.fault)},
          {"culprits", verdict.culprits},
          {"sentence", verdict.sentence},
          {"advice", verdict.advice},
          {"confidence", to_string(verdict.confidence)}};
}

// Reads the records of the ranks; nothing, with a reason, if none exist.
std::optional<Evidence> read_evidence(const std::string& directory, std::vector<MissingPart>& missing) {
  try {
    return read_run(directory, {.last_launches = std::numeric_limits<std::size_t>::max()});
  } catch (const IoError&) {
    missing.push_back({"records of ranks",
                       "No rank-N.HOST.PID.SERIAL.record and no launch.json exists. The timeline, the collectives and "
                       "the verdict need them. Ranks write them to TESSERA_RUN_DIR, or to the --run.directory of "
                       "tessera train, unless TESSERA_RECORD=off."});
    return std::nullopt;
  }
}

// A rank that has trained and not yet ended may create the page: if the summary states the end of the run, its ranks no
// longer run.
void end_ranks(const RunTables& tables, Evidence& evidence) {
  const PageJson& end = part_at(tables.summary, "end");
  if (!end.is_string() || end == "failed") return;  // then others may still be active
  for (Rank& rank : evidence.ranks) {
    if (rank.state == RankState::kRunning) rank.state = RankState::kEnded;
  }
}

void tell_what_records_lack(const Evidence& evidence, const PackedTimeline& timeline,
                            std::vector<MissingPart>& missing) {
  std::size_t without = 0;
  std::size_t running = 0;
  std::uint64_t lost = 0;
  for (const Rank& rank : evidence.ranks) {
    without += rank.file.empty() ? 1 : 0;
    running += rank.state == RankState::kRunning ? 1 : 0;
    lost += rank.lost;
  }
  if (running > 0)
    missing.push_back(
        {"the end", fmt::format("{} of {} ranks are still running; the report shows their progress so far.", running,
                                evidence.ranks.size())});
  if (without > 0)
    missing.push_back({"records", fmt::format("{} of {} ranks left no record.", without, evidence.ranks.size())});
  if (lost > 0)
    missing.push_back(
        {"old launches", fmt::format("About {} communication records were overwritten by later ones. The timeline and "
                                     "the table begin after them. A larger TESSERA_RECORD_BYTES keeps more.",
                                     lost)});
  if (timeline.left_out > 0)
    missing.push_back({"old events", fmt::format("The {} oldest events of the timeline are drawn only when zoomed out.",
                                                 timeline.left_out)});
}

}  // namespace

PageJson explanation_json(const Evidence& evidence) {
  const Explanation found = explain(evidence);
  PageJson json = verdict_json(found.verdict);
  json["others"] = PageJson::array();
  for (const Verdict& other : found.others) {
    if (json["others"].size() < kOthers) json["others"].push_back(verdict_json(other));
  }
  return json;
}

PageData page_data(const std::string& directory, std::size_t max_events) {
  std::error_code error;
  TESSERA_CHECK_AS(IoError, std::filesystem::is_directory(directory, error), "run directory ", directory,
                   ": no such directory");
  RunTables tables = read_run_tables(directory);
  std::vector<MissingPart>& missing = tables.missing;
  std::optional<Evidence> evidence = read_evidence(directory, missing);
  TESSERA_CHECK_AS(IoError, tables.has_any() || evidence, "run directory ", directory,
                   ": no summary.json, loss.csv, metrics.jsonl, launch.json or record file; give a run directory");
  if (evidence) end_ranks(tables, *evidence);
  const Evidence* known = evidence ? &*evidence : nullptr;
  keep_ranks_of(tables.world_size > 0 || !known ? tables.world_size : known->world_size, tables);

  PageData page{.losses_end = tables.losses_end, .metrics_end = tables.metrics_end};
  PageJson& data = page.json;
  data = {{"version", 2}, {"made_by", std::string("tessera ") + std::string(version())}, {"live", nullptr}};
  data["run"] = head_json(directory, tables, known);
  data["verdict"] = known != nullptr ? explanation_json(*known) : PageJson();
  data["curves"] = curves_json(tables);
  data["memory"] = memory_json(tables);
  data["mesh"] = mesh_json(tables, known);
  data["configuration"] = configuration_json(configured_options(directory));
  data["collectives"] = PageJson::array();
  if (known != nullptr) {
    const Spans spans = spans_of(*known);
    data["collectives"] = collectives_json(*known, spans);
    page.timeline = pack_timeline(spans, max_events);
    tell_what_records_lack(*known, page.timeline, missing);
    tables.problems.insert(tables.problems.end(), known->problems.begin(), known->problems.end());
  }
  data["timeline"] = page.timeline.json;
  data["missing"] = PageJson::array();
  for (const MissingPart& part : missing) data["missing"].push_back({{"what", part.what}, {"why", part.why}});
  data["problem_count"] = tables.problems.size();
  if (tables.problems.size() > kProblems) tables.problems.resize(kProblems);
  data["problems"] = tables.problems;
  page.missing = std::move(missing);
  return page;
}

}  // namespace tessera::analysis::detail

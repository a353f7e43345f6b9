#include "tessera/analysis/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/read_run.h"
#include "tessera/analysis/report/detail/collective_table.h"
#include "tessera/analysis/report/detail/page.h"
#include "tessera/analysis/report/detail/run_json.h"
#include "tessera/analysis/report/detail/timeline_pack.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/version.h"

namespace tessera::analysis {
namespace {

using detail::MissingPart;
using detail::PageJson;

constexpr std::size_t kProblems = 50;
constexpr std::size_t kOthers = 10;

PageJson verdict_json(const Verdict& verdict) {
  return {{"fault", to_string(verdict.fault)},
          {"culprits", verdict.culprits},
          {"sentence", verdict.sentence},
          {"advice", verdict.advice},
          {"confidence", to_string(verdict.confidence)}};
}

PageJson explanation_json(const Evidence& evidence) {
  const Explanation found = explain(evidence);
  PageJson json = verdict_json(found.verdict);
  json["others"] = PageJson::array();
  for (const Verdict& other : found.others) {
    if (json["others"].size() < kOthers) json["others"].push_back(verdict_json(other));
  }
  return json;
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
void end_ranks(const detail::RunTables& tables, Evidence& evidence) {
  const PageJson& end = detail::part_at(tables.summary, "end");
  if (!end.is_string() || end == "failed") return;  // then others may still be active
  for (Rank& rank : evidence.ranks) {
    if (rank.state == RankState::kRunning) rank.state = RankState::kEnded;
  }
}

void tell_what_records_lack(const Evidence& evidence, const detail::PackedTimeline& timeline,
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

ReportPage make_report_page(const std::string& directory, const ReportOptions& options) {
  std::error_code error;
  TESSERA_CHECK_AS(IoError, std::filesystem::is_directory(directory, error), "run directory ", directory,
                   ": no such directory");
  detail::RunTables tables = detail::read_run_tables(directory);
  std::vector<MissingPart>& missing = tables.missing;
  std::optional<Evidence> evidence = read_evidence(directory, missing);
  TESSERA_CHECK_AS(IoError, tables.has_any() || evidence, "run directory ", directory,
                   ": no summary.json, loss.csv, metrics.jsonl, launch.json or record file; give a run directory");
  if (evidence) end_ranks(tables, *evidence);
  const Evidence* known = evidence ? &*evidence : nullptr;
  detail::keep_ranks_of(tables.world_size > 0 || !known ? tables.world_size : known->world_size, tables);

  PageJson data = {{"version", 1}, {"made_by", std::string("tessera ") + std::string(version())}};
  data["run"] = detail::head_json(directory, tables, known);
  data["verdict"] = known != nullptr ? explanation_json(*known) : PageJson();
  data["curves"] = detail::curves_json(tables);
  data["memory"] = detail::memory_json(tables);
  data["mesh"] = detail::mesh_json(tables, known);
  detail::PackedTimeline timeline;
  data["collectives"] = PageJson::array();
  if (known != nullptr) {
    const detail::Spans spans = detail::spans_of(*known);
    data["collectives"] = detail::collectives_json(*known, spans);
    timeline = detail::pack_timeline(spans, options.max_events);
    tell_what_records_lack(*known, timeline, missing);
    tables.problems.insert(tables.problems.end(), known->problems.begin(), known->problems.end());
  }
  data["timeline"] = timeline.json;
  data["missing"] = PageJson::array();
  for (const MissingPart& part : missing) data["missing"].push_back({{"what", part.what}, {"why", part.why}});
  data["problem_count"] = tables.problems.size();
  if (tables.problems.size() > kProblems) tables.problems.resize(kProblems);
  data["problems"] = tables.problems;

  ReportPage page;
  page.data = data.dump(-1, ' ', true, PageJson::error_handler_t::replace);
  page.html = detail::page_of(page.data, timeline.base64);
  page.events = timeline.events;
  for (const MissingPart& part : missing) page.missing.push_back(part.what + ": " + part.why);
  return page;
}

std::string write_report_page(const std::string& directory, const std::string& path, const ReportOptions& options) {
  const ReportPage page = make_report_page(directory, options);
  std::string where = path.empty() ? directory + "/report.html" : path;
  write_file(where, page.html, path.empty() ? FileKind::kRun : FileKind::kUser);
  return where;
}

std::string leave_report_page(const std::string& directory) noexcept {
  try {
    try {
      return "report: " + std::filesystem::absolute(write_report_page(directory)).lexically_normal().string();
    } catch (const Error& failed) {
      return "no report: " + failed.message();
    } catch (const std::exception& failed) {
      return std::string("no report: ") + failed.what();
    }
  } catch (...) {  // out of memory
    return {};
  }
}

}  // namespace tessera::analysis

#include "tessera/watch/verdict_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/read_run.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/regular_file.h"
#include "tessera/base/run_directory.h"
#include "tessera/watch/detail/rank_report.h"

namespace tessera::watch {
namespace {

constexpr const char* kText = "/explain.txt";
constexpr const char* kJson = "/explain.json";
constexpr std::uint64_t kMaxNbytes = std::uint64_t{1} << 28;  // maximum size of a report that is read
constexpr const char* kClaim = "/explain.claim";

FileMark mark_file(const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  return {.inode = info.st_ino, .modified_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

bool is_of_larger_world(const nlohmann::json& json, int world_size) {
  const auto found = json.find("world_size");
  return world_size > 0 && found != json.end() && found->is_number_integer() && found->get<std::int64_t>() > world_size;
}

bool has_records(const std::string& run_dir) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir, error)) {
    if (entry.path().filename().string().rfind("rank-", 0) == 0) return true;
  }
  return false;
}

}  // namespace

ReportMark mark_report(const std::string& run_dir) {
  return {.report = mark_file(run_dir + kJson), .claim = mark_file(run_dir + kClaim)};
}

std::optional<Report> find_report(const std::string& run_dir, const ReportMark& before) {
  const FileMark annotation = mark_file(run_dir + kJson);
  if (annotation.inode == 0 || annotation == before.report) return std::nullopt;
  std::string text;
  try {
    text = read_regular_file(run_dir + kJson, kMaxNbytes);
  } catch (const IoError&) {
    return std::nullopt;
  }
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto verdict = json.is_object() ? json.find("verdict") : json.end();
  if (verdict == json.end() || !verdict->is_object()) return std::nullopt;
  if (is_of_larger_world(json, before.world_size)) return std::nullopt;
  const auto member = [&](const char* name) {
    const auto found = verdict->find(name);
    return found != verdict->end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Report report{.fault = member("fault"), .sentence = member("sentence"), .path = run_dir + kText};
  const auto told = json.find("told");
  if (!report.is_verdict() && told != json.end() && told->is_string()) {
    report.fault = "told";
    report.sentence = told->get<std::string>();
  }
  return report;
}

Report make_report(const std::string& run_dir) { return detail::make_report(run_dir, ""); }

Report detail::make_report(const std::string& run_dir, const std::string& words) {
  return make_report(analysis::read_run(run_dir), run_dir, words).report;
}

detail::RankReport detail::make_report(const analysis::Evidence& evidence, const std::string& run_dir,
                                       const std::string& words) {
  const analysis::Explanation found = analysis::explain(evidence);
  RankReport told{.text = analysis::to_text(evidence, found)};
  if (!words.empty()) told.text += "reported by a rank: " + words + "\n";
  if (!run_dir.empty() && !is_lost_run_directory(run_dir)) {
    std::string data = analysis::to_json(evidence, found);
    auto json = nlohmann::ordered_json::parse(data, nullptr, /*allow_exceptions=*/false);
    if (!words.empty() && json.is_object()) {
      json["told"] = words;
      data = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    }
    // Readers that wait for the report wait for the second file.
    write_file(run_dir + kText, told.text, FileKind::kRun);
    write_file(run_dir + kJson, data, FileKind::kRun);
    told.report.path = run_dir + kText;
  }
  const bool is_none = found.verdict.fault == analysis::Fault::kNone && !words.empty();
  told.report.fault = is_none ? "told" : analysis::to_string(found.verdict.fault);
  told.report.sentence = is_none ? words : found.verdict.sentence;
  return told;
}

void detail::write_received_report(const std::string& run_dir, const RankReport& told, const std::string& where) {
  if (is_lost_run_directory(run_dir)) return;
  const nlohmann::ordered_json json = {{"verdict", {{"fault", told.report.fault}, {"sentence", told.report.sentence}}},
                                       {"whole", where}};
  write_file(run_dir + kText, told.text + (where.empty() ? "" : "complete report: " + where + "\n"), FileKind::kRun);
  write_file(run_dir + kJson, json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n",
             FileKind::kRun);
}

bool claim_report(const std::string& run_dir, const ReportMark& before) {
  if (is_lost_run_directory(run_dir)) return true;  // the report is printed, and not written
  const std::string path = run_dir + kClaim;
  // An earlier claim belongs to a rank that died.
  if (before.claim.inode != 0 && mark_file(path) == before.claim) ::unlink(path.c_str());
  const int claim = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (claim >= 0) ::close(claim);
  return claim >= 0;
}

void release_claim(const std::string& run_dir) noexcept { ::unlink((run_dir + kClaim).c_str()); }

std::string verdict_of_run(const std::string& run_dir) {
  try {
    std::optional<Report> report = find_report(run_dir);
    if (!report && has_records(run_dir)) report = make_report(run_dir);
    if (report && report->is_verdict()) return report->sentence + "; see " + report->path;
  } catch (const std::exception& error) {
    log::debug("no report on ", run_dir, ": ", error.what());
  }
  return "";
}

}  // namespace tessera::watch

// The report on a run that went wrong: what explain() finds out from the records of its ranks, as explain.txt and
// explain.json in the run directory. Each is whole or not there. Several processes may want to make it at once: the one
// that takes explain.claim does, the others wait for what it writes.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "tessera/base/export.h"

namespace tessera::watch {

/// What is to be said of a run.
struct Report {
  std::string fault = {};     ///< as record::to_string(Fault): "absent", "none", ...
  std::string sentence = {};  ///< the verdict
  std::string path = {};      ///< explain.txt, for people
  /// Whether it names something that went wrong.
  [[nodiscard]] bool is_verdict() const { return !sentence.empty() && fault != "none"; }
};

/// When a report was made, by the clock that file systems have.
using ReportTime = std::chrono::system_clock::time_point;
/// What that clock says: what is made within its tick of some milliseconds counts as made now.
TESSERA_API ReportTime report_time();

/// The report that was made after this time; none: there is none yet, or it cannot be read.
TESSERA_API std::optional<Report> find_report(const std::string& run_dir, ReportTime since);
/// Reads the run, explains it and writes both files, over those that are there. IoError: the directory holds nothing of
/// a run, or cannot be written.
TESSERA_API Report make_report(const std::string& run_dir);
/// Takes the right to make the report; false: another has taken it since then.
TESSERA_API bool claim_report(const std::string& run_dir, ReportTime since);
/// Gives it back.
TESSERA_API void release_claim(const std::string& run_dir) noexcept;

/// What went wrong in a run, in a sentence: of the report that is there, else of one that is made now. Empty: nothing
/// did, or the directory holds no records. For who starts ranks; never throws for what it finds.
TESSERA_API std::string verdict_of_run(const std::string& run_dir);

}  // namespace tessera::watch

// The report on a run that went wrong: what explain() finds out from the records of its ranks, as explain.txt and
// explain.json in the run directory. Each is whole or not there. Several processes may want to make it at once: the one
// that takes explain.claim does, the others wait for what it writes.
#pragma once

#include <cstdint>
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

/// Identity of a file at a path. A file that replaces it has another identity.
struct FileMark {
  std::uint64_t inode = 0;       ///< 0 if no file exists
  std::int64_t modified_ns = 0;  ///< since 1970
  /// Returns true if both are marks of the same file in the same state.
  bool operator==(const FileMark&) const = default;
};
/// The files of a report at one moment, to tell them from later ones. Clocks cannot: file systems stamp files with
/// times that are several milliseconds off those that a process reads.
struct ReportMark {
  FileMark report = {};  ///< explain.json
  FileMark claim = {};   ///< explain.claim
  int world_size = 0;    ///< ranks in the world that later reports describe; 0 if any
};
/// Returns the mark of the files that exist now, for any world.
TESSERA_API ReportMark mark_report(const std::string& run_dir);

/// Returns the report, unless `before` marks it or it describes a larger world. Returns nullopt if no such report
/// exists or if it cannot be read.
TESSERA_API std::optional<Report> find_report(const std::string& run_dir, const ReportMark& before = {});
/// Reads the run, explains it and writes both files, over those that are there. IoError: the directory holds nothing of
/// a run, or cannot be written.
TESSERA_API Report make_report(const std::string& run_dir);
/// Takes the right to make the report. Returns false if another rank holds a claim that `before` does not mark.
TESSERA_API bool claim_report(const std::string& run_dir, const ReportMark& before = {});
/// Gives it back.
TESSERA_API void release_claim(const std::string& run_dir) noexcept;

/// What went wrong in a run, in a sentence: of the report that is there, else of one that is made now. Empty: nothing
/// did, or the directory holds no records. For who starts ranks; never throws for what it finds.
TESSERA_API std::string verdict_of_run(const std::string& run_dir);

}  // namespace tessera::watch

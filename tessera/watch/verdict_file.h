// The hang report of a failed run: the result of explain() as explain.txt and explain.json in the run directory. Each
// file is written atomically. If several processes want to create the report, the one that creates explain.claim does
// so, and the others wait for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/export.h"

namespace tessera::watch {

/// Summary of a hang report.
struct Report {
  std::string fault = {};     ///< Result of analysis::to_string(Fault): "absent", "none", ...
  std::string sentence = {};  ///< Sentence of the verdict.
  std::string path = {};      ///< Path of explain.txt, the human-readable report.
  /// Returns true if the report names a fault.
  [[nodiscard]] bool is_verdict() const { return !sentence.empty() && fault != "none"; }
};

/// Identity of a file at a path. A file that replaces it has another identity.
struct FileMark {
  std::uint64_t inode = 0;       ///< 0 if no file exists.
  std::int64_t modified_ns = 0;  ///< Nanoseconds since 1970.
  /// Returns true if both are marks of the same file in the same state.
  bool operator==(const FileMark&) const = default;
};
/// The files of a report at one moment, to distinguish them from later files. Clocks cannot do this: file systems use
/// timestamps that differ by several milliseconds from the clock of a process.
struct ReportMark {
  FileMark report = {};  ///< Mark of explain.json.
  FileMark claim = {};   ///< Mark of explain.claim.
  int world_size = 0;    ///< Size of the world that later reports describe; 0: any.
};
/// Returns the mark of the files that exist now, for any world.
TESSERA_API ReportMark mark_report(const std::string& run_dir);

/// Returns the report, unless `before` marks it or it describes a larger world. Returns nullopt if no such report
/// exists or if it cannot be read.
TESSERA_API std::optional<Report> find_report(const std::string& run_dir, const ReportMark& before = {});
/// Reads the run, explains it and replaces both files. Throws IoError if the directory holds no files of a run or is
/// not writable.
TESSERA_API Report make_report(const std::string& run_dir);
/// Claims the creation of the report. Returns false if another rank holds a claim that `before` does not mark.
TESSERA_API bool claim_report(const std::string& run_dir, const ReportMark& before = {});
/// Releases the claim.
TESSERA_API void release_claim(const std::string& run_dir) noexcept;

/// Returns the sentence and the path of the existing report, or of a new one. Returns "" if the run has no fault or no
/// records. For launchers; never throws.
TESSERA_API std::string verdict_of_run(const std::string& run_dir);

}  // namespace tessera::watch

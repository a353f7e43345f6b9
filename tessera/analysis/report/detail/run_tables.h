// The tables that a trainer writes to a run directory: loss.csv, metrics.jsonl and summary.json, and the mesh in its
// config.toml. Files are read with bounds and not trusted: lines that are truncated, corrupt or of another kind are
// skipped and counted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/analysis/detail/trained_mesh.h"

namespace tessera::analysis::detail {

/// JSON whose fields keep their order.
using PageJson = nlohmann::ordered_json;

/// Content that the page cannot show.
struct MissingPart {
  std::string what = {};  ///< "metrics.jsonl"
  std::string why = {};   ///< One sentence: the missing file, and how to produce it.
};

/// One line of loss.csv.
struct LossLine {
  std::int64_t step = 0;                ///< Step, from 1.
  double loss = 0;                      ///< NaN if not finite or not reported.
  double grad_norm = 0;                 ///< NaN if not finite or not reported.
  double learning_rate = 0;             ///< NaN if not finite or not reported.
  std::optional<double> held_out = {};  ///< Held-out loss, if evaluated.
};

/// One line of metrics.jsonl.
struct StepLine {
  std::int64_t step = 0;                   ///< Step, from 1.
  double loss = 0;                         ///< NaN if not finite or not reported.
  double grad_norm = 0;                    ///< NaN if not finite or not reported.
  double learning_rate = 0;                ///< NaN if not finite or not reported.
  double time = 0;                         ///< End of the step, in seconds since 1970; 0 if not reported.
  double tokens = 0;                       ///< Tokens of the step, over all ranks.
  double seconds = 0;                      ///< Duration on this rank.
  double exposed_seconds = 0;              ///< Part of `seconds` spent waiting for other ranks.
  std::vector<std::uint64_t> owners = {};  ///< Bytes after the step, in the order of RunTables::owners.
  std::uint64_t total = 0;                 ///< Bytes of all owners.
};

/// Position in a file that is appended to: the bytes before it were read.
struct FileCursor {
  std::uint64_t inode = 0;   ///< 0: the file did not exist.
  std::uint64_t offset = 0;  ///< Offset of the first line that was not read.
};

/// Contents of the files.
struct RunTables {
  std::vector<LossLine> losses = {};     ///< By step; if a step occurs twice, the last line.
  std::vector<std::string> owners = {};  ///< Owners of memory, in the order of occurrence, without "total".
  /// Lines of metrics.jsonl by rank, then by step; if a step occurs twice, the last line.
  std::map<int, std::vector<StepLine>> ranks = {};
  PageJson summary = {};        ///< Null if none exists.
  MeshSizes mesh = {};          ///< Mesh of the summary, otherwise of config.toml.
  int world_size = 0;           ///< Ranks of the last start, from the summary or config.toml; 0 if neither states it.
  double began = 0;             ///< Begin of the first step or launch, in seconds since 1970; 0 if unknown.
  double ended = 0;             ///< End of the last step or of the launch, in seconds since 1970; 0 if unknown.
  FileCursor losses_end = {};   ///< End of the lines that were read from loss.csv.
  FileCursor metrics_end = {};  ///< End of the lines that were read from metrics.jsonl.
  std::vector<MissingPart> missing = {};   ///< Missing or incomplete files.
  std::vector<std::string> problems = {};  ///< Skipped lines, one text each.
  /// Returns true if any table exists.
  [[nodiscard]] bool has_any() const { return !losses.empty() || !ranks.empty() || summary.is_object(); }
};

/// Removes the lines of ranks outside the last world, which has `world_size` ranks. 0: unknown, removes nothing.
void keep_ranks_of(int world_size, RunTables& tables);

/// Reads the tables. Does not throw for missing or corrupt files.
RunTables read_run_tables(const std::string& directory);

/// Reads DIRECTORY/summary.json: nothing if it does not exist, null if it is not a JSON object.
std::optional<PageJson> read_summary(const std::string& directory);

/// Adds the complete lines of a text from loss.csv, unsorted. Returns the number of unreadable lines.
std::size_t parse_losses(std::string_view text, RunTables& tables);
/// Adds the complete lines of a text from metrics.jsonl, unsorted. Returns the number of unreadable lines.
std::size_t parse_metrics(std::string_view text, RunTables& tables);

/// Returns the number at a key; nothing if it is missing or not finite.
std::optional<double> number_at(const PageJson& object, std::string_view key);
/// Returns the value at a key; null if it is missing or `object` is not an object.
const PageJson& part_at(const PageJson& object, std::string_view key);

}  // namespace tessera::analysis::detail

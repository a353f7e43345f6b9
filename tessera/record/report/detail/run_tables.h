// The tables that a trainer leaves in a run directory: loss.csv, metrics.jsonl and summary.json, and the mesh of its
// config.toml. Files are read with
// bounds and not believed: lines that are cut, spoilt or of something else are passed over and counted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/record/detail/trained_mesh.h"

namespace tessera::record::detail {

/// JSON whose fields stay in the order they were given.
using PageJson = nlohmann::ordered_json;

/// Something that the page cannot show.
struct MissingPart {
  std::string what = {};  ///< "metrics.jsonl"
  std::string why = {};   ///< a sentence: what is missing, and how it comes to be there
};

/// One line of loss.csv.
struct LossLine {
  std::int64_t step = 0;                ///< from 1
  double loss = 0;                      ///< NaN: not finite, or not told
  double grad_norm = 0;                 ///< likewise
  double learning_rate = 0;             ///< likewise
  std::optional<double> held_out = {};  ///< where it was taken
};

/// One line of metrics.jsonl.
struct StepLine {
  std::int64_t step = 0;                   ///< from 1
  double loss = 0;                         ///< NaN: not finite, or not told
  double tokens = 0;                       ///< of the step, over all ranks
  double seconds = 0;                      ///< of this rank
  double exposed_seconds = 0;              ///< of them waiting for other ranks
  std::vector<std::uint64_t> owners = {};  ///< bytes after the step, in the order of RunTables::owners
  std::uint64_t total = 0;                 ///< bytes of all owners
};

/// What the files say.
struct RunTables {
  std::vector<LossLine> losses = {};                ///< by step; of a step that was told twice the last
  std::vector<std::string> owners = {};             ///< of memory, in the order they were met; "total" is none
  std::map<int, std::vector<StepLine>> ranks = {};  ///< lines of metrics.jsonl by rank, by step, as above
  PageJson summary = {};                            ///< null: there is none
  MeshSizes mesh = {};                              ///< as the summary says, else config.toml
  int world_size = 0;                               ///< ranks of the last start, likewise; 0: neither says it
  std::vector<MissingPart> missing = {};            ///< what is not there, or not all of it
  std::vector<std::string> problems = {};           ///< what was passed over, a line each
  /// Whether there is anything at all.
  [[nodiscard]] bool has_any() const { return !losses.empty() || !ranks.empty() || summary.is_object(); }
};

/// Leaves out lines of ranks that a larger world had before: the last world has so many ranks. 0: it is not known.
void keep_ranks_of(int world_size, RunTables& tables);

/// Reads them. Throws nothing for what it finds.
RunTables read_run_tables(const std::string& directory);

/// The number under a key; nothing where there is none, or it is not finite.
std::optional<double> number_at(const PageJson& object, std::string_view key);
/// What stands under a key; null where there is nothing or this is no object.
const PageJson& part_at(const PageJson& object, std::string_view key);

}  // namespace tessera::record::detail

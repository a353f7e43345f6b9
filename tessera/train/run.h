// A training run from its configuration to its summary, as `tessera train` does it.
//
//   tessera::init();
//   const train::Summary summary = train::run(config);
//
// In the run directory it leaves config.toml (resolved), metrics.jsonl (a line a step and rank), loss.csv and
// summary.json: docs/run_directory.md.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/train/config.h"
#include "tessera/train/summary.h"

namespace tessera::train {

/// Trains; called by all ranks of the world. Rank 0 says how it goes on `out`; null: nothing is said. A run that the
/// policy for bad steps ended returns with RunEnd::kStopped, one whose last checkpoint could not be written with
/// kFailed. Another error is thrown when what there is of the summary has been written. A start that is refused changes
/// nothing in its directory; one that is asked to end before the first step neither, and returns with
/// RunEnd::kInterrupted; one of a run that is finished does nothing (Summary::was_finished). Of other ranks the
/// summary has their own numbers alone.
TESSERA_API Summary run(const Config& config, std::FILE* out = stdout);

/// Throws what would refuse a run of these options, as far as that is cheap to tell: options that do not fit
/// (InvalidArgument), files that are missing (IoError), more memory than `ranks` ranks find on this host
/// (InvalidArgument, memory_fit.h). For programs that start ranks, before they do. Shows on `out` how far tokenizing
/// came if that takes long; null: nothing is shown.
TESSERA_API void check_start(const Config& config, int world_size, int ranks, std::FILE* out = nullptr);

/// For who starts ranks in this directory, before anything is written there: whether it holds this very run, finished.
/// Throws what would refuse the start: another run, a run that is going on, other data. Shows on `out` how far
/// tokenizing came if that takes long; null: nothing is shown.
TESSERA_API bool is_finished_already(const Config& config, const std::string& directory, int world_size,
                                     std::FILE* out = nullptr);
/// The words for it, with a line end.
TESSERA_API std::string finished_text(const std::string& directory);

/// The text with what a terminal would obey or could not show replaced: control characters and what is no UTF-8.
TESSERA_API std::string printable(std::string_view text);

}  // namespace tessera::train

// A training run from its configuration to its summary, as `tessera train` does it.
//
//   tessera::init();
//   const train::Summary summary = train::run(config);
//
// The run directory receives config.toml (resolved), metrics.jsonl (a line per step and rank), loss.csv and
// summary.json: see docs/run_directory.md.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/train/config.h"
#include "tessera/train/summary.h"
#include "tessera/train/task.h"

namespace tessera::train {

/// Trains. All ranks of the world call it. Rank 0 writes progress to `out`, if it is not null. Returns with
/// RunEnd::kStopped if the policy for bad steps ended the run, with kFailed if the last checkpoint could not be
/// written, and with kInterrupted if a signal ended it. Other errors are thrown after the partial summary is written. A
/// rejected start, or a signal before the first step, changes nothing in the directory. If the run is already finished,
/// does nothing and sets Summary::was_finished. On ranks other than 0, the summary holds only their own values.
TESSERA_API RunSummary run(const Config& config, std::FILE* out = stdout);

/// Trains the model of a task. Options of [model] and [data] do not apply, except data.read_ahead: samples are read
/// between steps. Rates and counts are of samples instead of tokens.
TESSERA_API RunSummary run(const Task& task, const Config& config, std::FILE* out = stdout);

/// Throws what would make run() reject these options, as far as the checks are cheap: invalid options
/// (InvalidArgument), missing files (IoError), more memory than this host has for `ranks` ranks (InvalidArgument,
/// memory_fit.h). For programs that start ranks. Shows the progress of a long tokenization on `out`, if it is not null.
TESSERA_API void check_start(const Config& config, int world_size, int ranks, std::FILE* out = nullptr);

/// Returns true if `directory` holds this run, finished. For programs that start ranks, before they write there. Throws
/// what would make run() reject the start: another run, an active run, or other data. Shows the progress of a long
/// tokenization on `out`, if it is not null.
TESSERA_API bool is_finished_already(const Config& config, const std::string& directory, int world_size,
                                     std::FILE* out = nullptr);
/// Returns the message for a finished run, with a line end.
TESSERA_API std::string finished_text(const std::string& directory);

/// Returns `text` with control characters and invalid UTF-8 replaced, so that a terminal can print it.
TESSERA_API std::string printable(std::string_view text);

}  // namespace tessera::train

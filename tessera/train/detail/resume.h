// Metadata of the checkpoints of a run, besides the state of the trainer: options, identity of the data, and the
// summary so far. A resumed run must compute the same values as the run before, so options that affect them and the
// data must not differ. The following may differ: all of [run], [checkpoint] and [eval], the mesh (values are then
// equal as far as deterministic reductions allow), train.steps (raised; the schedule follows the new number), the
// policies for bad steps, and the paths of files with the same contents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "tessera/train/config.h"
#include "tessera/train/data/samples.h"
#include "tessera/train/summary.h"

namespace tessera::train::detail {

using Texts = std::map<std::string, std::string>;

/// Returns a digest of the samples: the number of tokens and samples, and the tokens of some samples, spread over the
/// first epoch in its order, so that it depends on files, weights, tokenizer, sequence and seed.
std::string data_digest(const Samples& samples, std::int64_t sequence);

/// Returns "configuration", "data" and "summary" for a checkpoint after summary.steps steps.
Texts run_texts(const RunSummary& summary, const std::string& digest);

/// Returns the text "configuration": all options with their values.
std::string configuration_text(const Config& config);
/// Returns the configuration of a run from "configuration". Options that this version does not know are left out, and
/// options that the text lacks keep their defaults. Throws MismatchError if "configuration" is missing or invalid.
Config configuration_of(const Texts& texts);

/// Checks that a run of `config` may resume from the checkpoint with this metadata. Throws InvalidArgument with the
/// differing options, their values, and fixes. `where` names the checkpoint.
void check_same_options(const Texts& texts, const Config& config, const std::string& where);
/// Throws InvalidArgument if the data differs from that of the checkpoint.
void check_same_data(const Texts& texts, const Config& config, const std::string& digest, const std::string& where);
/// Restores steps, tokens, losses, evaluations and counts of the summary. Throws MismatchError if the metadata does not
/// come from a run.
void restore_summary(const Texts& texts, RunSummary& summary);

/// Returns the options that affect the results and differ: "model.width is 64 here, and was 32", one per line; empty if
/// none differs. Mesh, steps and policies are excluded.
std::string differing_options(const Config& before, const Config& now);

/// Returns the differing options of a finished run and a new request: all options but the mesh and those that only
/// select output.
std::string differing_requests(const Config& before, const Config& now);

/// Truncates metrics.jsonl and loss.csv of a run directory to complete lines up to this step. Missing files stay
/// missing.
void cut_back(const std::filesystem::path& directory, std::int64_t step);
/// Writes the held-out loss into the row of this step in loss.csv. Throws IoError if the file cannot be written. A file
/// without the row stays unchanged.
void set_held_out(const std::filesystem::path& directory, std::int64_t step, double loss);
/// Adds the steps of this rank in metrics.jsonl to the tally.
void add_told_steps(const std::filesystem::path& directory, int rank, RankTally& tally);

}  // namespace tessera::train::detail

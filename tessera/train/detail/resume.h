// What a checkpoint of a run says beside the trainer's state, as texts: the options, what the data are, and what the
// summary had come to. A run that goes on from it must compute what the run before would have: options that change the
// numbers may not differ, nor may the data. What may: everything of [run], [checkpoint] and [eval], the mesh (then
// numbers are the same as far as the fixed order of reductions makes them), train.steps (raised; the schedule then
// follows the new number), what is done about bad steps, and where files of the same content lie.
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

/// A name for what the samples are: how many tokens and samples there are, and the tokens of some of them, spread over
/// the first epoch and in its order, so that files, weights, tokenizer, sequence and seed all have a part in it.
std::string data_digest(const Samples& samples, std::int64_t sequence);

/// "configuration", "data" and "summary" for a checkpoint after summary.steps steps.
Texts run_texts(const Summary& summary, const std::string& digest);

/// Whether a run of `config` may go on from the checkpoint with these texts. InvalidArgument says what differs, from
/// what to what, and the ways out. `where` names the checkpoint.
void check_same_options(const Texts& texts, const Config& config, const std::string& where);
/// Likewise, whether its data are the same.
void check_same_data(const Texts& texts, const Config& config, const std::string& digest, const std::string& where);
/// Sets steps, tokens, losses, evaluations and counts of the summary to what they were. MismatchError: the texts are of
/// no run.
void restore_summary(const Texts& texts, Summary& summary);

/// Options that change what is computed and differ between two configurations: "model.width is 64 here, and was 32", a
/// line each; empty: none does. Mesh, steps and policies are not among them.
std::string differing_options(const Config& before, const Config& now);

/// Likewise, what a finished run was asked for and is asked for now: all options but the mesh, and those that only say
/// where files go and what is told.
std::string differing_requests(const Config& before, const Config& now);

/// Leaves of metrics.jsonl and loss.csv of a run directory the lines up to this step, whole ones. Files that are not
/// there stay so.
void cut_back(const std::filesystem::path& directory, std::int64_t step);
/// Writes the held-out loss into the row of this step in loss.csv. Throws IoError if the file cannot be written. A file
/// without the row stays as it is.
void set_held_out(const std::filesystem::path& directory, std::int64_t step, double loss);
/// Adds the steps that metrics.jsonl has of this rank to the tally.
void add_told_steps(const std::filesystem::path& directory, int rank, RankTally& tally);

}  // namespace tessera::train::detail

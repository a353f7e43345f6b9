#include "tessera/train/data/samples.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"
#include "tessera/train/data/detail/bigrams.h"
#include "tessera/train/data/detail/permutation.h"
#include "tessera/train/data/detail/source.h"
#include "tessera/train/data/text_files.h"

namespace tessera::train {
namespace {

using detail::Permutation;
using detail::Source;

// Above this, counts of samples would not be exact as doubles.
constexpr double kMaxSamples = 9007199254740992.0;

constexpr std::uint64_t kSamplesBetweenCalls = 256;

// The selected samples of one source.
struct FileRange {
  std::shared_ptr<const Source> source;
  double weight = 1;
  std::uint64_t first = 0;  // first sample of the source
  std::uint64_t count = 0;  // number of samples
  std::uint64_t draws = 0;  // samples drawn per epoch: weight times `count`
  std::uint64_t begin = 0;  // draws of earlier ranges
};

void check_makers(const std::vector<detail::MadeBy>& made_by) {
  for (const detail::MadeBy& each : made_by) {
    const detail::MadeBy& first = made_by.front();
    TESSERA_CHECK_AS(MismatchError, each.digest == first.digest,
                     "all data must use one tokenizer (data.tokenizer), got ", each.digest, " for ", each.what, " and ",
                     first.digest, " for ", first.what);
  }
}

// Returns the number of held-out samples of a file: the share of them, at least one, never all.
std::uint64_t held_out_of(std::uint64_t samples, double share) {
  if (share == 0) return 0;
  // The small term: 0.1 of 70 is 7, though 0.1 is not exactly a tenth.
  const auto held = static_cast<std::uint64_t>(static_cast<double>(samples) * share + 1e-6);
  return std::min(std::max<std::uint64_t>(held, 1), samples - 1);
}

// Returns the bytes of all files of the entries. A missing file is reported when it is opened.
std::uint64_t nbytes_of(const std::vector<std::string>& entries) {
  std::uint64_t nbytes = 0;
  for (const std::string& entry : entries) {
    const std::string path = detail::read_weighted(entry).path;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    for (const std::filesystem::path& file : files_under(path)) {
      const std::uintmax_t each = std::filesystem::file_size(file, error);
      nbytes += error ? 0 : each;
    }
  }
  return nbytes;
}

FileRange open_range(const std::string& entry, const DataConfig& config, const Tokenizer& tokenizer,
                     std::int64_t sequence, std::vector<detail::MadeBy>& made_by, detail::ReadMeter& meter) {
  const detail::WeightedPath named = detail::read_weighted(entry);
  FileRange range;
  range.source = std::make_shared<const Source>(named.path, config.format, tokenizer, made_by, meter);
  range.weight = named.weight;
  range.count = (range.source->tokens() - 1) / static_cast<std::uint64_t>(sequence);
  TESSERA_CHECK_AS(
      IoError, range.count >= 1, "'", named.path, "' must have at least model.sequence + 1 (", sequence,
      " + 1) tokens, got ", range.source->tokens(),
      "; use a shorter model.sequence, more text, or the directory of the files, which is read as one file");
  return range;
}

// Computes the draws per epoch: files with the minimum weight are read once.
std::uint64_t place(std::vector<FileRange>& ranges) {
  const double least = std::ranges::min_element(ranges, {}, &FileRange::weight)->weight;
  std::uint64_t total = 0;
  for (FileRange& range : ranges) {
    const double draws = std::round(static_cast<double>(range.count) * (range.weight / least));
    TESSERA_CHECK(draws <= kMaxSamples, "'", range.source->path(), "': weight ", range.weight, " is ",
                  range.weight / least, " times the least of all, too much for its ", range.count, " samples");
    range.draws = static_cast<std::uint64_t>(draws);
    range.begin = total;
    total = checked_add(total, range.draws, "samples of an epoch");
  }
  return total;
}

}  // namespace

struct Samples::State {
  explicit State(Tokenizer made) : tokenizer(std::move(made)) {}
  std::vector<FileRange> ranges;
  std::uint64_t sequence = 0;
  std::uint64_t seed = 0;
  std::uint64_t per_epoch = 0;
  Tokenizer tokenizer;
  std::once_flag scanned;
  std::int64_t largest = 0;
};

Samples::Samples(std::shared_ptr<State> state) : state_(std::move(state)) {}

Samples Samples::open(const DataConfig& config, DataSplit part, std::int64_t sequence, std::uint64_t seed,
                      const OnProgress& on_progress) {
  TESSERA_CHECK(sequence >= 1, "model.sequence: must be at least 1, got ", sequence);
  TESSERA_CHECK(!config.files.empty(), "data.files: at least one file or directory is required");
  const double share = config.held_out.empty() ? config.held_out_share : 0;
  TESSERA_CHECK(share >= 0 && share < 1, "data.held_out_share: must be in [0, 1), got ", config.held_out_share);
  const bool is_held_out = part == DataSplit::kHeldOut;
  TESSERA_CHECK(!is_held_out || share > 0 || !config.held_out.empty(),
                "no held-out data: data.held_out is empty and data.held_out_share is 0");
  const bool is_bytes = config.tokenizer == "bytes";
  auto state = std::make_shared<State>(is_bytes ? Tokenizer::bytes() : Tokenizer::read(config.tokenizer));
  state->sequence = static_cast<std::uint64_t>(sequence);
  state->seed = seed;
  std::vector<detail::MadeBy> made_by;
  if (!is_bytes) made_by.push_back({state->tokenizer.digest(), "'" + config.tokenizer + "'"});
  const std::vector<std::string>& entries = is_held_out && share == 0 ? config.held_out : config.files;
  detail::ReadMeter meter{.on_progress = on_progress, .all = on_progress ? nbytes_of(entries) : 0};
  for (const std::string& entry : entries) {
    FileRange range = open_range(entry, config, state->tokenizer, sequence, made_by, meter);
    const std::uint64_t held = held_out_of(range.count, share);
    if (is_held_out && share != 0) {
      range.first = range.count - held;
      range.count = held;
    } else {
      range.count -= held;
    }
    if (range.count != 0) state->ranges.push_back(std::move(range));
  }
  check_makers(made_by);
  TESSERA_CHECK_AS(IoError, !state->ranges.empty(),
                   "no held-out data: the files of data.files have one sample each; set data.held_out, or use a "
                   "shorter model.sequence");
  state->per_epoch = place(state->ranges);
  return Samples(std::move(state));
}

void Samples::read(std::uint64_t number, std::span<std::int32_t> tokens) const {
  const State& state = *state_;
  TESSERA_CHECK(tokens.size() == state.sequence + 1, "a sample requires room for ", state.sequence,
                " + 1 tokens, got room for ", tokens.size());
  // The position of the sample in its epoch selects the file and the number of the draw from it. The draw selects the
  // sample of the file. Each pass through a file has a separate shuffle, independent of the epoch.
  const std::uint64_t epoch = number / state.per_epoch;
  const Permutation of_epoch(state.per_epoch, detail::key_of({state.seed, 0, epoch}));
  const std::uint64_t drawn = of_epoch(number % state.per_epoch);
  const auto range = std::ranges::upper_bound(state.ranges, drawn, {}, &FileRange::begin) - 1;
  const std::uint64_t draw = epoch * range->draws + (drawn - range->begin);
  const auto index = static_cast<std::uint64_t>(range - state.ranges.begin());
  const Permutation of_pass(range->count, detail::key_of({state.seed, 1, index, draw / range->count}));
  const std::uint64_t sample = range->first + of_pass(draw % range->count);
  range->source->read(sample * state.sequence, tokens);
}

std::uint64_t Samples::per_epoch() const { return state_->per_epoch; }

std::uint64_t Samples::tokens() const {
  std::uint64_t total = 0;
  for (const FileRange& range : state_->ranges) total += range.count * state_->sequence;
  return total;
}

std::int64_t Samples::largest_token() const {
  std::call_once(state_->scanned, [this] {
    for (const FileRange& range : state_->ranges) state_->largest = std::max(state_->largest, range.source->largest());
  });
  return state_->largest;
}

const Tokenizer& Samples::tokenizer() const { return state_->tokenizer; }

double Samples::bigram_entropy(const OnProgress& on_progress) const {
  std::uint64_t done = 0;
  std::uint64_t all = 0;
  for (const FileRange& range : state_->ranges) all += range.count;
  detail::Bigrams bigrams(largest_token() + 1);
  std::vector<std::int32_t> tokens(state_->sequence + 1);
  for (const FileRange& range : state_->ranges) {
    for (std::uint64_t sample = range.first; sample < range.first + range.count; ++sample) {
      range.source->read(sample * state_->sequence, tokens);
      bigrams.add(tokens);
      if (++done % kSamplesBetweenCalls == 0 && on_progress) on_progress(done, all);
    }
  }
  return bigrams.entropy();
}

}  // namespace tessera::train

// Samples of a training run, by number. A sample is `sequence + 1` consecutive tokens of one file. The tokens of sample
// n depend only on the files, their weights, the sequence and the seed. Ranks of any mesh read their rows by number,
// and a run resumes by one number.
//
//   const Samples samples = Samples::open(config.data, Part::kTraining, sequence, seed);
//   samples.read(step * batch + row, tokens);
//
// Consecutive samples of a file share one token: the last token of one, which is only predicted, is the first of the
// next. An epoch takes every sample once, or twice if its file has twice the minimum weight, and so on. The order is
// shuffled again in each epoch and in each pass through a file. Text files are documents that end in the end-of-text
// token of the tokenizer. A directory is read as one file, with its files in the order of their names.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/train/config.h"
#include "tessera/train/data/tokenizer.h"
#include "tessera/train/on_progress.h"

namespace tessera::train {

/// Selection of samples.
enum class DataSplit : std::uint8_t {
  kTraining,  ///< Samples of data.files, without the held-out ones.
  kHeldOut,   ///< Samples of data.held_out, or the last data.held_out_share of each file.
};

/// Numbered samples of a set of files. Thread-safe. Copies share the files.
class TESSERA_API Samples {
 public:
  /// Opens the files. Text is tokenized, and token files are mapped. Throws IoError for missing, unreadable, empty and
  /// too short files, MismatchError for tokens of different tokenizers, and InvalidArgument for an invalid weight or
  /// share. Calls `on_progress` with bytes of files.
  static Samples open(const DataConfig& config, DataSplit part, std::int64_t sequence, std::uint64_t seed,
                      const OnProgress& on_progress = {});

  /// Writes sample `number`, sequence + 1 tokens. Any number is valid: epochs repeat without end.
  void read(std::uint64_t number, std::span<std::int32_t> tokens) const;
  /// Returns the samples per epoch. Each file is read at least once, those with larger weights more often.
  [[nodiscard]] std::uint64_t per_epoch() const;
  /// Returns the number of tokens that the samples predict, each counted once.
  [[nodiscard]] std::uint64_t tokens() const;
  /// Returns an upper bound of all tokens, to compare with the vocabulary of the model. It comes from the tokenizer and
  /// the headers, or from a scan.
  [[nodiscard]] std::int64_t largest_token() const;
  /// Returns the tokenizer of data.tokenizer. All tokens come from it, except that with "bytes" the tokenizer of token
  /// files is unknown.
  [[nodiscard]] const Tokenizer& tokenizer() const;
  /// Returns the entropy of a token given the previous one, over all samples, in nats: the loss of a bigram table.
  /// Calls `on_progress` with samples.
  [[nodiscard]] double bigram_entropy(const OnProgress& on_progress = {}) const;

 private:
  struct State;
  explicit Samples(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// Reads batches ahead on a separate thread.
class TESSERA_API ReadAhead {
 public:
  /// Batch k (k = 0, 1, ...) holds the samples numbers(k), which is called on that thread. Reads `depth` batches ahead;
  /// with 0, there is no thread.
  ReadAhead(Samples samples, std::int64_t sequence, std::function<std::vector<std::uint64_t>(std::uint64_t)> numbers,
            int depth);
  /// Ends the thread and discards the batches read ahead.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  /// Returns the next batch: rows of sequence + 1 tokens. Throws the error of reading it, and again in every later
  /// call. Call it from one thread.
  std::vector<std::int32_t> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::train

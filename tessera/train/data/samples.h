// Samples of a training run, by number. A sample is `sequence + 1` tokens in a row of one file. Which tokens sample n
// is depends on the files, their weights, the sequence and the seed alone: ranks of any mesh read the rows that are
// theirs by their numbers, and a run goes on where it stopped by knowing one number.
//
//   const Samples samples = Samples::open(config.data, Part::kTraining, sequence, seed);
//   samples.read(step * batch + row, tokens);
//
// Samples of a file follow each other: the last token of one, which it only predicts, is the first of the next. An
// epoch takes every sample once; of a file with twice the least weight, twice, and so on. The order is shuffled anew
// each epoch, and each time through a file. Documents keep their ends: files of text are documents that end in the
// tokenizer's end of text. A directory is read as one file, its files in the order of their names.
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

/// Which samples.
enum class Part : std::uint8_t {
  kTraining,  ///< those of data.files, what is held out of them left out
  kHeldOut,   ///< those of data.held_out, or the last data.held_out_share of each file
};

/// See the head of this file. Thread-safe; copies share.
class TESSERA_API Samples {
 public:
  /// Opens the files; text is tokenized here, files of tokens are mapped. IoError: missing, unreadable, empty and too
  /// short ones, with what they lack. MismatchError: tokens of different tokenizers. InvalidArgument: a weight or share
  /// that is none. Calls `on_progress` with bytes of files.
  static Samples open(const DataConfig& config, Part part, std::int64_t sequence, std::uint64_t seed,
                      const OnProgress& on_progress = {});

  /// Writes sample `number`, sequence + 1 tokens. Any number: epochs follow each other without end.
  void read(std::uint64_t number, std::span<std::int32_t> tokens) const;
  /// Samples until every file has been read once, those with larger weights more often.
  [[nodiscard]] std::uint64_t per_epoch() const;
  /// Tokens that the samples of this part predict, each counted once.
  [[nodiscard]] std::uint64_t tokens() const;
  /// No token is larger, for a check against the model's vocabulary; from tokenizer and headers, or by a scan.
  [[nodiscard]] std::int64_t largest_token() const;
  /// That of data.tokenizer, which made all tokens if it is not bytes; of files of tokens with bytes, none is known.
  [[nodiscard]] const Tokenizer& tokenizer() const;
  /// Entropy of a token given the one before it, over all samples of this part, in nats: what a table of pairs reaches.
  /// Calls `on_progress` with samples.
  [[nodiscard]] double bigram_entropy(const OnProgress& on_progress = {}) const;

 private:
  struct State;
  explicit Samples(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// Reads what will be asked for next on a thread of its own.
class TESSERA_API ReadAhead {
 public:
  /// Batch k (k = 0, 1, ...) holds the samples numbers(k), which is called on that thread; `depth` batches are read
  /// ahead, with 0 none, and there is no thread.
  ReadAhead(Samples samples, std::int64_t sequence, std::function<std::vector<std::uint64_t>(std::uint64_t)> numbers,
            int depth);
  /// Ends the thread; what was read ahead is lost.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  /// The next batch: rows of sequence + 1 tokens. Throws what reading it threw, and from then on always. One thread.
  std::vector<std::int32_t> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::train

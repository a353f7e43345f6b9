// One entry of data.files: a file, or a directory whose files are read as one, in the order of their names.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/train/data/token_file.h"
#include "tessera/train/data/tokenizer.h"
#include "tessera/train/on_progress.h"

namespace tessera::train::detail {

/// Parsed "PATH" or "PATH=WEIGHT". If the complete text is an existing path, the weight is 1.
struct WeightedPath {
  std::string path;
  double weight = 1;
};
/// Throws InvalidArgument without a path, or if the weight is not a number above 0.
WeightedPath read_weighted(const std::string& entry);

/// Tokenizer of some tokens; collected while files are opened, so that all can be compared.
struct MadeBy {
  std::string digest;
  std::string what;  ///< Description for errors.
};

/// Progress of opening files, in bytes.
struct ReadMeter {
  OnProgress on_progress = {};  ///< Empty: nothing is shown.
  std::uint64_t done = 0;       ///< Bytes of earlier files.
  std::uint64_t all = 0;        ///< Bytes of all files.
  /// Reports `nbytes` of the file that is being read.
  void at(std::uint64_t nbytes) const {
    if (on_progress) on_progress(done + nbytes, all);
  }
  /// Reports a completely read file of this size.
  void add(std::uint64_t nbytes) {
    done += nbytes;
    at(0);
  }
};

/// Consecutive tokens from one or more files. Thread-safe.
class Source {
 public:
  /// Opens `path` in a format of DataConfig. Adds the tokenizer of its tokens to `made_by`, and its files to `meter`.
  /// Throws IoError with a file that is missing, empty or of another format.
  Source(const std::string& path, std::string_view format, const Tokenizer& tokenizer, std::vector<MadeBy>& made_by,
         ReadMeter& meter);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  /// Writes tokens.size() tokens, starting at `first`. The range must exist.
  void read(std::uint64_t first, std::span<std::int32_t> tokens) const;
  /// Returns an upper bound of all tokens, from headers or by a scan.
  [[nodiscard]] std::int64_t largest() const;

 private:
  using Narrow = std::vector<std::uint16_t>;
  using Wide = std::vector<std::uint32_t>;
  struct TokenPiece {
    std::uint64_t begin;
    std::variant<TokenFile, Narrow, Wide> tokens;
  };
  enum class Format { kText, kTokens, kU16, kU32, kAuto };
  static Format format_of(std::string_view name);

  /// Returns true if the file was added, false if it was skipped.
  bool add_file(const std::string& path, Format format, const Tokenizer& tokenizer, bool is_alone,
                std::vector<MadeBy>& made_by, const ReadMeter& meter);
  void add_tokens(TokenFile file, const std::string& path, std::vector<MadeBy>& made_by);
  void add_document(std::string_view text, const Tokenizer& tokenizer, const ReadMeter& meter);
  void read_piece(const TokenPiece& piece, std::uint64_t first, std::span<std::int32_t> tokens) const;

  std::string path_;
  std::uint64_t tokens_ = 0;
  std::int64_t vocabulary_ = 0;  ///< Vocabulary of the tokenizer of its text.
  std::vector<TokenPiece> pieces_;
};

}  // namespace tessera::train::detail

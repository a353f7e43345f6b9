// What one entry of data.files names: a file, or a directory whose files are read as one, in the order of their names.
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

/// "PATH" or "PATH=WEIGHT" taken apart. A path that exists as it is written has the weight 1.
struct WeightedPath {
  std::string path;
  double weight = 1;
};
/// InvalidArgument: no path, or a weight that is not a number above 0.
WeightedPath read_weighted(const std::string& entry);

/// Which tokenizer made the tokens of something; known while files are opened, so that all can be held against one.
struct MadeBy {
  std::string digest;
  std::string what;  ///< for errors
};

/// Bytes of files that were opened, for a function that shows how far the opening came.
struct ReadMeter {
  OnProgress on_progress = {};  ///< empty: nothing is shown
  std::uint64_t done = 0;       ///< of the files before
  std::uint64_t all = 0;        ///< of all files
  /// Reports `nbytes` of the file that is being read.
  void at(std::uint64_t nbytes) const {
    if (on_progress) on_progress(done + nbytes, all);
  }
  /// Reports a file of this size that was read.
  void add(std::uint64_t nbytes) {
    done += nbytes;
    at(0);
  }
};

/// Tokens in a row, from one or more files. Thread-safe.
class Source {
 public:
  /// Opens what is at `path`, in a format of DataConfig. Adds to `made_by` who made its tokens, and its files to
  /// `meter`. IoError names a file that is missing, empty or not of the format.
  Source(const std::string& path, std::string_view format, const Tokenizer& tokenizer, std::vector<MadeBy>& made_by,
         ReadMeter& meter);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  /// Writes tokens.size() tokens from the `first` on; they must be there.
  void read(std::uint64_t first, std::span<std::int32_t> tokens) const;
  /// No token is larger. From headers; by a scan where there are none.
  [[nodiscard]] std::int64_t largest() const;

 private:
  using Narrow = std::vector<std::uint16_t>;
  using Wide = std::vector<std::uint32_t>;
  struct Piece {
    std::uint64_t begin;
    std::variant<TokenFile, Narrow, Wide> tokens;
  };
  enum class Format { kText, kTokens, kU16, kU32, kAuto };
  static Format format_of(std::string_view name);

  /// Whether the file was added, not left out.
  bool add_file(const std::string& path, Format format, const Tokenizer& tokenizer, bool is_alone,
                std::vector<MadeBy>& made_by, const ReadMeter& meter);
  void add_tokens(TokenFile file, const std::string& path, std::vector<MadeBy>& made_by);
  void add_document(std::string_view text, const Tokenizer& tokenizer, const ReadMeter& meter);
  void read_piece(const Piece& piece, std::uint64_t first, std::span<std::int32_t> tokens) const;

  std::string path_;
  std::uint64_t tokens_ = 0;
  std::int64_t vocabulary_ = 0;  ///< of the tokenizer of its text
  std::vector<Piece> pieces_;
};

}  // namespace tessera::train::detail

// Token files: a header of 64 bytes, then the tokens, 2 or 4 bytes each. All values are little-endian.
//
//   offset  bytes  contents
//        0      8  "TSRTOKEN"
//        8      4  version of the format, 1
//       12      4  bytes per token, 2 or 4
//       16      8  number of tokens
//       24      8  number of documents, equal to the number of end-of-text tokens
//       32      4  vocabulary: every token is less
//       36      4  the token that ends a document
//       40     16  digest of the tokenizer, two digits of Tokenizer::digest() per byte; all 0: unknown
//       56      8  FNV-1a of the 56 bytes before
//       64         tokens
//
// A file has exactly the length that its header states. Files without a header (u16, u32) are read on request. Files
// are mapped: if a file is truncated while it is read, the process dies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/train/data/tokenizer.h"

namespace tessera::train {

/// Width of a token in a file.
enum class TokenWidth : std::uint8_t {
  kU16 = 2,  ///< 2 bytes
  kU32 = 4,  ///< 4 bytes
};

/// Returns "u16" or "u32".
TESSERA_API std::string_view to_string(TokenWidth width);
/// Returns the smallest width that holds `vocabulary` distinct tokens.
TESSERA_API TokenWidth width_for(std::int64_t vocabulary);

/// Contents of a header.
struct TokenFileHeader {
  TokenWidth width = TokenWidth::kU16;  ///< Width of a token.
  std::uint64_t tokens = 0;             ///< Number of tokens.
  std::uint64_t documents = 0;          ///< Number of tokens that end a document.
  std::uint32_t vocabulary = 0;         ///< Upper bound: every token is less.
  std::uint32_t end_of_text = 0;        ///< Token that ends a document.
  std::string digest;                   ///< Digest of the tokenizer, 32 hex digits. Empty: unknown.

  /// Compares all fields.
  bool operator==(const TokenFileHeader&) const = default;
};

/// A mapped token file. Thread-safe. Copies share the mapping.
class TESSERA_API TokenFile {
 public:
  /// Opens a file with a header. Throws IoError with the file and the fault.
  static TokenFile open(const std::filesystem::path& path);
  /// Opens a file without a header. Throws IoError if it is missing or its size is not a multiple of the width.
  static TokenFile open_plain(const std::filesystem::path& path, TokenWidth width);
  /// Returns true if a file begins with a header. Throws IoError if it cannot be read.
  static bool has_header(const std::filesystem::path& path);

  /// Returns the header, or nothing for a file without one.
  [[nodiscard]] const std::optional<TokenFileHeader>& header() const;
  /// Returns the number of tokens.
  [[nodiscard]] std::uint64_t tokens() const;
  /// Writes tokens.size() tokens, starting at token `first`. Throws InvalidArgument if the range exceeds the file, and
  /// IoError if a token is not less than the vocabulary or needs more than 31 bits.
  void read(std::uint64_t first, std::span<std::int32_t> tokens) const;
  /// Scans the file and returns its largest token; 0 if it is empty.
  [[nodiscard]] std::uint32_t largest() const;

 private:
  struct State;
  explicit TokenFile(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

/// Writes a token file and renames it atomically. Until then, the tokens are in an unnamed file in its directory. Not
/// thread-safe.
class TESSERA_API TokenFileWriter {
 public:
  /// Throws InvalidArgument if the tokens of `tokenizer` do not fit the width, and IoError if the directory is not
  /// writable.
  TokenFileWriter(const std::filesystem::path& path, const Tokenizer& tokenizer, TokenWidth width);
  /// Discards tokens that were not committed.
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  /// Appends a document and the end-of-text token. Throws InvalidArgument for a value that is not a token.
  void add_document(std::span<const std::uint32_t> tokens);
  /// Gives the file its name and returns its header. Throws IoError, with nothing changed, if it cannot be written.
  TokenFileHeader commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::train

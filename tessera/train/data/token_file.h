// Files of tokens: a header of 64 bytes, then the tokens, 2 or 4 bytes each. Everything is little-endian.
//
//   offset  bytes  what
//        0      8  "TSRTOKEN"
//        8      4  version of the format, 1
//       12      4  bytes of a token, 2 or 4
//       16      8  tokens
//       24      8  documents: how many ends of text there are
//       32      4  vocabulary: every token is less
//       36      4  the token that ends a document
//       40     16  digest of the tokenizer, the digits of Tokenizer::digest() two by two; all 0: unknown
//       56      8  FNV-1a of the 56 bytes before
//       64         tokens
//
// A file is as long as its header says, to the byte. Files of tokens alone (u16, u32) are read too, where the reader is
// told so. Files are mapped: one that is cut short while it is read ends the process.
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

/// How wide a token is in a file.
enum class TokenWidth : std::uint8_t {
  kU16 = 2,  ///< 2 bytes
  kU32 = 4,  ///< 4 bytes
};

/// "u16" or "u32".
TESSERA_API std::string_view to_string(TokenWidth width);
/// The narrower one that holds this many different tokens.
TESSERA_API TokenWidth width_for(std::int64_t vocabulary);

/// What a header says.
struct TokenFileHeader {
  TokenWidth width = TokenWidth::kU16;  ///< of a token
  std::uint64_t tokens = 0;             ///< how many
  std::uint64_t documents = 0;          ///< how many of them end a document
  std::uint32_t vocabulary = 0;         ///< every token is less
  std::uint32_t end_of_text = 0;        ///< the token that ends a document
  std::string digest;                   ///< of the tokenizer, 32 digits; empty: unknown

  /// Whether both say the same.
  bool operator==(const TokenFileHeader&) const = default;
};

/// A file of tokens, mapped. Thread-safe; copies share.
class TESSERA_API TokenFile {
 public:
  /// A file with a header. IoError names the file and what it lacks.
  static TokenFile open(const std::filesystem::path& path);
  /// A file of tokens alone. IoError: it is missing or not a whole number of tokens.
  static TokenFile open_plain(const std::filesystem::path& path, TokenWidth width);
  /// Whether a file begins as one with a header does. IoError: it cannot be read.
  static bool has_header(const std::filesystem::path& path);

  /// Its header; none of a file of tokens alone.
  [[nodiscard]] const std::optional<TokenFileHeader>& header() const;
  /// How many tokens.
  [[nodiscard]] std::uint64_t tokens() const;
  /// Writes tokens.size() tokens from the `first` on. InvalidArgument: there are not so many. IoError: one is not less
  /// than the vocabulary, or too large for 31 bits.
  void read(std::uint64_t first, std::span<std::int32_t> tokens) const;
  /// The largest token in it, by a scan; 0 when there is none.
  [[nodiscard]] std::uint32_t largest() const;

 private:
  struct State;
  explicit TokenFile(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

/// Writes a file of tokens and puts it in its place as a whole; meanwhile its directory holds the tokens in a file
/// without a name. Not thread-safe.
class TESSERA_API TokenFileWriter {
 public:
  /// InvalidArgument: tokens of this tokenizer do not fit the width. IoError: the directory cannot be written.
  TokenFileWriter(const std::filesystem::path& path, const Tokenizer& tokenizer, TokenWidth width);
  /// Throws away what was not committed.
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  /// Adds a document and the token that ends it. InvalidArgument: a number that is no token.
  void add_document(std::span<const std::uint32_t> tokens);
  /// Puts the file in its place; what its header says. IoError, with nothing changed: it could not be written.
  TokenFileHeader commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::train

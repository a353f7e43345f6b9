#include "tessera/train/data/token_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/fnv1a.h"
#include "tessera/train/data/detail/mapped_file.h"
#include "tessera/train/data/detail/scratch_file.h"

namespace tessera::train {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read as they lie in the file");

constexpr std::string_view kMagic = "TSRTOKEN";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderNbytes = 64;
constexpr std::size_t kHashedNbytes = 56;
constexpr std::size_t kDigestNbytes = 16;

template <class T>
T number_at(std::string_view bytes, std::size_t offset) {
  T value = {};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
void add_number(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string digest_text(std::string_view bytes) {
  if (std::ranges::all_of(bytes, [](char c) { return c == 0; })) return {};
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 0xFU];
  }
  return text;
}

std::string digest_bytes(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  }
  bytes.resize(kDigestNbytes);
  return bytes;
}

std::string header_bytes(const TokenFileHeader& header) {
  std::string bytes(kMagic);
  add_number(bytes, kVersion);
  add_number(bytes, static_cast<std::uint32_t>(header.width));
  add_number(bytes, header.tokens);
  add_number(bytes, header.documents);
  add_number(bytes, header.vocabulary);
  add_number(bytes, header.end_of_text);
  bytes += digest_bytes(header.digest);
  add_number(bytes, tessera::detail::fnv1a(bytes));
  return bytes;
}

TokenFileHeader read_header(std::string_view bytes, const std::string& path) {
  const auto check = [&](bool holds, const auto&... parts) {
    TESSERA_CHECK_AS(IoError, holds, "'", path, "': ", parts...);
  };
  check(!bytes.empty(), "the file is empty");
  check(bytes.starts_with(kMagic), "not a token file with a header; for plain tokens, use u16 or u32");
  check(bytes.size() >= kHeaderNbytes, "truncated: the header has ", kHeaderNbytes, " bytes, got ", bytes.size());
  const auto version = number_at<std::uint32_t>(bytes, 8);
  check(version == kVersion, "format version must be ", kVersion, ", got version ", version);
  check(number_at<std::uint64_t>(bytes, kHashedNbytes) == tessera::detail::fnv1a(bytes.substr(0, kHashedNbytes)),
        "the header is corrupt: its checksum is wrong");
  const auto nbytes = number_at<std::uint32_t>(bytes, 12);
  check(nbytes == 2 || nbytes == 4, "tokens must have 2 or 4 bytes, got ", nbytes);
  TokenFileHeader header{static_cast<TokenWidth>(nbytes),     number_at<std::uint64_t>(bytes, 16),
                         number_at<std::uint64_t>(bytes, 24), number_at<std::uint32_t>(bytes, 32),
                         number_at<std::uint32_t>(bytes, 36), digest_text(bytes.substr(40, kDigestNbytes))};
  const std::uint64_t room = bytes.size() - kHeaderNbytes;
  check(room % nbytes == 0 && header.tokens == room / nbytes, "the header has ", header.tokens, " tokens of ", nbytes,
        " bytes, but ", room, " bytes follow it");
  check(header.documents <= header.tokens, "the header has ", header.documents, " documents, but only ", header.tokens,
        " tokens");
  check(header.vocabulary >= 1 && header.vocabulary <= std::uint32_t{std::numeric_limits<std::int32_t>::max()},
        "vocabulary must be in [1, 2147483647], got ", header.vocabulary);
  check(header.end_of_text < header.vocabulary, "end-of-text token must be in [0, ", header.vocabulary, "), got ",
        header.end_of_text);
  return header;
}

}  // namespace

std::string_view to_string(TokenWidth width) { return width == TokenWidth::kU16 ? "u16" : "u32"; }

TokenWidth width_for(std::int64_t vocabulary) { return vocabulary <= 65536 ? TokenWidth::kU16 : TokenWidth::kU32; }

struct TokenFile::State {
  explicit State(const std::filesystem::path& at) : path(at.string()), file(path) {}
  template <class F>
  auto visit(F&& body) const {
    // Mappings begin at a page, and the header has 64 bytes: tokens are aligned.
    const char* data = file.bytes().data() + offset;
    if (width == TokenWidth::kU16) return body(std::span(reinterpret_cast<const std::uint16_t*>(data), tokens));
    return body(std::span(reinterpret_cast<const std::uint32_t*>(data), tokens));
  }

  std::string path;
  detail::MappedFile file;
  std::optional<TokenFileHeader> header;
  TokenWidth width = TokenWidth::kU16;
  std::size_t offset = 0;
  std::uint64_t tokens = 0;
  std::uint32_t limit = std::uint32_t{1} << 31;  // every token is less
};

TokenFile::TokenFile(std::shared_ptr<const State> state) : state_(std::move(state)) {}

TokenFile TokenFile::open(const std::filesystem::path& path) {
  auto state = std::make_shared<State>(path);
  state->header = read_header(state->file.bytes(), state->path);
  state->width = state->header->width;
  state->offset = kHeaderNbytes;
  state->tokens = state->header->tokens;
  state->limit = state->header->vocabulary;
  return TokenFile(std::move(state));
}

TokenFile TokenFile::open_plain(const std::filesystem::path& path, TokenWidth width) {
  auto state = std::make_shared<State>(path);
  const std::size_t nbytes = state->file.bytes().size();
  const auto each = static_cast<std::size_t>(width);
  TESSERA_CHECK_AS(IoError, nbytes != 0, "'", state->path, "': the file is empty");
  TESSERA_CHECK_AS(IoError, nbytes % each == 0, "'", state->path, "': ", "size must be a multiple of ", width,
                   " tokens, got ", nbytes, " bytes");
  TESSERA_CHECK_AS(IoError, !state->file.bytes().starts_with(kMagic), "'", state->path,
                   "' has a header; read it as tokens, not as plain ", width);
  state->width = width;
  state->tokens = nbytes / each;
  return TokenFile(std::move(state));
}

bool TokenFile::has_header(const std::filesystem::path& path) {
  return detail::MappedFile(path.string()).bytes().starts_with(kMagic);
}

const std::optional<TokenFileHeader>& TokenFile::header() const { return state_->header; }
std::uint64_t TokenFile::tokens() const { return state_->tokens; }

void TokenFile::read(std::uint64_t first, std::span<std::int32_t> tokens) const {
  TESSERA_CHECK(first <= state_->tokens && tokens.size() <= state_->tokens - first, "'", state_->path,
                "': range must be within ", state_->tokens, " tokens, got ", tokens.size(), " tokens from ", first);
  state_->visit([&](auto all) {
    const auto part = all.subspan(first, tokens.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      TESSERA_CHECK_AS(IoError, part[i] < state_->limit, "'", state_->path, "': token ", first + i,
                       " must be less than ", state_->limit, ", got ", part[i],
                       "; the file is corrupt or of another width");
      tokens[i] = static_cast<std::int32_t>(part[i]);
    }
  });
}

std::uint32_t TokenFile::largest() const {
  return state_->visit(
      [](auto all) { return all.empty() ? std::uint32_t{0} : static_cast<std::uint32_t>(std::ranges::max(all)); });
}

// The counts precede the tokens, so the tokens are stored in a separate file until all are known.
struct TokenFileWriter::State {
  State(std::filesystem::path at, TokenFileHeader begun)
      : path(std::move(at)), header(std::move(begun)), body(path.parent_path()) {}
  std::filesystem::path path;
  TokenFileHeader header;
  detail::ScratchFile body;
};

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, const Tokenizer& tokenizer, TokenWidth width) {
  TESSERA_CHECK(width == TokenWidth::kU32 || width_for(tokenizer.vocabulary()) == width, "'", path.string(),
                "': u16 requires a vocabulary of at most 65536 tokens, got ", tokenizer.vocabulary(), "; use u32");
  TESSERA_CHECK_AS(IoError, !std::filesystem::is_directory(path), "'", path.string(),
                   "' must be a file, got a directory");
  const TokenFileHeader header{
      width, 0, 0, static_cast<std::uint32_t>(tokenizer.vocabulary()), tokenizer.end_of_text(), tokenizer.digest()};
  state_ = std::make_unique<State>(path, header);
}

TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::add_document(std::span<const std::uint32_t> tokens) {
  TokenFileHeader& header = state_->header;
  std::string bytes;
  bytes.reserve((tokens.size() + 1) * static_cast<std::size_t>(header.width));
  const auto add = [&](std::uint32_t token) {
    if (header.width == TokenWidth::kU16) {
      add_number(bytes, static_cast<std::uint16_t>(token));
    } else {
      add_number(bytes, token);
    }
  };
  for (const std::uint32_t token : tokens) {
    TESSERA_CHECK(token < header.vocabulary, "token must be in [0, ", header.vocabulary, "), got ", token);
    add(token);
  }
  add(header.end_of_text);
  state_->body.append(bytes);
  header.tokens += tokens.size() + 1;
  ++header.documents;
}

TokenFileHeader TokenFileWriter::commit() {
  AtomicFile file(state_->path.string());
  file.stream() << header_bytes(state_->header);
  state_->body.copy_to(file.stream());
  file.commit();
  return state_->header;
}

}  // namespace tessera::train

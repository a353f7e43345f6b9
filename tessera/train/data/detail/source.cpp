#include "tessera/train/data/detail/source.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/nearest.h"
#include "tessera/base/rank.h"
#include "tessera/train/data/text_files.h"

namespace tessera::train::detail {
namespace {

constexpr std::string_view kFormats[] = {"text", "tokens", "u16", "u32", "auto"};

}  // namespace

WeightedPath read_weighted(const std::string& entry) {
  TESSERA_CHECK(!entry.empty(), "data.files, data.held_out: entries must be PATH or PATH=WEIGHT, got ''");
  std::error_code none;
  const std::size_t equals = entry.rfind('=');
  if (equals == std::string::npos || std::filesystem::exists(entry, none)) return {entry, 1};
  const std::string number = entry.substr(equals + 1);
  char* end = nullptr;
  const double weight = std::strtod(number.c_str(), &end);
  const bool is_number = !number.empty() && *end == '\0' && std::isfinite(weight) && weight > 0;
  TESSERA_CHECK(is_number && equals > 0,
                "data.files, data.held_out: entries must be a file or PATH=WEIGHT with a weight above 0, got '", entry,
                "'");
  return {entry.substr(0, equals), weight};
}

Source::Format Source::format_of(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name);
  TESSERA_CHECK(found != std::end(kFormats), "data.format: unknown format '", name, "'", did_you_mean(name, kFormats),
                "; formats: ", kFormats);
  return static_cast<Format>(found - std::begin(kFormats));
}

Source::Source(const std::string& path, std::string_view format, const Tokenizer& tokenizer,
               std::vector<MadeBy>& made_by, ReadMeter& meter)
    : path_(path) {
  const Format as = format_of(format);
  const bool is_alone = !std::filesystem::is_directory(path);
  std::vector<std::string> left_out;
  for (const std::filesystem::path& file : files_under(path)) {
    if (!add_file(file.string(), as, tokenizer, is_alone, made_by, meter)) left_out.push_back(file.string());
    std::error_code none;
    const std::uintmax_t nbytes = std::filesystem::file_size(file, none);
    meter.add(none ? 0 : nbytes);
  }
  TESSERA_CHECK_AS(IoError, tokens_ != 0, "'", path,
                   is_alone ? "': the file is empty" : "': no file in the directory contains text");
  if (!left_out.empty() && current_place().rank == Rank(0)) {
    log::warn("data: ", left_out.size(), " files in '", path, "' contain NUL bytes; skipped: '", left_out.front(),
              left_out.size() > 1 ? "' and others" : "'");
  }
}

bool Source::add_file(const std::string& path, Format format, const Tokenizer& tokenizer, bool is_alone,
                      std::vector<MadeBy>& made_by, const ReadMeter& meter) {
  if (format == Format::kAuto) format = TokenFile::has_header(path) ? Format::kTokens : Format::kText;
  switch (format) {
    case Format::kTokens: add_tokens(TokenFile::open(path), path, made_by); return true;
    case Format::kU16: add_tokens(TokenFile::open_plain(path, TokenWidth::kU16), path, made_by); return true;
    case Format::kU32: add_tokens(TokenFile::open_plain(path, TokenWidth::kU32), path, made_by); return true;
    default: break;
  }
  const std::optional<std::string> text = read_text(path);
  TESSERA_CHECK_AS(IoError, text || !is_alone, "'", path,
                   "' must be text, but contains NUL bytes; for tokens without a header, use --data.format u16 or u32");
  if (!text) return false;
  if (vocabulary_ == 0) made_by.push_back({tokenizer.digest(), "the text of '" + path_ + "'"});
  add_document(*text, tokenizer, meter);
  return true;
}

void Source::add_tokens(TokenFile file, const std::string& path, std::vector<MadeBy>& made_by) {
  if (file.header() && !file.header()->digest.empty()) made_by.push_back({file.header()->digest, "'" + path + "'"});
  const std::uint64_t count = file.tokens();
  pieces_.push_back({tokens_, std::move(file)});
  tokens_ += count;
}

void Source::add_document(std::string_view text, const Tokenizer& tokenizer, const ReadMeter& meter) {
  vocabulary_ = tokenizer.vocabulary();
  if (text.empty()) return;
  const bool is_narrow = width_for(vocabulary_) == TokenWidth::kU16;
  if (pieces_.empty() || std::holds_alternative<TokenFile>(pieces_.back().tokens)) {
    pieces_.push_back({tokens_, Narrow()});
    if (!is_narrow) pieces_.back().tokens = Wide();
  }
  std::vector<std::uint32_t> tokens =
      tokenizer.encode(text, [&](std::uint64_t done, std::uint64_t) { meter.at(done); });
  tokens.push_back(tokenizer.end_of_text());
  tokens_ += tokens.size();
  if (is_narrow) {
    auto& all = std::get<Narrow>(pieces_.back().tokens);
    for (const std::uint32_t token : tokens) all.push_back(static_cast<std::uint16_t>(token));
  } else {
    auto& all = std::get<Wide>(pieces_.back().tokens);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
}

void Source::read_piece(const TokenPiece& piece, std::uint64_t first, std::span<std::int32_t> tokens) const {
  if (const auto* file = std::get_if<TokenFile>(&piece.tokens)) {
    file->read(first, tokens);
    return;
  }
  const auto copy = [&](const auto& all) {
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(first), tokens.size(), tokens.begin());
  };
  if (const auto* narrow = std::get_if<Narrow>(&piece.tokens)) {
    copy(*narrow);
  } else {
    copy(std::get<Wide>(piece.tokens));
  }
}

void Source::read(std::uint64_t first, std::span<std::int32_t> tokens) const {
  TESSERA_CHECK(first <= tokens_ && tokens.size() <= tokens_ - first, "'", path_, "': range must be within ", tokens_,
                " tokens, got ", tokens.size(), " tokens from ", first);
  auto piece = std::ranges::upper_bound(pieces_, first, {}, &TokenPiece::begin) - 1;
  while (!tokens.empty()) {
    const std::uint64_t end = piece + 1 == pieces_.end() ? tokens_ : (piece + 1)->begin;
    const std::size_t count = std::min<std::uint64_t>(tokens.size(), end - first);
    read_piece(*piece, first - piece->begin, tokens.first(count));
    tokens = tokens.subspan(count);
    first += count;
    ++piece;
  }
}

std::int64_t Source::largest() const {
  std::int64_t largest = vocabulary_ - 1;
  for (const TokenPiece& piece : pieces_) {
    const auto* file = std::get_if<TokenFile>(&piece.tokens);
    if (file == nullptr) continue;
    largest = std::max(largest, file->header() ? std::int64_t{file->header()->vocabulary} - 1
                                               : static_cast<std::int64_t>(file->largest()));
  }
  return largest;
}

}  // namespace tessera::train::detail

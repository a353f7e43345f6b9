#include "tessera/train/data/tokenizer.h"

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/train/data/detail/bpe.h"
#include "tessera/train/data/detail/bpe_json.h"
#include "tessera/train/data/detail/bpe_learn.h"
#include "tessera/train/data/detail/mapped_file.h"
#include "tessera/train/detail/digest.h"

namespace tessera::train {
namespace {

constexpr std::size_t kBetweenCalls = std::size_t{256} << 10;  // bytes of text, tens of milliseconds of encoding
constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

std::string digest_of(const detail::Bpe& bpe) {
  detail::Digest digest;
  digest.add("bpe");
  digest.add(detail::pattern_of(bpe.rule));
  digest.add(std::uint64_t{bpe.ignore_merges ? 1U : 0U});
  digest.add(std::uint64_t{bpe.end_of_text});
  digest.add(std::uint64_t{bpe.tokens.size()});
  for (std::size_t id = 0; id < bpe.tokens.size(); ++id) {
    digest.add(bpe.tokens[id]);
    digest.add(std::uint64_t{bpe.is_added[id] ? 1U : 0U});
  }
  for (const auto& [left, right] : bpe.merges) digest.add(detail::pair_key(left, right));
  return digest.hex();
}

}  // namespace

struct Tokenizer::State {
  bool is_bytes = false;
  detail::Bpe bpe;  // for bytes(): the tokens alone
  std::string digest;
};

Tokenizer::Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

Tokenizer Tokenizer::bytes() {
  auto state = std::make_shared<State>();
  state->is_bytes = true;
  for (int byte = 0; byte < 256; ++byte) state->bpe.tokens.emplace_back(1, static_cast<char>(byte));
  detail::Digest digest;
  digest.add("bytes");
  state->digest = digest.hex();
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::read(const std::filesystem::path& path) {
  const detail::MappedFile file(path.string());
  TESSERA_CHECK_AS(IoError, file.bytes().size() <= kMaxFileBytes, "'", path.string(), "' must have at most ",
                   kMaxFileBytes, " bytes, got ", file.bytes().size());
  auto state = std::make_shared<State>();
  state->bpe = detail::read_bpe(file.bytes(), path.string());
  state->digest = digest_of(state->bpe);
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::learn(std::span<const std::string_view> texts, std::int64_t vocabulary,
                           const OnProgress& on_progress) {
  auto state = std::make_shared<State>();
  state->bpe = detail::learn_bpe(texts, vocabulary, on_progress);
  state->digest = digest_of(state->bpe);
  return Tokenizer(std::move(state));
}

void Tokenizer::write(const std::filesystem::path& path) const {
  TESSERA_CHECK_AS(NotSupported, !state_->is_bytes, "'", path.string(),
                   "': the bytes tokenizer has no file; use the name 'bytes'");
  write_file(path.string(), detail::write_bpe(state_->bpe));
}

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text, const OnProgress& on_progress) const {
  std::vector<std::uint32_t> tokens;
  if (state_->is_bytes) {
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  tokens.reserve(text.size() / 3);
  detail::WordEncoder encoder(state_->bpe);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = detail::word_end(text, start, state_->bpe.rule);
    encoder.encode(text.substr(start, end - start), tokens);
    if (on_progress && end / kBetweenCalls != start / kBetweenCalls) on_progress(end, text.size());
    start = end;
  }
  return tokens;
}

std::string Tokenizer::decode(std::span<const std::uint32_t> tokens) const {
  std::string text;
  for (const std::uint32_t token : tokens) {
    TESSERA_CHECK(token < state_->bpe.tokens.size(), "token must be in [0, ", state_->bpe.tokens.size(), "), got ",
                  token);
    text += state_->bpe.tokens[token];
  }
  return text;
}

std::int64_t Tokenizer::vocabulary() const { return static_cast<std::int64_t>(state_->bpe.tokens.size()); }
std::uint32_t Tokenizer::end_of_text() const { return state_->bpe.end_of_text; }
const std::string& Tokenizer::digest() const { return state_->digest; }

}  // namespace tessera::train

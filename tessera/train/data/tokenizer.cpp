#include "tessera/train/data/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/train/data/detail/bpe_learn.h"
#include "tessera/train/data/detail/mapped_file.h"
#include "tessera/train/data/detail/tokenizer_json.h"
#include "tessera/train/detail/digest.h"

namespace tessera::train {
namespace {

constexpr std::size_t kBetweenCalls = std::size_t{256} << 10;  // bytes of text, tens of milliseconds of encoding
constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Returns the length of an incomplete character at `position`; at least 1.
std::size_t broken_nbytes(std::string_view text, std::size_t position) {
  for (std::size_t nbytes = 3; nbytes > 1; --nbytes) {
    if (position + nbytes <= text.size() && detail::is_interrupted(text.substr(0, position + nbytes), position)) {
      return nbytes;
    }
  }
  return 1;
}

// Removes and returns the text of `held` up to an incomplete character at its end.
std::string take_characters(std::string& held) {
  std::string text;
  std::size_t at = 0;
  while (at < held.size()) {
    const detail::CodePoint point = detail::code_point_at(held, at);
    if (point.is_valid) {
      text.append(held, at, point.nbytes);
      at += point.nbytes;
      continue;
    }
    if (detail::is_interrupted(held, at)) break;
    text += kReplacementCharacter;
    at += broken_nbytes(held, at);
  }
  held.erase(0, at);
  return text;
}

}  // namespace

struct Tokenizer::State {
  bool is_bytes = false;
  detail::TextModel model;  // for bytes(): the tokens alone
  std::string digest;

  // Encoders with the words that they know, for the next call.
  using Encoder = std::unique_ptr<detail::WordEncoder>;
  mutable std::mutex mutex;
  mutable std::vector<Encoder> idle;

  Encoder take_encoder() const {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<detail::WordEncoder>(model.bpe);
    Encoder encoder = std::move(idle.back());
    idle.pop_back();
    return encoder;
  }
  void give_back(Encoder encoder) const {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(encoder));
  }
  void check_token(std::uint32_t token) const {
    TESSERA_CHECK(token < model.bpe.tokens.size(), "token must be in [0, ", model.bpe.tokens.size(), "), got ", token);
  }
  // Splits a text and appends its tokens.
  void encode(std::string_view text, bool finds_special, std::vector<std::uint32_t>& tokens,
              const detail::WordEncoder::OnBytes& on_bytes) const {
    using Piece = detail::AddedTokenMatcher::Piece;
    Encoder encoder = take_encoder();
    const detail::OnTick on_tick = [&] { on_bytes(0); };
    const detail::PreTokenizer::OnWord on_each = [&](std::string_view word) {
      encoder->encode(word, tokens, on_bytes);
    };
    model.in_text.split(
        text, finds_special,
        [&](const Piece& outer) {
          if (outer.token != nullptr) {
            tokens.push_back(outer.token->id);
            on_bytes(outer.end - outer.begin);
            return;
          }
          std::string_view between = text.substr(outer.begin, outer.end - outer.begin);
          const bool is_changed = !model.normalizer.steps.empty();
          const std::string changed = is_changed ? model.normalizer.apply(between, on_tick) : "";
          if (is_changed) between = changed;
          model.in_normalized.split(
              between, finds_special,
              [&](const Piece& inner) {
                const std::string_view piece = between.substr(inner.begin, inner.end - inner.begin);
                if (inner.token != nullptr) {
                  tokens.push_back(inner.token->id);
                  on_bytes(piece.size());
                } else {
                  model.pre_tokenizer.split(piece, outer.begin == 0 && inner.begin == 0, on_each);
                }
              },
              on_tick);
        },
        on_tick);
    give_back(std::move(encoder));
  }
};

Tokenizer::Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

Tokenizer Tokenizer::bytes() {
  auto state = std::make_shared<State>();
  state->is_bytes = true;
  for (int byte = 0; byte < 256; ++byte) state->model.bpe.tokens.emplace_back(1, static_cast<char>(byte));
  state->model.texts = state->model.bpe.tokens;
  detail::Digest digest;
  digest.add("bytes");
  state->digest = digest.hex();
  return Tokenizer(std::move(state));
}

std::filesystem::path Tokenizer::file_of(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) ? path / "tokenizer.json" : path;
}

Tokenizer Tokenizer::read(const std::filesystem::path& path) {
  const std::string name = file_of(path).string();
  const detail::MappedFile file(name);
  TESSERA_CHECK_AS(IoError, file.bytes().size() <= kMaxFileBytes, "'", name, "' must have at most ", kMaxFileBytes,
                   " bytes, got ", file.bytes().size());
  auto state = std::make_shared<State>();
  state->model = detail::read_tokenizer(file.bytes(), name);
  state->digest = state->model.digest();
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::learn(std::span<const std::string_view> texts, std::int64_t vocabulary,
                           const OnProgress& on_progress) {
  auto state = std::make_shared<State>();
  const std::string file = detail::write_gpt2_tokenizer(detail::learn_bpe(texts, vocabulary, on_progress));
  state->model = detail::read_tokenizer(file, "learned");
  state->digest = state->model.digest();
  return Tokenizer(std::move(state));
}

void Tokenizer::write(const std::filesystem::path& path) const {
  TESSERA_CHECK_AS(NotSupported, !state_->is_bytes, "'", path.string(),
                   "': the bytes tokenizer has no file; use the name 'bytes'");
  write_file(path.string(), state_->model.source);
}

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text, const OnProgress& on_progress) const {
  return encode(text, EncodeOptions{}, on_progress);
}

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options,
                                             const OnProgress& on_progress) const {
  std::vector<std::uint32_t> tokens;
  if (state_->is_bytes) {
    tokens.reserve(text.size());
    for (const char c : text) {
      tokens.push_back(static_cast<unsigned char>(c));
      if (on_progress && tokens.size() % kBetweenCalls == 0) on_progress(tokens.size(), text.size());
    }
    return tokens;
  }
  const detail::TextModel& model = state_->model;
  tokens.reserve(text.size() / 3);
  if (options.adds_template) tokens = model.prefix;
  std::size_t done = 0;  // steps may change lengths: about the bytes of the text
  state_->encode(text, options.finds_special, tokens, [&](std::size_t nbytes) {
    const std::size_t start = done;
    done += nbytes;
    if (on_progress && (nbytes == 0 || done / kBetweenCalls != start / kBetweenCalls))
      on_progress(std::min(done, text.size()), text.size());
  });
  if (options.adds_template) tokens.insert(tokens.end(), model.suffix.begin(), model.suffix.end());
  return tokens;
}

std::string Tokenizer::decode(std::span<const std::uint32_t> tokens) const {
  std::string text;
  TextStream stream(*this, true);
  for (const std::uint32_t token : tokens) {
    stream.append(token);
    text += stream.held_;
    stream.held_.clear();
  }
  return text;
}

std::int64_t Tokenizer::vocabulary() const { return static_cast<std::int64_t>(state_->model.bpe.tokens.size()); }
std::uint32_t Tokenizer::end_of_text() const { return state_->model.bpe.end_of_text; }
const std::string& Tokenizer::digest() const { return state_->digest; }

std::optional<std::uint32_t> Tokenizer::added_token(std::string_view content) const {
  const auto found = state_->model.added.find(content);
  return found == state_->model.added.end() ? std::nullopt : std::optional(found->second.id);
}

bool Tokenizer::is_special(std::uint32_t token) const {
  state_->check_token(token);
  return !state_->model.special.empty() && state_->model.special[token];
}

TextStream::TextStream(Tokenizer tokenizer, bool shows_special)
    : tokenizer_(std::move(tokenizer)),
      shows_special_(shows_special),
      strippable_(tokenizer_.state_->model.decoder.stripped_count) {}

// Appends the bytes of a token to those that are held back.
void TextStream::append(std::uint32_t token) {
  if (!shows_special_ && tokenizer_.is_special(token)) return;
  tokenizer_.state_->check_token(token);
  const detail::TextModel& model = tokenizer_.state_->model;
  const bool is_first = std::exchange(is_first_, false) && !model.decoder.steps.empty();
  const std::string first = is_first ? model.decoder.apply(model.written(token), true) : "";
  std::string_view text = is_first ? first : model.texts[token];
  while (strippable_ != 0 && !text.empty()) {
    const bool is_stripped = text.front() == model.decoder.stripped;
    strippable_ = is_stripped ? strippable_ - 1 : 0;
    if (is_stripped) text.remove_prefix(1);
  }
  held_ += text;
}

std::string TextStream::add(std::uint32_t token) {
  append(token);
  return take_characters(held_);
}

std::string TextStream::finish() {
  std::string text = take_characters(held_);
  if (!held_.empty()) text += kReplacementCharacter;
  *this = TextStream(tokenizer_, shows_special_);
  return text;
}

}  // namespace tessera::train

// Generates text with a language model, token by token:
//
//   const auto results = nn::generate(*model, prompts, {.max_tokens = 64, .context = 1024}, [](auto prompt, auto token)
//   {
//     show(prompt, token);
//     return true;  // false ends this sequence
//   });
//
// Sequences are computed in batches. A sequence that ends leaves its batch, and the next prompt takes its place. The
// tokens of a prompt depend on the seed, its position among the prompts and the model, not on the other prompts. On a
// mesh, all ranks call generate() with equal arguments, and return equal tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/nn/language_model.h"
#include "tessera/nn/sampling.h"

namespace tessera::nn {

/// Options of generate().
struct GenerationOptions {
  std::int64_t max_tokens = 128;  ///< Most tokens to generate per prompt.
  std::int64_t context = 0;       ///< Most tokens that the model can see; required.
  bool slides = false;            ///< In a full context: forgets its older half. Otherwise the sequence ends.
  std::vector<std::uint32_t> end_tokens = {};  ///< Tokens that end a sequence. They are not part of the result.
  std::int64_t vocabulary = 0;                 ///< Draws only tokens below this. 0: all tokens of the model.
  std::int64_t batch = 8;                      ///< Most sequences that are computed together.
  bool has_cache = true;          ///< Keeps keys and values; otherwise computes all tokens for each new one.
  SamplingOptions sampling = {};  ///< How tokens are drawn.
};

/// Reason for the end of a sequence.
enum class GenerationEnd : std::uint8_t {
  kMaxTokens,  ///< max_tokens tokens are generated.
  kEndToken,   ///< The model gave an end token.
  kContext,    ///< The context is full.
  kStopped,    ///< The callback returned false.
};
/// Returns "max_tokens", "end_token", "context" or "stopped".
TESSERA_API std::string_view to_string(GenerationEnd end);

/// Result for one prompt.
struct Generated {
  std::vector<std::uint32_t> tokens;              ///< Without the prompt.
  GenerationEnd end = GenerationEnd::kMaxTokens;  ///< Reason for the end.
};

/// Receives each token of a prompt, by its position among the prompts. Returns false to end the sequence. An exception
/// ends generate(); on a mesh, it must be thrown on all ranks after the same token.
using OnToken = std::function<bool(std::int64_t prompt, std::uint32_t token)>;

namespace detail {
struct KeptTokens;
}  // namespace detail

/// Generates in turns, such as those of a conversation. If a prompt begins with the tokens that the last call computed,
/// only its other tokens are computed; otherwise all are. Not thread-safe.
class TESSERA_API Conversation {
 public:
  /// Starts without tokens. The model must outlive the conversation, and its weights must not change.
  explicit Conversation(const LanguageModel& model);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  /// Generates as nn::generate() does for this prompt alone, and returns equal tokens. Throws what it throws.
  Generated generate(const std::vector<std::uint32_t>& prompt, const GenerationOptions& options,
                     const OnToken& on_token = {});
  /// Returns the number of tokens of the last prompt that were computed. The others were computed before.
  [[nodiscard]] std::int64_t computed_tokens() const;

 private:
  const LanguageModel& model_;
  std::unique_ptr<detail::KeptTokens> kept_;
};

/// Generates tokens after each prompt. The model computes in evaluation mode. Throws InvalidArgument if a prompt is
/// empty, or longer than the context while `slides` is unset.
TESSERA_API std::vector<Generated> generate(const LanguageModel& model,
                                            std::span<const std::vector<std::uint32_t>> prompts,
                                            const GenerationOptions& options, const OnToken& on_token = {});

}  // namespace tessera::nn

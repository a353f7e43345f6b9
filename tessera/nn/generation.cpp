#include "tessera/nn/generation.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/memory/label.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/kv_cache.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/distribute.h"
#include "tessera/tensor/device_context.h"

namespace tessera::nn {

// The tokens whose keys and values a conversation keeps.
struct detail::KeptTokens {
  KvCache cache;
  std::int64_t sequence = -1;  // number in the cache; -1: nothing is kept
  std::vector<std::uint32_t> tokens;
  std::int64_t computed = 0;  // tokens of the last prompt
};

namespace {

constexpr std::uint64_t kSeedStep = 0x9E3779B97F4A7C15;  // between the seeds of prompts

// Evaluation mode, on a mesh with complete batches and sequences on all ranks.
class InferenceScope {
 public:
  explicit InferenceScope(const Module& model) : model_(model), was_training_(model.is_training()) {
    if (mesh_of(model)) table_.emplace(model, table_of(model).with("batch", "").with("sequence", ""));
    model_.eval();
  }
  ~InferenceScope() { model_.train(was_training_); }
  InferenceScope(const InferenceScope&) = delete;
  InferenceScope& operator=(const InferenceScope&) = delete;

 private:
  Module model_;
  bool was_training_;
  std::optional<ActivationTableScope> table_;
  autograd::NoGrad no_grad_;
};

// A sequence that is being generated.
struct Sequence {
  std::int64_t prompt;                // position among the prompts
  std::vector<std::uint32_t> tokens;  // with the prompt
  std::size_t first_seen;             // the first token in the context
  std::int64_t generated;
  std::mt19937_64 random;
  std::int64_t cached = -1;  // number in the cache; -1: nothing is computed

  [[nodiscard]] std::int64_t seen() const { return std::ssize(tokens) - static_cast<std::int64_t>(first_seen); }
};

class Generator {
 public:
  using Kept = detail::KeptTokens;

  // `kept`: what the only prompt may continue, and where its tokens are kept; null to keep nothing.
  Generator(const LanguageModel& model, std::span<const std::vector<std::uint32_t>> prompts,
            const GenerationOptions& options, const OnToken& on_token, Kept* kept = nullptr)
      : model_(model), options_(options), on_token_(on_token), results_(prompts.size()), prompts_(prompts) {
    if (!options.has_cache) return;
    kept_ = kept;
    if (kept_ != nullptr) {
      cache_ = &kept_->cache;
      return;
    }
    std::int64_t longest = 0;
    for (const auto& prompt : prompts) longest = std::max(longest, std::ssize(prompt));
    const std::int64_t tokens = std::min(options.context, longest + options.max_tokens);
    cache_ = &own_cache_.emplace(tokens * std::min(options.batch, std::ssize(prompts)));
  }

  std::vector<Generated> run() {
    if (options_.max_tokens == 0) return std::move(results_);
    if (kept_ != nullptr && kept_->sequence >= 0) go_on();
    while (next_prompt_ < std::ssize(prompts_) || !active_.empty()) {
      begin_sequences();
      if (cache_ == nullptr) {
        compute_all();
      } else {
        compute_next();
      }
    }
    return std::move(results_);
  }

 private:
  // Computes the tokens of the prompt that follow the kept ones, and draws the next token.
  void go_on() {
    begin_sequences();
    active_[0].cached = std::exchange(kept_->sequence, -1);
    pass(active_, active_[0].seen() - std::ssize(kept_->tokens));
    drop_ended();
  }

  void begin_sequences() {
    while (next_prompt_ < std::ssize(prompts_) && std::ssize(active_) < options_.batch) {
      const std::vector<std::uint32_t>& prompt = prompts_[static_cast<std::size_t>(next_prompt_)];
      const std::size_t seen = std::min(prompt.size(), static_cast<std::size_t>(options_.context));
      active_.push_back(
          {.prompt = next_prompt_,
           .tokens = prompt,
           .first_seen = prompt.size() - seen,
           .generated = 0,
           .random = std::mt19937_64(options_.sampling.seed + kSeedStep * static_cast<std::uint64_t>(next_prompt_))});
      ++next_prompt_;
    }
  }

  // Without a cache: computes all tokens of each sequence.
  void compute_all() {
    for (Sequence& each : active_) advance({&each, 1}, scores_of({&each, 1}, each.seen(), nullptr));
    drop_ended();
  }

  // Computes the new sequences, those of one length together, and then the next token of the others in one pass.
  void compute_next() {
    std::stable_partition(active_.begin(), active_.end(), [](const Sequence& each) { return each.cached >= 0; });
    const auto begin = std::ranges::find(active_, -1, &Sequence::cached);
    for (auto first = begin; first != active_.end();) {
      const auto end = std::find_if(first, active_.end(), [&](const Sequence& x) { return x.seen() != first->seen(); });
      for (auto each = first; each != end; ++each) each->cached = cache_->add_sequence();
      pass({first, end}, first->seen());
      first = end;
    }
    if (begin != active_.begin()) pass({active_.begin(), begin}, 1);
    drop_ended();
  }

  void pass(std::span<Sequence> sequences, std::int64_t count) {
    std::vector<std::int64_t> numbers;
    for (const Sequence& each : sequences) numbers.push_back(each.cached);
    cache_->select(numbers);
    advance(sequences, scores_of(sequences, count, cache_));
  }

  // Returns the scores of the next token after the last `count` tokens of each sequence, [sequences, vocabulary] in
  // f32, valid on the host.
  Tensor scores_of(std::span<const Sequence> sequences, std::int64_t count, KvCache* cache) const {
    auto tokens = std::make_shared<std::vector<std::int32_t>>();
    for (const Sequence& each : sequences) tokens->insert(tokens->end(), each.tokens.end() - count, each.tokens.end());
    const device::Device host = tensor::host_device();
    Tensor input = Tensor::wrap(tokens->data(), {std::ssize(sequences), count}, DType::kI32, host, tokens);
    if (tensor::default_device() != host) input = ops::to(input, tensor::default_device());
    const layout::Mesh& mesh = mesh_of(model_.module());
    const Tensor rows = model_.hidden(mesh ? shard::replicate(input, mesh) : input, cache);
    const Tensor scores = model_.head(ops::select(rows, 1, count - 1));
    release_gathered(model_.module());
    Tensor whole = ops::contiguous(ops::cast(shard::gather(scores), DType::kF32));
    tensor::current_stream(whole.device()).synchronize();
    if (whole.device() == host) return whole;
    whole = ops::to(whole, host);
    host.synchronize();
    return whole;
  }

  // Draws the next token of each sequence.
  void advance(std::span<Sequence> sequences, const Tensor& scores) {
    const auto width = static_cast<std::size_t>(scores.size(1));
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      std::span<const float> row(scores.data_as<float>() + i * width, width);
      if (options_.vocabulary > 0) row = row.first(std::min(width, static_cast<std::size_t>(options_.vocabulary)));
      advance(sequences[i], row);
    }
  }

  void advance(Sequence& sequence, std::span<const float> scores) {
    const double uniform = static_cast<double>(sequence.random() >> 11) * 0x1p-53;
    const std::uint32_t token = draw_token(scores, options_.sampling, sequence.tokens, uniform);
    if (std::ranges::find(options_.end_tokens, token) != options_.end_tokens.end())
      return end(sequence, GenerationEnd::kEndToken);
    sequence.tokens.push_back(token);
    ++sequence.generated;
    if (on_token_ && !on_token_(sequence.prompt, token)) return end(sequence, GenerationEnd::kStopped);
    if (sequence.generated == options_.max_tokens) return end(sequence, GenerationEnd::kMaxTokens);
    if (sequence.seen() <= options_.context) return;
    if (!options_.slides) return end(sequence, GenerationEnd::kContext);
    sequence.first_seen = sequence.tokens.size() - static_cast<std::size_t>((options_.context + 1) / 2);
    forget(sequence);
  }

  void end(Sequence& sequence, GenerationEnd why) {
    Generated& result = results_[static_cast<std::size_t>(sequence.prompt)];
    result.tokens.assign(sequence.tokens.end() - sequence.generated, sequence.tokens.end());
    result.end = why;
    // The last token has been drawn, but not computed.
    const std::int64_t computed = std::ssize(sequence.tokens) - (why == GenerationEnd::kEndToken ? 0 : 1);
    if (kept_ != nullptr && sequence.first_seen == 0) {
      keep(sequence, computed);
    } else {
      forget(sequence);
    }
    sequence.prompt = -1;
  }

  // Keeps the pages of a sequence for the next prompt.
  void keep(Sequence& sequence, std::int64_t computed) {
    kept_->tokens.assign(sequence.tokens.begin(), sequence.tokens.begin() + computed);
    kept_->sequence = std::exchange(sequence.cached, -1);
  }

  // Frees the pages of a sequence, which is selected.
  void forget(Sequence& sequence) {
    if (sequence.cached < 0) return;
    cache_->select({});
    cache_->remove_sequence(sequence.cached);
    sequence.cached = -1;
  }

  void drop_ended() {
    std::erase_if(active_, [](const Sequence& each) { return each.prompt < 0; });
  }

  const LanguageModel& model_;
  const GenerationOptions& options_;
  const OnToken& on_token_;
  std::vector<Generated> results_;
  std::span<const std::vector<std::uint32_t>> prompts_;
  std::int64_t next_prompt_ = 0;
  std::vector<Sequence> active_;
  std::optional<KvCache> own_cache_;
  KvCache* cache_ = nullptr;  // null: without a cache
  Kept* kept_ = nullptr;
};

void check(std::span<const std::vector<std::uint32_t>> prompts, const GenerationOptions& options) {
  check_sampling(options.sampling);
  TESSERA_CHECK(options.context > 0 && options.batch > 0 && options.max_tokens >= 0,
                "generate: context and batch must be at least 1 and max_tokens at least 0, got ", options.context, ", ",
                options.batch, " and ", options.max_tokens);
  for (const std::vector<std::uint32_t>& prompt : prompts) {
    TESSERA_CHECK(!prompt.empty(), "generate: prompt must not be empty; give at least the end-of-text token");
    TESSERA_CHECK(options.slides || std::ssize(prompt) <= options.context, "generate: prompt must have at most ",
                  options.context, " tokens, the context of the model, got ", prompt.size());
  }
}

}  // namespace

std::string_view to_string(GenerationEnd end) {
  switch (end) {
    case GenerationEnd::kMaxTokens: return "max_tokens";
    case GenerationEnd::kEndToken: return "end_token";
    case GenerationEnd::kContext: return "context";
    case GenerationEnd::kStopped: return "stopped";
  }
  return "max_tokens";
}

std::vector<Generated> generate(const LanguageModel& model, std::span<const std::vector<std::uint32_t>> prompts,
                                const GenerationOptions& options, const OnToken& on_token) {
  check(prompts, options);
  const InferenceScope scope(model.module());
  const memory::Label label("activations");
  return Generator(model, prompts, options, on_token).run();
}

Conversation::Conversation(const LanguageModel& model) : model_(model), kept_(std::make_unique<detail::KeptTokens>()) {}
Conversation::~Conversation() = default;

Generated Conversation::generate(const std::vector<std::uint32_t>& prompt, const GenerationOptions& options,
                                 const OnToken& on_token) {
  const std::span prompts(&prompt, 1);
  check(prompts, options);
  const InferenceScope scope(model_.module());
  const memory::Label label("activations");
  // Taken, so that no cache of an incomplete pass remains after an exception.
  std::unique_ptr<detail::KeptTokens> kept = std::exchange(kept_, std::make_unique<detail::KeptTokens>());
  const bool extends = options.has_cache && std::ssize(prompt) <= options.context &&
                       prompt.size() > kept->tokens.size() &&
                       std::ranges::equal(kept->tokens, std::span(prompt).first(kept->tokens.size()));
  if (!extends) kept = std::make_unique<detail::KeptTokens>();
  kept->computed = std::ssize(prompt) - (kept->sequence < 0 ? 0 : std::ssize(kept->tokens));
  Generated result = std::move(Generator(model_, prompts, options, on_token, kept.get()).run()[0]);
  kept_ = std::move(kept);
  return result;
}

std::int64_t Conversation::computed_tokens() const { return kept_->computed; }

}  // namespace tessera::nn

// The suite nn: generation by the preset 124m of llama with a tied head, on the host with two threads. Rows count
// tokens of all sequences. bench/peers/host_train/compare.py measures them in turns with transformers.
//
// decode_ rows: 32 tokens after a prompt of 128, with the draw of the most likely token. The reference is the rate at
// which the weights can be read: one pass reads all of them. prefill_ rows: the time to the first token of prompts of
// 512. The reference is the time that their products take at the rate of a direct sgemm of 1024 on each thread.
#include <immintrin.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tessera/base/testing/bench.h"
#include "tessera/models/llama.h"
#include "tessera/nn/generation.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/testing/direct_sgemm.h"

namespace tessera::models {
namespace {

constexpr int kThreads = 2;
using Clock = std::chrono::steady_clock;

LlamaConfig config_of(bool is_brief) {
  LlamaConfig config{.width = 768, .layers = 12, .heads = 12, .kv_heads = 12, .hidden = 2048, .vocabulary = 50304};
  if (is_brief) config = {.width = 64, .layers = 1, .heads = 2, .kv_heads = 2, .hidden = 64, .vocabulary = 128};
  config.tied = true;
  return config;
}

// A model, and times of generating with it.
class Subject {
 public:
  Subject(bool is_brief, DType dtype) : is_brief_(is_brief) {
    ops::manual_seed(1);
    model_ = nn::language_model(Llama(config_of(is_brief)));
    model_->module().set_requires_grad("*", false);
    if (dtype != DType::kF32) model_->module().to(dtype);
    for (const Tensor& each : model_->module().parameters()) nbytes_ += static_cast<double>(each.nbytes());
  }

  struct Times {
    double first;  // seconds to the first token of all sequences
    double rest;   // seconds for the rest
  };
  [[nodiscard]] Times generate(std::int64_t batch, std::int64_t prompt, std::int64_t more) const {
    const std::vector<std::vector<std::uint32_t>> prompts(
        static_cast<std::size_t>(batch), std::vector<std::uint32_t>(static_cast<std::size_t>(prompt), 7));
    Clock::time_point first;
    std::int64_t count = 0;
    const Clock::time_point start = Clock::now();
    (void)nn::generate(*model_, prompts,
                       {.max_tokens = 1 + more, .context = 1024, .batch = batch, .sampling = {.temperature = 0}},
                       [&](std::int64_t /*prompt*/, std::uint32_t /*token*/) {
                         if (++count == batch) first = Clock::now();
                         return true;
                       });
    return {std::chrono::duration<double>(first - start).count(),
            std::chrono::duration<double>(Clock::now() - first).count()};
  }
  // Returns tokens/s after the first token.
  [[nodiscard]] double decode_rate(std::int64_t batch) const {
    const std::int64_t more = is_brief_ ? 2 : 32;
    return static_cast<double>(batch * more) / generate(batch, is_brief_ ? 8 : 128, more).rest;
  }
  // Returns tokens/s of prompts.
  [[nodiscard]] double prefill_rate(std::int64_t batch) const {
    return static_cast<double>(batch * prompt()) / generate(batch, prompt(), 0).first;
  }
  [[nodiscard]] std::int64_t prompt() const { return is_brief_ ? 8 : 512; }
  // Returns the FLOPs of the products of one token, without the head, which only the last token needs.
  [[nodiscard]] double flops_per_token() const {
    const LlamaConfig config = config_of(is_brief_);
    const auto width = static_cast<double>(config.width);
    return 2 * static_cast<double>(config.layers) *
           (4 * width * width + 3 * width * static_cast<double>(config.hidden));
  }
  [[nodiscard]] double nbytes() const { return nbytes_; }

 private:
  bool is_brief_;
  std::shared_ptr<nn::LanguageModel> model_;
  double nbytes_ = 0;
};

// Returns bytes/s of reading memory on all threads.
[[gnu::target("avx2")]] double read_rate(bool is_brief) {
  static const std::vector<float> memory(is_brief ? std::size_t{1} << 16 : std::size_t{1} << 27, 1.0F);
  const std::size_t part = memory.size() / kThreads;
  const double nanoseconds = bench::run_together(
      kThreads, [&](int thread) __attribute__((target("avx2"))) {
        const float* at = memory.data() + static_cast<std::size_t>(thread) * part;
        __m256 sums[4] = {};
        for (std::size_t i = 0; i < part; i += 32, at += 32) {
          sums[0] = _mm256_add_ps(sums[0], _mm256_loadu_ps(at));
          sums[1] = _mm256_add_ps(sums[1], _mm256_loadu_ps(at + 8));
          sums[2] = _mm256_add_ps(sums[2], _mm256_loadu_ps(at + 16));
          sums[3] = _mm256_add_ps(sums[3], _mm256_loadu_ps(at + 24));
        }
        bench::do_not_optimize(_mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
      });
  return static_cast<double>(memory.size() * sizeof(float)) / (1e-9 * nanoseconds);
}

void measure(bench::Context& context, const char* suffix, DType dtype) {
  const std::string names[] = {std::string("decode_124m") + suffix, std::string("decode_124m_batch8") + suffix,
                               std::string("prefill_124m") + suffix, std::string("prefill_124m_batch8") + suffix};
  bool is_wanted = false;
  for (const std::string& name : names) is_wanted = is_wanted || context.wants(name);
  if (!is_wanted) {
    for (const std::string& name : names) context.measure({.name = name, .ours = [] {}});
    return;
  }
  ops::detail::set_thread_budget(kThreads);
  const bool is_brief = context.is_brief();
  const Subject subject(is_brief, dtype);
  for (const std::int64_t batch : {1, 8}) {
    context.measure(
        {.name = names[batch == 1 ? 0 : 1],
         .unit = "tokens/s",
         .ours = [&]() -> double { return subject.decode_rate(batch); },
         .reference_name = "reading its weights",
         .reference = [&]() -> double { return static_cast<double>(batch) * read_rate(is_brief) / subject.nbytes(); },
         .must_ratio = 0.85});
  }
  for (const std::int64_t batch : {1, 8}) {
    context.measure({.name = names[batch == 1 ? 2 : 3],
                     .unit = "tokens/s",
                     .ours = [&]() -> double { return subject.prefill_rate(batch); },
                     .reference_name = "its products by sgemm",
                     .reference = [&]() -> double {
                       return ops::testing::direct_sgemm_rate(kThreads, is_brief ? 64 : 1024) /
                              subject.flops_per_token();
                     }});
  }
}

TESSERA_BENCH(generation) {
  measure(context, "", DType::kF32);
  measure(context, "_bf16", DType::kBF16);
}

}  // namespace
}  // namespace tessera::models

// A model of the next token, as the trainer and the generator use it, and the families of such models by name. Any
// module with the three functions below becomes one:
//
//   struct Gpt2 : nn::Layer<Gpt2> {
//     Tensor hidden(const Tensor& tokens, nn::KvCache* cache = nullptr) const;     // rows before the output head
//     Tensor head(const Tensor& rows) const;                                       // scores of all tokens
//     Tensor loss(const Tensor& tokens, const Tensor& targets, double count = 0) const;
//   };
//   std::shared_ptr<nn::LanguageModel> model = nn::language_model(Gpt2(config));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/nn/model_config.h"
#include "tessera/nn/module.h"
#include "tessera/tensor/tensor.h"

namespace tessera::nn {

class KvCache;

/// Target that does not contribute to the loss.
inline constexpr std::int32_t kIgnoredTarget = -100;

/// A model of the next token.
class TESSERA_API LanguageModel {
 public:
  LanguageModel() = default;
  virtual ~LanguageModel() = default;
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;

  /// Returns the module with the parameters.
  [[nodiscard]] virtual const Module& module() const = 0;
  /// Returns the rows that the head reads, [batch, sequence, width], of tokens [batch, sequence]. With a cache, tokens
  /// follow those that it holds.
  [[nodiscard]] virtual Tensor hidden(const Tensor& tokens, KvCache* cache) const = 0;
  /// Returns the scores [..., vocabulary] of rows [..., width].
  [[nodiscard]] virtual Tensor head(const Tensor& rows) const = 0;
  /// Returns the sum of the token losses divided by `count`; by default, by the number of targets. Targets of
  /// kIgnoredTarget do not contribute.
  [[nodiscard]] virtual Tensor loss(const Tensor& tokens, const Tensor& targets, double count) const = 0;
};

/// Returns the loss of rows [batch, sequence, width] by the output head `weight` [vocabulary, width]; see
/// LanguageModel::loss(). It never holds all scores, unless `model` is observed: the observer then receives "scores".
TESSERA_API Tensor token_loss(const Module& model, const Tensor& rows, const Parameter& weight, const Tensor& targets,
                              double count);

/// Returns a module as a language model.
template <class M>
std::shared_ptr<LanguageModel> language_model(M model) {
  class Adapter final : public LanguageModel {
   public:
    explicit Adapter(M model) : model_(std::move(model)) {}
    [[nodiscard]] const Module& module() const override { return model_; }
    [[nodiscard]] Tensor hidden(const Tensor& tokens, KvCache* cache) const override {
      return model_.hidden(tokens, cache);
    }
    [[nodiscard]] Tensor head(const Tensor& rows) const override { return model_.head(rows); }
    [[nodiscard]] Tensor loss(const Tensor& tokens, const Tensor& targets, double count) const override {
      model_.observe("tokens", tokens);
      model_.observe("targets", targets);
      return model_.observe("loss", model_.loss(tokens, targets, count));
    }

   private:
    M model_;
  };
  return std::make_shared<Adapter>(std::move(model));
}

/// A family of models: its name, its presets and a function that creates a model.
struct ModelFamily {
  std::string name;             ///< "llama"
  std::vector<Preset> presets;  ///< The smallest first.
  /// Creates a model with initial values. All sizes of the configuration are set.
  std::function<std::shared_ptr<LanguageModel>(const ModelConfig& config)> create;
};

/// Registers a family, usually while the program starts. Throws InvalidArgument if the name is taken.
TESSERA_API bool register_model_family(ModelFamily family);
/// Returns the names of all families, sorted.
TESSERA_API std::vector<std::string> model_family_names();
/// Returns the family with this name. Throws InvalidArgument, which suggests the nearest name.
TESSERA_API const ModelFamily& model_family(std::string_view name);

}  // namespace tessera::nn

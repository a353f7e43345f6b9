// The model: a decoder of Llama's shape, written once in global terms over the public operators. On plain tensors it is
// what one device computes; on a mesh the same calls are cut as the plan says (plan.h), and what has to be said between
// ranks stands where x moves from one point of the plan to the next: entered() and left().
//
//   x = embedding[tokens]
//   x = x + dropout(attention(norm(x)))          of each layer; queries and keys are turned by their positions
//   x = x + dropout(down(silu(gate(h)) * up(h)))      h = norm(x)
//   loss = cross entropy of norm(x) head^T
//
// Initial weights are normal with a deviation of 0.02, cut off at three; those of matrices that a block ends with (out,
// down) are smaller by sqrt(2 layers), so that the residual stream does not grow with depth; norms are 1. They depend
// on the seed alone, bit for bit, whatever the mesh.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/config.h"
#include "tessera/train/gather.h"
#include "tessera/train/plan.h"

namespace tessera::train {

/// A target that counts for nothing.
inline constexpr std::int32_t kIgnoredTarget = -100;

/// How the model is run.
struct Pass {
  bool is_training = true;   ///< with dropout
  bool is_batch_cut = true;  ///< over the data axes; else all of these compute the same rows
};

/// Sees what a module of the model gives, while it is computed. Modules are named as their parameters are:
///
///   tokens, targets          what the model is given
///   embedding, last_norm     what they give; of layer 3: layers.3.attention_norm, query, key, value, out,
///                            feed_forward_norm, gate, up, down (out and down summed over tp, all before dropout)
///   layers.3.attention       what attention gives to `out`
///   layers.3                 the sum behind the layer, which the next one is given
///   head                     the scores of all tokens, which are computed for this alone
///   loss                     as Model::loss() gives it
///
/// Where activations are computed again for gradients it sees them again, outside of what gradients flow through.
using Watch = std::function<void(const std::string& module, const Tensor& output)>;

/// See the head of this file. For one thread.
class TESSERA_API Model {
 public:
  /// Draws the weights from this rank's generator, which all ranks have seeded alike. Time that is lost to waiting for
  /// other ranks is counted in `exposed`, which outlives the model and its graphs.
  Model(const Config& config, const Plan& plan, ExposedTime& exposed);

  /// The sum of losses of tokens over `count`; tokens and targets are [batch, sequence], as Point::kTokens lies.
  /// Pending over the data axes.
  [[nodiscard]] Tensor loss(const Tensor& tokens, const Tensor& targets, double count, const Pass& pass = {});
  /// Scores of the token behind place `place`, [batch, vocabulary], cut over tp.
  [[nodiscard]] Tensor scores(const Tensor& tokens, std::int64_t place, const Pass& pass);

  /// Every loss() from now on is watched; none: no longer. Nothing that is computed changes by it.
  void set_watch(Watch watch) { watch_ = std::move(watch); }

  /// All parameters; with a tied head it is not among them.
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Their leaves.
  [[nodiscard]] std::vector<Tensor> leaves() const;
  /// Numbers in them, over all ranks.
  [[nodiscard]] std::int64_t parameter_count() const;
  /// Bytes of gathered parameters.
  [[nodiscard]] const HeldBytes& gathered() const { return gatherer_.held(); }

 private:
  // Which units a layer's parameters are.
  struct Layer {
    std::size_t entry;  // norm, query, key and value
    std::size_t rest;   // the others; the same unit unless attention alone is kept
    std::int64_t number;
  };
  // Queries, keys and values, [batch, heads, sequence, d] each.
  using Heads = std::vector<Tensor>;

  Parameter draw(const std::string& name, ParameterKind kind, const Shape& shape, double deviation);
  void add_layer(std::int64_t number);

  Tensor trunk(const Tensor& tokens, const Pass& pass);
  Tensor layer(const Layer& layer, const Tensor& x, const Pass& pass);
  [[nodiscard]] Heads project(const Layer& layer, const Tensor& x, const Weights& weights, const Pass& pass) const;
  [[nodiscard]] Tensor attend(const Layer& layer, const Heads& heads) const;
  [[nodiscard]] Tensor rest_of_layer(const Layer& layer, const Tensor& x, const Tensor& attended,
                                     const Weights& weights, const Pass& pass) const;
  [[nodiscard]] Tensor last_norm(const Tensor& x, const Weights& weights, const Pass& pass) const;

  [[nodiscard]] Tensor entered(const Tensor& x, const Pass& pass) const;
  [[nodiscard]] Tensor left(const Tensor& x, const Pass& pass) const;

  // The output itself, which who watches has seen; of a module of a layer, and of the model's own.
  [[nodiscard]] Tensor seen(const Layer& layer, std::string_view module, Tensor output) const;
  [[nodiscard]] Tensor seen(std::string_view module, Tensor output) const;
  void watch_scores(const Tensor& rows, const Weights& weights) const;

  ModelConfig config_;
  Plan plan_;
  ExposedTime& exposed_;
  std::string checkpointing_;
  Gatherer gatherer_;
  std::vector<Parameter> parameters_;
  std::size_t embedding_unit_ = 0;
  std::vector<Layer> layers_;
  std::size_t last_unit_ = 0;
  Watch watch_;
};

}  // namespace tessera::train

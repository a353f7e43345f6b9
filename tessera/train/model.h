// A Llama-style decoder, written once in global terms with the public operators. On plain tensors it computes on one
// device. On a mesh, the same calls are sharded by the plan (plan.h), and ranks communicate where x changes its layout
// between two points of the plan: entered() and left().
//
//   x = embedding[tokens]
//   x = x + dropout(attention(norm(x)))          per layer; queries and keys are rotated by their positions
//   x = x + dropout(down(silu(gate(h)) * up(h)))      h = norm(x)
//   loss = cross entropy of norm(x) head^T
//
// Initial weights are normal with a standard deviation of 0.02, truncated at three deviations. The last matrices of a
// block (out, down) are smaller by sqrt(2 layers), so that the residual stream does not grow with depth. Norms are 1.
// Weights depend only on the seed, bit for bit, for any mesh.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/shard/exposed.h"
#include "tessera/shard/gatherer.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/config.h"
#include "tessera/train/parameter.h"
#include "tessera/train/plan.h"

namespace tessera::train {

/// Target that does not contribute to the loss.
inline constexpr std::int32_t kIgnoredTarget = -100;

/// Mode of a forward pass.
struct Pass {
  bool is_training = true;  ///< Enables dropout.
  /// True if the batch is sharded over the data axes. Otherwise all data ranks compute the same rows.
  bool is_batch_sharded = true;
};

/// Receives the outputs of the modules of the model while they are computed. Modules are named like their parameters:
///
///   tokens, targets          inputs of the model
///   embedding, last_norm     their outputs; for layer 3: layers.3.attention_norm, query, key, value, out,
///                            feed_forward_norm, gate, up, down (out and down summed over tp, all before dropout)
///   layers.3.attention       the output of attention, which is the input of `out`
///   layers.3                 the sum after the layer, which is the input of the next one
///   head                     the scores of all tokens, which are computed only for the watch
///   loss                     the result of Model::loss()
///
/// Activations that are recomputed for gradients are passed again, outside the differentiated computation.
using Watch = std::function<void(const std::string& module, const Tensor& output)>;

/// Decoder with its parameters on a plan. Not thread-safe.
class TESSERA_API Model {
 public:
  /// Draws the weights from the generator of this rank. All ranks must have equal seeds. Time spent waiting for other
  /// ranks is added to `exposed`, which must outlive the model and its graphs.
  Model(const Config& config, const ParallelPlan& plan, shard::ExposedTime& exposed);

  /// Returns the sum of the token losses divided by `count`, partial over the data axes. Tokens and targets are [batch,
  /// sequence] with the layout of Point::kTokens.
  [[nodiscard]] Tensor loss(const Tensor& tokens, const Tensor& targets, double count, const Pass& pass = {});
  /// Returns the scores of the token after position `place`, [batch, vocabulary], sharded over tp.
  [[nodiscard]] Tensor scores(const Tensor& tokens, std::int64_t place, const Pass& pass);

  /// Calls `watch` in every later loss(); an empty function ends it. The computed values do not change.
  void set_watch(Watch watch) { watch_ = std::move(watch); }

  /// Returns all parameters. A tied head is not included.
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Returns the leaf tensors of the parameters.
  [[nodiscard]] std::vector<Tensor> leaves() const;
  /// Returns the number of parameter elements over all ranks.
  [[nodiscard]] std::int64_t parameter_count() const;
  /// Returns the bytes of gathered parameters.
  [[nodiscard]] const shard::HeldBytes& gathered() const { return gatherer_.held(); }

 private:
  // Units of the parameters of a layer.
  struct Layer {
    std::size_t entry;  // norm, query, key and value
    std::size_t rest;   // the others; the same unit unless attention alone is kept
    std::int64_t number;
  };
  // Queries, keys and values, [batch, heads, sequence, d] each.
  using Heads = std::vector<Tensor>;

  Parameter draw(const std::string& name, ParameterKind kind, const Shape& shape, double deviation);
  void add_layer(std::int64_t number);
  std::size_t add_unit(const std::vector<Parameter>& parameters, bool is_used_in_backward = true);
  // Returns the parameters of a unit for calls on the current stream.
  [[nodiscard]] Weights use(std::size_t unit, shard::SavedWeights saved);

  Tensor trunk(const Tensor& tokens, const Pass& pass);
  Tensor layer(const Layer& layer, const Tensor& x, const Pass& pass);
  [[nodiscard]] Heads project(const Layer& layer, const Tensor& x, const Weights& weights, const Pass& pass) const;
  [[nodiscard]] Tensor attend(const Layer& layer, const Heads& heads) const;
  [[nodiscard]] Tensor rest_of_layer(const Layer& layer, const Tensor& x, const Tensor& attended,
                                     const Weights& weights, const Pass& pass) const;
  [[nodiscard]] Tensor last_norm(const Tensor& x, const Weights& weights, const Pass& pass) const;

  [[nodiscard]] Tensor entered(const Tensor& x, const Pass& pass) const;
  [[nodiscard]] Tensor left(const Tensor& x, const Pass& pass) const;

  // Passes the output of a module, of a layer or of the model, to the watch and returns it.
  [[nodiscard]] Tensor seen(const Layer& layer, std::string_view module, Tensor output) const;
  [[nodiscard]] Tensor seen(std::string_view module, Tensor output) const;
  void watch_scores(const Tensor& rows, const Weights& weights) const;

  ModelConfig config_;
  ParallelPlan plan_;
  shard::ExposedTime& exposed_;
  std::string checkpointing_;
  shard::Gatherer gatherer_;
  std::vector<std::vector<ParameterKind>> unit_kinds_;  // by unit
  std::vector<Parameter> parameters_;
  std::size_t embedding_unit_ = 0;
  std::vector<Layer> layers_;
  std::size_t last_unit_ = 0;
  Watch watch_;
};

}  // namespace tessera::train

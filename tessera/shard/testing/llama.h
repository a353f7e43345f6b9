// A small language model, written once in global terms with the public interface. On plain tensors it computes on one
// device. On a mesh with the axes dp, fsdp and tp it is sharded three ways.
//
//   batch         sharded over dp and fsdp
//   weights       stored sharded over fsdp and tp; those of a layer are gathered over fsdp in one launch before use,
//   and
//                 again in backward; their gradients return sharded
//   heads, hidden, vocabulary     sharded over tp; between the blocks the sequence is, so that a block begins with an
//                 all-gather and ends with a reduce-scatter over tp
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard::testing {

/// Sizes of the model.
struct LlamaSizes {
  std::int64_t layers = 2;
  std::int64_t width = 16;
  std::int64_t heads = 4;
  std::int64_t hidden = 24;
  std::int64_t vocabulary = 16;
  std::int64_t batch = 4;
  std::int64_t sequence = 8;
  DType dtype = DType::kF64;
};

/// Deliberate faults that tests must detect.
enum class LlamaFault : std::uint8_t {
  kNone,
  kSumOverData,      ///< Each rank of dp takes the mean of its own rows, without the division by dp.
  kUnreducedNorm,    ///< Gradients of norm weights that are partial over tp are treated as reduced.
  kSkippedTpReduce,  ///< Outputs of a block that are partial over tp are treated as reduced.
};

/// The model on a mesh or on one device.
class Llama {
 public:
  /// Draws weights from the generator of this rank, equal for both cases. Without a mesh, uses one device.
  Llama(const LlamaSizes& sizes, const std::optional<layout::Mesh>& mesh, LlamaFault fault = LlamaFault::kNone);

  /// Returns the mean loss of a batch. Tokens and targets are [batch, sequence] tensors of numbers().
  [[nodiscard]] Tensor loss(const Tensor& tokens, const Tensor& targets) const;
  /// Returns random tokens.
  [[nodiscard]] Tensor numbers() const;
  /// Returns all weights.
  [[nodiscard]] const std::vector<Tensor>& parameters() const { return parameters_; }
  /// Runs loss(), backward and one SGD step. Returns the loss.
  Tensor train(const Tensor& tokens, const Tensor& targets, double rate) const;
  /// Redistributes `x` to the layout of a text, "S0,S0,R". On one device, returns `x`.
  [[nodiscard]] Tensor moved(const Tensor& x, const char* to) const;

 private:
  /// Sharding of a weight over tp.
  enum class WeightSplit : std::uint8_t { kRows, kColumns, kNone };
  [[nodiscard]] Tensor drawn(const Shape& shape, const layout::Layout& layout, double mean, double deviation) const;
  void add_weight(const Shape& shape, WeightSplit sharding);
  [[nodiscard]] std::vector<Tensor> gathered(std::size_t first, std::size_t count) const;
  [[nodiscard]] Tensor attention(const Tensor& x, const std::vector<Tensor>& weights) const;
  [[nodiscard]] Tensor reduced(const Tensor& block) const;

  LlamaSizes sizes_;
  std::optional<layout::Mesh> mesh_;
  LlamaFault fault_;
  std::vector<Tensor> parameters_;      // embedding; kOfLayer per layer; norm and head
  std::vector<layout::Layout> in_use_;  // layout of each gathered parameter
};

}  // namespace tessera::shard::testing

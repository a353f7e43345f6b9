// A small model of the kind that is trained on many ranks, written once in global terms: on plain tensors it is what
// one device computes; on a mesh of the axes dp, fsdp and tp it is cut three ways. Only the public interface is used.
//
//   batch         cut over dp and fsdp
//   weights       kept in pieces over fsdp and tp; those of a layer are gathered over fsdp in one launch before use,
//                 and again in backward; their gradients come back in pieces
//   heads, hidden, vocabulary     cut over tp; between the blocks the sequence is, so that a block begins with an
//                 all-gather and ends with a reduce-scatter over tp
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard::testing {

/// How large it is.
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

/// What goes wrong, for tests that have to see it.
enum class LlamaFault : std::uint8_t {
  kNone,
  kSumOverData,      ///< each rank of dp takes the mean of its own rows, and nobody divides by their number
  kUnreducedNorm,    ///< gradients of the norms' weights are taken as whole while they are pending over tp
  kSkippedTpReduce,  ///< what a block gives is taken as whole though each rank of tp has a part of the sum
};

/// See the head of this file.
class Llama {
 public:
  /// On a mesh; none: on one device. Weights are drawn from this rank's generator, alike in both cases.
  Llama(const LlamaSizes& sizes, const std::optional<layout::Mesh>& mesh, LlamaFault fault = LlamaFault::kNone);

  /// The mean loss of a batch: tokens and targets [batch, sequence], as numbers() makes them.
  [[nodiscard]] Tensor loss(const Tensor& tokens, const Tensor& targets) const;
  /// Random tokens.
  [[nodiscard]] Tensor numbers() const;
  /// All weights.
  [[nodiscard]] const std::vector<Tensor>& parameters() const { return parameters_; }
  /// loss(), backward and a step of gradient descent; the loss.
  Tensor train(const Tensor& tokens, const Tensor& targets, double rate) const;
  /// This text's layout on the mesh, "S0,S0,R"; the tensor there. On one device it stays as it is.
  [[nodiscard]] Tensor moved(const Tensor& x, const char* to) const;

 private:
  /// How a weight is cut over tp.
  enum class Cut : std::uint8_t { kRows, kColumns, kNone };
  [[nodiscard]] Tensor drawn(const Shape& shape, const layout::Layout& layout, double mean, double deviation) const;
  void add_weight(const Shape& shape, Cut cut);
  [[nodiscard]] std::vector<Tensor> gathered(std::size_t first, std::size_t count) const;
  [[nodiscard]] Tensor attention(const Tensor& x, const std::vector<Tensor>& weights) const;
  [[nodiscard]] Tensor reduced(const Tensor& block) const;

  LlamaSizes sizes_;
  std::optional<layout::Mesh> mesh_;
  LlamaFault fault_;
  std::vector<Tensor> parameters_;      // embedding; of each layer kOfLayer; norm and head
  std::vector<layout::Layout> in_use_;  // of each, gathered
};

}  // namespace tessera::shard::testing

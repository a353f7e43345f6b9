// Muon: momentum whose direction is made orthogonal, for matrices. Other parameters (norms, biases, embeddings) belong
// to AdamW:
//
//   nn::Muon matrices(hidden_matrices, {.learning_rate = 1e-3});
//   nn::AdamW others(rest, {.learning_rate = 1e-3});
//
// An orthogonal direction moves all singular values of a matrix equally. Newton-Schulz steps, which are products,
// approximate it. It is scaled so that its elements are as large as those of an AdamW step, and the two share a
// learning rate. A sharded matrix is gathered for these products: each step communicates each matrix once.
#pragma once

#include "tessera/nn/optim/optimizer.h"

namespace tessera::nn {

/// Options of Muon.
struct MuonOptions {
  double learning_rate = 1e-3;  ///< Learning rate, of the size that AdamW takes.
  double momentum = 0.95;       ///< Factor of the running sum of gradients.
  bool is_nesterov = true;      ///< True if the gradient is taken one step ahead along the momentum.
  double weight_decay = 0.1;    ///< Each step reduces parameters by this times the learning rate.
  int newton_schulz_steps = 5;  ///< Steps of the approximation, 1 or more.
};

/// Muon.
class TESSERA_API Muon final : public Optimizer {
 public:
  /// Creates the state of these matrices. Throws InvalidArgument if a parameter is not two-dimensional.
  explicit Muon(std::vector<Tensor> parameters, const MuonOptions& options = {})
      : Muon(std::vector{ParameterGroup{std::move(parameters)}}, options) {}
  /// Creates the state of these groups of matrices.
  explicit Muon(std::vector<ParameterGroup> groups, const MuonOptions& options = {});

 private:
  void update(const Group& group, std::span<const Tensor> gradients, const ops::StepScalars& scalars) override;
  MuonOptions options_;
};

/// Returns an approximation of the orthogonal matrix nearest to `x`, which has two dimensions and no sharded one. Its
/// singular values are between 0.7 and 1.2 after 5 steps, unless those of `x` differ by more than a factor of 1,000.
TESSERA_API Tensor orthogonalize(const Tensor& x, int steps = 5);

}  // namespace tessera::nn

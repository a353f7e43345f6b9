// The feed-forward layers of a block, sharded by hidden units.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/nn/layer.h"
#include "tessera/nn/layers/linear.h"

namespace tessera::nn {

/// Options of Mlp and GatedMlp.
struct MlpOptions {
  std::int64_t width = 0;                ///< Width of the input and the result.
  std::int64_t hidden = 0;               ///< Number of hidden units.
  std::string activation = "gelu_tanh";  ///< gelu, gelu_tanh, relu or silu; only Mlp.
  bool bias = false;                     ///< Biases of all products.
  Init init = {};                        ///< Initial values of the first products.
  Init out_init = {};                    ///< Initial values of the last product.
};

/// down(activation(up(x))).
class TESSERA_API Mlp : public Layer<Mlp> {
 public:
  /// Throws InvalidArgument if the activation is unknown.
  explicit Mlp(const MlpOptions& options);
  /// Applies the layer to x [batch, sequence, width].
  [[nodiscard]] Tensor forward(const Tensor& x) const;

  Linear up_proj;    ///< [hidden, width]
  Linear down_proj;  ///< [width, hidden]

 private:
  Tensor (*activation_)(const Tensor& x);
};

/// down(silu(gate(x)) * up(x)).
class TESSERA_API GatedMlp : public Layer<GatedMlp> {
 public:
  /// Creates the three products. `activation` is ignored.
  explicit GatedMlp(const MlpOptions& options);
  /// Applies the layer to x [batch, sequence, width].
  [[nodiscard]] Tensor forward(const Tensor& x) const;

  Linear gate_proj;  ///< [hidden, width]
  Linear up_proj;    ///< [hidden, width]
  Linear down_proj;  ///< [width, hidden]
};

}  // namespace tessera::nn

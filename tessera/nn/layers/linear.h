// A linear map: x [..., in] to [..., out].
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/nn/layer.h"

namespace tessera::nn {

/// Options of Linear.
struct LinearOptions {
  bool bias = true;             ///< Adds a bias of zeros at first.
  Init init = {};               ///< Initial values of the weight.
  DimMeaning out_meaning = "";  ///< Meaning of the output dimension.
  DimMeaning in_meaning = "";   ///< Meaning of the input dimension.
};

/// Returns x weight^T + bias.
class TESSERA_API Linear : public Layer<Linear> {
 public:
  /// Creates the weight [out, in] and the bias [out].
  Linear(std::int64_t in, std::int64_t out, const LinearOptions& options = {});
  /// Creates a map without bias that shares its weight [out, in], such as the output head of a tied embedding.
  explicit Linear(const Parameter& shared_weight);
  /// Applies the map.
  [[nodiscard]] Tensor forward(const Tensor& x) const;
  /// Returns x plus the bias, if there is one. A caller that must reduce partial products first calls the map without
  /// bias, product(), and then this.
  [[nodiscard]] Tensor with_bias(const Tensor& x) const;
  /// Applies the map without its bias.
  [[nodiscard]] Tensor product(const Tensor& x) const;

  Parameter weight;  ///< [out, in]
  Parameter bias;    ///< [out]; an empty handle without a bias
};

}  // namespace tessera::nn

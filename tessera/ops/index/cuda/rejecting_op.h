// The host side of rejections.h: operators whose kernels reject values.
#pragma once

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/index/cuda/rejections.h"

namespace tessera::ops::cuda {

/// An operator whose kernels reject values. A static object.
class RejectingOp {
 public:
  /// Refers to `name`, a literal.
  explicit RejectingOp(const char* name);
  /// Returns the destination for kernels of this call.
  [[nodiscard]] Rejection of(const tensor::KernelCall& call) const;

 private:
  std::int64_t id_;
};

}  // namespace tessera::ops::cuda

// Communication in gradients. A gradient that reads values of other ranks (such as the maximum of all elements) must
// communicate even if the forward call did not. The gradient of such an operator opens this scope around its calls.
//
//   const tensor::GradientMoves moves;
//   const Tensor is_other = ne(call.input(0), call.output());     // the output is a maximum over ranks: it is reduced
#pragma once

#include "tessera/base/export.h"

namespace tessera::tensor {

/// Allows redistribution of the operands of calls on this thread, like an AutoRedistribute scope, unless a
/// ForbidCommunication scope is active. Only for gradients of operators; docs/sharding.md lists the communication.
class TESSERA_API GradientMoves {
 public:
  /// Opens the scope.
  GradientMoves();
  /// Closes the scope.
  ~GradientMoves();
  GradientMoves(const GradientMoves&) = delete;
  GradientMoves& operator=(const GradientMoves&) = delete;
};
/// Returns true if such a scope is open on this thread.
TESSERA_API bool may_gradient_move();

}  // namespace tessera::tensor

// What a gradient may send. A gradient that reads values of other ranks (which of all elements is the greatest) has to
// communicate even if forward did not: the gradient of such an operator opens this scope around its calls.
//
//   const tensor::GradientMoves moves;
//   const Tensor is_other = ne(call.input(0), call.output());     // the output is a maximum over ranks: it is reduced
#pragma once

#include "tessera/base/export.h"

namespace tessera::tensor {

/// Lets the operands of calls on this thread move while it lives, as an AutoRedistribute scope does, unless a
/// ForbidCommunication scope is in force. For gradients of operators alone; what they send is in docs/sharding.md.
class TESSERA_API GradientMoves {
 public:
  /// Opens the scope.
  GradientMoves();
  /// Closes it.
  ~GradientMoves();
  GradientMoves(const GradientMoves&) = delete;
  GradientMoves& operator=(const GradientMoves&) = delete;
};
/// Returns true if such a scope is open on this thread.
TESSERA_API bool may_gradient_move();

}  // namespace tessera::tensor

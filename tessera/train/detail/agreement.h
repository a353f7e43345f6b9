// What some rank was asked for, agreed on by all between steps at next to no cost: after every step each rank puts a
// reduction of a few flags on its stream, behind the work of the step, and looks at the result after the next one,
// which has waited for that stream anyway. So all ranks learn of it after the same step, one step after it was asked
// for, and no rank waits for it. Between batches of an evaluation, which may take as long as a step and change nothing,
// ranks wait for the same reduction, so that a request ends the evaluation after the batch in which it came.
#pragma once

#include "tessera/comm/work.h"
#include "tessera/tensor/tensor.h"

namespace tessera::train::detail {

/// What a run may be asked for while it goes on.
struct Asked {
  bool stop = false;     ///< to end after this step, with a checkpoint
  bool profile = false;  ///< to profile the next steps
};

/// See the head of this file. All ranks of the world make one at the same point. For one thread.
class Agreement {
 public:
  Agreement();
  /// Called by all ranks after a step, whose stream has been waited for, with what this rank was asked for since the
  /// last call. What any rank gave at the call before this; in a world of one, at this one.
  Asked exchange(const Asked& own);
  /// Called by all ranks at the same point between batches. Returns what any rank gave at this call or, if that was not
  /// returned yet, at the call before. Waits for all ranks.
  Asked exchange_now(const Asked& own);

 private:
  Tensor own_;
  Tensor all_;
  comm::Work pending_;
};

}  // namespace tessera::train::detail

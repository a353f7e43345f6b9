// Agreement of all ranks on requests to any of them, at nearly no cost. After every step, each rank enqueues a
// reduction of a few flags after the work of the step, and reads the result after the next step, which has waited for
// that stream. So all ranks learn of a request after the same step, one step late, and no rank waits. Between batches
// of an evaluation, which may take as long as a step and change nothing, ranks wait for the reduction, so that a
// request ends the evaluation after the current batch.
#pragma once

#include "tessera/comm/work.h"
#include "tessera/tensor/tensor.h"

namespace tessera::train::detail {

/// Requests to a run in progress.
struct StopRequests {
  bool stop = false;     ///< End after this step, with a checkpoint.
  bool profile = false;  ///< Profile the next steps.
};

/// Exchanges requests. All ranks of the world create one at the same point. Not thread-safe.
class Agreement {
 public:
  Agreement();
  /// Called by all ranks after a step, whose stream has been waited for, with the requests to this rank since the last
  /// call. Returns the requests to any rank at the previous call; in a world of one rank, at this call.
  StopRequests exchange(const StopRequests& own);
  /// Called by all ranks at the same point between batches. Returns the requests to any rank at this call, and those of
  /// the previous call that were not returned yet. Waits for all ranks.
  StopRequests exchange_now(const StopRequests& own);

 private:
  Tensor own_;
  Tensor all_;
  comm::Work pending_;
};

}  // namespace tessera::train::detail

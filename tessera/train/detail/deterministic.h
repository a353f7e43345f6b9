// Kernels of a run that must give the same bits each time. Attention by cuDNN is the only operator with a faster kernel
// that does not: its gradients add up in the order in which blocks end.
#pragma once

namespace tessera::train::detail {

/// While it exists, gradients of attention have the same bits in each run, if `is_asked`. Applies to the process.
class DeterministicScope {
 public:
  explicit DeterministicScope(bool is_asked);
  ~DeterministicScope();
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  bool is_set_;  // by this scope
};

}  // namespace tessera::train::detail

// Calls in a checkpoint whose results are kept: the repeated computation takes the results instead of calling the
// operator again. For operators that cost much time per byte of their result, such as attention.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/tensor/op_def.h"
#include "tessera/tensor/tensor.h"

namespace tessera::autograd::detail {

/// Results of the kept calls of one checkpoint, in their order. Not thread-safe.
class KeptCalls {
 public:
  /// `operators` are the names of the operators whose results are kept.
  explicit KeptCalls(std::vector<std::string> operators) : operators_(std::move(operators)) {}

  /// Returns the object of the innermost active checkpoint of this thread; null outside one.
  static KeptCalls* current();
  /// Sets the outputs of a call to its kept results, and returns true; false if the call must be computed.
  bool replay(const tensor::Call& call);
  /// Keeps the outputs of a computed call, if its operator is one of those kept.
  void note(const tensor::Call& call);

  /// Makes the object that of this thread, for the lifetime of the scope.
  class Scope {
   public:
    /// `is_repeated` states whether the computation is repeated, and takes the results.
    Scope(KeptCalls& kept, bool is_repeated);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    KeptCalls* outer_;
  };

 private:
  [[nodiscard]] bool covers(const tensor::Call& call) const;

  std::vector<std::string> operators_;
  std::vector<std::vector<Tensor>> results_;  // outside autograd; those taken are empty
  std::size_t next_ = 0;
  bool is_repeated_ = false;
};

}  // namespace tessera::autograd::detail

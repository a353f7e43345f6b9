// Observation of the calls that a device without values (device/meta) receives. Such a device infers results and
// allocates them, but runs no kernel; an observer receives each of these calls with its cost.
//
//   class Counter : public CallObserver { void called(const Call& call, const Cost& cost) override { ... } };
//   Counter counter;
//   CallObserverScope scope(counter);          // calls of this rank
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/op_def.h"

namespace tessera::tensor {

/// Receives the calls of a rank on devices without values.
class TESSERA_API CallObserver {
 public:
  CallObserver() = default;
  virtual ~CallObserver() = default;
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;
  /// Receives a local call, with allocated results, and its cost: that of the operator, 0 if it states none.
  virtual void called(const Call& call, const Cost& cost) = 0;
};

/// Passes the calls of this rank to an observer, for the lifetime of the scope. Scopes nest; the innermost applies.
class TESSERA_API CallObserverScope {
 public:
  /// Installs the observer.
  explicit CallObserverScope(CallObserver& observer);
  /// Restores the previous observer.
  ~CallObserverScope();
  CallObserverScope(const CallObserverScope&) = delete;
  CallObserverScope& operator=(const CallObserverScope&) = delete;

 private:
  CallObserver* previous_;
};

}  // namespace tessera::tensor

// The behavior that every store must have. Each kind of store provides a kit that opens it; stores_test.cpp runs all
// behaviors for all kits.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/store/store.h"

namespace tessera::comm::testing {

/// An initially empty store, and a way to open it.
struct StoreKit {
  /// Opens another object for the same values, as another rank would.
  std::function<std::shared_ptr<Store>()> open;
};

/// A kind of store.
struct StoreKind {
  std::string name;
  /// Creates an empty store; its values live as long as `open`.
  std::function<StoreKit()> make;
};

/// One behavior of all stores.
struct StoreBehaviour {
  std::string name;
  void (*check)(const StoreKit& kit);
};

/// Returns all behaviors.
std::vector<StoreBehaviour> store_behaviours();

}  // namespace tessera::comm::testing

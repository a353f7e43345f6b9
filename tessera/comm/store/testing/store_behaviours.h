// What every store must do, written once: each kind of store gives a kit that opens it, and the test runs all
// behaviours for all kits (stores_test.cpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/store/store.h"

namespace tessera::comm::testing {

/// One store that is empty at first, and ways into it.
struct StoreKit {
  /// Another object for the same values, as another rank would open it.
  std::function<std::shared_ptr<Store>()> open;
};

/// A kind of store.
struct StoreKind {
  std::string name;
  /// Makes an empty one; what it holds lives as long as `open`.
  std::function<StoreKit()> make;
};

/// One thing that all stores do.
struct StoreBehaviour {
  std::string name;
  void (*check)(const StoreKit& kit);
};

/// All of them.
std::vector<StoreBehaviour> store_behaviours();

}  // namespace tessera::comm::testing

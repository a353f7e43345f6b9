// Opens a store by its address, as given in options and environment variables.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm {

/// A parsed store address.
struct StoreAddress {
  /// Kinds of stores.
  enum class Kind : std::uint8_t { kTcp, kFile };
  Kind kind = Kind::kTcp;  ///< kind of the store
  std::string host = {};   ///< host (tcp only)
  std::uint16_t port = 0;  ///< port (tcp only)
  std::string path = {};   ///< directory (file only)
};

/// Parses "tcp://host:port" ("tcp://[::1]:29500") or "file:///directory". Throws InvalidArgument if it is malformed.
TESSERA_API StoreAddress parse_store_address(std::string_view address);
/// Opens the store at an address. Waits up to `timeout` for its host. `label` names this process in errors of the
/// store. Throws InvalidArgument for a tcp store if the secret is empty and TESSERA_STORE_INSECURE is not 1.
TESSERA_API std::shared_ptr<Store> open_store(std::string_view address, const std::string& secret,
                                              std::chrono::nanoseconds timeout, const std::string& label = {});

}  // namespace tessera::comm

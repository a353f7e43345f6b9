// A store by its address, as options and environment variables name one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm {

/// An address taken apart.
struct StoreAddress {
  /// Which kind of store.
  enum class Kind : std::uint8_t { kTcp, kFile };
  Kind kind = Kind::kTcp;  ///< of the two
  std::string host = {};   ///< tcp
  std::uint16_t port = 0;  ///< tcp
  std::string path = {};   ///< file: the directory
};

/// Reads "tcp://host:port" ("tcp://[::1]:29500") or "file:///directory"; InvalidArgument says what is wrong with it.
TESSERA_API StoreAddress parse_store_address(std::string_view address);
/// Opens the store at an address; `timeout` is for its host to come up. `label` names this process to the store, for
/// errors. InvalidArgument: the store is behind a socket, the secret is empty and TESSERA_STORE_INSECURE is not 1.
TESSERA_API std::shared_ptr<Store> open_store(std::string_view address, const std::string& secret,
                                              std::chrono::nanoseconds timeout, const std::string& label = {});

}  // namespace tessera::comm

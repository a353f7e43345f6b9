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
/// Opens the store at an address; `timeout` is for who hosts it to come up.
TESSERA_API std::shared_ptr<Store> open_store(std::string_view address, const std::string& secret,
                                              std::chrono::nanoseconds timeout);

}  // namespace tessera::comm

#include "tessera/comm/store/open_store.h"

#include <charconv>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/comm/store/file_store.h"
#include "tessera/comm/store/tcp_store.h"

namespace tessera::comm {

StoreAddress parse_store_address(std::string_view address) {
  StoreAddress parsed;
  std::string_view rest = address;
  const auto takes = [&](std::string_view beginning) {
    if (!rest.starts_with(beginning)) return false;
    rest.remove_prefix(beginning.size());
    return true;
  };
  if (takes("file://")) {
    TESSERA_CHECK(rest.starts_with('/'), "store address '", address,
                  "' must have an absolute path, as in file:///directory");
    parsed.kind = StoreAddress::Kind::kFile;
    parsed.path = rest;
    return parsed;
  }
  TESSERA_CHECK(takes("tcp://"), "store address '", address, "' must be tcp://host:port or file:///directory");
  const std::size_t colon = rest.rfind(':');
  TESSERA_CHECK(colon != std::string_view::npos && colon > 0, "store address '", address,
                "' has no port; write tcp://host:port");
  const std::string_view digits = rest.substr(colon + 1);
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed.port);
  TESSERA_CHECK(problem == std::errc() && end == digits.data() + digits.size() && parsed.port > 0, "store address '",
                address, "' must have a port in [1, 65535], got '", digits, "'");
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  TESSERA_CHECK(!host.empty(), "store address '", address, "' has no host; write tcp://host:port");
  parsed.host = host;
  return parsed;
}

std::shared_ptr<Store> open_store(std::string_view address, const std::string& secret, std::chrono::nanoseconds timeout,
                                  const std::string& label) {
  const StoreAddress parsed = parse_store_address(address);
  if (parsed.kind == StoreAddress::Kind::kFile) return std::make_shared<FileStore>(parsed.path);
  return std::make_shared<TcpStore>(TcpStoreOptions{.host = parsed.host,
                                                    .port = parsed.port,
                                                    .secret = secret,
                                                    .connect_timeout = timeout,
                                                    .allow_no_secret = env::store_insecure(),
                                                    .label = label});
}

}  // namespace tessera::comm

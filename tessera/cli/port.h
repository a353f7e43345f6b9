// The check of options for a TCP port.
//
//   command.add("--port", &values->port, "Port; 0 selects a free port", {.fault = fault_of_port});
#pragma once

#include <charconv>
#include <string>
#include <system_error>

namespace tessera::cli {

/// Returns the fault of text that is not a number in [0, 65535], or an empty text.
inline std::string fault_of_port(const std::string& text) {
  int port = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_good = error == std::errc() && end == text.data() + text.size() && port >= 0 && port <= 65535;
  return is_good ? "" : "must be in [0, 65535], got " + text + "; 0 selects a free port";
}

}  // namespace tessera::cli

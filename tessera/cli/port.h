// The check of options for a TCP port.
//
//   app.add_option("--port", port, "Port; 0: one that is free")->check(port_check());
#pragma once

#include <charconv>
#include <string>
#include <system_error>
#include <CLI/CLI.hpp>

namespace tessera::cli {

/// Returns a check that rejects text that is not a number in [0, 65535].
inline CLI::Validator port_check() {
  const auto fault = [](const std::string& text) -> std::string {
    int port = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    const bool is_good = error == std::errc() && end == text.data() + text.size() && port >= 0 && port <= 65535;
    return is_good ? "" : "must be in [0, 65535], got " + text + "; 0 selects a free port";
  };
  return CLI::Validator(fault, "", "port");
}

}  // namespace tessera::cli

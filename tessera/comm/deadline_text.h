// The text of a missed deadline, for errors of groups and for reports of their observer. Internal to the library.
#pragma once

#include <chrono>
#include <string>

namespace tessera::comm::detail {

/// Formats a deadline and its extension: "5 s", "7 s (a deadline of 5 s, extended by 2 s)".
std::string text_of_deadline(std::chrono::nanoseconds deadline, std::chrono::nanoseconds extra);

}  // namespace tessera::comm::detail

// Errors out of code of the caller: callbacks, bodies of ranks. Such code may throw anything; whoever waits for it
// catches std::exception.
//
//   try { callback(); } catch (...) { park(caught_error("stream 'a': the callback")); }
#pragma once

#include <exception>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera {

/// Returns the exception that is being handled. An exception that is not a std::exception becomes an AbortedError that
/// names its type, and its text if it is one. `where` says whose exception it is. Only for use in a handler.
TESSERA_API std::exception_ptr caught_error(std::string_view where) noexcept;

}  // namespace tessera

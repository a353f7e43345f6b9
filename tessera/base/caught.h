// Errors out of code of the caller: callbacks, bodies of ranks. Such code may throw anything; whoever waits for it
// catches std::exception.
//
//   try { callback(); } catch (...) { park(caught_error("stream 'a': the callback")); }
#pragma once

#include <cxxabi.h>

#include <exception>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera {

/// Returns the exception that is being handled. An exception that is not a std::exception becomes an AbortedError that
/// names its type, and its text if it is one. `where` says whose exception it is. Only for use in a handler.
TESSERA_API std::exception_ptr caught_error(std::string_view where) noexcept;

/// Calls `body`. Calls `failed` in the handler of what it throws, or `ended` if the thread ends in it (pthread_exit, a
/// cancellation), after which the thread goes on to end. The end of a thread has no exception object, to which the
/// sanitizer would object.
template <class Body, class Failed, class Ended>
__attribute__((no_sanitize("null"))) void run_guarded(const Body& body, const Failed& failed, const Ended& ended) {
  try {
    body();
  } catch (const abi::__forced_unwind&) {
    ended();
    throw;
  } catch (...) {
    failed();
  }
}

}  // namespace tessera

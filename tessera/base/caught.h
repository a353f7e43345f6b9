// Exceptions of user code: callbacks, bodies of ranks. Such code may throw any
// type; code that waits for it catches std::exception.
//
//   try { callback(); } catch (...) { park(caught_error("stream 'a': the callback")); }
#pragma once

#include <cxxabi.h>

#include <exception>
#include <string_view>

#include "tessera/base/export.h"

/// Switches the check for null references off in one function. GCC and clang spell it differently.
#ifdef __clang__
#define TESSERA_NO_NULL_CHECK [[clang::no_sanitize("null")]]
#else
#define TESSERA_NO_NULL_CHECK [[gnu::no_sanitize("null")]]
#endif

namespace tessera {

/// Returns the exception that is being handled. An exception that is not a std::exception becomes an AbortedError that
/// names its type and, if it is a string, its text. `where` names the source of the exception. Call it in a handler
/// only.
TESSERA_API std::exception_ptr caught_error(std::string_view where) noexcept;

/// Calls `body`. If it throws, calls `failed` in the handler. If the thread ends in it (pthread_exit,
/// a cancellation), calls `ended`, and the thread then continues to end. The sanitizer attribute is
/// needed because the end of a thread has no exception object.
template <class Body, class Failed, class Ended>
TESSERA_NO_NULL_CHECK void run_guarded(const Body& body, const Failed& failed, const Ended& ended) {
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

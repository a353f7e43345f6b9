#include "tessera/watch/detail/ends.h"

#include <cstdlib>
#include <exception>
#include <mutex>

#include "tessera/base/error.h"
#include "tessera/base/fork.h"
#include "tessera/base/log.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/watch/detail/watchdog.h"

namespace tessera::watch::detail {
namespace {

struct Reason {
  std::mutex mutex;
  std::string text;
};
Reason& reason() {
  static auto* only = new Reason;  // never destroyed: exit handlers use it
  return *only;
}

// The process whose rank is watched: exit handlers also run in its forked children.
OwnerProcess& watched_process() {
  static OwnerProcess process;
  return process;
}

std::terminate_handler& handler_before() {
  static std::terminate_handler before = nullptr;
  return before;
}

std::string text_of_current() {
  const std::exception_ptr error = std::current_exception();
  if (error == nullptr) return "std::terminate was called";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return tessera::detail::concat("uncaught exception: ", known.what());
  } catch (...) {
    return "uncaught exception of an unknown type";
  }
}

[[noreturn]] void on_terminate() {
  try {
    const bool is_own = watched_process().is_this();
    if (is_own) save_failure(text_of_current());
    if (is_own) Watchdog::of_process()->leave(/*has_failed=*/true);
  } catch (...) {
    // Out of memory.
  }
  if (handler_before() != nullptr) handler_before()();
  std::abort();
}

void on_exit(int status, void* /*unused*/) {
  if (!watched_process().is_this()) return;
  if (status == 0) return Watchdog::of_process()->leave(/*has_failed=*/false);
  std::string why;
  {
    const std::lock_guard lock(reason().mutex);
    why = reason().text;
  }
  save_failure(tessera::detail::concat("exited with ", status, why.empty() ? "" : " after: ", why));
  Watchdog::of_process()->leave(/*has_failed=*/true);
}

}  // namespace

void watch_ends() {
  watched_process() = OwnerProcess();
  static const bool is_done = [] {
    handler_before() = std::set_terminate(on_terminate);
    ::on_exit(on_exit, nullptr);
    return true;
  }();
  (void)is_done;
}

void note_reason(const std::string& text) {
  const std::lock_guard lock(reason().mutex);
  if (reason().text.empty()) reason().text = text;
}

void save_failure(const std::string& reason) noexcept {
  try {
    probe::Recorder* recorder = current_rank()->find_part<probe::Recorder>();
    if (recorder != nullptr) recorder->save_failure(reason);
  } catch (const std::exception& error) {
    log::debug("the failure of this rank was not recorded: ", error.what());
  }
}

}  // namespace tessera::watch::detail

// Log lines for people, on stderr:
//
//   log::warn("record file: ", path, " does not fit; recording into ", format_bytes(smaller));
//   12:34:56.789 warn [rank 2] record file: ...
//
// Parts are put together as in TESSERA_CHECK. The rank is shown when the world has more than one. TESSERA_LOG sets the
// least level (a level that is off costs one load and a branch; its parts are not formatted), TESSERA_LOG_COLOR the
// colour. A line is one write, so lines of ranks that share a terminal do not mix. Logging never throws; thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/export.h"

namespace tessera::log {

/// How much a line matters.
enum class Level : int {
  kDebug,  ///< for who works on Tessera
  kInfo,   ///< what a run does
  kWarn,   ///< something is not as asked, and it went on
  kError,  ///< something failed
  kOff,    ///< as a threshold: nothing is logged
};

/// "debug", "info", "warn", "error", "off".
TESSERA_API std::string_view to_string(Level level);

namespace detail {
/// The least level logged; -1 until TESSERA_LOG has been read.
TESSERA_API extern std::atomic<int> threshold;
/// Reads TESSERA_LOG; whether `level` is logged.
TESSERA_API bool decide(Level level) noexcept;
/// Writes one line.
TESSERA_API void write(Level level, std::string_view message) noexcept;

template <class... Parts>
[[gnu::cold, gnu::noinline]] void write_parts(Level level, const Parts&... parts) noexcept {
  try {
    write(level, tessera::detail::concat(parts...));
  } catch (...) {
    write(level, "(a log line that could not be put together)");
  }
}
}  // namespace detail

/// Whether lines of this level are logged.
inline bool enabled(Level level) noexcept {
  const int least = detail::threshold.load(std::memory_order_relaxed);
  if (least < 0) [[unlikely]]
    return detail::decide(level);
  return static_cast<int>(level) >= least;
}

/// Sets the least level that is logged, over what TESSERA_LOG says.
TESSERA_API void set_level(Level level) noexcept;

/// Logs the parts, put together, for who works on Tessera.
template <class... Parts>
void debug(const Parts&... parts) noexcept {
  if (enabled(Level::kDebug)) detail::write_parts(Level::kDebug, parts...);
}
/// Logs the parts, put together: what a run does.
template <class... Parts>
void info(const Parts&... parts) noexcept {
  if (enabled(Level::kInfo)) detail::write_parts(Level::kInfo, parts...);
}
/// Logs the parts, put together: something is not as asked.
template <class... Parts>
void warn(const Parts&... parts) noexcept {
  if (enabled(Level::kWarn)) detail::write_parts(Level::kWarn, parts...);
}
/// Logs the parts, put together: something failed.
template <class... Parts>
void error(const Parts&... parts) noexcept {
  if (enabled(Level::kError)) detail::write_parts(Level::kError, parts...);
}

/// Where lines go: called with the level and the line without time, colour and newline ("[rank 2] text"), one line at
/// a time. Must not log.
using Sink = std::function<void(Level level, std::string_view line)>;

/// Sends lines to `sink`, or back to stderr when it is empty. Returns the sink before.
TESSERA_API Sink set_sink(Sink sink);

/// Collects lines instead of writing them, while it lives. For tests; one at a time.
class TESSERA_API Capture {
 public:
  /// Collects lines of at least `least`.
  explicit Capture(Level least = Level::kDebug);
  /// Goes back to the sink and level before.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  /// The lines so far, each as "warn: text" or "warn: [rank 2] text".
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::log

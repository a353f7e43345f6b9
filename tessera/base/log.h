// Human-readable log lines on stderr:
//
//   log::warn("record file: ", path, " does not fit; recording into ", format_bytes(smaller));
//   12:34:56.789 warn [rank 2] record file: ...
//
// Parts are concatenated as in TESSERA_CHECK. The rank is shown if the world has more than one.
// TESSERA_LOG sets the lowest level (a disabled level costs one load and a branch; its parts are not
// formatted), TESSERA_LOG_COLOR the color. A line is one write, so lines of ranks that share a
// terminal do not mix. Logging never throws and is thread-safe.
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

/// Severity of a line.
enum class Level : int {
  kDebug,  ///< For developers of Tessera.
  kInfo,   ///< Progress of a run.
  kWarn,   ///< A deviation from the request; execution continues.
  kError,  ///< A failure.
  kOff,    ///< As a threshold: disables logging.
};

/// Returns "debug", "info", "warn", "error" or "off".
TESSERA_API std::string_view to_string(Level level);

namespace detail {
/// The lowest level logged; -1 until TESSERA_LOG has been read.
TESSERA_API extern std::atomic<int> threshold;
/// Reads TESSERA_LOG. Returns true if `level` is logged.
TESSERA_API bool decide(Level level) noexcept;
TESSERA_API void write(Level level, std::string_view message) noexcept;

template <class... Parts>
[[gnu::cold, gnu::noinline]] void write_parts(Level level, const Parts&... parts) noexcept {
  try {
    write(level, tessera::detail::concat(parts...));
  } catch (...) {
    write(level, "(log line could not be formatted)");
  }
}
}  // namespace detail

/// Returns true if lines of this level are logged.
inline bool enabled(Level level) noexcept {
  const int least = detail::threshold.load(std::memory_order_relaxed);
  if (least < 0) [[unlikely]]
    return detail::decide(level);
  return static_cast<int>(level) >= least;
}

/// Sets the lowest level to log. Overrides TESSERA_LOG.
TESSERA_API void set_level(Level level) noexcept;

/// Logs the concatenated parts for developers of Tessera.
template <class... Parts>
void debug(const Parts&... parts) noexcept {
  if (enabled(Level::kDebug)) detail::write_parts(Level::kDebug, parts...);
}
/// Logs the concatenated parts as progress of a run.
template <class... Parts>
void info(const Parts&... parts) noexcept {
  if (enabled(Level::kInfo)) detail::write_parts(Level::kInfo, parts...);
}
/// Logs the concatenated parts as a warning.
template <class... Parts>
void warn(const Parts&... parts) noexcept {
  if (enabled(Level::kWarn)) detail::write_parts(Level::kWarn, parts...);
}
/// Logs the concatenated parts as a failure.
template <class... Parts>
void error(const Parts&... parts) noexcept {
  if (enabled(Level::kError)) detail::write_parts(Level::kError, parts...);
}

/// Receives the level and the line without time, color and newline ("[rank 2] text"), one line at a time. Must not log.
using Sink = std::function<void(Level level, std::string_view line)>;

/// Sends lines to `sink`, or to stderr if it is empty. Returns the previous sink.
TESSERA_API Sink set_sink(Sink sink);

/// Collects lines instead of writing them, for the lifetime of the object. For tests; one object at a time.
class TESSERA_API LineCapture {
 public:
  /// Collects lines of at least level `least`.
  explicit LineCapture(Level least = Level::kDebug);
  /// Restores the previous sink and level.
  ~LineCapture();
  LineCapture(const LineCapture&) = delete;
  LineCapture& operator=(const LineCapture&) = delete;
  /// Returns the lines so far, each as "warn: text" or "warn: [rank 2] text".
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::log

#include "tessera/base/log.h"

#include <spdlog/details/log_msg.h>
#include <spdlog/pattern_formatter.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <utility>

#include "tessera/base/env.h"
#include "tessera/base/rank.h"

namespace tessera::log {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warn", "error", "off"};

Level level_from_env() {
  const std::string_view name = env::log_level();
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Level>(i);
  }
  return Level::kInfo;
}

bool wants_color() {
  const std::string_view color = env::log_color();
  return color == "always" || (color == "auto" && ::isatty(STDERR_FILENO) == 1);
}

std::string_view color_of(Level level) {
  switch (level) {
    case Level::kDebug: return "\033[2m";
    case Level::kWarn: return "\033[33m";
    case Level::kError: return "\033[31m";
    case Level::kInfo:
    case Level::kOff: break;
  }
  return "";
}

// Writes one complete line at a time. Never destroyed: threads may log after main.
class Output {
 public:
  static Output& get() {
    static auto* only = new Output;
    return *only;
  }

  Sink set_sink(Sink sink) {
    const std::lock_guard lock(mutex_);
    return std::exchange(sink_, std::move(sink));
  }

  void write(Level level, std::string_view message) {
    std::string line;
    const RankPlace& place = current_place();
    if (place.world_size > 1) line = tessera::detail::concat("[rank ", place.rank.value(), "] ");
    line += message;
    const bool has_color = color();
    const std::lock_guard lock(mutex_);
    if (sink_) {
      sink_(level, line);
    } else {
      write_stderr(level, line, has_color);
    }
  }

 private:
  // Called without the lock: a malformed value is itself logged as a warning.
  bool color() {
    int known = color_.load(std::memory_order_relaxed);
    if (known < 0) {
      known = 0;
      color_.store(known);
      try {
        known = wants_color() ? 1 : 0;
        color_.store(known);
      } catch (const Error& error) {
        write(Level::kWarn, error.message() + "; logging without color");
      }
    }
    return known == 1;
  }

  void write_stderr(Level level, const std::string& line, bool has_color) {
    const std::string named = tessera::detail::concat(to_string(level), " ", line);  // the level names of spdlog differ
    spdlog::memory_buf_t text;
    formatter_.format(spdlog::details::log_msg("", spdlog::level::info, named), text);
    std::string whole(text.data(), text.size());
    if (const auto start = color_of(level); has_color && !start.empty()) {
      whole.insert(whole.find(' ') + 1, start);
      whole.insert(whole.size() - 1, "\033[0m");
    }
    // A pipe may accept a long line in several writes. If a write fails, the rest
    // is lost, since there is no place to report it.
    std::string_view rest = whole;
    while (!rest.empty()) {
      const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  std::mutex mutex_;
  Sink sink_;
  std::atomic<int> color_ = -1;
  spdlog::pattern_formatter formatter_{"%H:%M:%S.%e %v", spdlog::pattern_time_type::local, "\n"};
};

}  // namespace

std::string_view to_string(Level level) { return kNames[static_cast<std::size_t>(level)]; }

namespace detail {

std::atomic<int> threshold = -1;

bool decide(Level level) noexcept {
  // The level is info until the variable is read: reading it may log a warning.
  int unread = -1;
  if (threshold.compare_exchange_strong(unread, static_cast<int>(Level::kInfo))) {
    try {
      threshold.store(static_cast<int>(level_from_env()));
    } catch (const Error& error) {
      write(Level::kWarn, error.message() + "; logging at level info");
    }
  }
  return static_cast<int>(level) >= threshold.load();
}

void write(Level level, std::string_view message) noexcept {
  try {
    Output::get().write(level, message);
  } catch (...) {
    // Out of memory, or a sink that threw: the line is dropped.
  }
}

}  // namespace detail

void set_level(Level level) noexcept { detail::threshold.store(static_cast<int>(level)); }

Sink set_sink(Sink sink) { return Output::get().set_sink(std::move(sink)); }

struct LineCapture::State {
  mutable std::mutex mutex;
  std::vector<std::string> lines;
  Sink before;
  int threshold = 0;
};

LineCapture::LineCapture(Level least) : state_(std::make_shared<State>()) {
  (void)enabled(Level::kInfo);  // reads TESSERA_LOG, and reports a malformed value, first
  state_->threshold = detail::threshold.exchange(static_cast<int>(least));
  state_->before = set_sink([state = state_](Level level, std::string_view line) {
    const std::lock_guard lock(state->mutex);
    state->lines.push_back(tessera::detail::concat(to_string(level), ": ", line));
  });
}

LineCapture::~LineCapture() {
  set_sink(std::move(state_->before));
  detail::threshold.store(state_->threshold);
}

std::vector<std::string> LineCapture::lines() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lines;
}

}  // namespace tessera::log

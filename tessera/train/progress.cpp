#include "tessera/train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tessera/base/bytes.h"

namespace tessera::train {
namespace {

constexpr std::string_view kEraseLine = "\x1b[K";
constexpr std::int64_t kBarCells = 20;
constexpr auto kBetweenDrawings = std::chrono::milliseconds(100);
constexpr auto kBeforePhaseBar = std::chrono::seconds(1);  // no bar for short phases
constexpr auto kBetweenPhaseLines = std::chrono::seconds(5);

std::string time_text(double seconds) {
  const std::int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

// Returns the columns of the terminal; 0 if it is not a terminal.
std::size_t columns_of(std::FILE* file) {
  winsize size = {};
  return ::ioctl(::fileno(file), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string bar_of(double done, double all) {
  const double full = all > 0 ? std::floor(static_cast<double>(kBarCells) * done / all) : 0;
  const auto filled = static_cast<std::size_t>(std::clamp<double>(full, 0, kBarCells));
  return "[" + std::string(filled, '#') + std::string(kBarCells - filled, '.') + "] ";
}

bool wants_bar(const RunConfig& config, std::FILE* out) {
  if (config.progress != "auto") return config.progress == "bar";
  return out != nullptr && ::isatty(::fileno(out)) == 1;
}

double rate_of(const StepReport& report) { return static_cast<double>(report.tokens) / report.seconds; }

// Returns "512", "9.75k", "124k" or "1.3M", with at most three digits.
std::string rate_text(double rate) {
  if (!std::isfinite(rate)) return "-";
  const auto scaled = [](double value, const char* unit) {
    return fmt::format("{:.{}f}{}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, unit);
  };
  if (rate < 999.5) return fmt::format("{:.0f}", rate);
  return rate < 999.5e3 ? scaled(rate / 1e3, "k") : scaled(rate / 1e6, "M");
}

// A field of the line, and its width in aligned lines: negative values align to the left.
struct Field {
  std::string text;
  int width = 0;
};

std::vector<Field> fields_of(const ProgressPoint& point) {
  const StepReport& report = point.report;
  const auto digits = static_cast<int>(std::to_string(point.steps).size());
  std::vector<Field> fields = {{fmt::format("step {}/{}", report.step, point.steps), -(6 + 2 * digits)},
                               {fmt::format("loss {:.4f}", report.loss), -12},
                               {fmt::format("grad {:.3g}", report.grad_norm), -10},
                               {fmt::format("{} {}/s", rate_text(rate_of(report)), point.unit), 14}};
  if (point.mfu) fields.push_back({fmt::format("MFU {:.2f}", *point.mfu), -8});
  if (point.memory_nbytes > 0) fields.push_back({format_bytes(static_cast<std::uint64_t>(point.memory_nbytes)), 10});
  fields.push_back({time_text(point.seconds_left) + " left", 12});
  if (point.held_out_loss) fields.push_back({fmt::format("held-out {:.4f}", *point.held_out_loss), 0});
  if (report.end == StepEnd::kSkippedNan) fields.push_back({"skipped: not finite", 0});
  if (report.end == StepEnd::kSkippedSpike) fields.push_back({"skipped: spike", 0});
  return fields;
}

// Returns the text without one field and the spaces before it.
std::string without_field(std::string text, std::string_view name) {
  const std::size_t at = text.find("  " + std::string(name));
  if (at != std::string::npos) text.erase(at, text.find("  ", at + 2) - at);
  return text;
}

}  // namespace

std::string progress_line(const ProgressPoint& point) {
  std::string text;
  for (const Field& field : fields_of(point)) {
    const auto width = static_cast<std::size_t>(std::abs(field.width));
    text += (text.empty() ? "" : "  ") +
            (field.width < 0 ? fmt::format("{:<{}}", field.text, width) : fmt::format("{:>{}}", field.text, width));
  }
  return text;
}

std::string progress_bar(const ProgressPoint& point) {
  std::string text = bar_of(static_cast<double>(point.report.step), static_cast<double>(point.steps));
  const char* separator = "";
  for (const Field& field : fields_of(point)) {
    text += separator + field.text;
    separator = "  ";
  }
  return text;
}

std::string phase_line(const PhasePoint& point) {
  const std::string amount = point.unit == "bytes"
                                 ? fmt::format("{} of {}", format_bytes(point.done), format_bytes(point.all))
                                 : fmt::format("{}/{} {}", point.done, point.all, point.unit);
  return fmt::format("{}: {}  {} left", point.name, amount, time_text(point.seconds_left));
}

std::string fitted_bar(std::string bar, std::size_t columns) {
  if (bar.size() <= columns) return bar;
  if (const std::size_t end = bar.find("] "); bar.starts_with('[') && end != std::string::npos) bar.erase(0, end + 2);
  if (bar.size() > columns) bar = without_field(std::move(bar), "MFU ");
  while (bar.size() > columns) {
    const std::size_t field = bar.rfind("  ");
    if (field == std::string::npos) return bar.substr(0, columns);
    bar.resize(field);
  }
  return bar;
}

bool is_bar_line(std::string_view line) { return line.starts_with(kEraseLine); }

Progress::Progress(const RunConfig& config, std::int64_t steps, std::FILE* out)
    : out_(out),
      steps_(steps),
      log_every_(config.log_every),
      is_bar_(wants_bar(config, out)),
      is_silent_(out == nullptr || config.progress == "none") {}

void Progress::step(const StepReport& report, std::int64_t memory_nbytes) {
  taken_ += 1;
  seconds_ += report.seconds;
  if (is_silent_) return;
  const ProgressPoint point{
      .report = report,
      .steps = steps_,
      .memory_nbytes = memory_nbytes,
      .seconds_left = seconds_ / static_cast<double>(taken_) * static_cast<double>(steps_ - report.step),
      .mfu = mfu_per_rate_ > 0 ? std::optional(mfu_per_rate_ * rate_of(report)) : std::nullopt,
      .held_out_loss = held_out_loss_,
      .unit = unit_};
  const bool is_last = report.step == steps_;
  if (is_bar_) {
    const auto now = std::chrono::steady_clock::now();
    if (!is_last && now - last_drawn_ < kBetweenDrawings) return;
    last_drawn_ = now;
    draw(progress_bar(point));
  } else if (is_last || report.end != StepEnd::kDone || report.step == 1 || report.step % log_every_ == 0) {
    say(progress_line(point) + "\n");
  }
}

void Progress::evaluated(std::int64_t step, double loss) {
  held_out_loss_ = loss;
  if (!is_silent_ && !is_bar_) say(fmt::format("step {}/{}  held-out loss {:.4f}\n", step, steps_, loss));
}

void Progress::phase(const PhasePoint& point) {
  if (is_silent_) return;
  if (!is_bar_) return say(phase_line(point) + "\n");
  draw(bar_of(static_cast<double>(point.done), static_cast<double>(point.all)) + phase_line(point));
}

void Progress::draw(const std::string& bar) {
  const std::size_t columns = columns_of(out_);
  // A line that wraps could not be overwritten.
  const std::string text = columns > 0 ? fitted_bar(bar, columns - 1) : bar;
  fmt::print(out_, "{}{}\r", kEraseLine, text);
  std::fflush(out_);
  is_drawn_ = true;
}

void Progress::say(std::string_view lines) {
  if (out_ == nullptr) return;
  if (is_drawn_) std::fputs("\n", out_);
  is_drawn_ = false;
  std::fwrite(lines.data(), 1, lines.size(), out_);
  std::fflush(out_);
}

PhaseProgress::PhaseProgress(Progress& progress, std::string name, std::string unit, Clock::time_point now)
    : progress_(&progress),
      point_{.name = std::move(name), .unit = std::move(unit)},
      begun_(now),
      next_(now + (progress.is_bar() ? kBeforePhaseBar : kBetweenPhaseLines)) {}

void PhaseProgress::at(std::uint64_t done, std::uint64_t all, Clock::time_point now) {
  if (now < next_ || done == 0) return;
  next_ = now + (progress_->is_bar() ? Clock::duration(kBetweenDrawings) : Clock::duration(kBetweenPhaseLines));
  const double took = std::chrono::duration<double>(now - begun_).count();
  point_.done = done;
  point_.all = std::max(done, all);
  point_.seconds_left = took * static_cast<double>(point_.all - done) / static_cast<double>(done);
  progress_->phase(point_);
}

}  // namespace tessera::train

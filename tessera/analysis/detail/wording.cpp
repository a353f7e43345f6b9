#include "tessera/analysis/detail/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace tessera::analysis::detail {
namespace {

constexpr std::size_t kMaxRanges = 12;  // ranges of ranks per sentence

// Returns the length of the printable character of `text` at `at`; 0 if it is not one.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                             : first >= 0xe0 && first <= 0xef ? 3
                             : first >= 0xf0 && first <= 0xf4 ? 4
                                                              : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(at + 1);
  if (first == 0xc2 && second < 0xa0) return 0;                                        // also control characters
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;  // overlong forms; surrogates
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  if (first == 0xe2 && second == 0x80) {  // direction marks, and line ends
    const unsigned char third = byte(at + 2);
    if (third >= 0xa8 && third <= 0xae) return 0;
  }
  if (first == 0xe2 && second == 0x81 && byte(at + 2) >= 0xa6 && byte(at + 2) <= 0xa9) return 0;
  return length;
}

}  // namespace

std::string text_of(const RecordedOperation& operation) {
  std::string kind = operation.kind.empty() ? "an operation" : visible(operation.kind);
  if (operation.channel >= 0) return fmt::format("{}(from {}, channel {})", kind, operation.peer, operation.channel);
  if (operation.kind == "barrier") return kind;
  std::string text = fmt::format("{}({}[{}]", kind, visible(operation.dtype), operation.count);
  if (!operation.reduction.empty()) text += ", " + visible(operation.reduction);
  if (operation.root >= 0) text += fmt::format(", root {}", operation.root);
  if (operation.peer >= 0) text += fmt::format(", {} {}", operation.kind == "recv" ? "from" : "to", operation.peer);
  if (operation.parts != 0) text += fmt::format(", parts {:08x}", operation.parts);
  return text + ")";
}

std::string text_of(const CollectiveCall& launch) {
  if (launch.operations.empty()) return "an operation";
  std::string text = text_of(launch.operations.front());
  if (launch.operations.size() > 1) text += fmt::format(" and {} more", launch.operations.size() - 1);
  if (launch.replay != 0) text += fmt::format(", node {} in replay {} of its graph", launch.node, launch.replay);
  return text;
}

std::string text_of_ranks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last] >= 0 && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last - i >= 3) {
      parts.push_back(fmt::format("{}-{}", ranks[i], ranks[last]));
      i = last + 1;
    } else {
      parts.push_back(std::to_string(ranks[i++]));
    }
  }
  if (parts.empty()) return "no rank";
  if (parts.size() > kMaxRanges) {
    parts.resize(kMaxRanges);
    parts.push_back(fmt::format("others ({} in all)", ranks.size()));
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return text;
}

std::string text_of_duration(std::int64_t nanoseconds) {
  const double seconds = static_cast<double>(std::max<std::int64_t>(nanoseconds, 0)) / 1e9;
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (seconds < 180) return fmt::format("{:.0f} s", seconds);
  if (seconds < 10800) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string text_of_signal(int signal) {
  constexpr std::array<std::pair<int, std::string_view>, 13> kNames = {{{1, "SIGHUP"},
                                                                        {2, "SIGINT"},
                                                                        {3, "SIGQUIT"},
                                                                        {4, "SIGILL"},
                                                                        {6, "SIGABRT"},
                                                                        {7, "SIGBUS"},
                                                                        {8, "SIGFPE"},
                                                                        {9, "SIGKILL"},
                                                                        {11, "SIGSEGV"},
                                                                        {13, "SIGPIPE"},
                                                                        {15, "SIGTERM"},
                                                                        {19, "SIGSTOP"},
                                                                        {24, "SIGXCPU"}}};
  for (const auto& [number, name] : kNames) {
    if (number == signal) return std::string(name);
  }
  return fmt::format("signal {}", signal);
}

std::string text_of_count(std::size_t number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}

std::string visible(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    if (length == 0) {
      out += text[at] == '\n' ? "\\n" : fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
      ++at;
    } else {
      out += text.substr(at, length);
      at += length;
    }
  }
  return out;
}

std::string first_line(std::string_view text, std::size_t most) {
  std::string line = visible(text.substr(0, std::min(text.find('\n'), most)));
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (text.find('\n') > most && text.size() > most) line += "...";
  return line;
}

std::int64_t elapsed(std::int64_t from_ns, std::int64_t to_ns) {
  if (from_ns <= 0 || to_ns <= 0) return 0;
  return std::max<std::int64_t>(0, to_ns - from_ns);
}

std::int64_t difference(std::int64_t from, std::int64_t to) {
  std::int64_t result = 0;
  if (!__builtin_sub_overflow(to, from, &result)) return result;
  return to > from ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
}

}  // namespace tessera::analysis::detail

// Stacks are recorded as offsets into modules. addr2line converts these to functions and lines, even after the process
// has ended, as long as its modules still exist.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "tessera/analysis/memory/torch_snapshot.h"

extern char** environ;

namespace tessera::analysis {
namespace {

using memory::BlockView;
using memory::SegmentView;
using memory::Snapshot;
using memory::TraceEntry;

constexpr std::size_t kMaxAddresses = 1000;  // per command line

// Returns the output of a program, or nothing if it cannot be run or fails. Without a shell: arguments are literal.
std::optional<std::string> output_of(std::vector<std::string> arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int failed = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  char piece[4096];
  for (ssize_t n = 1; failed == 0 && n != 0;) {
    n = ::read(ends[0], piece, sizeof piece);
    if (n > 0) text.append(piece, static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR) break;
  }
  ::close(ends[0]);
  int status = 0;
  if (failed != 0 || ::waitpid(child, &status, 0) != child || status != 0) return std::nullopt;
  return text;
}

// "file.cpp:12 (discriminator 3)", "file.cpp:?", "??:0".
Frame parse_place(const std::string& name, const std::string& place) {
  Frame frame;
  frame.name = name;
  const auto colon = place.rfind(':');
  frame.filename = place.substr(0, colon);
  if (colon != std::string::npos) std::from_chars(place.data() + colon + 1, place.data() + place.size(), frame.line);
  return frame;
}

using Offsets = std::map<std::uint64_t, std::string>;  // offset, recorded frame

// Two lines per address: the function and its location; "??" if unknown.
bool look_up(const std::string& module, const Offsets& offsets, Symbols& symbols) {
  auto next = offsets.begin();
  while (next != offsets.end()) {
    std::vector<std::string> words = {"addr2line", "-f", "-C", "-e", module};
    const auto first = next;
    for (; next != offsets.end() && words.size() < kMaxAddresses; ++next)
      words.push_back(fmt::format("{:#x}", next->first));
    const auto text = output_of(std::move(words));
    if (!text) return false;
    std::istringstream lines(*text);
    std::string name;
    std::string place;
    for (auto it = first; it != next && std::getline(lines, name) && std::getline(lines, place); ++it) {
      if (name == "??") continue;
      Frame frame = parse_place(name, place);
      if (frame.filename == "??" || frame.filename.empty()) frame.filename = module;
      symbols.emplace(it->second, std::move(frame));
    }
  }
  return true;
}

void collect(const std::string& stack, std::set<std::string>& seen, std::map<std::string, Offsets>& modules) {
  if (stack.empty() || !seen.insert(stack).second) return;
  for (const std::string& frame : split_stack(stack)) {
    const auto plus = frame.rfind("+0x");
    if (plus == std::string::npos) continue;
    std::uint64_t offset = 0;
    const char* end = frame.data() + frame.size();
    const auto parsed = std::from_chars(frame.data() + plus + 3, end, offset, 16);
    if (parsed.ec == std::errc{} && parsed.ptr == end) modules[frame.substr(0, plus)].emplace(offset, frame);
  }
}

}  // namespace

Symbols symbolize(std::span<const Snapshot> snapshots, std::vector<std::string>* notes) {
  std::set<std::string> seen;
  std::map<std::string, Offsets> modules;
  std::map<std::string, std::string> files;
  for (const Snapshot& snapshot : snapshots) {
    files.insert(snapshot.modules.begin(), snapshot.modules.end());
    for (const SegmentView& segment : snapshot.segments) {
      for (const BlockView& block : segment.blocks) collect(block.stack, seen, modules);
    }
    for (const TraceEntry& entry : snapshot.trace) collect(entry.stack, seen, modules);
  }
  Symbols symbols;
  const auto note = [&](std::string text) {
    if (notes != nullptr) notes->push_back(std::move(text));
  };
  if (modules.empty()) {
    note("no call stacks were recorded; nothing to symbolize");
    return symbols;
  }
  if (!output_of({"addr2line", "--version"})) {
    note("addr2line is not installed (package binutils); stacks stay as offsets");
    return symbols;
  }
  for (const auto& [module, offsets] : modules) {
    const auto known = files.find(module);
    const std::string& file = known != files.end() ? known->second : module;
    if (::access(file.c_str(), R_OK) != 0) {
      note(fmt::format("{}: {}; its frames stay as offsets", file, std::strerror(errno)));
    } else if (!look_up(file, offsets, symbols)) {
      note(fmt::format("{}: addr2line cannot read it; its frames stay as offsets", file));
    }
  }
  return symbols;
}

}  // namespace tessera::analysis

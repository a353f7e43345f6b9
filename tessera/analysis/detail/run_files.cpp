#include "tessera/analysis/detail/run_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "tessera/analysis/detail/trained_mesh.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/layout.h"

namespace tessera::analysis::detail {
namespace {

namespace fs = std::filesystem;
using probe::detail::FileHeader;
using tessera::detail::concat;

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// rank-N.HOST.PID.SERIAL.record; the text between the first and the last dot may be missing.
std::optional<RunFile> parse_name(const std::string& name) {
  constexpr std::string_view kHead = "rank-";
  constexpr std::string_view kTail = ".record";
  std::string_view rest = name;
  if (!rest.starts_with(kHead) || !rest.ends_with(kTail) || rest.size() < kHead.size() + kTail.size())
    return std::nullopt;
  rest.remove_prefix(kHead.size());
  rest.remove_suffix(kTail.size());
  RunFile file;
  const std::size_t dot = rest.find('.');
  if (!read_number(rest.substr(0, dot), file.rank) || file.rank < 0 || file.rank >= kMaxRanks) return std::nullopt;
  if (dot == std::string_view::npos) return file;
  rest.remove_prefix(dot + 1);
  const std::size_t serial = rest.rfind('.');
  const std::size_t pid = serial == std::string_view::npos || serial == 0 ? serial : rest.rfind('.', serial - 1);
  if (pid == std::string_view::npos) return file;
  if (read_number(rest.substr(pid + 1, serial - pid - 1), file.process.pid)) file.host = rest.substr(0, pid);
  return file;
}

// The target of a link identifies the writing process, even if the file itself is gone or corrupt.
void read_link(RunFile& file) {
  std::error_code error;
  const std::string target = fs::read_symlink(file.path, error).filename().string();
  unsigned long long name_space = 0;
  unsigned long long pid = 0;
  unsigned long long start = 0;
  if (error || std::sscanf(target.c_str(), "tessera-n%llu-p%llu-t%llu-", &name_space, &pid, &start) != 3) return;
  file.process = {.pid_namespace = name_space, .pid = pid, .start = start};
}

std::int64_t changed_ns(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return 0;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// Reads only the values that distinguish files; the contents of the chosen one are read later. Returns the rank in the
// header; -1 without a header.
int read_header(RunFile& file) {
  file.began_ns = changed_ns(file.path);
  const int descriptor = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int reason = errno;
    std::error_code ignored;
    const std::string target = fs::read_symlink(file.path, ignored).string();
    const std::string whose = file.host.empty() ? "" : " of host " + file.host;
    file.problem = target.empty()
                       ? std::string(std::strerror(reason))
                       : concat("its record, ", target, whose, ", cannot be read from here: ", std::strerror(reason));
    return -1;
  }
  FileHeader header{};
  const ssize_t got = ::pread(descriptor, &header, sizeof header, 0);
  ::close(descriptor);
  if (got != static_cast<ssize_t>(sizeof header) ||
      std::memcmp(header.magic, probe::detail::kMagic, sizeof header.magic) != 0 ||
      header.byte_order != probe::detail::kByteOrder || header.version > probe::detail::kFormatVersion) {
    return -1;  // the complete reader reports the fault
  }
  file.world_size = header.world_size > 0 && header.world_size <= kMaxRanks ? header.world_size : 0;
  if (probe::detail::sample_check(header.first) == header.first.check) file.began_ns = header.first.wall_ns;
  file.process = {.boot_id = std::string(header.boot_id, ::strnlen(header.boot_id, sizeof header.boot_id)),
                  .pid_namespace = header.pid_namespace,
                  .pid = header.pid,
                  .start = header.process_start};
  return header.rank;
}

// A world of one rank may be a tool that ran with the same TESSERA_RUN_DIR, unless the trainer had one rank.
bool is_of_run(int world_size, int trained_size) { return world_size > 1 || (world_size == 1 && trained_size == 1); }

// Returns the number of ranks of the last start. Files of other starts and programs and corrupt ones may differ: takes
// a size that a sufficient part of its ranks states, and of those the latest.
int chosen_size(const std::vector<RunFile>& files, int trained_size) {
  struct Said {
    std::set<int> ranks = {};
    std::int64_t last_ns = 0;
  };
  std::map<int, Said> sizes;
  for (const RunFile& file : files) {
    if (file.world_size == 0 || file.rank >= file.world_size) continue;
    Said& said = sizes[file.world_size];
    said.ranks.insert(file.rank);
    said.last_ns = std::max(said.last_ns, file.began_ns);
  }
  int chosen = 0;
  std::tuple<bool, bool, std::int64_t> best = {};
  for (const auto& [size, said] : sizes) {
    const bool is_likely = said.ranks.size() * 4 >= static_cast<std::size_t>(size);
    const std::tuple<bool, bool, std::int64_t> merit = {is_of_run(size, trained_size), is_likely, said.last_ns};
    if (chosen != 0 && merit <= best) continue;
    chosen = size;
    best = merit;
  }
  return chosen;
}

// Survivors of a lost rank continue in the same processes: returns the size of the last world that processes of the
// original one formed; 0 if none.
int smaller_size(const std::vector<RunFile>& files, const LaunchFile& launch) {
  const auto id_of = [](const RunFile& file) {
    return std::tuple(file.process.boot_id, file.process.pid_namespace, file.process.pid, file.process.start);
  };
  std::map<decltype(id_of(files.front())), std::int64_t> started;
  for (const RunFile& file : files) {
    if (file.world_size == launch.ranks) started[id_of(file)] = file.began_ns;
  }
  const RunFile* last = nullptr;
  for (const RunFile& file : files) {
    if (file.world_size == 0 || file.world_size >= launch.ranks || file.rank >= file.world_size) continue;
    const auto before = started.find(id_of(file));
    if (before == started.end() || file.began_ns < before->second) continue;
    if (last == nullptr || file.began_ns > last->began_ns) last = &file;
  }
  return last == nullptr ? 0 : last->world_size;
}

// Returns true if ranks were started after everything in `launch` was over.
bool is_after(const std::vector<RunFile>& files, const LaunchFile& launch, int trained_size) {
  if (launch.ended_ns == 0) return false;
  const std::int64_t over_ns = launch.ended_ns + 1'000'000'000;  // resolution of 1 s
  return std::any_of(files.begin(), files.end(), [&](const RunFile& file) {
    return file.began_ns >= over_ns && is_of_run(file.world_size, trained_size);
  });
}

// Removes the files of processes that this launch did not start, such as those of a launcher that lost a race for the
// directory. If the ranks of a launch run under other process ids, as with a wrapper script, all files are kept.
void leave_out_strangers(std::vector<RunFile>& files, const LaunchFile& launch) {
  const auto is_launched = [&](const RunFile& file) {
    return std::ranges::any_of(launch.by_rank, [&](const auto& each) { return each.second.pid == file.process.pid; });
  };
  if (std::ranges::none_of(files, is_launched)) return;
  std::erase_if(files, [&](const RunFile& file) { return file.process.pid != 0 && !is_launched(file); });
}

std::vector<RunFile> all_files(const std::string& directory, std::vector<std::string>& problems) {
  std::vector<RunFile> all;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::optional<RunFile> file = parse_name(entry->path().filename().string());
    if (!file) continue;
    file->path = entry->path().string();
    read_link(*file);
    (void)read_header(*file);
    all.push_back(std::move(*file));
  }
  if (error) problems.push_back(concat(directory, ": listing stopped early: ", error.message()));
  std::sort(all.begin(), all.end(), [](const RunFile& a, const RunFile& b) { return a.path < b.path; });
  return all;
}

}  // namespace

RunFiles find_run_files(const std::string& directory, const LaunchFile* launch, std::vector<std::string>& problems) {
  std::vector<RunFile> all = all_files(directory, problems);
  RunFiles found;
  found.has_any = !all.empty();
  const int trained_size = trained_mesh(directory).size();
  found.is_after_launch = launch != nullptr && is_after(all, *launch, trained_size);
  std::int64_t since_ns = launch != nullptr ? launch->started_ns : 0;
  if (found.is_after_launch) {
    since_ns = launch->ended_ns + 1;
    launch = nullptr;
  }
  std::erase_if(all, [&](const RunFile& file) { return file.began_ns < since_ns; });
  if (launch != nullptr) leave_out_strangers(all, *launch);
  found.world_size = launch != nullptr && launch->ranks > 0 ? launch->ranks : chosen_size(all, trained_size);
  if (const int smaller = launch != nullptr ? smaller_size(all, *launch) : 0; smaller > 0) {
    found.larger_size = found.world_size;
    found.world_size = smaller;
  }
  std::map<int, RunFile> chosen;
  std::map<int, const RunFile*> others;  // of another world
  for (RunFile& file : all) {
    if (file.world_size != 0 && file.world_size != found.world_size) {
      if (file.rank < found.world_size) others[file.rank] = &file;
      continue;
    }
    if (found.world_size != 0 && file.rank >= found.world_size) continue;
    const auto [place, is_new] = chosen.try_emplace(file.rank, file);
    if (is_new) continue;
    const auto merit = [](const RunFile& each) {
      return std::tuple(each.world_size != 0, each.problem.empty(), each.began_ns);
    };
    if (merit(file) > merit(place->second)) place->second = std::move(file);
  }
  for (const auto& [rank, file] : others) {
    if (!chosen.contains(rank) && found.larger_size == 0)
      problems.push_back(concat(file->path, ": of a world of ", file->world_size, " ranks, but the others are of ",
                                found.world_size, "; ignored"));
  }
  for (auto& [rank, file] : chosen) {
    if (!file.problem.empty()) problems.push_back(concat(file.path, ": ", file.problem));
    found.files.push_back(std::move(file));
  }
  return found;
}

RunFile run_file_at(const std::string& path) {
  RunFile file{.path = path};
  file.rank = read_header(file);
  if (file.rank < 0 || file.rank >= file.world_size) file.world_size = 0;
  return file;
}

}  // namespace tessera::analysis::detail

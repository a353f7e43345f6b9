#include "tessera/base/env.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <span>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/nearest.h"

namespace tessera::env {
namespace {

// A row of the table. The kind determines the parser; `allowed` is for choices, the limits are for integers.
struct Variable {
  enum class Kind { kText, kSettings, kAddress, kSecret, kChoice, kBytes, kInteger, kSwitch };
  std::string_view name;
  Kind kind;
  std::string_view default_value;
  std::string_view meaning;
  std::span<const std::string_view> allowed = {};
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
};
using Kind = Variable::Kind;

constexpr std::string_view kLevels[] = {"debug", "info", "warn", "error", "off"};
constexpr std::string_view kColors[] = {"auto", "always", "never"};
constexpr std::string_view kOnOff[] = {"on", "off"};
constexpr std::string_view kNoSpace[] = {"smaller", "off", "fail"};
constexpr std::string_view kHostModes[] = {"inline", "threaded", "seeded"};
constexpr std::string_view kZeroOne[] = {"0", "1"};
constexpr std::string_view kAttentions[] = {"auto", "cudnn", "tiled"};
constexpr std::string_view kOnHangs[] = {"raise", "abort", "exit", "wait"};

enum Row {
  kRunDir,
  kRunDirLock,
  kLog,
  kLogColor,
  kRecord,
  kRecordBytes,
  kRecordNoSpace,
  kRecordDir,
  kHostMode,
  kHostSeed,
  kHostCapacity,
  kHostChecked,
  kCudaConnections,
  kCudaAttention,
  kMemoryPolicy,
  kThreads,
  kStore,
  kStoreSecret,
  kStoreInsecure,
  kStoreBind,
  kStoreBytes,
  kStoreClientBytes,
  kCommCheck,
  kDeadline,
  kOnHang,
  kRows
};

constexpr Variable kTable[] = {
    {"TESSERA_RUN_DIR", Kind::kText, "", "run directory; empty: records are removed when the process ends"},
    {"TESSERA_RUN_DIR_LOCK", Kind::kAddress, "",
     "device:inode of the run directory that the launcher of this rank has locked; set by tessera run"},
    {"TESSERA_LOG", Kind::kChoice, "info", "minimum level that is logged to stderr", kLevels},
    {"TESSERA_LOG_COLOR", Kind::kChoice, "auto", "color in log lines; auto: on a terminal", kColors},
    {"TESSERA_RECORD", Kind::kChoice, "on", "flight recorder of each rank", kOnOff},
    {"TESSERA_RECORD_BYTES", Kind::kBytes, "32MiB", "size of the record file of one rank"},
    {"TESSERA_RECORD_NO_SPACE", Kind::kChoice, "smaller",
     "action if the record file does not fit: use a smaller file, disable recording, or fail", kNoSpace},
    {"TESSERA_RECORD_DIR", Kind::kText, "", "directory for new record files; unset: /dev/shm"},
    {"TESSERA_HOST_MODE", Kind::kChoice, "inline",
     "execution of host streams: the default stream on the caller and others as threads, all as threads, or in an "
     "order by "
     "seed",
     kHostModes},
    {"TESSERA_HOST_SEED", Kind::kInteger, "0", "seed of the order in which seeded host streams run"},
    {"TESSERA_HOST_CAPACITY", Kind::kBytes, "0", "capacity of a host device in bytes; 0: memory of the machine"},
    {"TESSERA_HOST_CHECKED", Kind::kSwitch, "0", "1: conflicting host launches without stream order are errors",
     kZeroOne},
    {"TESSERA_CUDA_CONNECTIONS", Kind::kInteger, "32", "hardware queues requested from the CUDA driver", {}, 1, 32},
    {"TESSERA_CUDA_ATTENTION", Kind::kChoice, "auto",
     "kernels of attention on CUDA: cuDNN if it can compute the call, always cuDNN, or the kernels of Tessera",
     kAttentions},
    {"TESSERA_MEMORY_POLICY", Kind::kSettings, "", "settings of allocators (memory::Policy); empty: defaults"},
    {"TESSERA_THREADS", Kind::kInteger, "0", "threads for host kernels per rank; 0: share of the cores", {}, 0, 1024},
    {"TESSERA_STORE", Kind::kAddress, "",
     "address of an existing store: tcp://host:port or file:///directory; set by tessera run"},
    {"TESSERA_STORE_SECRET", Kind::kSecret, "",
     "shared secret of the ranks and the store, equal on all ranks; set by tessera run"},
    {"TESSERA_STORE_INSECURE", Kind::kSwitch, "0",
     "1: allow a store without a secret, which any process that can reach its port can use", kZeroOne},
    {"TESSERA_STORE_BIND", Kind::kAddress, "",
     "address that rank 0 listens on if it hosts the store; empty: the host of the store address"},
    {"TESSERA_STORE_BYTES", Kind::kBytes, "256MiB", "maximum bytes that a TCP store holds for all clients"},
    {"TESSERA_STORE_CLIENT_BYTES", Kind::kBytes, "64MiB", "maximum bytes that a TCP store holds for one client"},
    {"TESSERA_COMM_CHECK", Kind::kSwitch, "0", "1: ranks compare the operations of a group launch before they run",
     kZeroOne},
    {"TESSERA_DEADLINE",
     Kind::kInteger,
     "300",
     "deadline of an operation in seconds, unless the group sets another",
     {},
     1,
     31'536'000},
    {"TESSERA_ON_HANG", Kind::kChoice, "raise",
     "action after a missed deadline is reported: the operation throws, all groups are aborted, the process "
     "exits with 124, or the wait continues",
     kOnHangs},
};
static_assert(std::size(kTable) == kRows);

// Selects a planted bug in mutant builds (testing/mutant.h). Such a build of another layer links this layer unchanged,
// so the name is always known. It is not a setting and has no row.
constexpr std::string_view kMutantSelector = "TESSERA_MUTANT";

std::string type_of(const Variable& variable) {
  switch (variable.kind) {
    case Kind::kText: return "path";
    case Kind::kSettings: return "name=value,...";
    case Kind::kAddress: return "address";
    case Kind::kSecret: return "text";
    case Kind::kBytes: return "size";
    case Kind::kInteger:
      if (variable.most == std::numeric_limits<std::uint64_t>::max()) return "integer";
      return detail::concat("integer ", variable.least, " to ", variable.most);
    case Kind::kChoice:
    case Kind::kSwitch: break;
  }
  std::string text;
  for (const std::string_view word : variable.allowed) text += (text.empty() ? "" : "|") + std::string(word);
  return text;
}

std::string text_of(const Variable& variable) {
  const char* set = std::getenv(variable.name.data());
  return set != nullptr && *set != '\0' ? std::string(set) : std::string(variable.default_value);
}

std::string_view read_choice(const Variable& variable, const std::string& text) {
  for (const std::string_view word : variable.allowed) {
    if (word == text) return word;
  }
  TESSERA_THROW(InvalidArgument, "environment variable ", variable.name, ": must be one of ", type_of(variable),
                ", got '", text, "'", did_you_mean(text, variable.allowed));
}

std::uint64_t read_integer(const Variable& variable, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = problem == std::errc() && end == text.data() + text.size();
  TESSERA_CHECK(is_whole && value >= variable.least && value <= variable.most, "environment variable ", variable.name,
                ": must be an integer in [", variable.least, ", ", variable.most, "], got '", text, "'");
  return value;
}

std::uint64_t read_bytes(const Variable& variable, const std::string& text) {
  try {
    return parse_bytes(text);
  } catch (const InvalidArgument& error) {
    TESSERA_THROW(InvalidArgument, "environment variable ", variable.name, ": ", error.message());
  }
}

void check_value(const Variable& variable, const std::string& text) {
  switch (variable.kind) {
    case Kind::kText:
    case Kind::kSettings:
    case Kind::kAddress:
    case Kind::kSecret: break;
    case Kind::kBytes: read_bytes(variable, text); break;
    case Kind::kInteger: read_integer(variable, text); break;
    case Kind::kChoice:
    case Kind::kSwitch: read_choice(variable, text); break;
  }
}

// The flag is set before the warning is written: the log reads its own level and calls this function again.
void warn_of_unknown_names_once() {
  static std::atomic<bool> done = false;
  if (done.load(std::memory_order_relaxed) || done.exchange(true)) return;
  for (const auto& [name, near] : unknown_names()) {
    if (near.empty()) {
      log::warn("unknown environment variable ", name, "; `tessera info --env` lists all variables");
    } else {
      log::warn("unknown environment variable ", name, "; did you mean ", near, "?");
    }
  }
}

const Variable& row(Row at) {
  warn_of_unknown_names_once();
  return kTable[at];
}

std::string_view choice(Row at) { return read_choice(row(at), text_of(kTable[at])); }
std::uint64_t bytes(Row at) { return read_bytes(row(at), text_of(kTable[at])); }
std::uint64_t integer(Row at) { return read_integer(row(at), text_of(kTable[at])); }

}  // namespace

std::string run_dir() { return text_of(row(kRunDir)); }
std::string run_dir_lock() { return text_of(row(kRunDirLock)); }
std::string record_dir() { return text_of(row(kRecordDir)); }
std::string_view log_level() { return choice(kLog); }
std::string_view log_color() { return choice(kLogColor); }
std::string_view record_mode() { return choice(kRecord); }
std::uint64_t record_bytes() { return bytes(kRecordBytes); }
std::string_view record_no_space() { return choice(kRecordNoSpace); }
std::string_view host_mode() { return choice(kHostMode); }
std::uint64_t host_seed() { return integer(kHostSeed); }
std::uint64_t host_capacity() { return bytes(kHostCapacity); }
bool host_checked() { return choice(kHostChecked) == "1"; }
int cuda_connections() { return static_cast<int>(integer(kCudaConnections)); }
std::string_view cuda_attention() { return choice(kCudaAttention); }
std::string memory_policy() { return text_of(row(kMemoryPolicy)); }
std::string store() { return text_of(row(kStore)); }
std::string store_secret() { return text_of(row(kStoreSecret)); }
bool store_insecure() { return choice(kStoreInsecure) == "1"; }
std::string store_bind() { return text_of(row(kStoreBind)); }
std::uint64_t store_bytes() { return bytes(kStoreBytes); }
std::uint64_t store_client_bytes() { return bytes(kStoreClientBytes); }
std::uint64_t deadline_seconds() { return integer(kDeadline); }
bool comm_check() { return choice(kCommCheck) == "1"; }
int threads() { return static_cast<int>(integer(kThreads)); }

std::vector<VariableState> table() {
  std::vector<VariableState> entries;
  for (const Variable& variable : kTable) {
    VariableState entry;
    entry.name = variable.name;
    entry.type = type_of(variable);
    entry.value = text_of(variable);
    entry.default_value = variable.default_value;
    entry.meaning = variable.meaning;
    const char* set = std::getenv(variable.name.data());
    entry.is_set = set != nullptr && *set != '\0';
    if (variable.kind == Kind::kSecret && entry.is_set) entry.value = "(hidden)";
    try {
      check_value(variable, entry.value);
    } catch (const InvalidArgument& error) {
      entry.error = error.message();
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<std::pair<std::string, std::string>> unknown_names() {
  std::vector<std::string_view> known;
  for (const Variable& variable : kTable) known.push_back(variable.name);
  std::vector<std::pair<std::string, std::string>> unknown;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view setting(*at);
    const std::string_view name = setting.substr(0, setting.find('='));
    if (!name.starts_with("TESSERA_") || name == kMutantSelector) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    // The common prefix would make all names look near, so only the rest is compared.
    std::vector<std::string_view> endings;
    for (const std::string_view candidate : known) endings.push_back(candidate.substr(8));
    const auto near = nearest(name.substr(8), endings);
    unknown.emplace_back(name, near ? "TESSERA_" + *near : "");
  }
  return unknown;
}

}  // namespace tessera::env

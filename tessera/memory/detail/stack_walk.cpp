#include "tessera/memory/detail/stack_walk.h"

#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <bit>
#include <charconv>
#include <utility>

// A walk reads frames of other functions word by word, which sanitizers report as stray accesses.
#define TESSERA_READS_STACK __attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined")))

namespace tessera::memory::detail {
namespace {

// Bounds of the stack of a thread. `end` is 0 until queried; both are 1 if unknown.
struct StackBounds {
  std::uintptr_t begin;
  std::uintptr_t end;
};
constinit thread_local StackBounds bounds{};

[[gnu::cold, gnu::noinline]] void find_bounds() {
  bounds = {1, 1};
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return;
  void* lowest = nullptr;
  std::size_t nbytes = 0;
  if (::pthread_attr_getstack(&attributes, &lowest, &nbytes) == 0) {
    bounds.begin = reinterpret_cast<std::uintptr_t>(lowest);
    bounds.end = bounds.begin + nbytes;
  }
  ::pthread_attr_destroy(&attributes);
}

constexpr std::uintptr_t kFrameAlignment = 2 * sizeof(std::uintptr_t);
constexpr std::uintptr_t kMinCodeAddress = 4096;

// AArch64 may sign return addresses; this removes the signature.
inline std::uintptr_t code_address(std::uintptr_t word) {
#if defined(__aarch64__)
  register std::uintptr_t link asm("x30") = word;
  asm("hint #7" : "+r"(link));
  return link;
#else
  return word;
#endif
}

std::uint64_t hash_of(std::span<const std::uintptr_t> frames) {
  std::uint64_t hash = 0x243F6A8885A308D3u;
  for (const std::uintptr_t frame : frames) {
    hash = (hash ^ frame) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash | 1;  // 0 marks an empty slot
}

std::string own_path() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string("program");
}

struct Module {
  std::string path;
  std::uintptr_t load_bias = 0;
  [[nodiscard]] std::string name() const { return path.substr(path.rfind('/') + 1); }
};

// Returns the module whose loaded segments contain an address; without a path if none.
Module module_of(std::uintptr_t address) {
  std::pair<std::uintptr_t, Module> search{address, {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* context) {
        auto& [wanted, found] = *static_cast<std::pair<std::uintptr_t, Module>*>(context);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || wanted - info->dlpi_addr - segment.p_vaddr >= segment.p_memsz) continue;
          found.path = info->dlpi_name != nullptr && info->dlpi_name[0] != '\0' ? info->dlpi_name : own_path();
          found.load_bias = info->dlpi_addr;
          return 1;
        }
        return 0;
      },
      &search);
  return search.second;
}

void append_hex(std::string& text, std::uintptr_t number) {
  char digits[2 * sizeof number];
  text += "0x";
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number, 16).ptr);
}

}  // namespace

TESSERA_READS_STACK std::size_t walk_chain(std::uintptr_t fp, std::uintptr_t end, std::uintptr_t* frames,
                                           std::size_t most, std::size_t skip) {
  std::size_t count = 0;
  while (count < most && fp % kFrameAlignment == 0 && fp < end && end - fp >= 2 * sizeof(std::uintptr_t)) {
    const auto* record = reinterpret_cast<const std::uintptr_t*>(fp);  // NOLINT(performance-no-int-to-ptr)
    const std::uintptr_t caller = code_address(record[1]);
    if (caller < kMinCodeAddress) break;
    if (skip > 0) {
      --skip;
    } else {
      frames[count++] = caller;
    }
    if (record[0] <= fp) break;  // the stack grows down, so callers are above
    fp = record[0];
  }
  return count;
}

#if defined(__x86_64__) || defined(__aarch64__)
[[gnu::noinline]] TESSERA_READS_STACK std::size_t walk_stack(std::uintptr_t* frames, std::size_t most,
                                                             std::size_t skip) {
  if (bounds.end == 0) find_bounds();
  const auto fp = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const bool is_own_stack = fp >= bounds.begin && fp < bounds.end;
  return walk_chain(fp, is_own_stack ? bounds.end : fp + 2 * sizeof(std::uintptr_t), frames, most, skip);
}
#else
std::size_t walk_stack(std::uintptr_t* /*frames*/, std::size_t /*most*/, std::size_t /*skip*/) { return 0; }
#endif

StackTable::StackTable(probe::Recorder& recorder, std::size_t most)
    : recorder_(recorder), max_(most), mask_(std::bit_ceil(2 * most + 2) - 1), slots_(new StackSlot[mask_ + 1]) {}

// Returns the slot of the stack of this hash, or the empty slot for it. Half the slots are always empty.
StackTable::StackSlot& StackTable::slot_of(std::uint64_t hash) {
  std::size_t at = hash >> 20 & mask_;
  while (true) {
    const std::uint64_t found = slots_[at].hash.load(std::memory_order_acquire);
    if (found == hash || found == 0) return slots_[at];
    at = (at + 1) & mask_;
  }
}

probe::StringId StackTable::intern(std::span<const std::uintptr_t> frames) {
  if (frames.empty()) return {};
  const std::uint64_t hash = hash_of(frames);
  const StackSlot& slot = slot_of(hash);
  if (slot.hash.load(std::memory_order_acquire) == hash) {
    if (slot.id == 0) dropped_.fetch_add(1, std::memory_order_relaxed);
    return probe::StringId(slot.id);
  }
  return add(hash, frames);
}

[[gnu::noinline]] probe::StringId StackTable::here(std::size_t skip) {
  std::uintptr_t frames[kMaxFrames];
  const std::size_t count = walk_stack(frames, kMaxFrames, skip + 1);
  return intern({frames, count});
}

[[gnu::cold]] probe::StringId StackTable::add(std::uint64_t hash, std::span<const std::uintptr_t> frames) {
  const std::lock_guard lock(mutex_);
  StackSlot& slot = slot_of(hash);
  if (slot.hash.load(std::memory_order_relaxed) == hash) return probe::StringId(slot.id);
  if (count_.load(std::memory_order_relaxed) == max_) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  std::string text;
  for (const std::uintptr_t frame : frames) {
    const std::uintptr_t call = frame - 1;  // the return address may belong to the next line, or the next function
    const Module module = module_of(call);
    if (!text.empty()) text += ' ';
    if (module.path.empty()) {
      text += "?+";
    } else {
      const std::string name = module.name();
      note_module(name, module.path, module.load_bias);
      text += name + '+';
    }
    append_hex(text, call - module.load_bias);
  }
  const probe::StringId id = recorder_.intern(text);
  if (id == probe::StringId{}) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
  } else {
    texts_.emplace(id.value(), std::move(text));
  }
  slot.id = id.value();
  slot.hash.store(hash, std::memory_order_release);
  count_.fetch_add(1, std::memory_order_relaxed);
  return id;
}

std::string StackTable::text_of(probe::StringId id) const {
  const std::lock_guard lock(mutex_);
  const auto it = texts_.find(id.value());
  return it != texts_.end() ? it->second : std::string();
}

std::vector<std::pair<std::string, std::string>> StackTable::modules() const {
  const std::lock_guard lock(mutex_);
  return modules_;
}

// The row outlives this table, as do the stacks that name the module.
void StackTable::note_module(const std::string& name, const std::string& path, std::uintptr_t load_bias) {
  for (const auto& [known, file] : modules_) {
    if (file == path) return;
  }
  modules_.emplace_back(name, path);
  union Kept {
    probe::Row<ModuleRow> row;
    ~Kept() {}  // NOLINT(modernize-use-equals-default): the row is not released
  };
  [[maybe_unused]] const Kept kept{
      recorder_.table<ModuleRow>().claim({recorder_.intern(name), recorder_.intern(path), load_bias})};
}

}  // namespace tessera::memory::detail

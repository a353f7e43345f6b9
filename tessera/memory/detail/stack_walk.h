// Native call stacks, cheap enough to take at every allocation: the chain of frame pointers is followed, and a stack
// that was seen before costs a hash and a lookup.
//
//   [fp] -> the caller's fp      [fp + 1 word] -> return address into the caller      (x86-64: rbp, AArch64: x29)
//
// Our own code keeps frame pointers (-fno-omit-frame-pointer); through code that does not, the chain may end early or
// skip callers, but it never leaves the thread's stack, so that walking cannot fault. On other machines a stack has no
// frames.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/base/probe/recorder.h"

namespace tessera::memory::detail {

/// Most frames that StackTable::here() takes.
inline constexpr std::size_t kMostFrames = 16;

/// Return addresses of this thread's stack, the innermost first: frames[0] lies in the function that called
/// walk_stack, after leaving out `skip` functions. Returns how many were written, at most `most`. The first call on a
/// thread asks the system where its stack ends (some microseconds, not for a signal handler); later ones only read. On
/// a stack that is not the thread's own (an alternative signal stack, a fiber) only one frame is known.
std::size_t walk_stack(std::uintptr_t* frames, std::size_t most, std::size_t skip);

/// The walk itself: from the frame record at `fp`, upwards through [fp, end), which can be read. Stops where a link
/// does not lead further up, is not aligned, or passes `end`.
std::size_t walk_chain(std::uintptr_t fp, std::uintptr_t end, std::uintptr_t* frames, std::size_t most,
                       std::size_t skip);

/// A module that stacks name (state table memory_module): where its file is, for who symbolises later.
struct ModuleRow {
  probe::StringId name;     ///< as in stacks: "libtessera.so.0"
  probe::StringId path;     ///< full path
  std::uint64_t load_bias;  ///< address of its address 0 in the process
  static constexpr std::uint32_t kRows = 128;
  TESSERA_RECORD(ModuleRow, "memory_module", name, path, load_bias)
};

/// Stacks as strings of one record file: "train+0x1f3a libtessera.so.0+0x20a4 ...", innermost first. A number is the
/// address in the module's file of the call's last byte, so that `addr2line -e MODULE 0x1f3a` names the line of the
/// call, for executables (position independent or not) and shared objects alike.
///
/// A stack is known by a hash of 64 bits of its addresses; finding a known one takes no lock. The text is made once per
/// stack. When `most` stacks are known, or the file has no room, a new one is 0 and counted. Thread-safe; must not
/// outlive its recorder.
class StackTable {
 public:
  /// For the file of `recorder`.
  explicit StackTable(probe::Recorder& recorder, std::size_t most = 8192);
  /// The stack's string; 0: none, or no room.
  probe::StringId intern(std::span<const std::uintptr_t> frames);
  /// The string of the caller's own stack, after leaving out `skip` functions.
  probe::StringId here(std::size_t skip);
  /// The text of a stack that this table interned; else empty.
  [[nodiscard]] std::string text_of(probe::StringId id) const;
  /// The modules that its stacks name, and the file of each.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> modules() const;
  /// Stacks that found no room, counted each time.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  /// Distinct stacks known.
  [[nodiscard]] std::size_t size() const { return count_.load(std::memory_order_relaxed); }

 private:
  struct Slot {
    std::atomic<std::uint64_t> hash{0};  // 0: empty
    std::uint32_t id = 0;                // written before the hash
  };
  Slot& slot_of(std::uint64_t hash);
  probe::StringId add(std::uint64_t hash, std::span<const std::uintptr_t> frames);
  void note_module(const std::string& name, const std::string& path, std::uintptr_t load_bias);

  probe::Recorder& recorder_;
  std::size_t most_;
  std::size_t mask_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<std::size_t> count_{0};
  std::atomic<std::uint64_t> dropped_{0};
  mutable std::mutex mutex_;  // for adding
  std::unordered_map<std::uint32_t, std::string> texts_;
  std::vector<std::pair<std::string, std::string>> modules_;  // noted: name, path
};

}  // namespace tessera::memory::detail

// Native call stacks, cheap enough for every allocation: the walk follows the chain of frame pointers, and a known
// stack costs a hash and a look-up.
//
//   [fp] -> fp of the caller      [fp + 1 word] -> return address into the caller      (x86-64: rbp, AArch64: x29)
//
// Tessera keeps frame pointers (-fno-omit-frame-pointer). In code without them, the chain may end early or skip
// callers, but it never leaves the stack of the thread, so that walking cannot fault. On other machines a stack has no
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
#include "tessera/memory/history.h"

namespace tessera::memory::detail {

/// Maximum number of frames of StackTable::here().
inline constexpr std::size_t kMaxFrames = 16;

/// Writes the return addresses of the stack of this thread, the innermost first, after skipping `skip` functions:
/// frames[0] is in the caller of walk_stack. Returns their number, at most `most`. The first call on a thread queries
/// the bounds of its stack (some microseconds, not for a signal handler); later calls only read. On another stack (an
/// alternative signal stack, a fiber) only one frame is found.
std::size_t walk_stack(std::uintptr_t* frames, std::size_t most, std::size_t skip);

/// Walks upwards from the frame record at `fp` through the readable range [fp, end). Stops if a link does not lead
/// upwards, is not aligned, or exceeds `end`.
std::size_t walk_chain(std::uintptr_t fp, std::uintptr_t end, std::uintptr_t* frames, std::size_t most,
                       std::size_t skip);

/// Stacks as strings of one record file: "train+0x1f3a libtessera.so.0+0x20a4 ...", innermost first. A number is the
/// address in the file of the module of the last byte of the call, so that `addr2line -e MODULE 0x1f3a` returns the
/// line of the call, for executables (position independent or not) and shared objects.
///
/// A 64-bit hash of its addresses identifies a stack; finding a known one takes no lock. The text is created once per
/// stack. If `most` stacks are known, or the file is full, a new one is 0 and counted. Thread-safe; must not outlive
/// its recorder.
class StackTable {
 public:
  /// Creates a table for the file of `recorder`.
  explicit StackTable(probe::Recorder& recorder, std::size_t most = 8192);
  /// Returns the string of the stack; 0 if the stack is empty or the table is full.
  probe::StringId intern(std::span<const std::uintptr_t> frames);
  /// Returns the string of the stack of the caller, without `skip` functions.
  probe::StringId here(std::size_t skip);
  /// Returns the text of a stack of this table; otherwise empty.
  [[nodiscard]] std::string text_of(probe::StringId id) const;
  /// Returns the modules in its stacks, with the file of each.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> modules() const;
  /// Returns the number of stacks that did not fit, counted each time.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  /// Returns the number of distinct stacks.
  [[nodiscard]] std::size_t size() const { return count_.load(std::memory_order_relaxed); }

 private:
  struct StackSlot {
    std::atomic<std::uint64_t> hash{0};  // 0: empty
    std::uint32_t id = 0;                // written before the hash
  };
  StackSlot& slot_of(std::uint64_t hash);
  probe::StringId add(std::uint64_t hash, std::span<const std::uintptr_t> frames);
  void note_module(const std::string& name, const std::string& path, std::uintptr_t load_bias);

  probe::Recorder& recorder_;
  std::size_t max_;
  std::size_t mask_;
  std::unique_ptr<StackSlot[]> slots_;
  std::atomic<std::size_t> count_{0};
  std::atomic<std::uint64_t> dropped_{0};
  mutable std::mutex mutex_;  // for adding
  std::unordered_map<std::uint32_t, std::string> texts_;
  std::vector<std::pair<std::string, std::string>> modules_;  // recorded: name, path
};

}  // namespace tessera::memory::detail

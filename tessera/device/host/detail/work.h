// The bodies of operations: copies, fills, kernel calls and words in memory. Used by streams and by graph nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tessera/device/backend.h"
#include "tessera/device/host/detail/host_shared.h"

namespace tessera::device::host::detail {

/// A kernel of the host: a function that is called once per launch.
class HostKernel : public KernelBackend {
 public:
  explicit HostKernel(HostKernelFn body) : function_(body) {}
  /// Returns the function.
  [[nodiscard]] HostKernelFn function() const { return function_; }

 private:
  HostKernelFn function_;
};

/// A kernel with its grid and a copy of its arguments: a few small ones in place, others in a separate block. Small
/// enough to be stored in a HostFunction.
class HostKernelCall {
 public:
  /// Copies the arguments.
  HostKernelCall(HostKernelFn function, const LaunchConfig& config, const KernelArgs& args);
  /// Takes the arguments of `other`.
  HostKernelCall(HostKernelCall&& other) noexcept;
  HostKernelCall& operator=(HostKernelCall&&) = delete;
  ~HostKernelCall();
  /// Calls the kernel; may be repeated.
  void operator()() const;

 private:
  struct Block;  // the arguments, aligned, and their offsets
  static constexpr std::size_t kPlaceNbytes = 32;
  static constexpr std::uint8_t kInBlock = 0xFF;

  bool fits_in_place(const KernelArgs& args);
  [[nodiscard]] static Block* make_block(const KernelArgs& args);

  union {
    alignas(16) std::byte place_[kPlaceNbytes];  // the arguments
    Block* block_;
  };
  HostKernelFn function_;
  LaunchConfig config_;
  std::uint8_t count_ = 0;   // number of arguments in place, or kInBlock
  std::uint8_t offsets_[7];  // offset of each argument
};

/// Copies rows.
void copy_rows(const Copy2d& rows);
/// Fills items of 1, 2 or 4 bytes.
void fill_items(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count);

/// Returns true if the word in memory compares true.
bool value_holds(const std::uint64_t* from, std::uint64_t value, Compare compare);
/// Waits until the word compares true.
void wait_for_value(HostShared& shared, const std::uint64_t* from, std::uint64_t value, Compare compare);
/// Writes a word after all earlier writes, and wakes the threads that wait for one.
void write_word(HostShared& shared, std::uint64_t* to, std::uint64_t value);

}  // namespace tessera::device::host::detail

// Stopped streams: the two words that a hold kernel and the host share, and the kernel itself (hold.cu).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "tessera/device/backend.h"
#include "tessera/device/cuda/driver.h"
#include "tessera/device/cuda/pinned_words.h"

namespace tessera::device::cuda {

class CudaContext;
class CudaKernel;

/// The words of one hold. Owned by the caller's handle, and by the stream until it has seen the end. Thread-safe.
class HoldWords {
 public:
  /// Takes a cell.
  explicit HoldWords(PinnedWords& words) : words_(words), cell_(static_cast<std::uint32_t*>(words.take())) {}
  /// Returns the cell. A kernel that never reported its end keeps it forever (its device is lost).
  ~HoldWords();
  HoldWords(const HoldWords&) = delete;
  HoldWords& operator=(const HoldWords&) = delete;
  /// Ends the kernel.
  void release();
  /// Returns true if the kernel has ended, for any reason.
  [[nodiscard]] bool has_ended() const;
  /// Returns true if it ended because its timeout passed.
  [[nodiscard]] bool has_expired() const;
  /// Notes that the launch failed and there is no kernel.
  void cancel();
  /// Returns the address for the kernel.
  [[nodiscard]] std::uint32_t* address() const { return cell_; }

  static constexpr std::uint32_t kReleased = 1;  ///< status that the kernel writes when released
  static constexpr std::uint32_t kExpired = 2;   ///< status that it writes after its timeout

 private:
  PinnedWords& words_;
  std::uint32_t* cell_;  // [0] written by the host, [1] by the kernel
};

/// The hold that Stream::hold returns.
class CudaHold : public HoldBackend {
 public:
  explicit CudaHold(std::shared_ptr<HoldWords> words) : words_(std::move(words)) {}
  void release() override { words_->release(); }
  [[nodiscard]] bool timed_out() const override;

 private:
  std::shared_ptr<HoldWords> words_;
};

/// Loads hold.cu.
std::shared_ptr<CudaKernel> load_hold_kernel(CudaContext& context);
/// Launches the kernel on `stream`.
void launch_hold(CudaContext& context, CUstream stream, const HoldWords& words, std::chrono::nanoseconds timeout);

}  // namespace tessera::device::cuda

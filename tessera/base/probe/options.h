// How a rank records: whether, how much, where, and what to do when there is no room.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"

namespace tessera::probe {

/// What to do when the record file does not fit.
enum class NoSpace {
  kSmaller,  ///< halve it until it fits; below 256 KiB go without
  kOff,      ///< go without
  kFail,     ///< throw IoError
};

/// How a rank records.
struct TESSERA_API RecordOptions {
  /// Smallest record file.
  static constexpr std::uint64_t kMinBytes = 256 * 1024;
  /// Largest record file.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 30;

  bool is_on = true;                        ///< false: no file, and a record costs a branch
  std::uint64_t nbytes = 32 << 20;          ///< size of the file
  NoSpace on_no_space = NoSpace::kSmaller;  ///< when it does not fit
  std::string directory = {};               ///< where; empty: /dev/shm, and only if that is a tmpfs

  /// As TESSERA_RECORD, TESSERA_RECORD_BYTES, TESSERA_RECORD_NO_SPACE and TESSERA_RECORD_DIR say. Throws
  /// InvalidArgument naming the variable whose value cannot be.
  static RecordOptions from_environment();
};

}  // namespace tessera::probe

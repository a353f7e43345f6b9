// Recording options of a rank: on or off, size, location, and action if there is no space.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"

namespace tessera::probe {

/// Action if the record file does not fit.
enum class NoSpace {
  kSmaller,  ///< Halve it until it fits; below 256 KiB, do not record.
  kOff,      ///< Do not record.
  kFail,     ///< Throw IoError.
};

/// Recording options of a rank.
struct TESSERA_API RecordOptions {
  /// Minimum size of a record file.
  static constexpr std::uint64_t kMinBytes = 256 * 1024;
  /// Maximum size of a record file.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 30;

  bool is_on = true;                        ///< False: no file, and a record costs a branch.
  std::uint64_t nbytes = 32 << 20;          ///< Size of the file.
  NoSpace on_no_space = NoSpace::kSmaller;  ///< Action if the file does not fit.
  std::string directory = {};               ///< Directory of the file. Empty: /dev/shm, if that is a tmpfs.

  /// Returns the options of TESSERA_RECORD, TESSERA_RECORD_BYTES, TESSERA_RECORD_NO_SPACE and TESSERA_RECORD_DIR.
  /// Throws InvalidArgument, which names the variable, if a value is invalid.
  static RecordOptions from_environment();
};

}  // namespace tessera::probe

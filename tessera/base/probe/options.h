// How a rank records: whether, how much, where, and what to do when there is no room.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

  bool is_on = true;                       ///< false: no file, and a record costs a branch
  std::uint64_t nbytes = 32 << 20;         ///< size of the file
  NoSpace on_no_space = NoSpace::kSmaller; ///< when it does not fit
  std::string directory = {};              ///< where; empty: /dev/shm, and only if that is a tmpfs

  /// Reads what TESSERA_RECORD may say: `on` or `off`, then any of `size=8MiB`, `no_space=smaller|off|fail` and
  /// `dir=/path`, separated by commas. Throws InvalidArgument naming the part it does not know.
  static RecordOptions parse(std::string_view text);
  /// parse() of TESSERA_RECORD; the defaults where that is unset.
  static RecordOptions from_environment();
};

}  // namespace tessera::probe

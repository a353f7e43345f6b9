// Strings of a record file: append-only, found again through a map kept outside the file. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "tessera/base/probe/detail/layout.h"

namespace tessera::probe::detail {

/// The check of a StringEntry.
std::uint32_t string_check(std::string_view text);

class StringTable {
 public:
  StringTable(std::byte* section, std::uint64_t nbytes);
  /// The id of `text` in this file; StringId{0} and one more dropped when it is new and there is no room.
  StringId intern(std::string_view text);

 private:
  StringId append(std::string_view text);

  StringsHead* head_;
  std::byte* entries_;
  std::uint64_t capacity_;
  std::shared_mutex mutex_;
  std::map<std::string, StringId, std::less<>> known_;
};

}  // namespace tessera::probe::detail

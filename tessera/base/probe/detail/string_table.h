// Strings of a record file: append-only, with a lookup map outside the file. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "tessera/base/probe/layout.h"

namespace tessera::probe::detail {

/// Returns the check of a StringEntry.
std::uint32_t string_check(std::string_view text);

class StringTable {
 public:
  StringTable(std::byte* section, std::uint64_t nbytes);
  /// Returns the id of `text` in this file. If it is new and does not fit,
  /// returns StringId{0} and counts it as dropped.
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

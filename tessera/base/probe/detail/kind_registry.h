// The record kinds of this process and the open files that describe them. A
// kind has one number in all files of the process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::probe::detail {

/// The schema section of one open file. Entries are appended under the lock of the registry.
class SchemaSection {
 public:
  SchemaSection(std::byte* section, std::uint64_t nbytes) : at_(section), end_(section + nbytes) {}
  ~SchemaSection();
  SchemaSection(const SchemaSection&) = delete;
  SchemaSection& operator=(const SchemaSection&) = delete;

  /// Writes all known kinds and, until destruction, every new one.
  void follow_registry();

 private:
  friend class KindRegistry;
  std::byte* at_;
  std::byte* end_;
  bool following_ = false;
};

}  // namespace tessera::probe::detail

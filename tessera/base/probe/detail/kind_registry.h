// The kinds of this process and the open files that must know them. A kind has one number in all files of the process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::probe::detail {

/// The schema section of one open file. Entries are appended under the registry's lock.
class SchemaSection {
 public:
  SchemaSection(std::byte* section, std::uint64_t nbytes) : at_(section), end_(section + nbytes) {}
  ~SchemaSection();
  SchemaSection(const SchemaSection&) = delete;
  SchemaSection& operator=(const SchemaSection&) = delete;

  /// Writes all kinds known so far and, from here until destroyed, every new one.
  void follow_registry();

 private:
  friend class KindRegistry;
  std::byte* at_;
  std::byte* end_;
  bool following_ = false;
};

}  // namespace tessera::probe::detail

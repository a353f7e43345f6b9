// Binary format of a record file, for its writer and its readers. Internal to the library: users read with reader.h.
// All numbers are little-endian; offsets are from the start of the file.
//
//   0        FileHeader: writer, machine, clock, and the directory of sections             4 KiB
//   .        schemas   kinds that occur in the file, append-only                           (SchemaEntry)
//   .        strings   interned strings, append-only                                       (StringsHead, StringEntry)
//   .        tables    directory of state tables, then their rows                          (TableEntry, rows)
//   .        ring comm, ring memory, ring launch                                           (RingHead, slots)
//
// The directory locates everything except the first fields of the header, and every entry ends or begins with a check
// word that is stored last: a file truncated by SIGKILL between any two stores reads as the entries finished before.
//
// A row of a state table:
//
//    0      8       16      24
//   +------+-------+-------+-------------------+
//   | lock | since | check | payload ...       |   rounded up to 64 bytes
//   +------+-------+-------+-------------------+
//   lock: odd during a write.  since: ticks of the claim, 0 = free.  check: hash of lock, since, payload and index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tessera/base/probe/schema.h"
#include "tessera/base/probe/slot.h"

namespace tessera::probe::detail {

inline constexpr char kMagic[8] = {'T', 'S', 'R', 'E', 'C', 'O', 'R', 'D'};
inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::uint32_t kByteOrder = 0x01020304;
inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kMaxSections = 16;
inline constexpr std::size_t kRunPathBytes = 2048;
inline constexpr std::size_t kMaxTables = 32;
inline constexpr std::size_t kRowHeadBytes = 24;
inline constexpr std::size_t kMaxRowPayload = 512 - kRowHeadBytes;

enum class SectionType : std::uint32_t { kSchemas = 1, kStrings = 2, kTables = 3, kRing = 4 };

struct Section {
  char name[kNameBytes];
  SectionType type;
  std::uint32_t number;  // for rings: index of the ring
  std::uint64_t offset;
  std::uint64_t nbytes;
};

/// A ClockSample with its check, so that a half-written sample is detected.
struct SampleEntry {
  std::uint64_t ticks;
  std::int64_t wall_ns;
  std::int64_t monotonic_ns;
  std::uint64_t check;
};

enum class FileState : std::uint32_t { kOpen = 1, kEnded = 2, kFailed = 3 };

struct FileHeader {
  char magic[8];  // stored last during file creation
  std::uint32_t version;
  std::uint32_t byte_order;
  std::uint64_t file_bytes;
  std::uint64_t pid;
  std::uint64_t process_start;  // /proc/PID/stat, in clock ticks since boot
  std::uint64_t pid_namespace;  // inode; a pid is valid only in its namespace
  std::int32_t rank;
  std::int32_t world_size;
  std::uint32_t clock_source;
  std::uint32_t state;  // FileState
  std::uint64_t ticks_per_second;
  SampleEntry first;
  SampleEntry last;
  char hostname[64];
  char boot_id[40];  // files with equal boot ids share a time-stamp counter
  char build[64];
  char reason[128];  // reason of a failure
  std::uint32_t section_count;
  std::uint32_t reserved;
  Section sections[kMaxSections];
  char run_path[kRunPathBytes];  // the file in the run directory that links to this one, later a copy; empty if none
};
static_assert(sizeof(Section) == 48 && sizeof(FileHeader) <= kHeaderBytes);

struct FieldEntry {
  char name[kNameBytes];
  std::uint16_t type;
  std::uint16_t offset;
  std::uint16_t nbytes;
  std::uint16_t reserved;
};

struct SchemaEntry {    // followed by its FieldEntries
  std::uint64_t check;  // of all bytes that follow; 0 ends the section
  std::uint16_t number;
  std::uint16_t field_count;
  std::uint16_t payload_bytes;
  std::uint16_t reserved;
  char name[kNameBytes];
};
static_assert(sizeof(FieldEntry) == 32 && sizeof(SchemaEntry) == 40);

struct StringsHead {
  std::uint64_t used;     // bytes of entries
  std::uint64_t dropped;  // strings that did not fit
  std::uint64_t reserved[6];
};

// followed by the bytes, rounded up to 8; the id is 1 + the distance from the first entry in words
struct StringEntry {
  std::uint32_t nbytes;
  std::uint32_t check;
};

struct TableEntry {
  std::uint64_t check;  // of the six fields that follow; 0: no table
  std::uint64_t offset;
  std::uint32_t rows;
  std::uint32_t row_bytes;
  std::uint16_t kind;
  std::uint16_t payload_bytes;
  std::uint32_t number;
  std::uint64_t refused;  // claims that found no free row; not covered by the check
  std::uint64_t reserved[3];
};
static_assert(sizeof(StringsHead) == 64 && sizeof(StringEntry) == 8 && sizeof(TableEntry) == 64);
inline constexpr std::size_t kTableCheckedWords = 3;

struct RingHead {             // two cache lines, so that prefetches of neighboring slots do not disturb leasing
  std::uint64_t leased;       // slots leased since the start; the only word that writers share
  std::uint64_t slots;        // in the ring, a multiple of lease_slots
  std::uint64_t lease_slots;  // slots per lease
  std::uint64_t reserved[13];
};
static_assert(sizeof(RingHead) == 128);

/// Positions of the sections in a file of a given size.
struct FilePlan {
  Section sections[kMaxSections];
  std::uint32_t section_count;
  std::uint64_t file_bytes;
};

/// Copies a name into a fixed field, truncated and zero-terminated.
template <std::size_t N>
void put_text(char (&to)[N], std::string_view text) {
  std::size_t n = text.size() < N ? text.size() : N - 1;
  for (std::size_t i = 0; i < n; ++i) to[i] = text[i];
  for (; n < N; ++n) to[n] = 0;
}

/// Returns the check of a row: over its claim time, payload, the (even) lock word it is published with, and its index.
std::uint64_t row_check(const std::uint64_t* words, std::size_t payload_words, std::uint64_t lock, std::uint64_t place);

inline std::uint64_t sample_check(const SampleEntry& s) {
  const std::uint64_t words[3] = {s.ticks, static_cast<std::uint64_t>(s.wall_ns),
                                  static_cast<std::uint64_t>(s.monotonic_ns)};
  return words_check(words, 3, 1);
}

}  // namespace tessera::probe::detail

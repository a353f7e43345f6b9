// Corrupts valid record files in many ways and reads them. The reader may throw IoError or report problems(); it must
// not crash, hang or read out of bounds (run it under the sanitizers), and all returned records must be complete.
//   base_record_fuzz [--runs N] [--seed S] [--seconds T]
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/probe/layout.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/testing/fuzz.h"

namespace tessera::probe {
namespace {

struct FuzzRecord {
  std::uint64_t number, twice;
  StringId text;
  char note[8];
  TESSERA_RECORD(FuzzRecord, "fuzz_record", number, twice, text, note)
};

struct FuzzRow {
  std::uint64_t number;
  StringId text;
  Moment at;
  char note[100];
  static constexpr std::uint32_t kRows = 64;
  TESSERA_RECORD(FuzzRow, "fuzz_row", number, text, at, note)
};

std::vector<char> valid_file() {
  Recorder recorder({}, {.nbytes = RecordOptions::kMinBytes});
  auto table = recorder.table<FuzzRow>();
  std::vector<Row<FuzzRow>> rows;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const StringId text = recorder.intern("text " + std::to_string(i % 50));
    recorder.write(static_cast<Ring>(i % 3), FuzzRecord{i, 2 * i, text, "note"});
    if (i < 40) rows.push_back(table.claim({i, text, recorder.now(), "row"}));
  }
  std::ifstream in(recorder.path(), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

using Random = std::mt19937_64;

std::uint64_t odd_number(Random& random) {
  switch (random() % 6) {
    case 0: return random();
    case 1: return random() % 300'000;
    case 2: return ~std::uint64_t{0} - random() % 64;
    case 3: return std::uint64_t{1} << random() % 64;
    case 4: return random() % 8;
    default: return (random() % 70'000) * 8;
  }
}

// Returns a position where damage has most effect: the header, the start of each section, or anywhere.
std::size_t chosen_place(Random& random, const std::vector<char>& bytes) {
  if (bytes.size() <= 8) return 0;
  const std::size_t last = bytes.size() - 8;
  if (bytes.size() >= sizeof(detail::FileHeader) && random() % 4 != 0) {
    detail::FileHeader header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    const std::size_t kind = random() % 3;
    if (kind == 0) return std::min(last, random() % sizeof header);
    const auto& section = header.sections[random() % detail::kMaxSections];
    return std::min<std::size_t>(last, (kind == 1 ? section.offset : section.offset + random() % 4096) % (last + 1));
  }
  return random() % (last + 1);
}

// Entries with correct checks and wrong contents pass the checks and reach the code after them.
void repair_checks(std::vector<char>& bytes) {
  if (bytes.size() < RecordOptions::kMinBytes) return;
  auto* words = reinterpret_cast<std::uint64_t*>(bytes.data());
  detail::FileHeader header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::uint64_t tables = header.sections[2].offset;
  if (tables % 8 != 0 || tables > bytes.size() - detail::kMaxTables * sizeof(detail::TableEntry)) return;
  for (std::uint32_t i = 0; i < detail::kMaxTables; ++i) {
    std::uint64_t* entry = words + tables / 8 + i * 8;
    if (entry[0] != 0) entry[0] = detail::words_check(entry + 1, detail::kTableCheckedWords, i);
  }
  std::uint64_t at = header.sections[0].offset;
  for (int i = 0; i < 8 && at % 8 == 0 && at < bytes.size() - 4096; ++i) {
    detail::SchemaEntry entry{};
    std::memcpy(&entry, bytes.data() + at, sizeof entry);
    const std::uint64_t nbytes = sizeof entry + entry.field_count * sizeof(detail::FieldEntry);
    if (entry.check == 0 || nbytes > bytes.size() - at) return;
    words[at / 8] = detail::words_check(words + at / 8 + 1, nbytes / 8 - 1, 0);
    at += nbytes;
  }
}

void spoil(Random& random, std::vector<char>& bytes) {
  const int changes = 1 + static_cast<int>(random() % 6);
  for (int i = 0; i < changes; ++i) {
    const std::size_t at = chosen_place(random, bytes);
    if (bytes.size() < 8) return;
    switch (random() % 5) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8); break;
      case 1: {
        const std::uint64_t value = odd_number(random);
        const std::size_t aligned = at & ~std::size_t{7};
        std::memcpy(bytes.data() + aligned, &value, 8);
        break;
      }
      case 2: {
        const auto value = static_cast<std::uint16_t>(odd_number(random));
        std::memcpy(bytes.data() + at, &value, 2);
        break;
      }
      case 3: {
        const std::size_t n = std::min<std::size_t>(random() % 256, bytes.size() - at);
        for (std::size_t k = 0; k < n; ++k) bytes[at + k] = static_cast<char>(random());
        break;
      }
      default:
        if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    }
  }
  if (random() % 2 == 0) repair_checks(bytes);
}

// Returns false if some returned data differs from the written data.
bool read_all(const std::string& path) {
  const RecordFile file = RecordFile::open(path);
  bool is_right = true;
  std::size_t seen = 0;
  for (const RecordRef& ref : file.records()) {
    if (const auto record = file.as<FuzzRecord>(ref)) is_right = is_right && record->twice == 2 * record->number;
    if (seen++ % 16 == 0) (void)to_string(file.read(ref));
  }
  for (const TableInfo& table : file.tables()) {
    for (const RowInfo& row : table.claimed) {
      for (const Field& field : row.fields) (void)to_string(field.value);
    }
  }
  for (std::uint32_t id = 0; id < 300; ++id) (void)file.string(StringId{id});
  return is_right;
}

int run(int argc, char** argv) {
  const std::vector<char> valid = valid_file();
  const int fd = memfd_create("record_fuzz", MFD_CLOEXEC);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return fuzz::run(argc, argv, "corrupted record files read", [&](std::uint64_t seed) -> std::string {
    Random random(seed);
    std::vector<char> bytes = valid;
    if (seed > 1) spoil(random, bytes);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      return "the file could not be written";
    try {
      return read_all(path) ? "" : "a record that was never written";
    } catch (const IoError&) {
      return seed > 1 ? "" : "the file as written was refused";
    }
  });
}

}  // namespace
}  // namespace tessera::probe

int main(int argc, char** argv) { return tessera::probe::run(argc, argv); }

// Parses the bytes of a record file into a RecordFile. Nothing in the file is trusted: every offset is compared with
// the size that was read, every entry with its check.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "tessera/base/error.h"
#include "tessera/base/probe/detail/string_table.h"
#include "tessera/base/probe/layout.h"
#include "tessera/base/probe/options.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/table_view.h"

namespace tessera::probe {

using tessera::detail::concat;

namespace {

constexpr int kRereads = 3;  // of a slot or row that was being written during the copy

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::size_t read_some(int fd, void* to, std::size_t nbytes, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < nbytes) {
    const ssize_t n = pread(fd, static_cast<char*>(to) + done, nbytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

template <std::size_t N>
std::string text_of(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

bool width_fits(FieldType type, std::uint16_t nbytes) {
  switch (type) {
    case FieldType::kU8:
    case FieldType::kI8:
    case FieldType::kBool: return nbytes == 1;
    case FieldType::kU16:
    case FieldType::kI16: return nbytes == 2;
    case FieldType::kU32:
    case FieldType::kI32:
    case FieldType::kF32:
    case FieldType::kString: return nbytes == 4;
    case FieldType::kU64:
    case FieldType::kI64:
    case FieldType::kF64:
    case FieldType::kMoment:
    case FieldType::kAddress: return nbytes == 8;
    case FieldType::kText: return true;
  }
  return true;  // a type of a later version: kept, shown as bytes
}

}  // namespace

class RecordFileParser {
 public:
  RecordFileParser(const std::string& path, int fd, std::uint64_t nbytes, bool has_rings)
      : fd_(fd), path_(path), has_rings_(has_rings) {
    if (!has_rings_) nbytes = std::min(nbytes, bytes_before_rings(fd));
    file_.image_.resize((nbytes + 7) / 8);
    nbytes_ = read_some(fd, file_.image_.data(), nbytes, 0);
  }

  RecordFile parse() {
    parse_header();
    for (const auto& section : sections(detail::SectionType::kSchemas)) parse_schemas(section);
    for (const auto& section : sections(detail::SectionType::kStrings)) parse_strings(section);
    for (const auto& section : sections(detail::SectionType::kTables)) parse_tables(section);
    if (!has_rings_) return std::move(file_);
    for (const auto& section : sections(detail::SectionType::kRing)) parse_ring(section);
    std::sort(file_.records_.begin(), file_.records_.end(), [](const RecordRef& a, const RecordRef& b) {
      return std::tie(a.ticks, a.ring, a.lap, a.slot) < std::tie(b.ticks, b.ring, b.lap, b.slot);
    });
    return std::move(file_);
  }

 private:
  struct Part {  // the part of a section that was read
    std::string name;
    std::uint32_t number;
    std::uint64_t offset;
    std::uint64_t nbytes;
  };

  // Rings come last; if the header differs, the complete file is read.
  static std::uint64_t bytes_before_rings(int fd) {
    detail::FileHeader header{};
    if (read_some(fd, &header, sizeof header, 0) != sizeof header) return detail::kHeaderBytes;
    std::uint64_t first = RecordOptions::kMaxBytes;
    std::uint64_t last = detail::kHeaderBytes;
    for (std::uint32_t i = 0; i < std::min<std::uint32_t>(header.section_count, detail::kMaxSections); ++i) {
      const detail::Section& section = header.sections[i];
      const bool is_ring = section.type == detail::SectionType::kRing;
      if (is_ring) first = std::min(first, section.offset);
      if (!is_ring) last = std::max(last, section.offset);
    }
    return first > last ? first : RecordOptions::kMaxBytes;
  }

  void problem(const std::string& what) { file_.problems_.push_back(concat(path_, ": ", what)); }

  template <class T>
  T get(std::uint64_t offset) const {
    T value{};
    std::memcpy(&value, reinterpret_cast<const char*>(file_.image_.data()) + offset, sizeof value);
    return value;
  }
  std::uint64_t* words(std::uint64_t offset) { return file_.image_.data() + offset / 8; }

  void parse_header();
  void parse_clock();
  std::vector<Part> sections(detail::SectionType type);
  void parse_schemas(const Part& part);
  std::uint64_t parse_schema(const Part& part, std::uint64_t at);
  void parse_strings(const Part& part);
  void parse_tables(const Part& part);
  void parse_table(const detail::TableEntry& entry);
  void parse_row(const detail::TableEntry& entry, std::uint32_t index, TableInfo& table);
  void parse_ring(const Part& part);
  bool slot_is_whole(std::uint64_t offset, std::uint64_t place);

  RecordFile file_;
  detail::FileHeader header_{};
  int fd_;
  std::string path_;
  bool has_rings_;
  std::uint64_t nbytes_ = 0;
};

void RecordFileParser::parse_header() {
  TESSERA_CHECK_AS(IoError, nbytes_ >= detail::kHeaderBytes, "record file ", path_, ": must have at least ",
                   detail::kHeaderBytes, " bytes for its header, got ", nbytes_);
  header_ = get<detail::FileHeader>(0);
  const bool is_unfinished =
      std::all_of(std::begin(header_.magic), std::end(header_.magic), [](char c) { return c == 0; });
  TESSERA_CHECK_AS(IoError, !is_unfinished, "record file ", path_, ": incomplete; its process was still creating it");
  TESSERA_CHECK_AS(IoError, std::memcmp(header_.magic, detail::kMagic, sizeof detail::kMagic) == 0, "record file ",
                   path_, ": not a record file (it does not start with TSRECORD)");
  TESSERA_CHECK_AS(IoError, header_.byte_order == detail::kByteOrder, "record file ", path_,
                   ": written on a machine with a different byte order");
  TESSERA_CHECK_AS(IoError, header_.version <= detail::kFormatVersion, "record file ", path_,
                   ": format version must be at most ", detail::kFormatVersion, ", got ", header_.version,
                   "; use a newer tessera");
  if (header_.file_bytes > nbytes_ && has_rings_) {
    problem(concat("cut off at ", nbytes_, " of ", header_.file_bytes, " bytes; reading the bytes before"));
  }
  FileInfo& info = file_.info_;
  info.path = path_;
  info.version = header_.version;
  info.nbytes = header_.file_bytes;
  info.pid = header_.pid;
  info.process_start = header_.process_start;
  info.rank = header_.rank;
  info.world_size = header_.world_size;
  info.hostname = text_of(header_.hostname);
  info.boot_id = text_of(header_.boot_id);
  info.build = text_of(header_.build);
  info.reason = text_of(header_.reason);
  const auto state = static_cast<detail::FileState>(header_.state);
  info.state = state == detail::FileState::kEnded    ? RecordState::kEnded
               : state == detail::FileState::kFailed ? RecordState::kFailed
                                                     : RecordState::kOpen;
  parse_clock();
}

void RecordFileParser::parse_clock() {
  ClockCalibration& clock = file_.info_.clock;
  clock.source = static_cast<ClockSource>(header_.clock_source);
  clock.ticks_per_second = header_.ticks_per_second;
  if (clock.ticks_per_second == 0) {
    problem("the clock rate is missing; a tick counts as 1 ns");
    clock.ticks_per_second = 1'000'000'000;
  }
  const auto sample = [](const detail::SampleEntry& entry) {
    return ClockSample{entry.ticks, entry.wall_ns, entry.monotonic_ns};
  };
  const bool has_first = detail::sample_check(header_.first) == header_.first.check;
  detail::SampleEntry last = header_.last;
  for (int i = 0; i < kRereads && detail::sample_check(last) != last.check; ++i) {
    read_some(fd_, &last, sizeof last, offsetof(detail::FileHeader, last));
  }
  const bool has_last = detail::sample_check(last) == last.check;
  if (!has_first && !has_last) problem("the clock samples are corrupt; wall times are unreliable");
  clock.first = sample(has_first ? header_.first : last);
  clock.last = sample(has_last ? last : header_.first);
}

std::vector<RecordFileParser::Part> RecordFileParser::sections(detail::SectionType type) {
  std::vector<Part> found;
  const std::uint32_t count = std::min<std::uint32_t>(header_.section_count, detail::kMaxSections);
  for (std::uint32_t i = 0; i < count; ++i) {
    const detail::Section& section = header_.sections[i];
    if (section.type != type) continue;
    Part part{text_of(section.name), section.number, section.offset, section.nbytes};
    if (part.offset % 8 != 0 || part.offset < detail::kHeaderBytes || part.offset > nbytes_) {
      problem(concat("section ", part.name, " at ", part.offset, " is outside the file; skipped"));
      continue;
    }
    if (part.nbytes > nbytes_ - part.offset) {
      part.nbytes = nbytes_ - part.offset;
      problem(concat("section ", part.name, ": only ", part.nbytes, " of ", section.nbytes, " bytes exist"));
    }
    found.push_back(part);
  }
  return found;
}

void RecordFileParser::parse_schemas(const Part& part) {
  std::uint64_t at = part.offset;
  while (at != 0) at = parse_schema(part, at);
}

// Returns the offset of the next entry; 0 at the end.
std::uint64_t RecordFileParser::parse_schema(const Part& part, std::uint64_t at) {
  const std::uint64_t left = part.offset + part.nbytes - at;
  if (left < sizeof(detail::SchemaEntry)) return 0;
  const auto entry = get<detail::SchemaEntry>(at);
  if (entry.check == 0) return 0;
  const std::uint64_t nbytes = sizeof entry + std::uint64_t{entry.field_count} * sizeof(detail::FieldEntry);
  if (nbytes > left || detail::words_check(words(at) + 1, nbytes / 8 - 1, 0) != entry.check) {
    problem(concat("kinds are corrupt from byte ", at, "; their records are shown as raw words"));
    return 0;
  }
  RecordFile::Schema schema;
  schema.number = entry.number;
  schema.payload_bytes = entry.payload_bytes;
  schema.name = text_of(entry.name);
  for (std::uint16_t i = 0; i < entry.field_count; ++i) {
    const auto field = get<detail::FieldEntry>(at + sizeof entry + i * sizeof(detail::FieldEntry));
    const auto type = static_cast<FieldType>(field.type);
    if (field.type > 0xff || field.offset + field.nbytes > schema.payload_bytes || !width_fits(type, field.nbytes)) {
      problem(concat("kind ", schema.name, ": field ", text_of(field.name), " is invalid; skipped"));
      continue;
    }
    schema.fields.push_back({text_of(field.name), type, field.offset, field.nbytes});
  }
  file_.schemas_.push_back(std::move(schema));
  return at + nbytes;
}

void RecordFileParser::parse_strings(const Part& part) {
  if (part.nbytes < sizeof(detail::StringsHead)) return;
  const auto head = get<detail::StringsHead>(part.offset);
  file_.strings_offset_ = part.offset + sizeof head;
  file_.strings_nbytes_ = std::min(head.used, part.nbytes - sizeof head);
  file_.dropped_strings_ = head.dropped;
}

void RecordFileParser::parse_tables(const Part& part) {
  for (std::uint32_t i = 0; i < detail::kMaxTables; ++i) {
    const std::uint64_t at = part.offset + i * sizeof(detail::TableEntry);
    if (at + sizeof(detail::TableEntry) > part.offset + part.nbytes) return;
    const auto entry = get<detail::TableEntry>(at);
    if (entry.check == 0) continue;
    if (detail::words_check(words(at) + 1, detail::kTableCheckedWords, i) != entry.check) {
      problem(concat("state table ", i, " is corrupt; skipped"));
      continue;
    }
    parse_table(entry);
  }
}

void RecordFileParser::parse_table(const detail::TableEntry& entry) {
  const RecordFile::Schema* schema = file_.find_schema(entry.kind);
  TableInfo table;
  table.kind = schema != nullptr ? schema->name : concat("kind ", entry.kind);
  table.refused = entry.refused;
  const bool is_sane =
      entry.offset % 8 == 0 && entry.row_bytes % 8 == 0 && entry.payload_bytes <= detail::kMaxRowPayload &&
      entry.row_bytes >= detail::kRowHeadBytes + (entry.payload_bytes + 7U) / 8 * 8 && entry.offset <= nbytes_;
  const std::uint64_t fit = is_sane ? (nbytes_ - entry.offset) / entry.row_bytes : 0;
  table.rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(entry.rows, fit));
  if (table.rows < entry.rows) {
    problem(concat("state table ", table.kind, ": only ", table.rows, " of ", entry.rows, " rows exist"));
  }
  for (std::uint32_t i = 0; i < table.rows; ++i) parse_row(entry, i, table);
  file_.tables_.push_back(std::move(table));
}

void RecordFileParser::parse_row(const detail::TableEntry& entry, std::uint32_t index, TableInfo& table) {
  const std::uint64_t at = entry.offset + std::uint64_t{index} * entry.row_bytes;
  const auto is_whole = [&] {
    const std::uint64_t* row = words(at);
    if ((row[0] & 1) != 0) return false;
    if (row[1] == 0) return true;
    const std::size_t payload_words = (entry.payload_bytes + 7U) / 8;
    return detail::row_check(row, payload_words, row[0], detail::slot_place(entry.number, index)) == row[2];
  };
  for (int i = 0; i < kRereads && !is_whole(); ++i) read_some(fd_, words(at), entry.row_bytes, at);
  const std::uint64_t* row = words(at);
  RowInfo info;
  info.index = index;
  info.is_torn = !is_whole();
  if (row[1] == 0 && !info.is_torn) return;
  info.since_ns = file_.info_.clock.wall_ns(row[1]);
  const RecordFile::Schema* schema = file_.find_schema(entry.kind);
  const auto* payload = reinterpret_cast<const std::byte*>(row) + detail::kRowHeadBytes;
  if (schema != nullptr) info.fields = file_.decode(*schema, {payload, entry.payload_bytes});
  if (table.kind == "thread" && !info.is_torn) {
    const Field* tid = info.find("tid");
    const Field* name = info.find("name");
    const bool is_known = tid != nullptr && name != nullptr && std::holds_alternative<std::uint64_t>(tid->value);
    file_.threads_.resize(index + 1);
    if (is_known) {
      file_.threads_[index] = {
          row[1], {static_cast<std::uint32_t>(std::get<std::uint64_t>(tid->value)), to_string(name->value)}};
    }
  }
  table.claimed.push_back(std::move(info));
}

bool RecordFileParser::slot_is_whole(std::uint64_t offset, std::uint64_t place) {
  std::uint64_t copy[detail::kSlotWords];
  std::memcpy(copy, words(offset), sizeof copy);
  return copy[0] != 0 && detail::slot_check(copy, place) == copy[0];
}

void RecordFileParser::parse_ring(const Part& part) {
  if (part.nbytes < sizeof(detail::RingHead)) return;
  const auto head = get<detail::RingHead>(part.offset);
  const std::uint64_t fit = (part.nbytes - sizeof head) / detail::kSlotBytes;
  RingInfo ring;
  ring.name = part.name;
  ring.slots = std::min({head.slots, fit, std::uint64_t{0xffffffff}});
  if (ring.slots < head.slots) {
    problem(concat("ring ", ring.name, ": only ", ring.slots, " of ", head.slots, " slots exist"));
  }
  ring.overwritten = head.leased > head.slots ? head.leased - head.slots : 0;
  const auto number = static_cast<std::uint16_t>(file_.rings_.size());
  const std::uint64_t first = part.offset + sizeof head;
  for (std::uint64_t i = 0; i < ring.slots; ++i) {
    const std::uint64_t at = first + i * detail::kSlotBytes;
    const std::uint64_t place = detail::slot_place(part.number, i);
    const bool is_empty = words(at)[0] == 0;
    bool is_whole = !is_empty && slot_is_whole(at, place);
    for (int again = 0; again < kRereads && !is_empty && !is_whole; ++again) {
      read_some(fd_, words(at), detail::kSlotBytes, at);
      is_whole = slot_is_whole(at, place);
    }
    ring.never_used += is_empty ? 1 : 0;
    ring.torn += !is_empty && !is_whole ? 1 : 0;
    if (!is_whole) continue;
    ++ring.records;
    const std::uint64_t* slot = words(at);
    file_.records_.push_back({slot[1], static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(slot[2] >> 32),
                              static_cast<std::uint16_t>(slot[2]), static_cast<std::uint16_t>(slot[2] >> 16), number});
  }
  file_.rings_.push_back(ring);
  file_.ring_offsets_.push_back(first);
}

namespace {

RecordFile open_file(const std::string& path, bool has_rings) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  TESSERA_CHECK_AS(IoError, file.fd >= 0, "record file ", path, ": ", std::strerror(errno));
  struct stat info {};
  const bool is_regular = fstat(file.fd, &info) == 0 && S_ISREG(info.st_mode);
  TESSERA_CHECK_AS(IoError, is_regular, "record file ", path, ": not a regular file");
  const auto nbytes = static_cast<std::uint64_t>(info.st_size);
  TESSERA_CHECK_AS(IoError, nbytes <= RecordOptions::kMaxBytes, "record file ", path,
                   ": exceeds the maximum size of a record file, 64 GiB");
  return RecordFileParser(path, file.fd, nbytes, has_rings).parse();
}

}  // namespace

RecordFile RecordFile::open(const std::string& path) { return open_file(path, /*has_rings=*/true); }
RecordFile open_record_tables(const std::string& path) { return open_file(path, /*has_rings=*/false); }

}  // namespace tessera::probe

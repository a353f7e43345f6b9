// Tests in one process: records wrap around, are read as written, and are never mixed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/probe/layout.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::probe {
namespace {

struct LaunchRecord {
  std::uint32_t stream;
  StringId label;
  std::uint64_t tick;
  TESSERA_RECORD(LaunchRecord, "test_launch", stream, label, tick)
};

enum class Colour : std::uint8_t { kRed = 3 };

struct EveryType {
  std::uint8_t u8;
  std::int8_t i8;
  std::uint16_t u16;
  std::int16_t i16;
  std::int32_t i32;
  float f32;
  Colour colour;
  bool flag;
  char text[6];
  double f64;
  const void* address;
  TESSERA_RECORD(EveryType, "test_every_type", u8, i8, u16, i16, i32, f32, colour, flag, text, f64, address)
};
static_assert(sizeof(EveryType) == 40);

// Filled from one number, so that a mix of two records is detected.
struct NumberedRecord {
  std::uint64_t a, b, c, d, e;
  static NumberedRecord of(std::uint64_t n) { return {n, n * 3, ~n, n ^ 0x5555, n + 1}; }
  friend bool operator==(const NumberedRecord&, const NumberedRecord&) = default;
  TESSERA_RECORD(NumberedRecord, "test_numbered", a, b, c, d, e)
};

constexpr std::uint64_t kSmall = RecordOptions::kMinBytes;

RecordOptions small_options() { return {.nbytes = kSmall}; }

std::uint64_t number_field(const Record& record, const char* name) {
  const Field* field = record.find(name);
  return field != nullptr ? std::get<std::uint64_t>(field->value) : ~std::uint64_t{0};
}

// Returns the records of one kind as structs, oldest first.
template <class Kind>
std::vector<Kind> records_of(const RecordFile& file) {
  std::vector<Kind> found;
  for (const RecordRef& ref : file.records()) {
    if (const auto record = file.as<Kind>(ref)) found.push_back(*record);
  }
  return found;
}

const RingInfo& ring_of(const RecordFile& file, Ring ring) { return file.rings().at(static_cast<std::size_t>(ring)); }

TEST(Recorder, RecordsComeBackWithNamesValuesAndTimes) {
  Recorder recorder({}, small_options());
  ASSERT_TRUE(recorder.is_on()) << recorder.status();
  const StringId label = recorder.intern("softmax");
  const std::int64_t before = sample_clock(ClockSource::kSystem).wall_ns;
  recorder.write(Ring::kLaunch, LaunchRecord{3, label, 17});
  const RecordFile file = RecordFile::open(recorder.path());
  EXPECT_TRUE(file.problems().empty());
  ASSERT_EQ(file.records().size(), 1U);
  const Record record = file.read(file.records()[0]);
  EXPECT_EQ(record.kind, "test_launch");
  EXPECT_EQ(record.ring, "launch");
  EXPECT_EQ(to_string(record), "test_launch stream=3 label=softmax tick=17");
  EXPECT_EQ(record.thread.tid, static_cast<std::uint32_t>(gettid()));
  EXPECT_NEAR(static_cast<double>(record.wall_ns), static_cast<double>(before), 60e9);
  EXPECT_EQ(file.as<LaunchRecord>(file.records()[0])->tick, 17U);
  EXPECT_FALSE(file.as<NumberedRecord>(file.records()[0]).has_value());
}

TEST(Recorder, EveryFieldTypeComesBack) {
  Recorder recorder({}, small_options());
  int target = 0;
  recorder.write(Ring::kComm,
                 EveryType{1, -2, 3, -4, -5, 1.5F, Colour::kRed, true, {'s', 'i', 'x', 't', 'y', '6'}, 2.5, &target});
  const RecordFile file = RecordFile::open(recorder.path());
  const Record record = file.read(file.records().at(0));
  const auto address = reinterpret_cast<std::uint64_t>(&target);
  EXPECT_EQ(to_string(record),
            "test_every_type u8=1 i8=-2 u16=3 i16=-4 i32=-5 f32=1.5 colour=3 flag=true text=sixty6 f64=2.5 address=" +
                std::to_string(address));
}

TEST(Recorder, HeaderSaysWhoWrote) {
  Recorder recorder({.rank = Rank{3}, .world_size = 8}, small_options());
  const FileInfo info = RecordFile::open(recorder.path()).info();
  EXPECT_EQ(info.pid, static_cast<std::uint64_t>(getpid()));
  EXPECT_GT(info.process_start, 0U);
  EXPECT_EQ(info.rank, 3);
  EXPECT_EQ(info.world_size, 8);
  EXPECT_EQ(info.nbytes, kSmall);
  EXPECT_FALSE(info.hostname.empty());
  EXPECT_FALSE(info.boot_id.empty());
  EXPECT_FALSE(info.build.empty());
  EXPECT_EQ(info.state, RecordState::kOpen);
}

TEST(Recorder, AFullRingKeepsTheNewestAndCountsTheRest) {
  Recorder recorder({}, small_options());
  const std::uint64_t slots = RecordFile::open(recorder.path()).rings()[0].slots;
  const std::uint64_t count = slots * 5 / 2;
  for (std::uint64_t i = 0; i < count; ++i) recorder.write(Ring::kComm, NumberedRecord::of(i));
  const RecordFile file = RecordFile::open(recorder.path());
  const auto found = records_of<NumberedRecord>(file);
  ASSERT_EQ(found.size(), slots);
  for (std::uint64_t i = 0; i < slots; ++i) ASSERT_EQ(found[i], NumberedRecord::of(count - slots + i));
  const RingInfo& ring = ring_of(file, Ring::kComm);
  EXPECT_EQ(ring.torn, 0U);
  EXPECT_EQ(ring.never_used, 0U);
  EXPECT_GE(ring.overwritten, count - slots);
  EXPECT_LT(ring.overwritten, count - slots + 64);
}

TEST(Recorder, AStormInOneRingLeavesTheOthersAlone) {
  Recorder recorder({}, small_options());
  recorder.write(Ring::kComm, LaunchRecord{1, {}, 1});
  for (std::uint64_t i = 0; i < 100'000; ++i) recorder.write(Ring::kMemory, NumberedRecord::of(i));
  const RecordFile file = RecordFile::open(recorder.path());
  EXPECT_EQ(records_of<LaunchRecord>(file).size(), 1U);
}

// The record of a thread that writes rarely must not be in slots that others are about to overwrite.
TEST(Recorder, ALeaseThatOthersHaveNearlyLappedIsGivenUp) {
  Recorder recorder({}, small_options());
  recorder.write(Ring::kComm, LaunchRecord{1, {}, 1});
  const std::uint64_t slots = RecordFile::open(recorder.path()).rings()[0].slots;
  std::thread([&] {
    for (std::uint64_t i = 0; i < slots - 32; ++i) recorder.write(Ring::kComm, NumberedRecord::of(i));
  }).join();
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(3)) {
  }
  recorder.write(Ring::kComm, LaunchRecord{2, {}, 2});
  std::thread([&] {
    for (std::uint64_t i = 0; i < slots / 2; ++i) recorder.write(Ring::kComm, NumberedRecord::of(i));
  }).join();
  const auto found = records_of<LaunchRecord>(RecordFile::open(recorder.path()));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back().stream, 2U);
}

TEST(Recorder, OffCostsNothingAndSaysSo) {
  Recorder recorder({}, {.is_on = false});
  recorder.write(Ring::kComm, LaunchRecord{1, recorder.intern("x"), 1});
  EXPECT_FALSE(recorder.is_on());
  EXPECT_EQ(recorder.path(), "");
  EXPECT_EQ(recorder.status(), "recording is off by request");
  EXPECT_EQ(recorder.intern("x"), StringId{});
}

TEST(Recorder, ThreadsAreToldApartAlsoAfterTheyEnd) {
  Recorder recorder({}, small_options());
  std::map<std::uint32_t, std::uint32_t> tid_of;
  for (std::uint32_t i = 0; i < 4; ++i) {
    Thread("writer-" + std::to_string(i), [&, i] {
      tid_of[i] = static_cast<std::uint32_t>(gettid());
      recorder.write(Ring::kLaunch, LaunchRecord{i, {}, 0});
    }).join();
  }
  const RecordFile file = RecordFile::open(recorder.path());
  ASSERT_EQ(file.records().size(), 4U);
  for (const RecordRef& ref : file.records()) {
    const Record record = file.read(ref);
    const auto number = static_cast<std::uint32_t>(number_field(record, "stream"));
    EXPECT_EQ(record.thread.name, "writer-" + std::to_string(number));
    EXPECT_EQ(record.thread.tid, tid_of[number]);
  }
}

TEST(Recorder, MoreThreadsThanRowsLoseOnlyOldNames) {
  Recorder recorder({}, small_options());
  const std::uint32_t rows = RecordFile::open(recorder.path()).find_table("thread")->rows;
  for (std::uint32_t i = 0; i < rows + 3; ++i) {
    Thread("w" + std::to_string(i), [&, i] { recorder.write(Ring::kLaunch, LaunchRecord{i, {}, 0}); }).join();
  }
  const RecordFile file = RecordFile::open(recorder.path());
  std::set<std::string> names;
  for (const RecordRef& ref : file.records()) {
    const Record record = file.read(ref);
    const std::uint64_t number = number_field(record, "stream");
    if (record.thread.tid == 0) {
      EXPECT_LT(number, 3U);
    } else {
      EXPECT_EQ(record.thread.name, "w" + std::to_string(number));
    }
    names.insert(record.thread.name);
  }
  EXPECT_TRUE(names.contains("w" + std::to_string(rows + 2)));
}

TEST(Recorder, ManyThreadsLapEachOtherAndNothingIsMixed) {
  Recorder recorder({}, small_options());
  std::atomic<bool> stop{false};
  std::vector<Thread> writers;
  for (std::uint64_t w = 0; w < 6; ++w) {
    writers.emplace_back("writer", [&, w] {
      for (std::uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i)
        recorder.write(Ring::kComm, NumberedRecord::of(w << 40 | i));
    });
  }
  for (int i = 0; i < 30; ++i) {
    const RecordFile file = RecordFile::open(recorder.path());
    EXPECT_TRUE(file.problems().empty());
    for (const NumberedRecord& record : records_of<NumberedRecord>(file))
      ASSERT_EQ(record, NumberedRecord::of(record.a));
  }
  stop = true;
}

// Ranks of one process.

TEST(Recorder, EachRankOfAProcessHasItsOwnFile) {
  std::vector<std::shared_ptr<RankContext>> ranks;
  for (int i = 0; i < 2; ++i) {
    ranks.push_back(std::make_shared<RankContext>(RankPlace{.rank = Rank{i}, .world_size = 2}));
    open_recorder(*ranks.back(), small_options());
  }
  for (std::uint64_t n = 0; n < 10; ++n) {
    const RankScope scope(ranks[n % 2]);
    record(Ring::kComm, NumberedRecord::of(n));
    Thread("inherits", [n] { record(Ring::kComm, NumberedRecord::of(n + 100)); }).join();
  }
  for (std::uint64_t i = 0; i < 2; ++i) {
    const RankScope scope(ranks[i]);
    const RecordFile file = RecordFile::open(recorder().path());
    const auto found = records_of<NumberedRecord>(file);
    EXPECT_EQ(found.size(), 10U);
    for (const NumberedRecord& each : found) EXPECT_EQ(each.a % 2, i);
  }
}

TEST(Recorder, ARankThatCameAfterAnotherIsNotMistakenForIt) {
  for (std::uint64_t n = 0; n < 5; ++n) {
    const auto rank = std::make_shared<RankContext>(RankPlace{});
    const RankScope scope(rank);
    open_recorder(*rank, small_options());
    record(Ring::kComm, NumberedRecord::of(n));
    const auto found = records_of<NumberedRecord>(RecordFile::open(recorder().path()));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].a, n);
  }
}

TEST(Recorder, ASecondRecorderForARankIsRefused) {
  RankContext rank(RankPlace{});
  open_recorder(rank, small_options());
  EXPECT_THROW(open_recorder(rank, small_options()), InvalidArgument);
}

TEST(Recorder, FilesOfOneMachineMergeInOrder) {
  Recorder a({.rank = Rank{0}, .world_size = 2}, small_options());
  Recorder b({.rank = Rank{1}, .world_size = 2}, small_options());
  for (std::uint64_t n = 0; n < 20; ++n) (n % 2 == 0 ? a : b).write(Ring::kComm, NumberedRecord::of(n));
  std::vector<RecordFile> files;
  files.push_back(RecordFile::open(a.path()));
  files.push_back(RecordFile::open(b.path()));
  std::uint64_t next = 0;
  for (const MergedRef& merged : merge_records(files)) {
    EXPECT_EQ(files[merged.file].as<NumberedRecord>(merged.ref)->a, next);
    ++next;
  }
  EXPECT_EQ(next, 20U);
}

// Strings.

TEST(StringTable, EqualStringsHaveOneId) {
  Recorder recorder({}, small_options());
  const StringId first = recorder.intern("all_reduce");
  EXPECT_EQ(recorder.intern(std::string("all_") + "reduce"), first);
  EXPECT_NE(recorder.intern("all_gather"), first);
  const StringId empty = recorder.intern("");
  const RecordFile file = RecordFile::open(recorder.path());
  EXPECT_EQ(file.string(first), "all_reduce");
  EXPECT_EQ(file.string(empty), "");
  EXPECT_EQ(file.string(StringId{first.value() + 1}), "(bad string)");
  EXPECT_EQ(file.string(StringId{0xffffffff}), "(bad string)");
}

TEST(StringTable, AFullTableSaysSoAndKeepsWhatItHas) {
  Recorder recorder({}, small_options());
  const StringId kept = recorder.intern("kept");
  int dropped = 0;
  for (int i = 0; i < 2000; ++i) dropped += recorder.intern("string number " + std::to_string(i)) == StringId{} ? 1 : 0;
  EXPECT_EQ(recorder.intern(std::string(1 << 20, 'x')), StringId{});
  const RecordFile file = RecordFile::open(recorder.path());
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(file.dropped_strings(), static_cast<std::uint64_t>(dropped) + 1);
  EXPECT_EQ(file.string(kept), "kept");
  EXPECT_EQ(file.string(StringId{}), "(table full)");
  EXPECT_EQ(recorder.intern("kept"), kept);
}

// Options.

TEST(RecordOptions, ReadsWhatTheEnvironmentMaySay) {
  EXPECT_EQ(RecordOptions::from_environment().nbytes, 32U << 20);
  setenv("TESSERA_RECORD", "off", 1);
  setenv("TESSERA_RECORD_BYTES", "8MiB", 1);
  setenv("TESSERA_RECORD_NO_SPACE", "fail", 1);
  setenv("TESSERA_RECORD_DIR", "/tmp/x", 1);
  const RecordOptions options = RecordOptions::from_environment();
  EXPECT_FALSE(options.is_on);
  EXPECT_EQ(options.nbytes, 8U << 20);
  EXPECT_EQ(options.on_no_space, NoSpace::kFail);
  EXPECT_EQ(options.directory, "/tmp/x");
  setenv("TESSERA_RECORD_BYTES", "1KiB", 1);
  EXPECT_THROW(RecordOptions::from_environment(), InvalidArgument);
  for (const char* name : {"TESSERA_RECORD", "TESSERA_RECORD_BYTES", "TESSERA_RECORD_NO_SPACE", "TESSERA_RECORD_DIR"}) {
    unsetenv(name);
  }
}

}  // namespace
}  // namespace tessera::probe

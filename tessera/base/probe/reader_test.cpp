// Truncated, corrupt and foreign files, and files of later versions: readable data is read, and the rest is reported.
#include "tessera/base/probe/reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/base/probe/layout.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::probe {
namespace {

struct NoteRecord {
  std::uint64_t number;
  StringId text;
  TESSERA_RECORD(NoteRecord, "test_note", number, text)
};

class Reader : public ::testing::Test {
 protected:
  void SetUp() override {
    Recorder recorder({.rank = Rank{2}, .world_size = 4}, {.nbytes = RecordOptions::kMinBytes});
    const StringId text = recorder.intern("hello");
    for (std::uint64_t i = 0; i < 100; ++i) recorder.write(Ring::kLaunch, NoteRecord{i, text});
    std::ifstream in(recorder.path(), std::ios::binary);
    bytes.assign((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    ASSERT_EQ(bytes.size(), RecordOptions::kMinBytes);
  }
  void TearDown() override { std::remove(path.c_str()); }

  RecordFile open_copy() {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return RecordFile::open(path);
  }
  detail::FileHeader header() {
    detail::FileHeader copy{};
    std::memcpy(&copy, bytes.data(), sizeof copy);
    return copy;
  }
  void set_header(const std::function<void(detail::FileHeader&)>& change) {
    detail::FileHeader copy = header();
    change(copy);
    std::memcpy(bytes.data(), &copy, sizeof copy);
  }
  std::string refusal() {
    try {
      open_copy();
    } catch (const IoError& error) {
      EXPECT_NE(error.message().find(path), std::string::npos) << error.message();
      return error.message();
    }
    ADD_FAILURE() << "was read";
    return {};
  }
  static bool mentions(const RecordFile& file, const std::string& what) {
    for (const std::string& problem : file.problems()) {
      if (problem.find(what) != std::string::npos) return true;
    }
    return false;
  }

  std::string bytes;
  std::string path = ::testing::TempDir() + "reader_test_" + std::to_string(getpid()) + ".record";
};

TEST_F(Reader, ReadsACopy) {
  const RecordFile file = open_copy();
  EXPECT_TRUE(file.problems().empty());
  EXPECT_EQ(file.records().size(), 100U);
  EXPECT_EQ(to_string(file.read(file.records()[99])), "test_note number=99 text=hello");
}

TEST_F(Reader, RefusesWhatIsNoRecordFile) {
  EXPECT_THROW(RecordFile::open("/nonexistent/file"), IoError);
  EXPECT_THROW(RecordFile::open("/tmp"), IoError);
  const std::string good = bytes;
  bytes = "short";
  EXPECT_NE(refusal().find("must have at least 4096 bytes for its header, got 5"), std::string::npos);
  bytes = good;
  bytes[0] = 'X';
  EXPECT_NE(refusal().find("not a record file"), std::string::npos);
  std::memset(bytes.data(), 0, 8);
  EXPECT_NE(refusal().find("incomplete"), std::string::npos);
}

TEST_F(Reader, RefusesANewerFormatNamingBoth) {
  set_header([](detail::FileHeader& h) { h.version = 7; });
  const std::string message = refusal();
  EXPECT_NE(message.find("got 7"), std::string::npos) << message;
  EXPECT_NE(message.find("format version must be at most 1"), std::string::npos) << message;
}

TEST_F(Reader, ReadsWhatACutLeft) {
  const detail::Section launch = header().sections[5];
  ASSERT_STREQ(launch.name, "launch");
  bytes.resize(launch.offset + sizeof(detail::RingHead) + 10 * detail::kSlotBytes + 5);
  const RecordFile file = open_copy();
  EXPECT_EQ(file.records().size(), 10U);
  EXPECT_TRUE(mentions(file, "cut off"));
  EXPECT_TRUE(mentions(file, "ring launch: only 10"));
  EXPECT_EQ(file.read(file.records()[3]).kind, "test_note");
}

TEST_F(Reader, LeavesOutSectionsOutsideTheFile) {
  set_header([](detail::FileHeader& h) {
    h.sections[1].offset = ~std::uint64_t{0} - 7;
    h.sections[3].nbytes = ~std::uint64_t{0};
    h.section_count = 0xffffffff;
  });
  const RecordFile file = open_copy();
  EXPECT_EQ(file.records().size(), 100U);
  EXPECT_TRUE(mentions(file, "section strings"));
  EXPECT_EQ(to_string(file.read(file.records()[0])), "test_note number=0 text=(bad string)");
}

TEST_F(Reader, CountsSpoiltSlotsAsTorn) {
  const detail::Section launch = header().sections[5];
  bytes[launch.offset + sizeof(detail::RingHead) + 20 * detail::kSlotBytes + 30] ^= 4;
  const RecordFile file = open_copy();
  EXPECT_EQ(file.records().size(), 99U);
  EXPECT_EQ(file.rings()[2].torn, 1U);
}

TEST_F(Reader, ShowsRecordsOfAnUndescribedKindAsWords) {
  bytes[header().sections[0].offset + 60] ^= 1;
  const RecordFile file = open_copy();
  EXPECT_TRUE(mentions(file, "kinds are corrupt"));
  ASSERT_EQ(file.records().size(), 100U);
  const Record record = file.read(file.records()[42]);
  EXPECT_EQ(record.kind.substr(0, 5), "kind ");
  EXPECT_EQ(std::get<std::uint64_t>(record.find("word0")->value), 42U);
}

TEST_F(Reader, FallsBackOnTheFirstClockSample) {
  set_header([](detail::FileHeader& h) { h.last.wall_ns ^= 1; });
  const RecordFile file = open_copy();
  EXPECT_EQ(file.info().clock.last.ticks, file.info().clock.first.ticks);
  set_header([](detail::FileHeader& h) { h.first.ticks ^= 1; });
  EXPECT_TRUE(mentions(open_copy(), "clock"));
}

TEST_F(Reader, OtherMachinesMergeByWallTime) {
  std::vector<RecordFile> files;
  files.push_back(open_copy());
  // The same records, from a machine whose counter is far behind and whose wall clock is one second ahead.
  set_header([](detail::FileHeader& h) {
    detail::put_text(h.boot_id, "another");
    h.first.wall_ns += 1'000'000'000;
    h.first.check = detail::sample_check(h.first);
    h.last = h.first;
  });
  files.push_back(open_copy());
  const auto merged = merge_records(files);
  ASSERT_EQ(merged.size(), 200U);
  for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(merged[i].file, i / 100);
}

}  // namespace
}  // namespace tessera::probe

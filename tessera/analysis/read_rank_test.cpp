// Annotations, last launches and memory of a rank, read from its record, and the ranks of a group. Rows of annotations
// are written here field by field, as recorders do.
#include "tessera/analysis/detail/read_rank.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/analysis/detail/read_groups.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/device/launch_records.h"
#include "tessera/memory/history.h"

namespace tessera::analysis {
namespace {

using probe::Moment;
using probe::RecordFile;
using probe::StringId;

struct AnnotationRow {
  std::int64_t value;
  Moment since;
  StringId name;
  std::uint32_t thread, depth;
  static constexpr std::uint32_t kRows = 16;
  TESSERA_RECORD(AnnotationRow, "record_mark", value, since, name, thread, depth)
};

class RankRecords : public ::testing::Test {
 protected:
  [[nodiscard]] RecordFile file() const { return RecordFile::open(recorder.path()); }
  probe::Recorder recorder{RankPlace{}, {.nbytes = probe::RecordOptions::kMinBytes}};
  std::vector<std::string> problems;
};

TEST_F(RankRecords, MarksAreReadFromTheOutermostIn) {
  auto table = recorder.table<AnnotationRow>();
  (void)recorder.begin();
  const auto tid = static_cast<std::uint32_t>(::gettid());
  const auto inner = table.claim({12, recorder.now(), recorder.intern("load"), tid, 1});
  const auto outer = table.claim({117, recorder.now(), recorder.intern("step"), tid, 0});
  const auto none = table.claim({1, Moment{0}, StringId{}, tid, 2});
  const std::vector<OpenAnnotation> annotations = detail::read_marks(file(), problems);
  ASSERT_EQ(annotations.size(), 2U);
  EXPECT_EQ(annotations[0].name, "step");
  EXPECT_EQ(annotations[0].value, 117);
  EXPECT_NE(annotations[0].since_ns, 0);
  EXPECT_EQ(annotations[0].tid, tid);
  EXPECT_EQ(annotations[1].name, "load");
  EXPECT_NE(annotations[1].thread, "");
  EXPECT_NE(annotations[1].thread, std::to_string(tid)) << "the file knows the name of the thread";
}

TEST_F(RankRecords, TheLastLaunchOfEachStreamIsReadTheLatestFirst) {
  const auto launch = [&](std::uint32_t stream, const char* device, const char* label, std::uint32_t graph,
                          std::uint64_t replay) {
    recorder.write(probe::Ring::kLaunch,
                   device::LaunchRecord{recorder.intern(label), stream, recorder.intern(device), graph, 1, 1, replay});
  };
  launch(3, "cuda:0", "matmul", 0, 0);
  launch(3, "cuda:0", "softmax", 0, 0);
  launch(3, "host", "copy", 0, 0);
  launch(4, "host", "graph", 2, 117);
  const std::vector<LastKernel> launches = detail::read_last_launches(file());
  ASSERT_EQ(launches.size(), 3U);
  EXPECT_EQ(launches[0].name, "graph, replay 117");
  EXPECT_EQ(launches[1].name, "copy");
  EXPECT_EQ(launches[2].name, "softmax");
  EXPECT_EQ(launches[2].device, "cuda:0");
  EXPECT_EQ(launches[2].stream, 3U);
  EXPECT_NE(launches[2].when_ns, 0);
  EXPECT_GT(detail::first_launch_ns(file()), 0);
  EXPECT_LE(detail::first_launch_ns(file()), launches[2].when_ns);
}

TEST_F(RankRecords, MemoryIsSummedByDeviceAndOwner) {
  const auto pool = recorder.table<memory::MemoryPoolRow>().claim(
      {1, 1, 0, 0, recorder.intern("cuda:0"), recorder.intern("default")});
  const auto write = [&](const auto& record) { recorder.write(probe::Ring::kMemory, record); };
  const probe::StringId none = {};
  const std::uint64_t base = std::uint64_t{1} << 40;
  write(memory::MapRecord{base, 1 << 20, 0, 1, true, false});
  write(memory::AllocRecord{base, 1000, 1024, 0, 1, none, none});
  write(memory::AllocRecord{base + 1024, 4000, 4096, 0, 1, recorder.intern("weights"), none});
  write(memory::OutOfMemoryRecord{5 << 20, 0, 0, 1, none});
  const std::vector<DeviceMemory> found = detail::read_memory(file(), problems);
  ASSERT_EQ(found.size(), 1U);
  const DeviceMemory& device = found[0];
  EXPECT_EQ(device.device, "cuda:0");
  EXPECT_EQ(device.live_nbytes, 5000U);
  EXPECT_EQ(device.mapped_nbytes, 1U << 20);
  EXPECT_EQ(device.refused_nbytes, 5U << 20);
  using Owners = std::vector<std::pair<std::string, std::uint64_t>>;
  EXPECT_EQ(device.owners, (Owners{{"weights", 4000}, {"(no label)", 1000}}));
  EXPECT_NE(device.refused_ns, 0);
  // Another stream allocates, which does not concern the failed request; then the same stream does, with less.
  write(memory::AllocRecord{base + 8192, 512, 512, 3, 1, none, none});
  EXPECT_EQ(detail::read_memory(file(), problems).at(0).refused_nbytes, 5U << 20);
  write(memory::AllocRecord{base + 16384, 512, 512, 0, 1, none, none});
  EXPECT_EQ(detail::read_memory(file(), problems).at(0).refused_nbytes, 0U);
  // Another stream gets as much as the failed request.
  write(memory::OutOfMemoryRecord{5 << 20, 0, 0, 1, none});
  write(memory::MapRecord{base + (1 << 20), 8 << 20, 0, 1, true, false});
  write(memory::AllocRecord{base + (1 << 20), 5 << 20, 5 << 20, 3, 1, none, none});
  EXPECT_EQ(detail::read_memory(file(), problems).at(0).refused_nbytes, 0U);
}

TEST(ParseRanks, ReadsListsAndRangesAndNothingElse) {
  EXPECT_EQ(detail::parse_ranks("0-2,5"), (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(detail::parse_ranks("7"), std::vector<int>{7});
  for (const char* text : {"", "-1", "3-1", "0-", "1,", "a", "0-99999999", "0 1", "2147483647-2147483648"})
    EXPECT_EQ(detail::parse_ranks(text), std::vector<int>()) << text;
}

}  // namespace
}  // namespace tessera::analysis

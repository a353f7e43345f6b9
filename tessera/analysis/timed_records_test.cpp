// Kernels and annotations of a record file, read back, and invalid records.
#include "tessera/analysis/detail/timed_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tessera/analysis/testing/timed_record.h"

namespace tessera::analysis {
namespace {

using detail::TimedRecords;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TimedRecord;

class TimedRecordsOf : public ::testing::Test {
 protected:
  // Returns "matmul host/1 2-5": label, device, stream, and time, in microseconds.
  [[nodiscard]] std::vector<std::string> kernels() const {
    const probe::RecordFile file = record.file();
    std::vector<std::string> found;
    for (const detail::TimedKernel& each : detail::read_timed_records(file).kernels) {
      found.push_back(file.string(each.label) + " " + file.string(each.device) + "/" + std::to_string(each.stream) +
                      " " + us(each.begin_ns) + "-" + us(each.end_ns));
    }
    return found;
  }
  // Returns "step 7 at 0: 2-5": name, value, depth, and time.
  [[nodiscard]] std::string text_of(const probe::RecordFile& file, const detail::TimedAnnotation& annotation) const {
    return file.string(annotation.name) + " " + std::to_string(annotation.value) + " at " +
           std::to_string(annotation.depth) + ": " + us(annotation.begin_ns) + "-" +
           (annotation.end_ns == 0 ? "" : us(annotation.end_ns));
  }
  [[nodiscard]] std::vector<std::string> annotations(bool is_open = false) const {
    const probe::RecordFile file = record.file();
    const TimedRecords timed = detail::read_timed_records(file);
    std::vector<std::string> found;
    for (const auto& each : is_open ? timed.open_marks : timed.annotations) found.push_back(text_of(file, each));
    return found;
  }
  [[nodiscard]] std::string us(std::int64_t ns) const { return std::to_string((ns - record.wall_ns(0) + 500) / 1000); }

  TimedRecord record;
};

TEST_F(TimedRecordsOf, KernelsOfTheHostBeginWhenTheOneBeforeThemHasEnded) {
  record.kernel(10, 20, "alone");
  const std::uint64_t first = record.launch(30, "first");
  const std::uint64_t second = record.launch(31, "second");
  const std::uint64_t beside = record.launch(32, "beside", 2);
  record.launch_end(40, first);
  record.launch_end(45, beside, 2);
  record.launch_end(50, second);
  EXPECT_THAT(kernels(),
              ElementsAre("alone host/1 10-20", "first host/1 30-40", "beside host/2 32-45", "second host/1 40-50"));
}

TEST_F(TimedRecordsOf, KernelsOfTheHostBeginWhenAWaitForAnotherStreamIsOver) {
  const std::uint64_t first = record.launch(10, "first");
  const std::uint64_t second = record.launch(11, "second");
  record.launch_end(20, first);
  record.launch_end(35, 0);
  record.launch_end(37, 0, 2);  // of another stream
  record.launch_end(40, second);
  EXPECT_THAT(kernels(), ElementsAre("first host/1 10-20", "second host/1 35-40"));
}

TEST_F(TimedRecordsOf, DevicesTellWhenTheirKernelsBegan) {
  const std::uint64_t number = record.launch(10, "matmul", 7, "cuda:0");
  record.device_end(90, number, 15, 18, 7);
  EXPECT_THAT(kernels(), ElementsAre("matmul cuda:0/7 15-18"));
}

TEST_F(TimedRecordsOf, StreamsOfOneNumberOnTwoDevicesAreTwo) {
  const std::uint64_t here = record.launch(10, "here", 7, "host");
  record.launch_end(20, here, 7, "cuda:0");
  EXPECT_THAT(kernels(), IsEmpty());
  record.launch_end(20, here, 7, "host");
  EXPECT_THAT(kernels(), ElementsAre("here host/7 10-20"));
}

TEST_F(TimedRecordsOf, KernelsThatCannotBeAreLeftOutAndTheOthersStay) {
  record.launch_end(5, 77);  // its start is lost
  record.device_end(30, record.launch(10, "backwards", 1, "cuda:0"), 20, 12);
  constexpr std::int64_t kHours = 7'300'000'000;
  record.device_end(31, record.launch(11, "ahead", 1, "cuda:0"), 15, kHours);
  record.device_end(32, record.launch(12, "long ago", 1, "cuda:0"), -kHours, 20);
  constexpr std::int64_t kOverflows = 9'223'372'036'854'775;  // microseconds: the range of nanoseconds
  record.device_end(33, record.launch(13, "never", 1, "cuda:0"), kOverflows - 1, kOverflows);
  record.device_end(34, record.launch(14, "before time", 1, "cuda:0"), -kOverflows, -kOverflows + 1);
  record.kernel(40, 50, "good");
  EXPECT_THAT(kernels(), ElementsAre("good host/1 40-50"));
}

TEST_F(TimedRecordsOf, MarksNestAndThoseThatHaveNotEndedAreOpen) {
  record.mark_begin(10, "step", 1, 0);
  record.mark_begin(11, "data", 5, 1);
  record.mark_end(15, "data", 5, 1);
  record.mark_end(20, "step", 1, 0);
  record.mark_begin(21, "step", 2, 0);
  record.mark_begin(22, "data", 6, 1);
  EXPECT_THAT(annotations(), ElementsAre("data 5 at 1: 11-15", "step 1 at 0: 10-20"));
  EXPECT_THAT(annotations(true), ElementsAre("step 2 at 0: 21-", "data 6 at 1: 22-"));
  const TimedRecords timed = detail::read_timed_records(record.file());
  EXPECT_EQ(timed.annotations.at(0).tid, static_cast<std::uint32_t>(::gettid()));
  EXPECT_EQ(timed.threads.count(timed.annotations.at(0).tid), 1U);
}

TEST_F(TimedRecordsOf, AMarkWhoseEndIsLostNeverReachesOutOfTheOneAroundIt) {
  record.mark_end(5, "step", 0, 0);  // its start is lost
  record.mark_begin(10, "step", 1, 0);
  record.mark_begin(11, "lost", 5, 1);
  record.mark_end(20, "step", 1, 0);
  record.mark_begin(21, "step", 2, 0);
  record.mark_end(25, "lost", 5, 1);
  record.mark_end(30, "step", 2, 0);
  record.mark_begin(31, "step", 3, 0);
  record.mark_end(35, "other", 3, 0);
  record.mark_begin(36, "lost too", 9, 0);
  record.mark_begin(37, "step", 4, 0);
  record.mark_end(38, "step", 4, 0);
  record.mark_begin(41, "deep", 4, 4'000'000'000);
  EXPECT_THAT(annotations(), ElementsAre("step 1 at 0: 10-20", "step 2 at 0: 21-30", "step 4 at 0: 37-38"));
  EXPECT_THAT(annotations(true), ElementsAre("deep 4 at 4000000000: 41-"));
}

TEST_F(TimedRecordsOf, NothingIsReadThatWasRecordedLaterThanAsked) {
  record.kernel(10, 20, "early");
  record.mark_begin(11, "step", 1, 0);
  record.kernel(12, 30, "late");
  record.mark_end(31, "step", 1, 0);
  const TimedRecords timed = detail::read_timed_records(record.file(), record.wall_ns(25));
  EXPECT_EQ(timed.kernels.size(), 1U);
  EXPECT_EQ(timed.annotations.size(), 0U);
  EXPECT_EQ(timed.open_marks.size(), 1U);
}

}  // namespace
}  // namespace tessera::analysis

// Chrome traces of record files: kernels, ended annotations, and their slices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>
#include <sstream>
#include <nlohmann/json.hpp>

#include "tessera/analysis/chrome_trace.h"
#include "tessera/analysis/read_run.h"
#include "tessera/analysis/testing/timed_record.h"
#include "tessera/analysis/testing/trace_rows.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/annotation.h"
#include "tessera/base/rank.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/work.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/device/launch_records.h"

namespace tessera::analysis {
namespace {

using comm::OpKind;
using nlohmann::json;
using ::testing::ElementsAre;
using testing::events;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::overlap;
using testing::TimedRecord;
using ::testing::UnorderedElementsAre;

// Reads evidence as of one second from now, when all generated events have happened.
Evidence evidence_of(const std::string& path) {
  Evidence evidence = read_record(path, {.last_launches = std::numeric_limits<std::size_t>::max()});
  evidence.taken_ns += 1'000'000'000;
  return evidence;
}

class ChromeKernels : public ::testing::Test {
 protected:
  json write(const ChromeOptions& options = {}) { return write(evidence_of(record.path()), options); }
  json write(const Evidence& evidence, const ChromeOptions& options = {}) {
    std::ostringstream out;
    told = write_chrome_trace(out, evidence, 0, options);
    EXPECT_LE(out.str().size(), options.max_nbytes);
    EXPECT_EQ(told.nbytes, out.str().size());
    json trace = json::parse(out.str());
    EXPECT_EQ(overlap(trace), "");
    return trace;
  }
  // Returns "matmul 2-5" for each slice of a category, in microseconds of the record.
  [[nodiscard]] std::vector<std::string> slices(const json& trace, const std::string& category) const {
    const double base = static_cast<double>(trace.at("baseTimeNanoseconds").get<std::int64_t>() - record.wall_ns(0));
    const auto us = [&](double ts) { return std::to_string(std::llround(ts + base / 1000)); };
    std::vector<std::string> found;
    for (const json& event : events(trace, "cat", category)) {
      const double ts = event.at("ts");
      found.push_back(event.at("name").get<std::string>() + " " + us(ts) + "-" +
                      us(ts + event.at("dur").get<double>()));
    }
    return found;
  }

  TimedRecord record;
  ChromeTrace told;
};

constexpr const char* kReduce = "ncclDevKernel_AllReduce_Sum_f32(tessera shm)";

TEST_F(ChromeKernels, KernelsAndMarksThatHaveEndedAreDrawnInRowsOfTheirOwn) {
  record.mark_begin(5, "step", 1, 0);
  record.kernel(10, 20, "matmul");
  record.kernel(12, 40, "softmax");
  record.mark_begin(15, "data", 9, 1);
  record.device_end(60, record.launch(13, "copied", 7, "cuda:0"), 30, 35, 7);
  record.mark_end(25, "data", 9, 1);
  record.mark_end(50, "step", 1, 0);
  const json trace = write();
  EXPECT_THAT(slices(trace, "kernel"), ElementsAre("matmul 10-20", "softmax 20-40", "copied 30-35"));
  EXPECT_THAT(slices(trace, "user_annotation"), ElementsAre("step 1 5-50", "data 9 15-25"));
  EXPECT_EQ(told.events, 5U);
  const json copied = events(trace, "name", "copied").at(0);
  EXPECT_EQ(copied.at("tid"), 7);
  EXPECT_EQ(copied.at("args").at("stream"), 7);
  EXPECT_NE(copied.at("pid"), events(trace, "name", "matmul").at(0).at("pid")) << "a device is a process of its own";
  EXPECT_EQ(events(trace, "name", "step 1").at(0).at("tid"), ::gettid());
  EXPECT_THAT(trace.dump(), HasSubstr(", cuda:0"));
}

TEST_F(ChromeKernels, ALaunchOfAGroupIsDrawnOnceAndKernelsOfItsNameStay) {
  record.collective(OpKind::kAllReduce, 10, 14, 18);
  record.kernel(11, 19, "all_reduce");  // its own
  record.kernel(21, 29, "all_reduce");  // another one with the same name
  record.collective(OpKind::kGather, 30, 34, 38);
  record.kernel(31, 33, "softmax", 2);
  record.kernel(32, 39, "gather");
  record.kernel(40, 45, "gather");
  const json trace = write();
  EXPECT_THAT(slices(trace, "kernel"),
              UnorderedElementsAre(std::string(kReduce) + " 14-18", "all_reduce 21-29", "softmax 31-33",
                                   "ncclDevKernel_Gather_f32(tessera shm) 34-38", "gather 40-45"));
  for (const json& kernel : events(trace, "cat", "kernel")) EXPECT_EQ(kernel.at("tid"), kernel.at("args").at("stream"));
}

// For an active run, the file is read again for kernels, and its clock may have been corrected meanwhile.
TEST_F(ChromeKernels, ALaunchIsKnownByItsKernelThoughTheClockWasCorrected) {
  for (std::int64_t at = 100; at < 1000; at += 100) {
    record.collective(OpKind::kAllReduce, at, at + 4, at + 8);
    record.kernel(at + 1, at + 9, "all_reduce");
  }
  for (const std::int64_t off : {-5000, 5000}) {
    Evidence evidence = evidence_of(record.path());
    for (CollectiveCall& launch : evidence.ranks[0].groups[0].launches) {
      for (std::int64_t* moment : {&launch.asked_ns, &launch.begun_ns, &launch.met_ns, &launch.ended_ns})
        *moment += off;
    }
    EXPECT_THAT(events(write(evidence), "name", "all_reduce"), IsEmpty()) << off;
  }
}

TEST_F(ChromeKernels, KernelsThatOverlapALaunchOfTheirStreamStandBesideIt) {
  record.collective(OpKind::kAllReduce, 10, 14, 30);
  record.kernel(12, 20, "graph");
  record.kernel(13, 28, "after");
  const json trace = write();
  EXPECT_THAT(slices(trace, "kernel"),
              UnorderedElementsAre("graph 12-20", std::string(kReduce) + " 14-30", "after 20-28"));
  EXPECT_THAT(trace.dump(), HasSubstr("stream 1, beside 1"));
}

TEST_F(ChromeKernels, ALaunchOfAGroupWhoseRecordsAreGoneIsTheKernelThatItsStreamKnows) {
  record.kernel(11, 19, "all_reduce");
  EXPECT_THAT(slices(write(), "kernel"), ElementsAre("all_reduce 11-19"));
}

TEST_F(ChromeKernels, OnlyWhatHappenedSinceAMomentWhereThatIsAskedFor) {
  record.mark_begin(1, "epoch", 1, 0);
  record.mark_begin(2, "early", 1, 1);
  record.mark_end(4, "early", 1, 1);
  record.collective(OpKind::kAllReduce, 5, 6, 30);
  record.kernel(6, 31, "all_reduce");
  const std::uint64_t before = record.launch(10, "before");
  record.launch_end(22, before, 1);
  record.kernel(25, 40, "inside");
  record.collective(OpKind::kBarrier, 42, 44, 46);
  record.kernel(43, 47, "barrier");
  record.mark_begin(48, "late", 2, 1);
  record.mark_end(49, "late", 2, 1);
  record.mark_end(50, "epoch", 1, 0);
  const json trace = write({.since_ns = record.wall_ns(20)});
  EXPECT_EQ(trace.at("baseTimeNanoseconds"), record.wall_ns(20));
  EXPECT_THAT(slices(trace, "kernel"), ElementsAre("inside 31-40", "ncclDevKernel_Barrier(tessera shm) 44-46"));
  EXPECT_THAT(slices(trace, "user_annotation"), ElementsAre("epoch 1 20-50", "late 2 48-49"));
  for (const json& event : trace.at("traceEvents")) EXPECT_GE(event.at("ts"), 0);
}

TEST_F(ChromeKernels, TimesBeginWithTheFirstRecordThatIsLeft) {
  record.kernel(10, 20, "first");
  record.collective(OpKind::kAllReduce, 30, 34, 38);
  record.kernel(50, 60, "second");
  EXPECT_EQ(write().at("baseTimeNanoseconds"), record.wall_ns(10));
  EXPECT_EQ(events(write(), "name", "first").at(0).at("ts"), 0.0);
}

TEST_F(ChromeKernels, AMarkThatIsOpenIsDrawnToWhereItsRankWasLastSeenAndOnce) {
  const auto rank = std::make_shared<RankContext>(RankPlace{});
  const RankScope in_it(rank);
  Evidence evidence;
  {
    const probe::Annotation outer("epoch", 3);
    { const probe::Annotation inner("step", 117); }
    evidence = read_record(probe::recorder().path());
  }  // by now it has ended
  const json trace = write(evidence);
  const std::vector<json> annotations = events(trace, "cat", "user_annotation");
  ASSERT_EQ(annotations.size(), 2U);
  EXPECT_EQ(annotations[0].at("name"), "epoch 3");
  EXPECT_EQ(annotations[1].at("name"), "step 117");
  EXPECT_EQ(annotations[0].at("tid"), annotations[1].at("tid")) << "one row, though the thread has a name";
  EXPECT_GT(annotations[0].at("dur"), annotations[1].at("dur"));
}

TEST_F(ChromeKernels, AMarkThatWouldReachOutOfTheOneItBeganInIsCut) {
  record.mark_begin(10, "step", 1, 0);
  record.mark_end(20, "step", 1, 0);
  Evidence evidence = evidence_of(record.path());
  evidence.ranks[0].annotations.push_back({.name = "odd",
                                           .value = 2,
                                           .thread = "loader",
                                           .since_ns = record.wall_ns(15),
                                           .tid = static_cast<std::uint32_t>(::gettid())});
  evidence.ranks[0].annotations.push_back({.name = "never", .value = 3, .thread = "loader", .since_ns = 5});
  const json trace = write(evidence);
  EXPECT_THAT(slices(trace, "user_annotation"), UnorderedElementsAre("step 1 10-20", "odd 2 15-20"));
  EXPECT_THAT(trace.dump(), HasSubstr("loader " + std::to_string(::gettid())));
}

TEST_F(ChromeKernels, AskingNeverReachesOutOfAMark) {
  for (std::int64_t i = 0; i < 20; ++i) {
    record.mark_begin(100 * i, "data", i, 0);
    record.collective(OpKind::kAllReduce, 100 * i + 9, 100 * i + 20, 100 * i + 30);
    record.mark_end(100 * i + 10, "data", i, 0);
  }
  const Evidence read = evidence_of(record.path());
  Evidence shifted = read;
  for (CollectiveCall& launch : shifted.ranks[0].groups[0].launches)
    launch.asked_ns += 700;  // an annotation ends within a microsecond
  const json trace = write(shifted);
  for (const json& asked : events(trace, "name", "record_param_comms")) EXPECT_LT(asked.at("dur"), 0.4) << asked;
  EXPECT_EQ(events(trace, "name", "record_param_comms").size(), 20U);
}

TEST_F(ChromeKernels, AFullFileLeavesOutTheOldestOfAllKindsAndSaysHowMany) {
  for (std::int64_t i = 0; i < 400; ++i) {
    record.mark_begin(100 * i, "step", i, 0);
    record.kernel(100 * i + 1, 100 * i + 20, "matmul");
    if (i % 20 == 0) record.collective(OpKind::kAllReduce, 100 * i + 30, 100 * i + 31, 100 * i + 40);
    record.mark_end(100 * i + 50, "step", i, 0);
  }
  const json whole = write();
  EXPECT_EQ(told.events, 820U);
  EXPECT_EQ(told.left_out, 0U);
  for (const std::uint64_t max : {10'000u, 40'000u, 40'001u, 90'000u}) {
    const json cut = write({.max_nbytes = max});
    EXPECT_GT(told.nbytes, max - 2500) << "the room is used";
    EXPECT_EQ(told.events + told.left_out, 820U);
    const json said = events(cut, "name", "tessera_left_out").at(0).at("args");
    EXPECT_EQ(said.at("events"), told.left_out);
    EXPECT_EQ(said.at("of"), 820);
    EXPECT_EQ(events(cut, "name", "step 399").size(), 1U) << "the latest is kept";
    const double up_to = said.at("up_to");
    std::size_t drawn = 0;
    for (const json& slice : events(cut, "ph", "X")) {
      if (slice.at("cat") == "gpu_user_annotation" || slice.at("cat") == "cpu_op") continue;
      EXPECT_GE(slice.at("ts"), up_to);
      ++drawn;
    }
    EXPECT_EQ(drawn, told.events);
  }
}

TEST_F(ChromeKernels, AFileThatIsGoneLeavesTheRestOfTheTrace) {
  record.kernel(10, 20, "matmul");
  record.collective(OpKind::kAllReduce, 30, 34, 38);
  Evidence evidence = evidence_of(record.path());
  evidence.ranks[0].file += ".gone";
  EXPECT_THAT(slices(write(evidence), "kernel"), ElementsAre(std::string(kReduce) + " 34-38"));
}

// Two real ranks, on the streams of the host.
TEST_F(ChromeKernels, OfRanksThatWorkAreWhatTheyDid) {
  std::vector<json> traces(2);
  simulate(2, [&] {
    const device::Stream stream = device::Device::get("host").create_stream();
    const comm::ProcessGroup world = comm::world();
    const device::ProfileWindow window;
    float x[16] = {};
    for (int step = 1; step <= 5; ++step) {
      const probe::Annotation scope("step", step);
      stream.run([] {}, {.label = "forward"});
      world.all_reduce(x, x, 16, DType::kF32, {}, stream).wait();
      stream.run([] {}, {.label = "update"});
    }
    stream.synchronize();
    std::ostringstream out;
    (void)write_chrome_trace(out, evidence_of(probe::recorder().path()), 0);
    traces[static_cast<std::size_t>(world.rank())] = json::parse(out.str());
  });
  for (const json& trace : traces) {
    EXPECT_EQ(overlap(trace), "");
    EXPECT_EQ(events(trace, "cat", "user_annotation").size(), 5U);
    EXPECT_EQ(events(trace, "name", "forward").size(), 5U);
    EXPECT_EQ(events(trace, "name", "update").size(), 5U);
    EXPECT_THAT(events(trace, "name", "all_reduce"), IsEmpty()) << "its launch is drawn";
    EXPECT_EQ(events(trace, "cat", "kernel").size(), 15U);
    EXPECT_THAT(trace.dump(), ::testing::Not(HasSubstr("beside")));
  }
}

}  // namespace
}  // namespace tessera::analysis

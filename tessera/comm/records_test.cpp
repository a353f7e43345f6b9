// What the record of a rank says about its groups: every operation with its states, and tables that a ring that went
// round does not lose.
#include "tessera/comm/records.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/device/graph.h"
#include "tessera/memory/label.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;

// The whole of a rank's record is touched when the rank comes to be, which takes its time.
[[maybe_unused]] const int kSmallRecords = ::setenv("TESSERA_RECORD_BYTES", "1MiB", 0);

probe::RecordFile own_record() { return probe::RecordFile::open(probe::recorder().path()); }

std::vector<std::string> texts(const probe::RecordFile& file) {
  std::vector<std::string> lines;
  for (const probe::RecordRef& ref : file.records()) {
    if (const auto text = text_of_record(file, ref)) lines.push_back(*text);
  }
  return lines;
}

template <class Kind>
std::vector<Kind> all_of(const probe::RecordFile& file) {
  std::vector<Kind> found;
  for (const probe::RecordRef& ref : file.records()) {
    if (const auto record = file.as<Kind>(ref)) found.push_back(*record);
  }
  return found;
}

TEST(CommRecords, TellOfEveryOperationWhatWhenAndHowItEnded) {
  simulate(2, [] {
    const device::Device host = device::Device::get("host");
    const device::Stream stream = host.default_stream();
    float x[64] = {};
    const memory::Label label("step");
    world().all_reduce(x, x, 64, DType::kF32, {ReduceKind::kMax}, stream).wait();
    const Operation message{.kind = world().rank() == 0 ? OpKind::kSend : OpKind::kRecv,
                            .dtype = DType::kF32,
                            .peer = 1 - world().rank(),
                            .in = reinterpret_cast<const std::byte*>(x),
                            .out = reinterpret_cast<std::byte*>(x),
                            .count = 3};
    const Operation batch[] = {message, {.kind = OpKind::kBarrier}};
    world().launch(batch, stream).wait();
    const probe::RecordFile file = own_record();
    const std::string where = " asked for on host stream " + std::to_string(stream.id().value()) + ", label step";
    const std::string text = world().rank() == 0 ? "send(f32[3], to 1)" : "recv(f32[3], from 0)";
    EXPECT_EQ(texts(file), (std::vector<std::string>{
                               "world: launch 1, all_reduce(f32[64], max)" + where,
                               "world: #1 all_reduce(f32[64], max) began (launch 1)",
                               "world: #1 ended (launch 1)",
                               "world: launch 2, " + text + where,
                               "world: launch 2, barrier" + where,
                               "world: #2 " + text + " and 1 more began (launch 2)",
                               "world: #2 ended (launch 2)",
                           }));
    EXPECT_EQ(text_of_groups(file),
              std::vector<std::string>{"world (ranks 0-1, thread, this is " + std::to_string(world().rank()) +
                                       " of 2): 2 asked for, the last " + text + " and 1 more; ran #2 " + text +
                                       " and 1 more"});
  });
}

TEST(CommRecords, UnevenPartsHaveADigest) {
  simulate(2, [] {
    const device::Stream stream = device::Device::get("host").default_stream();
    float in[2] = {};
    float out[3] = {};
    const std::int64_t counts[] = {1, 2};
    world().all_gather(in, out, counts, DType::kF32, stream).wait();
    world().all_gather(in, out, 1, DType::kF32, stream).wait();
    const auto asked = all_of<OperationRecord>(own_record());
    ASSERT_EQ(asked.size(), 2U);
    EXPECT_NE(asked[0].parts, 0U);
    EXPECT_EQ(asked[1].parts, 0U);
  });
}

TEST(CommRecords, AReplayBeginsAndEndsWhatWasAskedForOnce) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  const device::Stream stream = device::Device::get("host").create_stream();
  float x = 1;
  stream.begin_capture();
  (void)world().all_reduce(&x, &x, 1, DType::kF32, {}, stream);
  const device::GraphExec graph = stream.end_capture().instantiate();
  for (int i = 0; i < 3; ++i) graph.launch(stream);
  stream.synchronize();
  const probe::RecordFile file = own_record();
  EXPECT_EQ(all_of<OperationRecord>(file).size(), 1U);
  const auto ended = all_of<EndRecord>(file);
  ASSERT_EQ(ended.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ended[i].sequence, i + 1);
    EXPECT_EQ(ended[i].task, 1U);
  }
}

TEST(CommRecords, AFailureIsToldWithItsKind) {
  simulate(2, [] {
    const device::Stream stream = device::Device::get("host").default_stream();
    world().set_deadline(50ms);
    if (world().rank() == 0) {
      expect_error<TimeoutError>([&] { world().launch({.kind = OpKind::kBarrier}, stream).wait(); }, {"rank 1"});
      stream.reset_error();
      EXPECT_EQ(texts(own_record()).back(), "world: #1 failed: timeout (launch 1)");
      EXPECT_NE(text_of_groups(own_record())[0].find("; #1 failed"), std::string::npos);
      store()->set("over", "");
    }
    (void)store()->get("over", 20s);
  });
}

// While it waits for a peer: what is in flight stands in the tables.
TEST(CommRecords, WhatIsInFlightStandsInTheTables) {
  simulate(2, [] {
    const device::Stream side = device::Device::get("host").create_stream();
    if (world().rank() == 0) {
      const Work first = world().launch({.kind = OpKind::kBarrier}, side);
      float x = 0;
      const Work second = world().all_reduce(&x, &x, 1, DType::kF32, {}, side);
      while (first.sequence() == 0) std::this_thread::yield();
      // Its number is there a moment before its row.
      while (text_of_groups(own_record())[0].find("runs #1 barrier") == std::string::npos) std::this_thread::yield();
      EXPECT_NE(text_of_groups(own_record())[0].find("2 asked for, the last all_reduce(f32[1], sum)"),
                std::string::npos);
      store()->set("seen", "");
      second.wait();
    } else {
      (void)store()->get("seen", 20s);
      world().launch({.kind = OpKind::kBarrier}, side);
      float x = 0;
      world().all_reduce(&x, &x, 1, DType::kF32, {}, side).wait();
    }
    EXPECT_EQ(text_of_groups(own_record())[0].find("runs"), std::string::npos);
  });
}

TEST(CommRecords, TheTablesOutliveARingThatWentRound) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  probe::open_recorder(*current_rank(), {.nbytes = probe::RecordOptions::kMinBytes});
  const device::Stream stream = device::Device::get("host").default_stream();
  const int all[] = {0};
  const ProcessGroup other = world().subgroup(all, {.name = "other"});
  float x = 0;
  world().launch({.kind = OpKind::kBarrier}, stream).wait();
  for (int i = 0; i < 5000; ++i) other.all_reduce(&x, &x, 1, DType::kF32, {}, stream);
  const probe::RecordFile file = own_record();
  for (const std::string& text : texts(file)) EXPECT_EQ(text.find("world"), std::string::npos);
  const std::vector<std::string> groups = text_of_groups(file);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_NE(groups[0].find("world (ranks 0, thread, this is 0 of 1): 1 asked for, the last barrier; ran #1 barrier"),
            std::string::npos)
      << groups[0];
  EXPECT_NE(groups[1].find("5000 asked for"), std::string::npos) << groups[1];
}

// A group may outlive its rank and the record of that; a group that is gone frees its row.
TEST(CommRecords, GroupsAndRanksEndInAnyOrder) {
  ProcessGroup kept;
  {
    const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
    kept = world();
    const int all[] = {0};
    for (int i = 0; i < 300; ++i) (void)kept.subgroup(all);
    EXPECT_EQ(text_of_groups(own_record()).size(), 1U);
    EXPECT_EQ(own_record().find_table("comm_group")->refused, 0U);
  }
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  EXPECT_EQ(kept.name(), "world");
}

TEST(CommRecords, NothingIsRecordedWhereRecordingIsOff) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  probe::open_recorder(*current_rank(), {.is_on = false});
  float x = 1;
  world().all_reduce(&x, &x, 1, DType::kF32, {}, device::Device::get("host").default_stream()).wait();
  EXPECT_EQ(x, 1);
  EXPECT_EQ(probe::recorder().path(), "");
}

}  // namespace
}  // namespace tessera::comm

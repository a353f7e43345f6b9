// NCCL with a single GPU: a world of one rank, all operations, and how it ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/backends/nccl/detail/library.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/records.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/device/graph.h"
#include "tessera/memory/allocator.h"

namespace tessera::comm::nccl {
namespace {

using namespace std::chrono_literals;

class NcclWorldOfOne : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const device::AbsentKind& absent : device::Device::absent()) {
      if (absent.kind == "cuda") GTEST_SKIP() << absent.reason;
    }
    if (!library().why_none.empty()) GTEST_SKIP() << library().why_none;
  }
  // Runs the body on a separate rank, so that its objects end with it.
  void on_rank(const std::function<void()>& body) {
    simulate(1, [&] {
      const int self[] = {0};
      gpu_ = device::Device::get("cuda:0");
      stream_ = gpu_.create_stream({.name = "nccl test"});
      group_ = world().subgroup(self, {.name = "one", .backend = "nccl", .deadline = 20s, .fixed_order = false});
      body();
      stream_.synchronize(20s);
      group_ = {};
      stream_ = {};
    });
  }
  [[nodiscard]] memory::Buffer values(const std::vector<float>& host) const {
    memory::Buffer buffer = memory::Allocator::of(gpu_).allocate(host.size() * 4, stream_);
    stream_.copy(buffer.data(), host.data(), host.size() * 4);
    stream_.synchronize(20s);
    return buffer;
  }
  [[nodiscard]] std::vector<float> read(const memory::Buffer& buffer, std::size_t count) const {
    std::vector<float> host(count);
    stream_.copy(host.data(), buffer.data(), count * 4);
    stream_.synchronize(20s);
    return host;
  }

  device::Device gpu_;
  device::Stream stream_;
  ProcessGroup group_;
};

const std::vector<float> kGiven = {1, 2, 3, 4};

}  // namespace

TEST_F(NcclWorldOfOne, EveryOperationGivesWhatOneRankGets) {
  on_rank([&] {
    EXPECT_EQ(group_.backend(), "nccl");
    std::uint64_t run = 0;
    for (const OpKind kind :
         {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllToAll, OpKind::kBroadcast,
          OpKind::kReduce, OpKind::kScatter, OpKind::kGather, OpKind::kPermute}) {
      const memory::Buffer in = values(kGiven);
      const memory::Buffer out = values({0, 0, 0, 0});
      Operation operation{.kind = kind, .dtype = DType::kF32, .in = in.data(), .out = out.data(), .count = 4};
      if (kind == OpKind::kPermute) operation.targets = {0};
      const Work work = group_.launch(operation, stream_);
      work.wait(20s);
      EXPECT_EQ(read(out, 4), kGiven) << to_string(kind);
      EXPECT_EQ(work.sequence(), ++run);
      EXPECT_TRUE(work.is_done());
    }
    group_.launch({.kind = OpKind::kBarrier}, stream_).wait(20s);
  });
}

TEST_F(NcclWorldOfOne, UnevenPartsAndManyOperationsGoInOneLaunch) {
  on_rank([&] {
    const memory::Buffer in = values(kGiven);
    const memory::Buffer first = values({0, 0, 0, 0});
    const memory::Buffer second = values({0, 0, 0, 0});
    const Operation operations[] = {
        {.kind = OpKind::kAllGather, .dtype = DType::kF32, .in = in.data(), .out = first.data(), .out_counts = {4}},
        {.kind = OpKind::kReduceScatter, .dtype = DType::kF32, .in = in.data(), .out = second.data(), .in_counts = {4}},
    };
    group_.launch(operations, stream_).wait(20s);
    EXPECT_EQ(read(first, 4), kGiven);
    EXPECT_EQ(read(second, 4), kGiven);
    EXPECT_EQ(group_.sequence(), 1U);
  });
}

TEST_F(NcclWorldOfOne, APremultipliedSumMultiplies) {
  on_rank([&] {
    const memory::Buffer x = values(kGiven);
    group_.all_reduce(x.data(), x.data(), 4, DType::kF32, {Reduction::kPremultiply, 2}, stream_).wait(20s);
    EXPECT_EQ(read(x, 4), (std::vector<float>{2, 4, 6, 8}));
  });
}

TEST_F(NcclWorldOfOne, WhatItCannotIsRefused) {
  on_rank([&] {
    const memory::Buffer x = values(kGiven);
    expect_error<NotSupported>(
        [&] { (void)group_.all_reduce(x.data(), x.data(), 4, DType::kI32, {Reduction::kBitAnd}, stream_); },
        {"NCCL has no band"});
    expect_error<NotSupported>([&] { (void)group_.all_reduce(x.data(), x.data(), 4, DType::kI16, {}, stream_); },
                               {"NCCL does not reduce i16"});
    const int self[] = {0};
    expect_error<NotSupported>([&] { (void)world().subgroup(self, {.backend = "nccl", .fixed_order = true}); },
                               {"deterministic reductions"});
    group_.launch({.kind = OpKind::kBarrier}, stream_).wait(20s);
  });
}

TEST_F(NcclWorldOfOne, CapturedOperationsRunOnceAReplay) {
  on_rank([&] {
    const memory::Buffer x = values(kGiven);
    const ReduceOp twice{Reduction::kPremultiply, 2};
    group_.all_reduce(x.data(), x.data(), 4, DType::kF32, twice, stream_).wait(20s);
    stream_.begin_capture();
    EXPECT_FALSE(group_.all_reduce(x.data(), x.data(), 4, DType::kF32, twice, stream_));
    const device::GraphExec graph = stream_.end_capture().instantiate();
    for (int i = 0; i < 3; ++i) graph.launch(stream_);
    EXPECT_EQ(read(x, 4), (std::vector<float>{16, 32, 48, 64}));
  });
}

TEST_F(NcclWorldOfOne, TheRecordTellsWhatBeganAndEnded) {
  on_rank([&] {
    for (int i = 0; i < 2; ++i) group_.launch({.kind = OpKind::kBarrier}, stream_).wait(20s);
    const auto file = probe::RecordFile::open(probe::recorder().path());
    std::vector<std::string> lines;
    for (const probe::RecordRef& ref : file.records()) {
      if (const auto text = text_of_record(file, ref)) lines.push_back(*text);
    }
    for (const std::string number : {"1", "2"}) {
      EXPECT_NE(std::ranges::find(
                    lines, "one: #" + number + " barrier started (launch " + number + ", collective " + number + ")"),
                lines.end());
      EXPECT_NE(std::ranges::find(lines, "one: #" + number + " finished (launch " + number + ")"), lines.end());
    }
  });
}

TEST_F(NcclWorldOfOne, AnAbortEndsTheGroup) {
  on_rank([&] {
    group_.abort("enough");
    expect_error<AbortedError>([&] { group_.launch({.kind = OpKind::kBarrier}, stream_).wait(20s); },
                               {"group one", "aborted by rank 0: enough"});
  });
}

// Needs no GPU.
TEST(NcclLibrary, NamesWhatWasLookedForAndWhatItLacks) {
  const std::string why = load_library("/nowhere/libnccl.so.2").why_none;
  EXPECT_NE(why.find("NCCL was not found (/nowhere/libnccl.so.2: "), std::string::npos) << why;
  EXPECT_NE(why.find("LD_LIBRARY_PATH"), std::string::npos) << why;
  EXPECT_NE(load_library("libm.so.6").why_none.find("libm.so.6 lacks ncclGetVersion"), std::string::npos);
}

}  // namespace tessera::comm::nccl

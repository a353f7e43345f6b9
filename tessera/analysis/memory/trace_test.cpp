// Logs as traces: all variants of RMM CSV, errors with line and column, and record files.
#include "tessera/analysis/memory/trace.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/memory/history.h"
#include "tessera/memory/null_upstream.h"
#include "tessera/memory/testing/decorators.h"

namespace tessera::analysis {
namespace {

using memory::AllocRecord;
using memory::BlockRecord;
using memory::FreeRecord;
using memory::MemoryPoolRow;
using memory::NullOptions;
using memory::NullUpstream;
using memory::OutOfMemoryRecord;
using memory::testing::LogUpstream;

const std::string kHeader = "Thread,Time,Action,Pointer,Size,Stream\n";

template <class F>
std::string message_of(F&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(RmmCsv, AllocationsAndFreesBecomeOps) {
  const Trace trace = parse_rmm_csv(kHeader +
                                    "1,10:00:00:000001,allocate,0x7f0000000000,1024,0x0\n"
                                    "1,10:00:00:000002,allocate,7f0000000400,2048,0x5611\n"
                                    "2,10:00:00.000003,free,0x7f0000000000,1024,0x0\n"
                                    "1,10:00:00:000004,allocate,0x7f0000000000,512,default\n"
                                    "1,10:00:00:000005,free,0x7F0000000400,2048,0x5611\n");
  EXPECT_EQ(trace.ops, (std::vector<TraceOp>{{true, 0, 1024, 0},
                                             {true, 1, 2048, 1},
                                             {false, 0, 1024, 0},
                                             {true, 2, 512, 2},  // the same pointer is a new allocation
                                             {false, 1, 2048, 1}}));
  EXPECT_EQ(trace.keys, 3u);
  EXPECT_EQ(trace.streams, 3u);
  EXPECT_EQ(trace.unknown_frees, 0u);
  EXPECT_EQ(trace.logged_failures, 0u);
}

TEST(RmmCsv, FailuresAndUnknownFreesAreCounted) {
  const Trace trace = parse_rmm_csv(kHeader +
                                    "1,t,allocate failure,(nil),18446744073709551615,0x0\n"
                                    "1,t,allocate failure,0x0,5,0x0\n"
                                    "1,t,free,0x10,8,0x0\n"
                                    "1,t,allocate,0x10,8,0x0\n"
                                    "1,t,free,0x10,8,0x0\n"
                                    "1,t,free,0x10,8,0x0\n");
  EXPECT_EQ(trace.ops.size(), 2u);
  EXPECT_EQ(trace.logged_failures, 2u);
  EXPECT_EQ(trace.unknown_frees, 2u);
}

TEST(RmmCsv, APointerLiveTwiceIsFreedInOrder) {
  const Trace trace = parse_rmm_csv(kHeader +
                                    "1,t,allocate,0x10,8,a\n"
                                    "2,t,allocate,0x10,16,b\n"  // logged before the free of the other thread
                                    "2,t,allocate,0x10,32,b\n"
                                    "1,t,free,0x10,8,a\n"
                                    "2,t,free,0x10,16,b\n"
                                    "2,t,free,0x10,32,b\n");
  EXPECT_EQ(trace.ops, (std::vector<TraceOp>{{true, 0, 8, 0},
                                             {true, 1, 16, 1},
                                             {true, 2, 32, 1},
                                             {false, 0, 8, 0},
                                             {false, 1, 16, 1},
                                             {false, 2, 32, 1}}));
}

TEST(RmmCsv, FieldsMayBeQuotedAndLinesEndAsOnWindows) {
  const Trace trace = parse_rmm_csv(
      "Thread,Time,Action,Pointer,Size,Stream\r\n"
      "\"1\",\"10:00, or so\",\"allocate\",\"0x10\",\"8\",\"the \"\"main\"\" one\"\r\n"
      "1,t,allocate,0x20,8,\"the \"\"main\"\" one\"\r\n"
      "1,t,free,0x10,8,x\r\n\r\n");
  EXPECT_EQ(trace.ops.size(), 3u);
  EXPECT_EQ(trace.streams, 1u);
}

// Opening a FIFO would wait for a writer, and reading a device would never end.
TEST(RmmCsv, OnlyRegularFilesAreRead) {
  const std::string fifo = ::testing::TempDir() + "tessera_trace_fifo." + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_error<IoError>([&] { (void)read_trace(fifo); }, {"must be a regular file, got a FIFO"});
  expect_error<IoError>([&] { (void)read_trace("/dev/zero"); }, {"must be a regular file, got a device"});
  ::unlink(fifo.c_str());
}

TEST(RmmCsv, TheLastLineNeedsNoEnd) {
  EXPECT_EQ(parse_rmm_csv(kHeader + "1,t,allocate,0x10,8,0").ops.size(), 1u);
  EXPECT_TRUE(parse_rmm_csv(kHeader).ops.empty());
  EXPECT_TRUE(parse_rmm_csv(kHeader + "\n").ops.empty());
}

TEST(RmmCsv, BadLinesAreNamedByLineAndColumn) {
  const std::string good = "1,t,allocate,0x10,8,0\n";
  const std::map<std::string, std::string> refused = {
      {"1,t,allocate,0x10,8\n", "line 3, column 20: must have 6 fields, got 5"},
      {"1,t,allocate,0x10,8,0,9\n", "line 3, column 22: must have 6 fields, got more"},
      {"1,t,alocate,0x10,8,0\n", "line 3, column 5: Action 'alocate' is not one of allocate, allocate failure, free"},
      {"1,t,allocate,0xZZ,8,0\n", "line 3, column 14: Pointer '0xZZ' is not a hexadecimal pointer"},
      {"1,t,allocate,,8,0\n", "line 3, column 14: Pointer '' is not a hexadecimal pointer"},
      {"1,t,allocate,0x,8,0\n", "line 3, column 14: Pointer '0x' is not a hexadecimal pointer"},
      {"1,t,allocate,-10,8,0\n", "line 3, column 14: Pointer '-10' is not a hexadecimal pointer"},
      {"1,t,allocate,0x10000000000000000,8,0\n",
       "line 3, column 14: Pointer '0x10000000000000000' is not a hexadecimal pointer"},
      {"1,t,allocate,0x10,eight,0\n", "line 3, column 19: Size 'eight' is not a size in bytes"},
      {"1,t,allocate,0x10,-8,0\n", "line 3, column 19: Size '-8' is not a size in bytes"},
      {"1,t,allocate,0x10,8 ,0\n", "line 3, column 19: Size '8 ' is not a size in bytes"},
      {"1,t,allocate,0x10,8.5,0\n", "line 3, column 19: Size '8.5' is not a size in bytes"},
      {"1,t,free,0x10,18446744073709551616,0\n",
       "line 3, column 15: Size '18446744073709551616' is not a size in bytes"},
      {"1,t,allocate,0x10,1152921504606846977,0\n",
       "line 3, column 19: Size '1152921504606846977' is larger than any device"},
      {"1,t,allocate,0x10,8,\n", "line 3, column 21: Stream '' is empty"},
      {"1,t,allocate,\"0x10,8,0\n", "line 3, column 14: this quote is not closed on the line"},
      {"1,t,\"allocate\"x,0x10,8,0\n", "line 3, column 15: unexpected text after the closing quote"},
      {"\n" + good, "line 3, column 1: must have 6 fields, got 1"},
  };
  for (const auto& [line, message] : refused) {
    EXPECT_EQ(message_of([&line = line, &good] { parse_rmm_csv(kHeader + good + line, "run.csv"); }),
              "run.csv: " + message);
  }
  for (const std::string header : {"", "\n", "Thread,Time,Action,Pointer,Size\n", "1,t,allocate,0x10,8,0\n"}) {
    EXPECT_EQ(message_of([&] { parse_rmm_csv(header, "run.csv"); }),
              "run.csv: line 1, column 1: the first line must be 'Thread,Time,Action,Pointer,Size,Stream', as in RMM "
              "logs");
  }
}

TEST(RmmCsv, WhatLogUpstreamWritesIsReadBack) {
  std::ostringstream out;
  {
    LogUpstream log(std::make_shared<NullUpstream>(NullOptions{.capacity_nbytes = 8192, .granularity = 1024}), out);
    std::byte* const base = log.reserve(std::size_t{1} << 20);
    log.map(base, 4096);
    log.move(base, base + 8192, 4096);
    EXPECT_THROW(log.map(base, 8192), OutOfMemory);
    std::byte* const segment = log.allocate(1024);
    log.unmap(base + 8192, 4096);
    log.free(segment, 1024);
  }
  const Trace trace = parse_rmm_csv(out.str());
  EXPECT_EQ(trace.ops, (std::vector<TraceOp>{{true, 0, 4096, 0},
                                             {false, 0, 4096, 0},
                                             {true, 1, 4096, 0},
                                             {true, 2, 1024, 0},
                                             {false, 1, 4096, 0},
                                             {false, 2, 1024, 0}}));
  EXPECT_EQ(trace.logged_failures, 1u);
  EXPECT_EQ(trace.unknown_frees, 0u);
}

// A record file as an allocator would write it.
class RecordTraceTest : public ::testing::Test {
 protected:
  probe::Recorder recorder{{}, {.nbytes = probe::RecordOptions::kMinBytes}};
  probe::StateTable<MemoryPoolRow> pools = recorder.table<MemoryPoolRow>();
  std::vector<probe::Row<MemoryPoolRow>> rows;

  void add_pool(std::uint32_t number, std::uint32_t allocator, const char* device) {
    rows.push_back(pools.claim({number, allocator, 0, 0, recorder.intern(device), recorder.intern("pool")}));
  }
  void alloc(std::uint64_t address, std::uint64_t requested, std::uint32_t stream, std::uint32_t pool = 1) {
    recorder.write(probe::Ring::kMemory, AllocRecord{address, requested, requested, stream, pool, {}, {}});
  }
  void free(std::uint64_t address, std::uint64_t requested, std::uint32_t stream, std::uint32_t pool = 1) {
    recorder.write(probe::Ring::kMemory, FreeRecord{address, requested, stream, pool, {}, {}, false});
  }
  void block(std::uint64_t address, std::uint64_t requested, std::uint32_t stream, bool is_pending) {
    recorder.write(probe::Ring::kMemory, BlockRecord{address, requested, requested, stream, 1, is_pending, {}, {}});
  }
};

TEST_F(RecordTraceTest, RecordsBecomeOps) {
  add_pool(1, 1, "cuda:0");
  add_pool(2, 1, "cuda:0");
  alloc(0x1000, 100, 7);
  alloc(0x2000, 200, 9, 2);
  free(0x1000, 100, 7);
  alloc(0x1000, 300, 9);
  free(0x2000, 200, 9, 2);
  recorder.write(probe::Ring::kMemory, OutOfMemoryRecord{1000, 10, 7, 1, {}});
  const Trace trace = read_trace(recorder.path());
  EXPECT_EQ(trace.ops,
            (std::vector<TraceOp>{
                {true, 0, 100, 0}, {true, 1, 200, 1}, {false, 0, 100, 0}, {true, 2, 300, 1}, {false, 1, 200, 1}}));
  EXPECT_EQ(trace.keys, 3u);
  EXPECT_EQ(trace.streams, 2u);
  EXPECT_EQ(trace.logged_failures, 1u);
  EXPECT_EQ(read_trace(recorder.path(), "cuda:0").ops, trace.ops);
}

TEST_F(RecordTraceTest, WhatWasLiveBeforeTheOldestRecordComesFirst) {
  add_pool(1, 1, "cuda:0");
  alloc(0x1000, 100, 1);
  free(0x5000, 500, 2);          // allocated before the ring began
  block(0x6000, 600, 2, false);  // only in a keyframe
  block(0x1000, 100, 1, false);  // known
  block(0x7000, 700, 2, true);   // already freed
  alloc(0x5000, 50, 2);
  free(0x6000, 600, 2);
  const Trace trace = read_record_trace(recorder.path());
  EXPECT_EQ(trace.ops, (std::vector<TraceOp>{{true, 0, 500, 1},
                                             {true, 1, 600, 1},
                                             {true, 2, 100, 0},
                                             {false, 0, 500, 1},
                                             {true, 3, 50, 1},
                                             {false, 1, 600, 1}}));
  EXPECT_EQ(trace.keys, 4u);
}

TEST_F(RecordTraceTest, AnAllocationOverALiveOneEndsIt) {
  add_pool(1, 1, "cuda:0");
  alloc(0x1000, 100, 1);
  alloc(0x1000, 200, 1);
  EXPECT_EQ(read_record_trace(recorder.path()).ops,
            (std::vector<TraceOp>{{true, 0, 100, 0}, {false, 0, 100, 0}, {true, 1, 200, 0}}));
}

TEST_F(RecordTraceTest, AFreeOfWhatIsKnownToBeFreeIsCounted) {
  add_pool(1, 1, "cuda:0");
  alloc(0x1000, 100, 1);
  free(0x1000, 100, 1);
  free(0x1000, 100, 1);
  const Trace trace = read_record_trace(recorder.path());
  EXPECT_EQ(trace.ops.size(), 2u);
  EXPECT_EQ(trace.unknown_frees, 1u);
}

TEST_F(RecordTraceTest, OneDeviceIsReadAtATime) {
  add_pool(1, 1, "cuda:0");
  add_pool(2, 2, "pinned memory of cuda:0");
  alloc(0x1000, 100, 1, 1);
  alloc(0x2000, 200, 1, 2);
  EXPECT_NE(
      message_of([&] { read_trace(recorder.path()); }).find("[cuda:0, pinned memory of cuda:0]; name one of these"),
      std::string::npos);
  EXPECT_NE(message_of([&] { read_trace(recorder.path(), "cuda:1"); }).find("has no allocator of 'cuda:1'"),
            std::string::npos);
  EXPECT_EQ(read_trace(recorder.path(), "cuda:0").ops, (std::vector<TraceOp>{{true, 0, 100, 0}}));
  EXPECT_EQ(read_trace(recorder.path(), "pinned memory of cuda:0").ops, (std::vector<TraceOp>{{true, 0, 200, 0}}));
}

TEST(ReadTrace, TellsKindsOfFileApart) {
  const std::string path = ::testing::TempDir() + "trace_test_" + std::to_string(::getpid());
  std::ofstream(path) << kHeader << "1,t,allocate,0x10,8,0\n";
  EXPECT_EQ(read_trace(path).ops.size(), 1u);
  std::ofstream(path) << "{\"json\": 1}\n";
  EXPECT_NE(message_of([&] { read_trace(path); }).find("is neither a record file nor a CSV"), std::string::npos);
  ::unlink(path.c_str());
  EXPECT_THROW(read_trace(path), IoError);
  EXPECT_THROW(read_trace(::testing::TempDir()), IoError);
}

}  // namespace
}  // namespace tessera::analysis

// PyTorch flight recorder files: written ones meet the requirements of its analyzer, read back unchanged, and are
// stable; those of other programs are read as far as they are plain data.
#include "tessera/analysis/torch_pickles.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/analysis/detail/pickle_reader.h"
#include "tessera/base/error.h"
#include "tessera/base/pickle.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::analysis {
namespace {

namespace fs = std::filesystem;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Two ranks of three with all features: stages, point-to-point and coalesced operations, uneven sizes, a replay.
Evidence sample() {
  constexpr std::int64_t kTime = 1'800'000'000'000'000'000;
  const RecordedOperation sum{.kind = "all_reduce", .dtype = "f32", .count = 1024, .reduction = "sum"};
  const RecordedOperation gathered{.kind = "all_gather", .dtype = "bf16", .count = 7, .parts = 99};
  const RecordedOperation rooted{.kind = "broadcast", .dtype = "i64", .count = 3, .root = 2};
  const auto done = [&](std::uint32_t task, std::uint64_t collective_number,
                        std::vector<RecordedOperation> operations) {
    const std::int64_t at = kTime + task * 1000;
    return CollectiveCall{.task = task,
                          .sequence = task,
                          .collective_number = collective_number,
                          .operations = std::move(operations),
                          .stage = Stage::kDone,
                          .asked_ns = at,
                          .begun_ns = at + 100,
                          .met_ns = at + 200,
                          .ended_ns = at + 300,
                          .label = "step",
                          .device = "host",
                          .stream = 4,
                          .thread = 77};
  };
  Evidence evidence{.world_size = 3};
  for (int number = 0; number < 2; ++number) {
    Group world{.name = "world", .backend = "nccl", .ranks = {0, 1, 2}, .rank = number};
    world.launches.push_back(done(1, 1, {sum}));
    world.launches.push_back(done(2, 2, {gathered, rooted}));
    const RecordedOperation message{
        .kind = number == 0 ? "send" : "recv", .dtype = "f16", .count = 5, .peer = 1 - number};
    world.launches.push_back(done(3, 1, {message}));
    world.launches.push_back(done(4, 3, {{.kind = "barrier"}}));
    CollectiveCall hung = done(5, 4, {{.kind = "reduce_scatter", .dtype = "f32", .count = 8, .reduction = "avg"}});
    hung.stage = number == 0 ? Stage::kBegun : Stage::kAsked;
    hung.begun_ns = number == 0 ? hung.begun_ns : 0;
    hung.met_ns = 0;
    hung.ended_ns = 0;
    world.launches.push_back(hung);
    Group pair{.name = "pair", .backend = "nccl", .ranks = {0, 1}, .rank = number};
    CollectiveCall failed = done(1, 1, {{.kind = "all_to_all", .dtype = "u8", .count = 2}});
    failed.stage = Stage::kFailed;
    failed.failure = "aborted";
    failed.replay = 117;
    failed.node = 3;
    pair.launches.push_back(failed);
    for (Group* group : {&world, &pair}) {
      for (const CollectiveCall& launch : group->launches) {
        ++group->asked;
        group->begun += launch.stage != Stage::kAsked ? 1 : 0;
        group->ended += launch.has_ended() ? 1 : 0;
      }
    }
    evidence.ranks.push_back({.rank = number,
                              .state = number == 0 ? RankState::kRunning : RankState::kDied,
                              .reason = number == 0 ? "" : "was killed by signal 9 (Killed)",
                              .signal = number == 0 ? 0 : 9,
                              .host = "node7",
                              .pid = 4000U + static_cast<unsigned>(number),
                              .last_ns = kTime + 9000,
                              .lost = 12,
                              .groups = {pair, world}});
  }
  evidence.ranks.push_back({.rank = 2, .state = RankState::kMissing});
  return evidence;
}

class TorchPickles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "torch_pickles_XXXXXX";
    directory = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(directory); }
  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(directory + "/" + name, std::ios::binary) << bytes;
  }
  // Writes a dump as PyTorch would, of one group of two ranks.
  void write_dump(int rank, const std::function<void(PickleWriter&)>& entries, const char* version = "2.10") const {
    write_pickle_file(directory + "/nccl_trace_rank_" + std::to_string(rank), [&](PickleWriter& out) {
      out.begin_dict();
      out.entry("version", version);
      out.value("pg_config");
      out.begin_dict();
      out.value("0");
      out.begin_dict();
      out.entry("name", "0");
      out.entry("desc", "default_pg");
      out.entry("ranks", "[0, 1]");
      out.end_dict();
      out.end_dict();
      out.value("entries");
      out.begin_list();
      entries(out);
      out.end_list();
      out.end_dict();
    });
  }
  struct Entry {
    std::int64_t record = 0;
    const char* name = "nccl:all_reduce";
    std::int64_t sequence = 1;
    const char* state = "completed";
    std::vector<std::int64_t> in = {4, 8};
    std::vector<std::int64_t> out = {4, 8};
    bool is_retired = false;
    bool is_message = false;
    std::int64_t started_ns = 0;
  };
  static void write_entry(PickleWriter& out, const Entry& entry) {
    const auto sizes = [&](const char* key, const std::vector<std::int64_t>& lengths) {
      out.value(key);
      out.begin_list();
      out.begin_list();
      for (const std::int64_t length : lengths) out.value(length);
      out.end_list();
      out.end_list();
    };
    out.begin_dict();
    out.entry("record_id", entry.record);
    out.value("process_group");
    out.begin_tuple();
    out.value("0");
    out.value("default_pg");
    out.end_tuple();
    out.entry("collective_seq_id", entry.is_message ? 0 : entry.sequence);
    out.entry("p2p_seq_id", entry.is_message ? entry.sequence : 0);
    out.entry("profiling_name", entry.name);
    out.entry("time_created_ns", std::int64_t{1000});
    sizes("input_sizes", entry.in);
    sizes("output_sizes", entry.out);
    for (const char* key : {"input_dtypes", "output_dtypes"}) {
      out.value(key);
      out.begin_list();
      out.value("BFloat16");
      out.end_list();
    }
    out.entry("state", entry.state);
    out.value("time_discovered_started_ns");
    if (entry.started_ns != 0) {
      out.value(entry.started_ns);
    } else {
      out.none();
    }
    out.value("time_discovered_completed_ns");
    out.none();
    out.entry("retired", entry.is_retired);
    out.entry("is_p2p", entry.is_message);
    out.end_dict();
  }
  std::vector<CollectiveCall> launches_of(const std::vector<Entry>& entries) const {
    write_dump(0, [&](PickleWriter& out) {
      for (const Entry& entry : entries) write_entry(out, entry);
    });
    return read_torch_pickles(directory).ranks.at(0).groups.at(0).launches;
  }

  std::string directory;
};

void expect_same(const CollectiveCall& a, const CollectiveCall& b) {
  EXPECT_EQ(a.operations, b.operations);
  EXPECT_EQ(a.stage, b.stage);
  EXPECT_EQ(std::tie(a.task, a.sequence, a.collective_number, a.asked_ns, a.begun_ns, a.met_ns, a.ended_ns),
            std::tie(b.task, b.sequence, b.collective_number, b.asked_ns, b.begun_ns, b.met_ns, b.ended_ns));
  EXPECT_EQ(std::tie(a.failure, a.label, a.device, a.stream, a.thread, a.replay, a.node, a.is_whole),
            std::tie(b.failure, b.label, b.device, b.stream, b.thread, b.replay, b.node, b.is_whole));
}

TEST_F(TorchPickles, ReadBackAsTheyWereWritten) {
  const Evidence written = sample();
  const std::vector<std::string> files = write_torch_pickles(written, directory);
  EXPECT_EQ(files,
            (std::vector<std::string>{directory + "/comm_lib_trace_rank_0", directory + "/comm_lib_trace_rank_1"}));
  EXPECT_TRUE(has_torch_pickles(directory));
  const Evidence read = read_torch_pickles(directory);
  EXPECT_TRUE(read.problems.empty()) << read.problems.front();
  EXPECT_EQ(read.world_size, 3);
  ASSERT_EQ(read.ranks.size(), 3U);
  EXPECT_EQ(read.ranks[2].state, RankState::kMissing);
  for (std::size_t i = 0; i < 2; ++i) {
    const Rank& a = written.ranks[i];
    const Rank& b = read.ranks[i];
    EXPECT_EQ(std::tie(a.rank, a.state, a.reason, a.signal, a.host, a.pid, a.last_ns, a.lost),
              std::tie(b.rank, b.state, b.reason, b.signal, b.host, b.pid, b.last_ns, b.lost));
    ASSERT_EQ(a.groups.size(), b.groups.size());
    for (std::size_t g = 0; g < a.groups.size(); ++g) {
      const Group& ga = a.groups[g];
      const Group& gb = b.groups[g];
      EXPECT_EQ(std::tie(ga.name, ga.backend, ga.ranks, ga.rank, ga.asked, ga.begun, ga.ended),
                std::tie(gb.name, gb.backend, gb.ranks, gb.rank, gb.asked, gb.begun, gb.ended));
      ASSERT_EQ(ga.launches.size(), gb.launches.size());
      for (std::size_t l = 0; l < ga.launches.size(); ++l) expect_same(ga.launches[l], gb.launches[l]);
    }
  }
}

TEST_F(TorchPickles, MatchTheGoldenFiles) {
  Evidence evidence = sample();
  for (const std::string& path : write_torch_pickles(evidence, directory)) {
    const std::string golden_path =
        std::string(TESSERA_TREE) + "/tessera/analysis/testdata/" + fs::path(path).filename().string() + ".pickle";
    const std::string bytes = content(path);
    if (std::getenv("WRITE_GOLDENS") != nullptr) std::ofstream(golden_path, std::ios::binary) << bytes;
    const std::string golden = content(golden_path);
    ASSERT_FALSE(golden.empty()) << golden_path;
    EXPECT_TRUE(golden == bytes) << path << " differs from what is written now; if that is meant, run this test with "
                                 << "WRITE_GOLDENS=1 and look at the difference";
  }
}

// Returns the output of tools/check_torch_flight_recorder.py; empty if there is no complaint.
std::string complaint(const std::string& directory) {
  const std::string command = "python3 " TESSERA_TREE "/tools/check_torch_flight_recorder.py " + directory + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  char piece[4096];
  while (std::fgets(piece, sizeof piece, pipe) != nullptr) text += piece;
  return ::pclose(pipe) == 0 ? "" : text;
}

TEST_F(TorchPickles, AreWhatTheAnalyzerDemands) {
  if (std::system("python3 -c 'import pickle' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3 here";
  Evidence evidence = sample();
  (void)write_torch_pickles(evidence, directory);
  EXPECT_EQ(complaint(directory), "");
  // Checks the tool itself: an unknown operation, and a wrong size.
  const std::string file = directory + "/comm_lib_trace_rank_1";
  std::string bytes = content(file);
  const std::size_t at = bytes.find("nccl:_all_gather_base");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 5] = 'X';
  write("comm_lib_trace_rank_1", bytes);
  EXPECT_NE(complaint(directory).find("Xall_gather_base"), std::string::npos);
}

TEST_F(TorchPickles, OfOthersAreReadByTheirNames) {
  const std::vector<CollectiveCall> launches =
      launches_of({{.sequence = 5},
                   {.record = 1, .name = "nccl:_all_gather_base", .sequence = 6, .in = {4}, .out = {8}},
                   {.record = 2, .name = "nccl:_reduce_scatter_base", .sequence = 7, .in = {8}, .out = {4}},
                   {.record = 3, .name = "nccl:all_to_all", .sequence = 8},
                   {.record = 4, .name = "nccl:all_reduce_barrier", .sequence = 9},
                   {.record = 5, .name = "nccl:send 0->1", .sequence = 1, .is_message = true},
                   {.record = 6, .name = "nccl:recv 0<-1", .sequence = 2, .is_message = true},
                   {.record = 7, .name = "nccl:send 0->1", .sequence = 3, .is_message = true}});
  ASSERT_EQ(launches.size(), 8U);
  EXPECT_EQ(launches[0].operations,
            (std::vector<RecordedOperation>{{.kind = "all_reduce", .dtype = "bf16", .count = 32}}));
  EXPECT_EQ(launches[0].collective_number, 5U);
  EXPECT_EQ(launches[0].stage, Stage::kDone);
  EXPECT_EQ(launches[0].asked_ns, 1000);
  EXPECT_EQ(launches[1].operations[0].kind, "all_gather");
  EXPECT_EQ(launches[1].operations[0].count, 4);
  EXPECT_EQ(launches[2].operations[0].kind, "reduce_scatter");
  EXPECT_EQ(launches[2].operations[0].count, 4);
  EXPECT_EQ(launches[3].operations[0].count, 0) << "ranks of an all_to_all may give different sizes and be right";
  EXPECT_EQ(launches[4].operations[0].kind, "barrier");
  EXPECT_EQ(launches[5].operations[0].kind, "send");
  EXPECT_EQ(launches[5].operations[0].peer, 1);
  EXPECT_EQ(launches[5].collective_number, 1U);
  EXPECT_EQ(launches[6].operations[0].kind, "recv");
  EXPECT_EQ(launches[6].collective_number, 1U);
  EXPECT_EQ(launches[7].collective_number, 2U);
  const Evidence evidence = read_torch_pickles(directory);
  EXPECT_EQ(evidence.ranks.at(0).groups.at(0).name, "0 (default_pg)");
  EXPECT_EQ(evidence.ranks.at(0).groups.at(0).backend, "nccl");
  EXPECT_EQ(evidence.ranks.at(0).state, RankState::kUnknown);
  EXPECT_EQ(evidence.ranks.at(1).state, RankState::kMissing) << "the group knows of it";
}

TEST_F(TorchPickles, WhereTimingWasOffTheFirstThatHasNotEndedHasBegun) {
  const std::vector<CollectiveCall> launches = launches_of({{.sequence = 1},
                                                            {.record = 1, .sequence = 2, .state = "scheduled"},
                                                            {.record = 2, .sequence = 3, .state = "scheduled"}});
  EXPECT_EQ(launches.at(1).stage, Stage::kBegun);
  EXPECT_EQ(launches.at(2).stage, Stage::kAsked);
}

TEST_F(TorchPickles, WhereTimingWasOnStatesAreWhatTheySay) {
  const std::vector<CollectiveCall> launches =
      launches_of({{.sequence = 1, .started_ns = 5},
                   {.record = 1, .sequence = 2, .state = "scheduled"},
                   {.record = 2, .sequence = 3, .state = "scheduled", .is_retired = true}});
  EXPECT_EQ(launches.at(0).begun_ns, 5);
  EXPECT_EQ(launches.at(1).stage, Stage::kAsked);
  EXPECT_EQ(launches.at(2).stage, Stage::kFailed);
  EXPECT_EQ(launches.at(2).failure, "timeout");
}

TEST_F(TorchPickles, CoalescedOperationsAreOneLaunch) {
  const std::vector<CollectiveCall> launches = launches_of({{.sequence = 1},
                                                            {.record = 1, .name = "nccl:broadcast", .sequence = 1},
                                                            {.record = 2, .name = "nccl:coalesced", .sequence = 1},
                                                            {.record = 3, .sequence = 2}});
  ASSERT_EQ(launches.size(), 2U);
  ASSERT_EQ(launches[0].operations.size(), 2U);
  EXPECT_EQ(launches[0].operations[1].kind, "broadcast");
}

TEST_F(TorchPickles, MessagesWhoseOlderEntriesAreLostHaveNoNumber) {
  const std::vector<CollectiveCall> launches =
      launches_of({{.record = 900, .name = "nccl:send 0->1", .sequence = 4, .is_message = true}});
  EXPECT_EQ(launches.at(0).collective_number, 0U);
  EXPECT_EQ(read_torch_pickles(directory).ranks.at(0).lost, 900U);
}

TEST_F(TorchPickles, OneThatCannotBeReadIsToldAndTheOthersAreRead) {
  write_dump(0, [](PickleWriter& out) { write_entry(out, {}); });
  write_dump(
      1, [](PickleWriter&) {}, "3.0");
  write("nccl_trace_rank_2", "hello");
  write("nccl_trace_rank_3", content(directory + "/nccl_trace_rank_0").substr(0, 40));
  const Evidence evidence = read_torch_pickles(directory);
  ASSERT_EQ(evidence.problems.size(), 3U);
  EXPECT_NE(evidence.problems[0].find(directory + "/nccl_trace_rank_1: version must be 2.x, got 3.0"),
            std::string::npos);
  EXPECT_NE(evidence.problems[1].find(directory + "/nccl_trace_rank_2: byte 0"), std::string::npos);
  EXPECT_NE(evidence.problems[2].find("truncated here"), std::string::npos);
  ASSERT_EQ(evidence.ranks.size(), 4U);
  EXPECT_EQ(evidence.ranks[1].state, RankState::kUnknown);
  EXPECT_EQ(evidence.ranks[1].file, directory + "/nccl_trace_rank_1");
}

TEST_F(TorchPickles, AreNotSeenWhereThereAreNone) {
  EXPECT_FALSE(has_torch_pickles(directory));
  EXPECT_FALSE(has_torch_pickles(directory + "/none"));
  write("notes1", "hello");
  EXPECT_FALSE(has_torch_pickles(directory));
  expect_error<IoError>([&] { (void)read_torch_pickles(directory); }, {directory, "comm_lib_trace_rank_0"});
  write_dump(
      0, [](PickleWriter&) {}, "1.0");
  EXPECT_TRUE(has_torch_pickles(directory));
  expect_error<IoError>([&] { (void)read_torch_pickles(directory); },
                        {"none of its 1 files", "version must be 2.x, got 1.0"});
  write("rank-0.host.1.0.record", "");
  EXPECT_FALSE(has_torch_pickles(directory));
}

using detail::Pickle;

TEST(PickleReader, ReadsWhatEveryProtocolWritesOfPlainData) {
  if (std::system("python3 -c 'import pickle' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3 here";
  for (int protocol = 0; protocol <= 5; ++protocol) {
    const std::string command =
        "python3 -c \"import pickle, sys\n"
        "s = 'a \\u00e9 \\u20ac \\U0001f600'\n"
        "x = [1, 2]\n"
        "sys.stdout.buffer.write(pickle.dumps({'i': [0, 1, -1, 255, 65536, -2**31, 2**31, -2**33, -2**62, 2**63-1], "
        "'s': [s, "
        "'x'*300, ''], 'f': [0.5, -1e300], 'b': [True, False, None], 't': ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "
        "'m': [x, x], 'd': {}, 'big': list(range(5000))}, protocol=" +
        std::to_string(protocol) + "))\"";
    std::FILE* pipe = ::popen(command.c_str(), "r");
    std::string bytes;
    char piece[4096];
    for (std::size_t n = 0; (n = std::fread(piece, 1, sizeof piece, pipe)) > 0;) bytes.append(piece, n);
    ASSERT_EQ(::pclose(pipe), 0);
    const Pickle pickle = Pickle::parse(bytes, "protocol " + std::to_string(protocol));
    const auto integers = [&](const char* key) {
      std::vector<std::int64_t> found;
      for (const detail::PickleValue& value : *pickle.root().find(key)->list()) found.push_back(*value.integer());
      return found;
    };
    EXPECT_EQ(integers("i"), (std::vector<std::int64_t>{0, 1, -1, 255, 65536, -2147483648LL, 2147483648LL, -(1LL << 33),
                                                        -(1LL << 62), INT64_MAX}))
        << protocol;
    const detail::PickleList& texts = *pickle.root().find("s")->list();
    EXPECT_EQ(*texts[0].text(), "a \u00e9 \u20ac \U0001f600") << protocol;
    EXPECT_EQ(*texts[1].text(), std::string(300, 'x')) << protocol;
    EXPECT_EQ(std::get<double>(pickle.root().find("f")->list()->at(1).held()), -1e300) << protocol;
    EXPECT_EQ(pickle.root().find("b")->list()->at(0).integer(), 1) << protocol;
    EXPECT_TRUE(pickle.root().find("b")->list()->at(2).is_none()) << protocol;
    const detail::PickleList& tuples = *pickle.root().find("t")->list();
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(tuples.at(i).list()->size(), i) << protocol;
    const detail::PickleList& shared = *pickle.root().find("m")->list();
    EXPECT_EQ(shared.at(0).list(), shared.at(1).list()) << protocol;
    EXPECT_TRUE(pickle.root().find("d")->dict()->empty()) << protocol;
    EXPECT_EQ(integers("big").at(4999), 4999) << protocol;
  }
}

TEST(PickleReader, RefusesByNameWhatMakesObjects) {
  const std::pair<std::string, const char*> programs[] = {{"cos\nsystem\n(S'true'\ntR.", "GLOBAL"},
                                                          {"\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"},
                                                          {"NNR.", "REDUCE"},
                                                          {"NNb.", "BUILD"},
                                                          {"(ios\nsystem\n.", "INST"},
                                                          {"(No.", "OBJ"},
                                                          {"NN\x81.", "NEWOBJ"},
                                                          {"P1\n.", "PERSID"},
                                                          {"NQ.", "BINPERSID"},
                                                          {"\x82\x01.", "EXT1"}};
  for (const auto& [bytes, name] : programs)
    expect_error<IoError>([&, &bytes = bytes] { (void)Pickle::parse(bytes, "evil"); }, {"evil", name, "plain data"});
}

TEST(PickleReader, RefusesWhatIsCutOffOrMakesNoSense) {
  using namespace std::string_literals;
  for (const std::string& bytes : {""s,
                                   "\x80"s,
                                   "\x80\x09."s,
                                   "."s,
                                   "NN."s,
                                   "(N."s,
                                   "K"s,
                                   "X\xff\xff\xff\x7fx."s,
                                   "\x8d\xff\xff\xff\xff\xff\xff\xff\xff."s,
                                   "a."s,
                                   "Na."s,
                                   "]Ns."s,
                                   "}Nu."s,
                                   "}(Nu."s,
                                   "e."s,
                                   "q\x01."s,
                                   "h\x01."s,
                                   "Nq"s,
                                   "t."s,
                                   "N\x86."s,
                                   "(0."s,
                                   "Ix\n."s,
                                   "Fx\n."s,
                                   "I1"s,
                                   "S'x\n."s,
                                   "V\\u12\n."s,
                                   "V\\Uffffffff\n."s,
                                   "px\n."s,
                                   "\xff."s,
                                   "hello"s})
    EXPECT_THROW((void)Pickle::parse(bytes, "file"), IoError) << bytes;
}

// Examined entry by entry, a file of 400 KB would take a minute.
TEST_F(TorchPickles, ALargeEntryThatIsNamedVeryOftenIsRefused) {
  const auto word = [](const std::string& text) {
    return "\x8c" + std::string(1, static_cast<char>(text.size())) + text;
  };
  std::string bytes = "\x80\x04}(" + word("version") + word("2.10") + word("pg_config") + "}(" + word("0") + "}u" +
                      word("entries") + "](}q\x01(";
  for (int i = 0; i < 20'000; ++i) bytes += word("key" + std::to_string(i)) + "N";
  bytes += "u";
  for (int i = 0; i < 20'000; ++i) bytes += "h\x01";
  write("nccl_trace_rank_0", bytes + "eu.");
  expect_error<IoError>([&] { (void)read_torch_pickles(directory); }, {"must not repeat large values"});
}

TEST(PickleReader, ListsThatHoldThemselvesAreRead) {
  const Pickle pickle = Pickle::parse(
      "]q\x01h\x01"
      "a.",
      "circle");
  ASSERT_EQ(pickle.root().list()->size(), 1U);
  EXPECT_EQ(pickle.root().list()->at(0).list(), pickle.root().list());
}

}  // namespace
}  // namespace tessera::analysis

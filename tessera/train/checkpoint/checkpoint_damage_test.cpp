// Corrupt, hostile or partly removed checkpoints are rejected with the fault, and never copied as valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <array>

#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/train/checkpoint/detail/hash.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/diff.h"
#include "tessera/train/checkpoint/reshard.h"
#include "tessera/train/checkpoint/testing/checkpoints.h"
#include "tessera/train/checkpoint/verify.h"
#include "tessera/train/detail/run_signals.h"

namespace tessera::train {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::CheckpointDirectory;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::names_in;
using ::testing::Not;

// Saves a tensor of 8 x 8 on this mesh at these steps, and keeps the last `keep`.
void save(const std::filesystem::path& directory, const std::string& mesh_text, const std::vector<std::int64_t>& steps,
          int keep = 10, const std::string& name = "weight") {
  const Mesh mesh = Mesh::parse(mesh_text);
  simulate(static_cast<int>(mesh.size()), [&] {
    CheckpointState state;
    std::string placements;
    for (int axis = 0; axis < mesh.ndim(); ++axis) placements += axis == 0 ? "S0" : axis == 1 ? ",S1" : ",R";
    state.tensors.emplace_back(name, testing::allocate({name, DType::kF32, {8, 8}}, Layout::parse(mesh, placements)));
    CheckpointWriter writer({.directory = directory, .keep = keep});
    for (const std::int64_t step : steps) {
      testing::set_known(state, step);
      writer.save(step, state);
      writer.finish();
    }
    EXPECT_THAT(writer.take_errors(), IsEmpty());
  });
}

// Changes a byte of the last tensor in a file.
void damage(const std::filesystem::path& file) {
  testing::flip_byte(file, static_cast<std::int64_t>(std::filesystem::file_size(file)) - 3);
}

TEST(DamagedCheckpoint, MustBeOfTheStepThatItsDirectoryIsNamedAfter) {
  const CheckpointDirectory directory;
  save(directory.path(), "fsdp=2", {10, 20});
  CheckpointInfo newest = open_checkpoint(directory.path() / "step-000000020");
  newest.path = directory.path() / "step-000000030";
  std::filesystem::rename(directory.path() / "step-000000020", newest.path);
  const std::string fault = "must be of step 30, the name of its directory, got step 20";
  CheckpointState none;
  expect_error<IoError>([&] { load_checkpoint(newest, none); }, {fault});
  expect_error<IoError>([&] { (void)open_checkpoint(newest.path); }, {fault});
  expect_error<IoError>([&] { (void)checkpoint_texts(newest); }, {fault});
  ASSERT_FALSE(verify_checkpoint(newest.path).faults.empty());
  EXPECT_THAT(verify_checkpoint(newest.path).faults.front().what, HasSubstr(fault));
  std::string said;
  const auto last = last_good(directory.path(), [&](const std::string& line) { said += line; });
  ASSERT_TRUE(last);
  EXPECT_EQ(last->step, 10);
  EXPECT_THAT(said, HasSubstr(fault));
  std::filesystem::rename(newest.path, directory.path() / "best");  // a custom name states no step
  EXPECT_EQ(open_checkpoint(directory.path() / "best").step, 20);
}

TEST(DamagedCheckpoint, IsNotWhatAVerificationThatIsEndedTells) {
  const CheckpointDirectory directory;
  save(directory.path(), "fsdp=2", {10});
  const std::filesystem::path path = directory.path() / "step-000000010";
  std::vector<std::uint64_t> done;
  const auto verdict = verify_checkpoint(path, CheckDepth::kEverything, [&](std::uint64_t nbytes, std::uint64_t all) {
    done.push_back(nbytes);
    EXPECT_EQ(all, open_checkpoint(path).nbytes);
  });
  EXPECT_THAT(verdict.faults, IsEmpty());
  EXPECT_THAT(done, ElementsAre(128, 256)) << "a shard of each rank";
  const auto end = [](std::uint64_t, std::uint64_t) { throw detail::AskedToEnd(); };
  EXPECT_THROW((void)verify_checkpoint(path, CheckDepth::kEverything, end), detail::AskedToEnd);
  EXPECT_THROW((void)last_good(directory.path(), {}, end), detail::AskedToEnd);
}

TEST(DamagedCheckpoint, IsNotMadeGoodByResharding) {
  const CheckpointDirectory directory;
  save(directory.path(), "fsdp=2", {10});
  const CheckpointInfo from = open_checkpoint(directory.path() / "step-000000010");
  damage(from.path / "rank-000001.safetensors");
  expect_error<IoError>([&] { reshard_checkpoint(from, Mesh::parse("fsdp=1"), directory.path() / "new"); },
                        {from.path.string(), "rank-000001.safetensors, weight", "checksum is wrong"});
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "new"));
}

TEST(DamagedCheckpoint, IsToldByDiffOnEitherSide) {
  const CheckpointDirectory directory;
  save(directory.path(), "fsdp=2", {10, 20});
  const CheckpointInfo good = open_checkpoint(directory.path() / "step-000000010");
  const CheckpointInfo bad = open_checkpoint(directory.path() / "step-000000020");
  damage(bad.path / "rank-000000.safetensors");
  int told = 0;
  const auto tell = [&](const CheckpointDifference& /*each*/) { ++told; };
  expect_error<IoError>([&] { (void)diff_checkpoints(good, bad, tell); }, {bad.path.string(), "checksum is wrong"});
  expect_error<IoError>([&] { (void)diff_checkpoints(bad, good, tell); }, {bad.path.string(), "checksum is wrong"});
  EXPECT_EQ(told, 0);
}

TEST(DamagedCheckpoint, AnIndexThatIsNestedTooDeepIsRefused) {
  const CheckpointDirectory directory;
  save(directory.path(), "fsdp=1", {10});
  const std::filesystem::path checkpoint = directory.path() / "step-000000010";
  std::string deep = R"({"xxh3":"","checkpoint":)";
  constexpr int kDepth = 100'000;
  for (int i = 0; i < kDepth; ++i) deep += R"({"a":)";
  deep += "1" + std::string(kDepth + 1, '}');
  std::ofstream(checkpoint / "index.json") << deep;
  EXPECT_THAT(to_string(verify_checkpoint(checkpoint).faults.at(0)), HasSubstr("nested"));
  expect_error<IoError>([&] { (void)open_checkpoint(checkpoint); }, {"index.json", "nested deeper than"});
  EXPECT_FALSE(last_good(directory.path(), {}).has_value());
}

TEST(DamagedCheckpoint, APipeInPlaceOfAFileIsNotWaitedFor) {
  const CheckpointDirectory directory;
  save(directory.path(), "fsdp=2", {10});
  const std::filesystem::path checkpoint = directory.path() / "step-000000010";
  std::filesystem::remove(checkpoint / "rank-000001.safetensors");
  ASSERT_EQ(::mkfifo((checkpoint / "rank-000001.safetensors").c_str(), 0600), 0);
  for (const CheckDepth depth : {CheckDepth::kSizes, CheckDepth::kEverything}) {
    const CheckpointVerdict verdict = verify_checkpoint(checkpoint, depth);
    ASSERT_EQ(verdict.faults.size(), 1U);
    EXPECT_THAT(to_string(verdict.faults[0]), HasSubstr("not a regular file"));
  }
  std::filesystem::remove(checkpoint / "index.json");
  ASSERT_EQ(::mkfifo((checkpoint / "index.json").c_str(), 0600), 0);
  EXPECT_THAT(to_string(verify_checkpoint(checkpoint).faults.at(0)), HasSubstr("index.json"));
}

TEST(DamagedCheckpoint, WhatIsPassedOverIsToldInLinesThatATerminalCanShow) {
  const CheckpointDirectory directory;
  save(directory.path(), "fsdp=1", {10}, 1, "weight\x1b[2J");
  std::filesystem::create_directories(directory.path() / "step-000000020.partial");
  damage(directory.path() / "step-000000010/rank-000000.safetensors");
  std::vector<std::string> lines;
  EXPECT_FALSE(last_good(directory.path(), [&](const std::string& line) { lines.push_back(line); }));
  EXPECT_THAT(lines, ElementsAre(EndsWith("step-000000020.partial is skipped: it is incomplete\n"),
                                 EndsWith("the shard is corrupt\n")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("\x1b"))));
}

TEST(Reshard, MoreRanksThanElementsAreRefusedBeforeAnythingIsWritten) {
  const CheckpointDirectory directory;
  save(directory.path(), "fsdp=1", {10});
  const CheckpointInfo from = open_checkpoint(directory.path() / "step-000000010");
  for (const char* mesh : {"fsdp=2147483647", "fsdp=65"}) {
    expect_error<InvalidArgument>([&] { reshard_checkpoint(from, Mesh::parse(mesh), directory.path() / "new"); },
                                  {"reshard", mesh, "64 elements"});
  }
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "new"));
  EXPECT_EQ(reshard_checkpoint(from, Mesh::parse("fsdp=64"), directory.path() / "new").world_size, 64);
}

TEST(Reshard, FindsAMeshForAnyNumberOfRanks) {
  const auto mesh_for = [](const char* mesh, int ranks) {
    CheckpointInfo from;
    from.mesh = mesh;
    return mesh_with_ranks(from, ranks).text();
  };
  EXPECT_EQ(mesh_for("dp=2,fsdp=2,tp=2", 8), "dp=2,fsdp=2,tp=2");
  EXPECT_EQ(mesh_for("dp=2,fsdp=2,tp=2", 12), "dp=2,fsdp=3,tp=2");
  EXPECT_EQ(mesh_for("dp=2,fsdp=2,tp=2", 1), "dp=1,fsdp=1,tp=1");
  EXPECT_EQ(mesh_for("dp=2,fsdp=2,tp=2", 2), "dp=1,fsdp=1,tp=2") << "the last axis keeps its size first";
  EXPECT_EQ(mesh_for("dp=2,fsdp=2,tp=6", 9), "dp=1,fsdp=3,tp=3");
  EXPECT_EQ(mesh_for("dp=4,tp=2", 3), "dp=3,tp=1") << "without fsdp the first takes what is left";
  EXPECT_EQ(mesh_for("", 3), "fsdp=3");
  EXPECT_THAT([&] { (void)mesh_for("dp=2; fsdp=2", 1); },
              ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("--mesh")));
}

TEST(RemovedCheckpoint, IsNotTakenForOneThatWasNotWrittenToItsEnd) {
  const CheckpointDirectory directory;
  std::filesystem::create_directories(directory.path() / "step-000000003.removed");
  std::ofstream(directory.path() / "step-000000003.removed/rank-000007.safetensors") << "the rest";
  std::vector<std::string> lines;
  EXPECT_FALSE(last_good(directory.path(), [&](const std::string& line) { lines.push_back(line); }));
  EXPECT_THAT(lines, IsEmpty());
  EXPECT_THAT(list_checkpoints(directory.path(), CheckDepth::kSizes), IsEmpty());
  save(directory.path(), "fsdp=1", {10});
  EXPECT_THAT(names_in(directory.path()), ElementsAre("step-000000010"));
}

// Names created by renames in a directory, in order.
class Renames {
 public:
  explicit Renames(const std::filesystem::path& directory) : descriptor_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    EXPECT_GE(::inotify_add_watch(descriptor_, directory.c_str(), IN_MOVED_TO), 0);
  }
  ~Renames() { ::close(descriptor_); }
  Renames(const Renames&) = delete;
  Renames& operator=(const Renames&) = delete;

  [[nodiscard]] std::vector<std::string> names() const {
    alignas(inotify_event) std::array<char, 16384> buffer = {};
    const ssize_t count = ::read(descriptor_, buffer.data(), buffer.size());
    std::vector<std::string> found;
    for (ssize_t at = 0; at < count;) {
      inotify_event event = {};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      found.emplace_back(buffer.data() + at + sizeof event);
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
    return found;
  }

 private:
  int descriptor_;
};

TEST(RemovedCheckpoint, IsCalledSoWhileItsFilesGo) {
  const CheckpointDirectory directory;
  save(directory.path(), "fsdp=1", {10});
  const Renames renames(directory.path());
  save(directory.path(), "fsdp=1", {10}, 1);  // replaces the first
  save(directory.path(), "fsdp=1", {20}, 1);
  EXPECT_THAT(renames.names(), Contains("step-000000010.removed").Times(2));
  EXPECT_THAT(names_in(directory.path()), ElementsAre("step-000000020"));
}

}  // namespace
}  // namespace tessera::train

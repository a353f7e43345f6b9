// Hostile or damaged checkpoints, with matching checksums if possible: each is rejected with a Tessera error, in little
// time and memory, and none passes as valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/train/checkpoint/detail/hash.h"
#include "tessera/train/checkpoint/diff.h"
#include "tessera/train/checkpoint/reshard.h"
#include "tessera/train/checkpoint/testing/checkpoints.h"
#include "tessera/train/checkpoint/verify.h"

namespace tessera::train {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::CheckpointDirectory;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

// A checkpoint of two ranks, step 5, that tests corrupt.
class Hostile : public ::testing::Test {
 protected:
  void SetUp() override {
    simulate(2, [&] {
      const testing::KnownTensor matrix{"matrix", DType::kF32, {32, 16}};
      CheckpointState state;
      state.tensors.emplace_back(matrix.name, testing::allocate(matrix, Layout::parse(Mesh::parse("fsdp=2"), "S0")));
      testing::set_known(state, 5);
      CheckpointWriter writer({.directory = directory_.path()});
      writer.save(5, state);
      writer.finish();
      EXPECT_THAT(writer.take_errors(), IsEmpty());
    });
  }
  [[nodiscard]] std::filesystem::path checkpoint() const { return directory_.path() / "step-000000005"; }
  [[nodiscard]] std::filesystem::path file(int rank) const {
    return checkpoint() / ("rank-00000" + std::to_string(rank) + ".safetensors");
  }
  void write_index(const std::string& text) const {
    std::ofstream(checkpoint() / "index.json", std::ios::trunc) << text;
  }
  // Changes the index and repairs its checksum.
  template <class Change>
  void change_index(const Change& change) const {
    Json root = Json::parse(testing::bytes_of(checkpoint() / "index.json"));
    change(root["checkpoint"]);
    root["xxh3"] = detail::hash_of(root["checkpoint"].dump());
    write_index(root.dump());
  }
  // Expects every function to reject the checkpoint.
  void expect_refused(std::initializer_list<std::string_view> words) const {
    const CheckpointVerdict verdict = verify_checkpoint(checkpoint());
    ASSERT_FALSE(verdict.faults.empty());
    for (const std::string_view word : words) EXPECT_THAT(to_string(verdict.faults[0]), HasSubstr(word));
    EXPECT_FALSE(last_good(directory_.path(), {}));
    CheckpointInfo info;
    info.path = checkpoint();
    expect_error<IoError>([&] { diff_checkpoints(info, info, {}); }, words);
    expect_error<IoError>([&] { reshard_checkpoint(info, Mesh::parse("fsdp=1"), directory_.path() / "out"); }, words);
    EXPECT_FALSE(std::filesystem::exists(directory_.path() / "out" / "step-000000005"));
  }

  CheckpointDirectory directory_;
};

TEST_F(Hostile, DamageIsNotCarriedOverIntoACheckpointWithNewChecksums) {
  testing::flip_byte(file(1), static_cast<std::int64_t>(std::filesystem::file_size(file(1))) - 7);
  expect_error<IoError>(
      [&] { reshard_checkpoint(open_checkpoint(checkpoint()), Mesh::parse("fsdp=1"), directory_.path() / "out"); },
      {"rank-000001.safetensors", "matrix", "checksum is wrong", "tessera checkpoint verify"});
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "out" / "step-000000005"));
}

TEST_F(Hostile, AnIndexThatIsNestedDeepIsRefused) {
  constexpr std::size_t kDeep = 500'000;
  for (const char* begin : {"[", "{\"a\":"}) {
    std::string nested;
    for (std::size_t i = 0; i < kDeep; ++i) nested += begin;
    nested += "1";
    for (std::size_t i = 0; i < kDeep; ++i) nested += begin[0] == '[' ? "]" : "}";
    write_index(R"({"xxh3": "00000000000000000000000000000000", "checkpoint": )" + nested + "}");
    expect_refused({"index.json"});
  }
}

TEST_F(Hostile, SizesThatNoFileHasAskForNoMemory) {
  change_index([](Json& index) {
    index["tensors"][0]["shape"] = {std::int64_t{1} << 50, 2};
    for (Json& each : index["files"])
      each["nbytes"] = each["header_nbytes"].get<std::int64_t>() + (std::int64_t{1} << 52);
  });
  expect_refused({"rank-000000.safetensors", "4503599627374592"});
}

TEST_F(Hostile, BlocksThatNoFileHasAreNotCounted) {
  change_index([](Json& index) {
    index["layouts"][0] = "fsdp=2 {Shard(0, blocks=281474976710656)}";
    index["tensors"][0]["shape"] = {std::int64_t{1} << 50, 2};
    for (Json& each : index["files"])
      each["nbytes"] = each["header_nbytes"].get<std::int64_t>() + (std::int64_t{1} << 52);
  });
  expect_refused({"rank-000000.safetensors", "4503599627374592"});
}

TEST_F(Hostile, APipeInPlaceOfAFileIsNotWaitedFor) {
  std::filesystem::remove(file(0));
  ASSERT_EQ(::mkfifo(file(0).c_str(), 0600), 0);
  expect_refused({"rank-000000.safetensors", "not a regular file"});
}

}  // namespace
}  // namespace tessera::train

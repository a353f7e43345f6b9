// Saving, failing, keeping, finding the last valid checkpoint, and rejecting mismatches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cerrno>

#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/memory/allocator.h"
#include "tessera/tensor/device_context.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/shard_file.h"
#include "tessera/train/checkpoint/testing/checkpoints.h"
#include "tessera/train/checkpoint/verify.h"

namespace tessera::train {
namespace {

using layout::Layout;
using layout::Mesh;
using ::testing::AllOf;
using testing::CheckpointDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::KnownTensor;
using testing::names_in;
using namespace std::chrono_literals;

const KnownTensor kMatrix{"matrix", DType::kF32, {32, 16}};
const KnownTensor kVector{"vector", DType::kF32, {9}};

// Two tensors, the first sharded over all ranks.
CheckpointState small_state() {
  CheckpointState state;
  const int ranks = current_place().world_size;
  Layout layout;
  if (ranks > 1) layout = Layout::parse(Mesh::parse("fsdp=" + std::to_string(ranks)), "S0");
  state.tensors.emplace_back(kMatrix.name, testing::allocate(kMatrix, layout));
  state.tensors.emplace_back(kVector.name, testing::allocate(kVector, {}));
  return state;
}

void save_known(CheckpointWriter& writer, std::int64_t step) {
  const CheckpointState state = small_state();
  testing::set_known(state, step);
  writer.save(step, state);
  writer.finish();
}

// Saves these steps on two ranks, without an error.
void save_steps(const std::filesystem::path& directory, const std::vector<std::int64_t>& steps, int keep = 10) {
  simulate(2, [&] {
    CheckpointWriter writer({.directory = directory, .keep = keep});
    for (const std::int64_t step : steps) save_known(writer, step);
    EXPECT_THAT(writer.take_errors(), IsEmpty());
  });
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& directory) {
  std::vector<std::int64_t> steps;
  for (const CheckpointInfo& each : checkpoints_in(directory)) steps.push_back(each.step);
  return steps;
}

// Makes writes of the checkpoint files of this rank fail.
void inject(const std::function<int(const std::string& path, std::uint64_t written)>& fault) {
  current_rank()->part<detail::WriteFaults>([] { return std::make_shared<detail::WriteFaults>(); }).before_write =
      fault;
}

TEST(Checkpoint, KeepsTheLastOnesAndNothingElse) {
  const CheckpointDirectory directory;
  save_steps(directory.path(), {10, 20, 30, 40, 50}, 2);
  EXPECT_THAT(steps_in(directory.path()), ElementsAre(50, 40));
  EXPECT_THAT(names_in(directory.path()), ElementsAre("step-000000040", "step-000000050"));
  EXPECT_THAT(names_in(directory.path() / "step-000000050"),
              ElementsAre("index.json", "rank-000000.safetensors", "rank-000001.safetensors"));
}

TEST(Checkpoint, KeepsWhatItHasJustWrittenThoughLaterOnesLieThere) {
  const CheckpointDirectory directory;
  save_steps(directory.path(), {100, 200});
  save_steps(directory.path(), {110, 120}, 1);  // for example resumed from 100 because 200 is corrupt
  EXPECT_THAT(steps_in(directory.path()), ElementsAre(200, 120));
}

TEST(Checkpoint, TakesThePlaceOfOneOfTheSameStep) {
  const CheckpointDirectory directory;
  save_steps(directory.path(), {10, 20});
  const std::string before = testing::bytes_of(directory.path() / "step-000000020/rank-000001.safetensors");
  simulate(2, [&] {
    CheckpointWriter writer({.directory = directory.path()});
    const CheckpointState state = small_state();
    testing::set_known(state, 99);
    writer.save(20, state);
    writer.finish();
    EXPECT_THAT(writer.take_errors(), IsEmpty());
  });
  EXPECT_NE(testing::bytes_of(directory.path() / "step-000000020/rank-000001.safetensors"), before);
  EXPECT_THAT(names_in(directory.path()), ElementsAre("step-000000010", "step-000000020"));
}

TEST(Checkpoint, HoldsWhatTheTensorsHeldWhenItWasSaved) {
  const CheckpointDirectory directory;
  const device::Device host = device::Device::get("host");
  const device::Stream stream = host.create_stream({.name = "work", .may_spin = true});
  CheckpointState state = small_state();
  testing::set_known(state, 1);
  CheckpointWriter writer({.directory = directory.path()});
  {
    const tensor::StreamScope scope(stream);
    const device::Hold hold = stream.hold(60s);  // nothing has run when save() returns
    const auto set = [&](std::int64_t step) {
      stream.run(
          [state, step] {
            for (std::size_t t = 0; t < state.tensors.size(); ++t) {
              testing::for_each_element(state.tensors[t].second, [&](std::byte* element, std::int64_t place) {
                const std::uint64_t bits = testing::known_bits(t, place, step);
                std::memcpy(element, &bits, 4);
              });
            }
          },
          {.label = "set", .accesses = std::span<const device::Access>()});
    };
    set(2);
    writer.save(2, state);
    set(3);
    hold.release();
  }
  writer.finish();
  stream.synchronize();
  EXPECT_THAT(writer.take_errors(), IsEmpty());
  EXPECT_EQ(testing::count_wrong(state, 3), 0);
  load_checkpoint(checkpoints_in(directory.path()).at(0), state);
  EXPECT_EQ(testing::count_wrong(state, 2), 0);
}

// The reported and the predicted peak of a run therefore cover only the steps (docs/checkpoints.md).
TEST(Checkpoint, TakesNoMemoryOfTheAllocatorForItsCopy) {
  const CheckpointDirectory directory;
  simulate(2, [&] {
    const CheckpointState state = small_state();
    testing::set_known(state, 1);
    const memory::Allocator allocator = memory::Allocator::of(device::Device::get("host"));
    const memory::Statistics before = allocator.statistics();
    CheckpointWriter writer({.directory = directory.path()});
    for (const std::int64_t step : {1, 2}) writer.save(step, state);
    writer.finish();
    EXPECT_THAT(writer.take_errors(), IsEmpty());
    EXPECT_EQ(allocator.statistics().allocations, before.allocations);
    EXPECT_EQ(allocator.statistics().peak_live_nbytes, before.peak_live_nbytes);
  });
}

TEST(Checkpoint, SavesAViewThatDoesNotLieDense) {
  const CheckpointDirectory directory;
  CheckpointState whole;
  whole.tensors.emplace_back("x", testing::allocate({"x", DType::kF32, {4, 6}}, {}));
  testing::set_known(whole, 5);
  CheckpointState turned;
  turned.tensors.emplace_back("x", whole.tensors[0].second.as_strided({6, 4}, {1, 6}, 0));
  CheckpointWriter writer({.directory = directory.path()});
  writer.save(5, turned);
  writer.finish();
  CheckpointState loaded;
  loaded.tensors.emplace_back("x", testing::allocate({"x", DType::kF32, {6, 4}}, {}));
  load_checkpoint(checkpoints_in(directory.path()).at(0), loaded);
  const float* from = whole.tensors[0].second.data_as<float>();
  const float* to = loaded.tensors[0].second.data_as<float>();
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 4; ++j) EXPECT_EQ(bits(to[i * 4 + j]), bits(from[j * 6 + i]));
  }
}

TEST(Checkpoint, ADiskThatIsFullIsAnErrorOfAllRanksAndTheLastOneStays) {
  const CheckpointDirectory directory;
  simulate(3, [&] {
    CheckpointWriter writer({.directory = directory.path()});
    save_known(writer, 10);
    if (current_place().rank == Rank(1)) {
      inject([](const std::string& /*path*/, std::uint64_t written) { return written > 0 ? ENOSPC : 0; });
    }
    save_known(writer, 20);
    EXPECT_THAT(writer.take_errors(),
                ElementsAre(AllOf(HasSubstr("checkpoint of step 20 failed"), HasSubstr("No space left on device"),
                                  HasSubstr("rank-000001.safetensors"), HasSubstr("free space"),
                                  HasSubstr("the last valid checkpoint is of step 10"))));
    EXPECT_THAT(writer.take_errors(), IsEmpty());
    inject({});
    save_known(writer, 30);  // there is space again
    EXPECT_THAT(writer.take_errors(), IsEmpty());
  });
  EXPECT_THAT(names_in(directory.path()), ElementsAre("step-000000010", "step-000000030"));
}

TEST(Checkpoint, ARankThatComesLateIsToldWhatFailedAndNotWhatFollowedFromThat) {
  const CheckpointDirectory directory;
  std::atomic<bool> is_over = false;
  simulate(2, [&] {
    CheckpointWriter writer({.directory = directory.path()});
    const CheckpointState state = small_state();
    testing::set_known(state, 10);
    const device::Stream late = device::Device::get("host").create_stream({.name = "late", .may_spin = true});
    if (current_place().rank == Rank(0)) {
      inject([](const std::string& /*path*/, std::uint64_t /*written*/) { return ENOSPC; });
      writer.save(10, state);
      writer.finish();  // the partial checkpoint is removed
      is_over = true;
      is_over.notify_all();
    } else {
      const tensor::StreamScope scope(late);
      const device::Hold hold = late.hold(60s);
      writer.save(10, state);
      is_over.wait(false);
      hold.release();
      writer.finish();
    }
    EXPECT_THAT(writer.take_errors(), ElementsAre(AllOf(HasSubstr("No space left"), HasSubstr("rank-000000"))));
  });
}

TEST(Checkpoint, ADirectoryThatCannotBeMadeIsAnErrorAndNoEnd) {
  const CheckpointDirectory directory;
  std::ofstream(directory.path()) << "a file in its place";
  simulate(2, [&] {
    CheckpointWriter writer({.directory = directory.path()});
    save_known(writer, 10);
    EXPECT_THAT(writer.take_errors(), ElementsAre(AllOf(HasSubstr("cannot create directory"), HasSubstr("step 10"))));
  });
}

TEST(Checkpoint, ARankThatDoesNotComeIsNamed) {
  const CheckpointDirectory directory;
  save_steps(directory.path(), {10});
  simulate(2, [&] {
    CheckpointWriter writer({.directory = directory.path(), .timeout = 300ms});
    if (current_place().rank == Rank(1)) return;
    save_known(writer, 20);
    EXPECT_THAT(writer.take_errors(), ElementsAre(HasSubstr("rank 1 did not arrive")));
  });
  EXPECT_THAT(names_in(directory.path()), ElementsAre("step-000000010"));
}

TEST(Checkpoint, WhatIsAbandonedEndsAtOnce) {
  const CheckpointDirectory directory;
  simulate(2, [&] {
    CheckpointWriter writer({.directory = directory.path(), .timeout = 1h});
    if (current_place().rank == Rank(1)) return;
    const CheckpointState state = small_state();
    testing::set_known(state, 1);
    writer.save(1, state);
    writer.abandon();
    EXPECT_THAT(writer.take_errors(), ElementsAre(HasSubstr("canceled")));
  });
  EXPECT_THAT(checkpoints_in(directory.path()), IsEmpty());
}

TEST(Checkpoint, AnErrorOnTheWayOutWaitsForNobodyForLong) {
  const CheckpointDirectory directory;
  simulate(2, [&] {
    if (current_place().rank == Rank(1)) return;
    const auto fail = [&] {
      CheckpointWriter writer({.directory = directory.path(), .timeout = 1h});
      const CheckpointState state = small_state();
      testing::set_known(state, 1);
      writer.save(1, state);
      TESSERA_THROW(AbortedError, "a peer is gone");
    };
    expect_error<AbortedError>(fail, {"a peer is gone"});
  });
  EXPECT_THAT(names_in(directory.path()), IsEmpty());
}

TEST(Checkpoint, RanksThatSaveDifferentThingsAreToldSo) {
  const CheckpointDirectory directory;
  simulate(2, [&] {
    CheckpointWriter writer({.directory = directory.path()});
    CheckpointState state = small_state();
    if (current_place().rank == Rank(1)) state.tensors[1].first = "other";
    writer.save(1, state);
    writer.finish();
    EXPECT_THAT(writer.take_errors(), ElementsAre(HasSubstr("rank 1 must save the same tensors as rank 0")));
  });
}

TEST(Checkpoint, WhatDeadWritersLeftIsRemoved) {
  const CheckpointDirectory directory;
  std::filesystem::create_directories(directory.path() / "step-000000020.partial");
  std::ofstream(directory.path() / "step-000000020.partial/rank-000007.safetensors") << "half";
  std::vector<std::string> lines;
  EXPECT_FALSE(last_good(directory.path(), [&](const std::string& line) { lines.push_back(line); }));
  EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("step-000000020.partial"), HasSubstr("it is incomplete"))));
  save_steps(directory.path(), {20});
  EXPECT_THAT(names_in(directory.path()), ElementsAre("step-000000020"));
  EXPECT_THAT(names_in(directory.path() / "step-000000020"),
              ElementsAre("index.json", "rank-000000.safetensors", "rank-000001.safetensors"));
  EXPECT_EQ(verify_checkpoint(directory.path() / "step-000000020").faults.size(), 0U);
}

TEST(Checkpoint, TwoRunsDoNotWriteToOneDirectory) {
  const CheckpointDirectory directory;
  CheckpointWriter writer({.directory = directory.path()});
  save_known(writer, 10);
  {
    std::filesystem::create_directory(directory.path() / "step-000000020.partial");  // for example being written
    CheckpointWriter other({.directory = directory.path(), .keep = 1});
    save_known(other, 20);
    EXPECT_THAT(other.take_errors(), ElementsAre(AllOf(HasSubstr("another run"), HasSubstr("separate directory"))));
    EXPECT_TRUE(std::filesystem::exists(directory.path() / "step-000000020.partial"));
  }
  save_known(writer, 30);
  EXPECT_THAT(writer.take_errors(), IsEmpty());
  EXPECT_THAT(steps_in(directory.path()), ElementsAre(30, 10));
}

TEST(Checkpoint, RefusesWhatCanNeverBeSaved) {
  const CheckpointDirectory directory;
  CheckpointWriter writer({.directory = directory.path()});
  const Tensor x = testing::allocate(kVector, {});
  const auto save = [&](std::vector<std::pair<std::string, Tensor>> tensors) {
    writer.save(1, {std::move(tensors), {}});
  };
  expect_error<InvalidArgument>([&] { save({{"x", x}, {"x", x}}); }, {"'x'", "twice"});
  expect_error<InvalidArgument>([&] { save({{"x", Tensor()}}); }, {"'x'", "must be a tensor"});
  expect_error<InvalidArgument>([&] { save({{"", x}}); }, {"name is empty or reserved"});
  expect_error<InvalidArgument>(
      [&] {
        save({{"z", testing::allocate({"z", DType::kC128, {2}}, {})}});
      },
      {"c128", "'z'"});
  expect_error<InvalidArgument>(
      [&] {
        save({{"far", testing::allocate(kVector, Layout::parse(Mesh::parse("3+dp=2"), "S0"))}});
      },
      {"'far'", "3+dp=2", "[0, 1)"});
  expect_error<InvalidArgument>([&] { writer.save(-1, {}); }, {"step must be at least 0, got -1"});
  expect_error<InvalidArgument>([&] { CheckpointWriter none({.directory = directory.path(), .keep = 0}); }, {"keep"});
  simulate(2, [&] {
    CheckpointWriter both({.directory = directory.path()});
    const Layout sums = Layout::parse(Mesh::parse("dp=2"), "P");
    expect_error<InvalidArgument>(
        [&] {
          both.save(1, {{{"gradient", testing::allocate(kVector, sums)}}, {}});
        },
        {"'gradient'", "reduce or redistribute"});
  });
  EXPECT_FALSE(std::filesystem::exists(directory.path()));
}

TEST(Checkpoint, RefusesToLoadWhatDoesNotFitAndChangesNothing) {
  const CheckpointDirectory directory;
  save_steps(directory.path(), {10});
  const CheckpointInfo info = checkpoints_in(directory.path()).at(0);
  CheckpointState state = small_state();
  testing::set_known(state, 77);
  const auto load_with = [&](const KnownTensor& other) {
    CheckpointState asked = state;
    asked.tensors.emplace_back(other.name, testing::allocate(other, {}));
    load_checkpoint(info, asked);
  };
  expect_error<MismatchError>([&] { load_with({"matrics", DType::kF32, {2}}); }, {"'matrics'", "matrix", "2"});
  state.tensors.pop_back();
  expect_error<MismatchError>([&] { load_with({"vector", DType::kF32, {8}}); }, {"'vector'", "[9]", "[8]", "sizes"});
  expect_error<MismatchError>([&] { load_with({"vector", DType::kBF16, {9}}); }, {"'vector'", "f32", "bf16", "cast"});
  EXPECT_EQ(testing::count_wrong(state, 77), 0);
}

TEST(Checkpoint, EveryByteOfAFileIsWatchedOver) {
  const CheckpointDirectory directory;
  save_steps(directory.path(), {10, 20});
  for (const char* name : {"index.json", "rank-000000.safetensors", "rank-000001.safetensors"}) {
    const std::filesystem::path file = directory.path() / "step-000000020" / name;
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(file));
    const std::string sound = testing::bytes_of(file);
    for (std::int64_t at = 0; at < size; at += 1 + size / 97) {
      if (std::isspace(static_cast<unsigned char>(sound[static_cast<std::size_t>(at)])) != 0 &&
          std::string_view(name) == "index.json") {
        continue;  // a changed blank of JSON may change nothing or everything
      }
      testing::flip_byte(file, at);
      std::vector<std::string> lines;
      const auto last = last_good(directory.path(), [&](const std::string& line) { lines.push_back(line); });
      ASSERT_TRUE(last.has_value());
      EXPECT_EQ(last->step, 10) << name << " at " << at;
      EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("step-000000020"), HasSubstr("is skipped"))));
      testing::flip_byte(file, at);
    }
  }
  EXPECT_EQ(last_good(directory.path(), {})->step, 20);
}

TEST(Checkpoint, AFileThatIsMissingOrShortIsNamed) {
  const CheckpointDirectory directory;
  save_steps(directory.path(), {10});
  const std::filesystem::path checkpoint = directory.path() / "step-000000010";
  std::filesystem::resize_file(checkpoint / "rank-000001.safetensors", 4200);
  CheckpointVerdict verdict = verify_checkpoint(checkpoint);
  ASSERT_EQ(verdict.faults.size(), 1U);
  EXPECT_THAT(to_string(verdict.faults[0]), AllOf(HasSubstr("rank-000001"), HasSubstr("got 4200;")));
  std::filesystem::remove(checkpoint / "rank-000001.safetensors");
  EXPECT_THAT(to_string(verify_checkpoint(checkpoint).faults.at(0)), HasSubstr("No such file"));
  CheckpointState state = small_state();
  expect_error<IoError>([&] { load_checkpoint(open_checkpoint(checkpoint), state); }, {"rank-000001"});
  std::filesystem::remove(checkpoint / "index.json");
  EXPECT_THAT(to_string(verify_checkpoint(checkpoint).faults.at(0)), HasSubstr("index.json"));
  EXPECT_FALSE(last_good(directory.path(), {}).has_value());
}

TEST(Checkpoint, ADamagedShardIsNamedWithItsTensor) {
  const CheckpointDirectory directory;
  save_steps(directory.path(), {10});
  const std::filesystem::path checkpoint = directory.path() / "step-000000010";
  const auto header = static_cast<std::int64_t>(detail::load_index(checkpoint).files[1].header_nbytes);
  testing::flip_byte(checkpoint / "rank-000001.safetensors", header + 5);
  const CheckpointVerdict verdict = verify_checkpoint(checkpoint);
  ASSERT_EQ(verdict.faults.size(), 1U);
  EXPECT_EQ(verdict.faults[0].tensor, "matrix");
  EXPECT_EQ(verdict.shards, 3);
}

TEST(Checkpoint, FilesAreSafetensorsThatSayWhatTheyHold) {
  const CheckpointDirectory directory;
  save_steps(directory.path(), {10});
  const tensor::SafetensorsFile file((directory.path() / "step-000000010/rank-000001.safetensors").string());
  EXPECT_EQ(file.entry("matrix").shape, (Shape{16, 16}));
  EXPECT_EQ(file.metadata().at("box of matrix"), "[16:32, 0:16] of [32, 16]");
  EXPECT_EQ(file.metadata().at("step"), "10");
  EXPECT_EQ(file.metadata().at("rank"), "1");
}

TEST(Checkpoint, TheNextSaveWaitsForTheOneBefore) {
  const CheckpointDirectory directory;
  CheckpointState state = small_state();
  CheckpointWriter writer({.directory = directory.path(), .keep = 10});
  for (int step = 0; step < 5; ++step) {  // one copy buffer: each must be written before the next
    testing::set_known(state, step);
    writer.save(step, state);
    device::Device::get("host").synchronize();
  }
  writer.finish();
  EXPECT_THAT(writer.take_errors(), IsEmpty());
  const std::vector<CheckpointInfo> all = checkpoints_in(directory.path());
  ASSERT_EQ(all.size(), 5U);
  for (const CheckpointInfo& each : all) {
    load_checkpoint(each, state);
    EXPECT_EQ(testing::count_wrong(state, each.step), 0) << each.step;
  }
}

TEST(Checkpoint, TextsComeBackAsTheyWere) {
  const CheckpointDirectory directory;
  const std::map<std::string, std::string> texts = {
      {"position", "{\"sample\": 7}"}, {"odd", "\n\t\"\\ \u00e9"}, {"", ""}};
  CheckpointState state = small_state();
  testing::set_known(state, 1);
  state.texts = texts;
  {
    CheckpointWriter writer({.directory = directory.path()});
    writer.save(1, state);
    writer.finish();
    state.texts["bytes"] = "\xff\xfe";  // not valid in JSON
    writer.save(2, state);
    writer.finish();
    EXPECT_THAT(writer.take_errors(), ElementsAre(HasSubstr("must be UTF-8")));
  }
  const CheckpointInfo info = checkpoints_in(directory.path()).at(0);
  EXPECT_EQ(info.step, 1);
  EXPECT_EQ(checkpoint_texts(info), texts);
  EXPECT_EQ(load_checkpoint(info, state), texts);
}

TEST(Checkpoint, ManySavesLeaveFewKeysInTheStore) {
  const CheckpointDirectory directory;
  simulate(2, [&] {
    CheckpointWriter writer({.directory = directory.path()});
    for (int step = 0; step < 8; ++step) save_known(writer, step);
    EXPECT_LE(comm::store()->keys("checkpoint/").size(), 8U);
  });
}

}  // namespace
}  // namespace tessera::train

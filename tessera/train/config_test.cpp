#include "tessera/train/config.h"
#include "tessera/nn/language_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::train {
namespace {

Config with(std::initializer_list<std::pair<const char*, const char*>> values) {
  Config config;
  for (const auto& [name, value] : values) set(config, name, value);
  return config;
}

TEST(Config, EveryOptionHasItsOwnPlaceAndHelp) {
  Config config;
  std::set<std::string> names;
  std::set<const void*> places;
  for (const Option& option : options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    const void* place = std::visit([](auto* each) -> const void* { return each; }, option.place(config));
    EXPECT_TRUE(places.insert(place).second) << option.name << " has the place of another";
    EXPECT_GE(option.help.size(), 6u) << option.name;
    EXPECT_FALSE(option.help.ends_with('.')) << option.name;
    for (const std::string& value : value_texts(option, config)) {
      Config again;
      EXPECT_NO_THROW(set(again, option.name, value)) << option.name << " refuses its own default " << value;
    }
  }
  EXPECT_EQ(names.size(), 89u) << "a new field needs a row in config_options.cpp, and this number";
}

TEST(Config, SetsEachTypeFromText) {
  const Config config = with({{"model.layers", "6"},
                              {"mesh.tp", "2"},
                              {"train.seed", "9007199254740991"},
                              {"optimizer.learning_rate", "1e-4"},
                              {"model.tied", "true"},
                              {"train.dtype", "bf16"},
                              {"data.files", "a.txt"},
                              {"data.files", "b=2.5"}});
  EXPECT_EQ(config.model.layers, 6);
  EXPECT_EQ(config.mesh.tp, 2);
  EXPECT_EQ(config.train.seed, 9007199254740991u);
  EXPECT_EQ(config.optimizer.learning_rate, 1e-4);
  EXPECT_TRUE(config.model.tied);
  EXPECT_EQ(config.train.dtype, "bf16");
  EXPECT_EQ(config.data.files, (std::vector<std::string>{"a.txt", "b=2.5"}));
}

TEST(Config, RefusesWhatIsNoValueAndChangesNothing) {
  Config config;
  const auto refuses = [&config](const char* name, const char* value, std::initializer_list<std::string_view> words) {
    expect_error<InvalidArgument>([&] { set(config, name, value); }, words);
  };
  refuses("model.layres", "3", {"'model.layres'", "did you mean 'model.layers'?"});
  refuses("model.layers", "many", {"model.layers", "'many'", "must be an integer, 0 or more"});
  refuses("model.layers", "3x", {"'3x'"});
  refuses("model.layers", "-1", {"model.layers: must be an integer, 0 or more, got -1"});
  refuses("train.steps", "0", {"train.steps: must be an integer, 1 or more, got 0"});
  refuses("train.seed", "-3", {"train.seed", "'-3'"});
  refuses("optimizer.learning_rate", "0", {"optimizer.learning_rate: must be a number, above 0, got 0"});
  refuses("optimizer.learning_rate", "nan", {"optimizer.learning_rate: must be", "got nan"});
  refuses("optimizer.learning_rate", "inf", {"optimizer.learning_rate: must be", "got inf"});
  refuses("schedule.floor", "1.5", {"schedule.floor: must be a number, 0 to 1, got 1.5"});
  refuses("model.dropout", "1", {"model.dropout: must be a number, 0 to 1, without 1, got 1"});
  refuses("model.tied", "yes", {"model.tied", "'yes'", "true or false"});
  refuses("train.dtype", "bf61", {"train.dtype", "'bf61'", "did you mean 'bf16'?", "f32|bf16"});
  EXPECT_EQ(hash_of(config), hash_of(Config())) << "what was refused left a trace";
}

TEST(Config, FillsInThePresetAndLeavesWhatIsGiven) {
  const Config config = resolved(with({{"model.preset", "8b"}, {"model.layers", "2"}}), 1);
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.width, 4096);
  EXPECT_EQ(config.model.heads, 32);
  EXPECT_EQ(config.model.kv_heads, 8);
  EXPECT_EQ(config.model.hidden, 14336);
  EXPECT_EQ(config.model.vocabulary, 128256);
  EXPECT_EQ(config.model.sequence, 8192);
  EXPECT_EQ(hash_of(resolved(config, 1)), hash_of(config)) << "resolving again changes nothing";
}

TEST(Config, EveryPresetFitsEightRanksOfTensorParallelismThatItsHeadsAllow) {
  for (const nn::Preset& preset : nn::model_family("llama").presets) {
    Config config;
    config.model.preset = preset.name;
    config.mesh.tp = static_cast<int>(std::min<std::int64_t>(preset.kv_heads, 4));
    EXPECT_NO_THROW((void)resolved(config, 8)) << preset.name;
  }
}

TEST(Config, TakesForDpWhatTheOtherAxesLeave) {
  EXPECT_EQ(resolved(with({{"mesh.tp", "2"}}), 8).mesh.dp, 4);
  EXPECT_EQ(resolved(with({{"mesh.tp", "2"}, {"mesh.fsdp", "4"}}), 8).mesh.dp, 1);
  EXPECT_EQ(resolved(Config(), 1).mesh.dp, 1);
}

void refused(std::initializer_list<std::pair<const char*, const char*>> values, int world,
             std::initializer_list<std::string_view> words) {
  expect_error<InvalidArgument>([&] { (void)resolved(with(values), world); }, words);
}

TEST(Config, RefusesAMeshThatIsNotTheWorldWithOneThatIs) {
  refused({{"mesh.dp", "2"}, {"mesh.tp", "2"}}, 8, {"must equal the world of 8 ranks, got 4", "-n 4", "mesh.dp 4"});
  refused({{"mesh.tp", "4"}, {"model.kv_heads", "4"}}, 6,
          {"mesh.tp 4", "must divide the world of 6 ranks, got 4", "1, 2, 3, 6", "multiple of 4"});
  refused({{"mesh.tp", "2"}}, 1, {"must divide the world of 1 rank, got 2;"});
  refused({}, 0, {"world size: must be at least 1, got 0"});
}

TEST(Config, RefusesWhatDoesNotDivide) {
  refused({{"model.heads", "6"}}, 1, {"model.width: must be a multiple of model.heads (6), got 128", "126 or 132"});
  refused({{"model.width", "12"}}, 1, {"model.width / model.heads: must be even, got 12 / 4 = 3"});
  refused({{"model.kv_heads", "3"}}, 1, {"model.kv_heads: must divide model.heads (4), got 3"});
  refused({{"mesh.tp", "3"}}, 3, {"model.heads: must be a multiple of mesh.tp (3), got 4", "use 6"});
  refused({{"mesh.tp", "4"}}, 4, {"model.kv_heads: must be a multiple of mesh.tp (4), got 2"});
  refused({{"mesh.tp", "2"}, {"model.hidden", "351"}}, 2, {"model.hidden: must be", "got 351", "352"});
  refused({{"mesh.tp", "2"}, {"model.vocabulary", "257"}}, 2, {"model.vocabulary: must be", "got 257", "258"});
  refused({{"mesh.tp", "2"}, {"model.sequence", "127"}}, 2, {"model.sequence: must be", "got 127"});
  EXPECT_NO_THROW(
      (void)resolved(with({{"mesh.tp", "2"}, {"model.sequence", "127"}, {"mesh.sequence_parallel", "false"}}), 2));
  refused({{"train.batch", "6"}, {"train.accumulate", "2"}}, 2,
          {"train.batch: must be a multiple of 4", "got 6", "use 8"});
  refused({{"train.steps", "5"}, {"schedule.warmup", "6"}}, 1,
          {"schedule.warmup: must be at most train.steps (5), got 6"});
}

TEST(Config, RefusesValuesThatCodePutThere) {
  Config config;
  config.optimizer.beta2 = 1;
  expect_error<InvalidArgument>([&] { (void)resolved(config, 1); }, {"optimizer.beta2: must be", "without 1, got 1"});
  config = {};
  config.train.checkpointing = "most";
  expect_error<InvalidArgument>([&] { (void)resolved(config, 1); }, {"train.checkpointing", "'most'"});
  config = {};
  config.model.preset = "9b";
  expect_error<InvalidArgument>([&] { (void)resolved(config, 1); }, {"model.preset", "'9b'"});
}

TEST(Config, ProfiledStepsAreARangeOrOne) {
  EXPECT_EQ(profiled_steps({}), (std::pair<std::int64_t, std::int64_t>{0, 0}));
  EXPECT_EQ(profiled_steps({.profile_steps = "3..7"}), (std::pair<std::int64_t, std::int64_t>{3, 7}));
  EXPECT_EQ(profiled_steps({.profile_steps = "5"}), (std::pair<std::int64_t, std::int64_t>{5, 5}));
  for (const char* text : {"0..2", "7..3", "a..b", "..", "3..", "3-7", "3..7x"}) {
    Config config;
    config.run.profile_steps = text;
    expect_error<InvalidArgument>([&] { (void)resolved(config, 1); }, {"run.profile_steps", text});
  }
}

TEST(Config, StepsThatAreAskedForAreStepsOfTheRun) {
  Config config;
  config.train.steps = 200;
  config.run.profile_steps = "201..300";
  expect_error<InvalidArgument>([&] { (void)resolved(config, 1); },
                                {"run.profile_steps: must begin at or before train.steps (200), got '201..300'"});
  config.run.profile_steps = "200..300";
  config.run.dump_step = 200;
  EXPECT_NO_THROW((void)resolved(config, 1));
  config.run.dump_step = 201;
  expect_error<InvalidArgument>([&] { (void)resolved(config, 1); },
                                {"run.dump_step: must be at most train.steps (200), got 201"});
}

TEST(Config, HashIsOfWhatIsComputedAlone) {
  const std::string hash = hash_of(resolved(Config(), 1));
  EXPECT_EQ(hash.size(), 32u);
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef"), std::string::npos);
  Config config;
  config.run = {.directory = "/elsewhere", .progress = "none", .log_every = 3, .sample = 9, .peak_flops = 1e12};
  config.checkpoint = {.every = 1, .keep = 9, .directory = "/elsewhere", .resume = "never"};
  EXPECT_EQ(hash_of(resolved(config, 1)), hash) << "how a run shows itself is no part of it";
  for (const Option& option : options()) {
    if (option.name.starts_with("run.") || option.name.starts_with("checkpoint.")) continue;
    Config other;
    const auto change = [](auto* place) {
      using T = std::remove_cvref_t<decltype(*place)>;
      if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        place->push_back("x");
      } else if constexpr (std::is_same_v<T, std::string>) {
        *place += "x";
      } else if constexpr (std::is_same_v<T, bool>) {
        *place = !*place;
      } else {
        *place += 1;
      }
    };
    std::visit(change, option.place(other));
    EXPECT_NE(hash_of(other), hash_of(Config())) << option.name;
  }
}

TEST(Config, HashIsTheSameInEveryBuild) {
  // Runs are compared by this hash over years. A change of names or defaults must change it.
  EXPECT_EQ(hash_of(resolved(Config(), 1)), "879ae482d3779e01a11b411f096349c8");
}

}  // namespace
}  // namespace tessera::train

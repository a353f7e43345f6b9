// Ranks with different options, data or environment, and replicas that differ: both are errors that name the rank.
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/train/detail/rank_facts.h"
#include "tessera/train/make_model.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/runs.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

using testing::contains;

// Gives the option another value of its type.
void change(const Option& option, Config& config) {
  const auto put = [](auto* value) {
    using T = std::remove_cvref_t<decltype(*value)>;
    if constexpr (std::is_same_v<T, bool>) {
      *value = !*value;
    } else if constexpr (std::is_same_v<T, std::string>) {
      *value += "x";
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      value->emplace_back("x");
    } else {
      *value += 1;
    }
  };
  std::visit(put, option.place(config));
}

TEST(RankFacts, EveryOptionIsComparedUnlessItMayDiffer) {
  const Config config = resolved({}, 1);
  const std::set<std::string> may_differ{"data.files",    "data.held_out", "data.tokenizer", "data.read_ahead",
                                         "run.directory", "run.progress",  "run.log_every"};
  for (const Option& option : options()) {
    Config other = config;
    change(option, other);
    const std::vector<std::vector<detail::Fact>> facts{detail::start_facts(config), detail::start_facts(other)};
    const std::string text = detail::differing_facts(facts);
    EXPECT_EQ(option.may_differ, may_differ.contains(option.name)) << option.name;
    EXPECT_EQ(text.empty(), option.may_differ) << option.name << ": " << text;
    if (option.may_differ) continue;
    const auto all = [&](const Config& of) {
      std::string values;
      for (const std::string& each : value_texts(option, of)) values += (values.empty() ? "" : ", ") + each;
      return values.empty() ? "''" : values;
    };
    EXPECT_EQ(text, option.name + " is " + all(config) + " on rank 0 and " + all(other) + " on rank 1");
  }
}

TEST(RankFacts, LibraryAndEnvironmentAreCompared) {
  std::set<std::string> names;
  for (const detail::Fact& fact : detail::start_facts({})) names.insert(fact.name);
  EXPECT_TRUE(names.contains("the library"));
  EXPECT_TRUE(names.contains("the instruction set"));
  EXPECT_TRUE(names.contains("TESSERA_COMM_CHECK"));
  EXPECT_TRUE(names.contains("TESSERA_ON_HANG"));
  EXPECT_TRUE(names.contains("TESSERA_CUDA_ATTENTION")) << "kernels differ in their last bits";
  EXPECT_FALSE(names.contains("TESSERA_RUN_DIR"));
}

TEST(RankFacts, TheKindOfBf16ProductsIsComparedIfRanksComputeInBf16) {
  Config config;
  EXPECT_TRUE(detail::product_facts(config).empty());
  config.train.dtype = "bf16";
  ASSERT_EQ(detail::product_facts(config).size(), 1U);
  EXPECT_FALSE(detail::product_facts(config)[0].value.empty());
}

TEST(RankFacts, RanksWithOneValueAreNamedTogetherAndListsAreCut) {
  using detail::Fact;
  const std::vector<std::vector<Fact>> four{{{"a", "1"}}, {{"a", "2", "why"}}, {{"a", "1"}}, {{"b", "3"}}};
  EXPECT_EQ(detail::differing_facts(four),
            "a is 1 on ranks 0, 2, 2 (why) on rank 1 and unknown on rank 3; b is unknown on ranks 0, 1, 2 and 3 on "
            "rank 3");
  std::vector<std::vector<Fact>> many(2);
  for (int i = 0; i < 9; ++i) {
    many[0].push_back({std::to_string(i), "x"});
    many[1].push_back({std::to_string(i), "y"});
  }
  EXPECT_TRUE(contains(detail::differing_facts(many), "3 is x on rank 0 and y on rank 1; and 5 more"));
}

class RankAgreement : public testing::ToldRuns {
 protected:
  // Runs on two ranks, the second with `other`. Both must throw the same message, which contains the words.
  void expect_refused(const Config& first, const Config& other, std::initializer_list<std::string_view> words) {
    simulate(2, [&] {
      const bool is_first = current_place().rank == Rank(0);
      expect_error<InvalidArgument>([&] { (void)run(is_first ? first : other, nullptr); }, words);
    });
    EXPECT_FALSE(std::filesystem::exists(path() / "config.toml"));
  }
  void expect_refused(const std::function<void(Config&)>& change, std::string_view words) {
    Config other = config();
    change(other);
    expect_refused(config(), other, {words});
  }
};

TEST_F(RankAgreement, AnotherOptionOfOneRankStopsAllBeforeTheFirstStep) {
  expect_refused([](Config& c) { c.optimizer.learning_rate = 0.01; },
                 "optimizer.learning_rate is 0.003 on rank 0 and 0.01 on rank 1");
  expect_refused([](Config& c) { c.train.seed = 2; }, "train.seed is 1 on rank 0 and 2 on rank 1");
  expect_refused([](Config& c) { c.optimizer.weight_decay = 0.2; }, "optimizer.weight_decay is 0.1 on rank 0 and 0.2");
  expect_refused([](Config& c) { c.schedule.warmup = 3; }, "schedule.warmup is 0 on rank 0 and 3 on rank 1");
  expect_refused([](Config& c) { c.model.dropout = 0.2; }, "model.dropout is 0.1 on rank 0 and 0.2 on rank 1");
  expect_refused([](Config& c) { c.train.dtype = "bf16"; }, "train.dtype is f32 on rank 0 and bf16 on rank 1");
  expect_refused([](Config& c) { c.train.graph = true; }, "train.graph is false on rank 0 and true on rank 1");
  expect_refused([](Config& c) { c.checkpoint.every = 5; }, "checkpoint.every is 2 on rank 0 and 5 on rank 1");
  expect_refused([](Config& c) { c.eval.every = 1; }, "eval.every is 5 on rank 0 and 1 on rank 1");
  expect_refused([](Config& c) { c.mesh.fsdp = 2; }, "mesh.dp is 2 on rank 0 and 1 on rank 1; mesh.fsdp is 1");
  expect_refused([](Config& c) { c.model.width = 32; }, "model.width is 16 on rank 0 and 32 on rank 1");
  expect_refused([](Config& c) { c.run.dump_step = 1; }, "run.dump_step is 0 on rank 0 and 1 on rank 1");
}

// In a large file, the digest of checkpoints covers few samples.
TEST_F(RankAgreement, DataThatDifferInOneTokenStopAll) {
  std::string text(300'000, 'x');
  std::ofstream(path("first")) << text;
  text[123'456] = 'y';
  std::ofstream(path("second")) << text;
  Config first = config();
  first.data.files = {path("first").string()};
  Config second = config();
  second.data.files = {path("second").string()};
  expect_refused(first, second, {"the digest of data.files is ", "/first) on rank 0 and ", "/second) on rank 1"});
}

TEST_F(RankAgreement, OtherDataOfOneRankStopAll) {
  std::ofstream(path("other")) << std::string(testing::content(path("text")).size(), 'x');
  Config other = config();
  other.data.files = {path("other").string()};
  expect_refused(config(), other,
                 {"the digest of data.files is ", "/text) on rank 0 and ", "/other) on rank 1", "start every rank"});
  std::filesystem::copy(path("text"), path("copy"));
  other.data.files = {path("copy").string()};
  other.run.directory = path("elsewhere").string();
  simulate(2, [&] {
    EXPECT_EQ(run(current_place().rank == Rank(0) ? config() : other, nullptr).end, RunEnd::kDone)
        << "the same content at another path is the same data";
  });
}

TEST_F(RankAgreement, ARankThatCannotStartStopsAllAndIsNamed) {
  const auto expect_first_told = [&](const Config& other, std::string_view words) {
    simulate(2, [&] {
      if (current_place().rank == Rank(0)) {
        expect_error<InvalidArgument>([&] { (void)run(config(), nullptr); }, {"rank 1 cannot start", words});
      } else {
        EXPECT_ANY_THROW((void)run(other, nullptr));
      }
    });
  };
  Config other = config();
  other.train.batch = 3;
  expect_first_told(other, "train.batch: must be a multiple of 2");
  other = config();
  other.data.files = {path("nothing_here").string()};
  expect_first_told(other, "nothing_here");
}

// Flips a bit of the first value of this rank's shard.
void flip(const Tensor& leaf) { leaf.local().data()[2] ^= std::byte{1 << 4}; }

// Takes steps on the mesh. After the second, a bit of the parameter of one rank flips.
void flip_a_bit(Config config, const std::string& name, int rank, const std::vector<std::string_view>& words) {
  config.run.check_replicas = 1;
  int found = 0;
  std::mutex mutex;
  simulate(config.mesh.dp * config.mesh.fsdp * config.mesh.tp, [&] {
    Trainer trainer(config, testing::synthetic_samples(config));
    for (int i = 0; i < 2; ++i) trainer.step();
    for (const auto& [path, leaf] : named_leaves(trainer.model())) {
      if (path != name || current_place().rank != Rank(rank)) continue;
      flip(leaf);
    }
    try {
      trainer.step();
    } catch (const MismatchError& error) {
      const std::scoped_lock lock(mutex);
      ++found;
      for (const std::string_view word : words)
        EXPECT_TRUE(contains(error.message(), std::string(word))) << error.message();
    }
  });
  EXPECT_EQ(found, config.mesh.dp * config.mesh.fsdp * config.mesh.tp) << "every rank must throw";
}

TEST(ReplicaCheck, NamesRankParameterAndStepOfAFlippedBit) {
  for (const bool is_graph : {false, true}) {
    Config config = testing::small_config();
    config.train.graph = is_graph;
    config.train.batch = 12;
    flip_a_bit(testing::on_mesh(config, 2, 1, 1), "layers.1.self_attn.q_proj.weight", 1,
               {"parameter layers.1.self_attn.q_proj.weight", "on rank 1 and ", "on rank 0 after step 3"});
    flip_a_bit(testing::on_mesh(config, 3, 1, 1), "embed_tokens.weight", 0,
               {"parameter embed_tokens.weight", "on rank 0 and ", "after step 3"});
    flip_a_bit(testing::on_mesh(config, 1, 1, 2), "layers.0.input_layernorm.weight", 1,
               {"parameter layers.0.input_layernorm.weight", "on rank 1 and ", "after step 3"});
    flip_a_bit(testing::on_mesh(config, 2, 2, 1), "layers.0.mlp.up_proj.weight", 3,
               {"parameter layers.0.mlp.up_proj.weight", "on rank 3 and ", "on rank 1 after step 3"});
  }
}

TEST(ReplicaCheck, ComparesAfterTheFirstStepAndThenAsOftenAsAsked) {
  Config config = testing::on_mesh(testing::small_config(), 2, 1, 1);
  const auto steps_until_found = [&](std::int64_t every, std::int64_t flipped_before) {
    config.run.check_replicas = every;
    std::int64_t found = 0;
    simulate(2, [&] {
      Trainer trainer(config, testing::synthetic_samples(config));
      const bool is_first = current_place().rank == Rank(0);
      try {
        for (std::int64_t step = 1; step <= 7; ++step) {
          if (step == flipped_before && !is_first) flip(trainer.model().parameters().front());
          trainer.step();
        }
      } catch (const MismatchError&) {
        if (is_first) found = trainer.step_count();
      }
    });
    return found;
  };
  EXPECT_EQ(steps_until_found(3, 1), 1) << "initial values that differ are found at once";
  EXPECT_EQ(steps_until_found(3, 4), 6);
  EXPECT_EQ(steps_until_found(0, 1), 0) << "0 turns the check off";
}

}  // namespace
}  // namespace tessera::train

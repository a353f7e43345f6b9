#include "tessera/train/bad_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/train/make_model.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

TEST(BadStep, IsKeptWithItsSamplesParametersAndGradients) {
  const std::string directory = ::testing::TempDir() + "tessera_bad_step";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  const Config config = testing::on_mesh(testing::small_config(), 1, 2, 1);
  simulate(2, [&] {
    const int rank = current_place().rank.value();
    Trainer trainer(config, testing::synthetic_samples(config));
    std::string path;
    trainer.keep_bad_steps([&](const BadStep& step) { path = write_bad_step(directory, rank, step); });
    EXPECT_EQ(trainer.step().end, StepEnd::kDone);
    EXPECT_EQ(path, "");
    ops::fill_(trainer.model().parameters().back().detach(), NAN);
    EXPECT_THROW(trainer.step(), TrainingStopped);

    const tensor::SafetensorsFile file(directory + "/bad-step-2/rank-" + std::to_string(rank) + ".safetensors");
    EXPECT_EQ(file.path(), path);
    EXPECT_EQ(file.entries().size(), 2 * trainer.model().parameters().size());
    for (const auto& [name, leaf] : named_leaves(trainer.model())) {
      EXPECT_EQ(file.entry("parameters/" + name).shape, leaf.local().shape()) << name;
      EXPECT_EQ(file.entry("gradients/" + name).shape, leaf.local().shape()) << name;
      EXPECT_EQ(file.metadata().at("layout/" + name), leaf.layout().text());
    }
    const auto [embedding, table] = named_leaves(trainer.model()).front();
    EXPECT_TRUE(ops::equal(file.map("parameters/" + embedding), table.detach().local()));
    EXPECT_EQ(file.metadata().at("step"), "2");
    EXPECT_EQ(file.metadata().at("loss"), std::to_string(NAN));
    // The half of this rank in the second step.
    const auto half = static_cast<std::uint64_t>(config.train.batch) / 2;
    const std::uint64_t first = 2 * half + static_cast<std::uint64_t>(rank) * half;
    EXPECT_EQ(file.metadata().at("samples").substr(0, std::to_string(first).size()), std::to_string(first));
  });
  std::filesystem::remove_all(directory);
}

TEST(BadStep, ThatCannotBeWrittenSaysWhere) {
  const BadStep step{.report = {.step = 3}, .samples = {}, .parameters = {}};
  expect_error<IoError>([&] { write_bad_step("/proc/none", 0, step); }, {"/proc/none/bad-step-3"});
}

}  // namespace
}  // namespace tessera::train

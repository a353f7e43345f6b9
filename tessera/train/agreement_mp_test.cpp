// Rank processes that a launcher started with different options: all end, with an error that names the rank, the option
// and both values.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/scripted_steps.h"
#include "tessera/train/testing/told_run.h"

namespace tessera::train {
namespace {

class AgreementProcesses : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_text(directory.path()); }

  // Changes the configuration of the second of two ranks.
  void expect_refused(const std::function<void(Config&)>& change, std::string_view words) const {
    const auto ends = comm::run_rank_processes(2, [&](int rank) {
      Config config = testing::told_config(directory.path());
      if (rank == 1) change(config);
      expect_error<InvalidArgument>([&] { (void)run(config, nullptr); }, {words, "start every rank"});
    });
    for (const comm::ProcessEnd& end : ends) EXPECT_EQ(end.exit_code, 0) << words << ", signal " << end.signal;
  }

  testing::TemporaryDirectory directory;
};

TEST_F(AgreementProcesses, RanksThatDifferEndBeforeTheFirstStep) {
  expect_refused([](Config& c) { c.optimizer.learning_rate = 0.01; },
                 "optimizer.learning_rate is 0.003 on rank 0 and 0.01 on rank 1");
  expect_refused([](Config& c) { c.checkpoint.every = 5; }, "checkpoint.every is 2 on rank 0 and 5 on rank 1");
  expect_refused([](Config&) { ::setenv("TESSERA_ON_HANG", "abort", 1); },
                 "TESSERA_ON_HANG is raise on rank 0 and abort on rank 1");
  std::ofstream(directory.path() / "other") << std::string(9000, 'x');
  expect_refused([this](Config& c) { c.data.files = {(directory.path() / "other").string()}; },
                 "the number of tokens in data.files is ");
}

}  // namespace
}  // namespace tessera::train

// A run directory with the records of two ranks after three reductions. The records are copied while the ranks run,
// because a rank that has ended no longer lists its groups.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "tessera/comm/process_group.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/label.h"

namespace tessera::cli::testing {

/// A fixture with a temporary directory.
class SimulatedRun : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_run_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory = name;
    run = directory + "/run";
    std::filesystem::create_directory(run);
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  /// Runs two ranks, calls `then` on each, and copies their records before they end.
  void work(const std::function<void(const comm::ProcessGroup& group, const device::Stream& stream)>& then = {}) const {
    const std::string live = directory + "/live";
    std::filesystem::create_directory(live);
    simulate(2,
             [&] {
               const device::Device host = device::Device::get("host");
               const device::Stream stream = host.create_stream();
               const comm::ProcessGroup group = comm::world();
               const memory::Label label("gradients");
               const memory::Buffer x = memory::Allocator::of(host).allocate(64, stream);
               for (int i = 0; i < 3; ++i) group.all_reduce(x.data(), x.data(), 16, DType::kF32, {}, stream).wait();
               if (then) then(group, stream);
               comm::store()->set("worked." + std::to_string(group.rank()), "");
               (void)comm::store()->get("worked." + std::to_string(1 - group.rank()), std::chrono::minutes(5));
               if (group.rank() == 0) {
                 for (const auto& entry : std::filesystem::directory_iterator(live))
                   std::filesystem::copy_file(entry.path(), run + "/" + entry.path().filename().string());
                 comm::store()->set("copied", "");
               }
               (void)comm::store()->get("copied", std::chrono::minutes(5));
             },
             {.run_dir = live});
  }

  /// Returns the path of the record of a rank.
  [[nodiscard]] std::string record_of(int rank) const {
    for (const auto& entry : std::filesystem::directory_iterator(run)) {
      if (entry.path().filename().string().starts_with("rank-" + std::to_string(rank) + "."))
        return entry.path().string();
    }
    ADD_FAILURE() << "no record of rank " << rank;
    return {};
  }

  std::string directory;
  std::string run;  // run directory inside it
};

}  // namespace tessera::cli::testing

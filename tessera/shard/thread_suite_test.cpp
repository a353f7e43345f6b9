// The conformance suite of sharded programs, for ranks that are threads: concurrent, and in turns under seeds.
#include <exception>
#include <optional>

#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/shard/suite/shard_suite.h"

namespace tessera::shard::suite {
namespace {

ShardImplementation threads(const std::string& name, std::optional<std::uint64_t> seed) {
  return {.name = name, .run = [seed](int ranks, const auto& body) {
            try {
              simulate(ranks,
                       [&] {
                         body();
                         device::Device::get("host").synchronize();
                       },
                       {.seed = seed});
            } catch (const std::exception& error) {
              ADD_FAILURE() << error.what();
            }
          }};
}

INSTANTIATE_TEST_SUITE_P(Thread, ShardSuite, ::testing::Values(threads("free", {}), threads("seed1", 1)),
                         implementation_name);

}  // namespace
}  // namespace tessera::shard::suite

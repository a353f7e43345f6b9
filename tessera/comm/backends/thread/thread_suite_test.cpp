// The contract of groups, for ranks that are threads, without and with seeds.
#include <cstdlib>
#include <optional>

#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

CommImplementation threads(const std::string& name, std::optional<std::uint64_t> seed, bool is_checked = false) {
  return {.name = name, .backend = "thread", .is_seeded = seed.has_value(), .run = [=](int ranks, const auto& body) {
            if (is_checked) ::setenv("TESSERA_COMM_CHECK", "1", 1);
            try {
              simulate(ranks,
                       [&] {
                         try {
                           body();
                         } catch (const Death&) {
                           // The rank releases its objects, as when the thread of a rank dies.
                         }
                       },
                       {.seed = seed});
            } catch (const std::exception& error) {
              ADD_FAILURE() << error.what();
            }
            if (is_checked) ::unsetenv("TESSERA_COMM_CHECK");
          }};
}

INSTANTIATE_TEST_SUITE_P(Thread, CommSuite,
                         ::testing::Values(threads("free", {}), threads("seed1", 1), threads("seed2_checked", 2, true)),
                         implementation_name);
INSTANTIATE_TEST_SUITE_P(Thread, SymmetricSuite,
                         ::testing::Values(threads("free", {}), threads("seed1", 1), threads("seed2", 2)),
                         implementation_name);

}  // namespace
}  // namespace tessera::comm::suite

// The loop of a peer program: what other libraries do for the same job, repeated when told. For each rank there are two
// named pipes in a folder: orders.R brings how often, answers.R takes the nanoseconds that it took. A rank that has
// nothing to do waits in the kernel and takes no time from whoever is measured meanwhile.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>

namespace tessera::comm {

/// Obeys orders until there are no more. `meet` returns on all ranks together.
inline void obey_orders(const std::string& folder, int rank, const std::function<void()>& meet,
                        const std::function<void()>& body) {
  const int orders = ::open((folder + "/orders." + std::to_string(rank)).c_str(), O_RDONLY);
  const int answers = ::open((folder + "/answers." + std::to_string(rank)).c_str(), O_WRONLY);
  if (orders < 0 || answers < 0) std::abort();
  for (int times = 0; ::read(orders, &times, sizeof times) == sizeof times && times > 0;) {
    meet();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) body();
    const double took = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
    if (::write(answers, &took, sizeof took) != sizeof took) break;
  }
}

}  // namespace tessera::comm

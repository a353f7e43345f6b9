// The loop of a peer program, which runs the same operation with another library on request. Each rank has two named
// pipes in a folder: orders.R brings the number of repetitions, answers.R returns the nanoseconds they took. An idle
// rank waits in the kernel, and takes no time from the process that is measured.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>

namespace tessera::comm {

/// Executes orders until the pipe closes. `meet` returns on all ranks at the same time.
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

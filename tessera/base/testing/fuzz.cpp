#include "tessera/base/testing/fuzz.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <CLI/CLI.hpp>

namespace tessera::fuzz {
namespace {

std::string outcome(const std::function<std::string(std::uint64_t)>& one, std::uint64_t seed) {
  try {
    return one(seed);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

int run(int argc, char** argv, const std::string& what, const std::function<std::string(std::uint64_t seed)>& one) {
  std::uint64_t runs = 200;
  std::uint64_t seed = 1;
  double seconds = 1e9;
  CLI::App app("Run " + what + " from seeds.");
  app.add_option("--runs", runs, "Number of runs")->capture_default_str();
  app.add_option("--seed", seed, "Seed of the first run; later runs use the following numbers")->capture_default_str();
  app.add_option("--seconds", seconds, "Time after which no run starts");
  CLI11_PARSE(app, argc, argv);
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t done = 0;
  for (; done < runs; ++done) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) break;
    const std::string failure = outcome(one, seed + done);
    if (failure.empty()) continue;
    const std::string number = std::to_string(seed + done);
    std::fprintf(stderr, "seed %s: %s; repeat with --runs 1 --seed %s\n", number.c_str(), failure.c_str(),
                 number.c_str());
    return 1;
  }
  std::printf("%s %s, all good\n", std::to_string(done).c_str(), what.c_str());
  return 0;
}

}  // namespace tessera::fuzz

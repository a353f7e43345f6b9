// The main function of every x_fuzz.cpp: runs a body once a seed, names the seed of what failed.
//
//   x_fuzz [--runs N] [--seed S] [--seconds T]     seeds S, S + 1, ... until N runs or T seconds are over
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tessera::fuzz {

/// Calls `one(seed)` for each seed; a text it returns, or an exception it throws, is a failure, which ends the run and
/// is printed with the options that repeat it. `what` names the runs in the closing line. Returns the exit code.
int run(int argc, char** argv, const std::string& what, const std::function<std::string(std::uint64_t seed)>& one);

}  // namespace tessera::fuzz

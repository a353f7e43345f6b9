// The main function of every x_fuzz.cpp: runs a body once per seed and reports the seed of a failure.
//
//   x_fuzz [--runs N] [--seed S] [--seconds T]     seeds S, S + 1, ... until N runs or T seconds are over
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tessera::fuzz {

/// Calls `one(seed)` for each seed. A returned text or an exception is a failure: it ends the run and is printed with
/// the options that repeat it. `what` names the runs in the last line. Returns the exit code.
int run(int argc, char** argv, const std::string& what, const std::function<std::string(std::uint64_t seed)>& one);

}  // namespace tessera::fuzz

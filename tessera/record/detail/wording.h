// Words for what explain() says: operations, ranks, times, signals. Text that came from files is made visible: nothing
// in it moves a cursor or breaks a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/record/evidence.h"

namespace tessera::record::detail {

/// "all_reduce(f32[1024], sum)", "send(f32[10], to 3)".
std::string text_of(const Operation& operation);
/// Likewise of its first operation, with how many more there are, and where it stands in a graph.
std::string text_of(const Launch& launch);
/// "rank 2", "ranks 0, 1 and 3", "ranks 0-63 and 65".
std::string text_of_ranks(std::vector<int> ranks);
/// "31 s", "250 ms", "4 min", "2.5 h".
std::string text_of_duration(std::int64_t nanoseconds);
/// "SIGKILL"; "signal 77" of one without a name.
std::string text_of_signal(int signal);
/// "rank waits", "3 ranks wait": a number with the right form of a verb.
std::string text_of_count(std::size_t number, std::string_view one, std::string_view many);

/// The text with control characters, and bytes that are no UTF-8, written as \x1b.
std::string visible(std::string_view text);
/// The first line of it, cut where it is long.
std::string first_line(std::string_view text, std::size_t most = 240);

/// From one moment to another; 0 when either is not known or it would be negative.
std::int64_t elapsed(std::int64_t from_ns, std::int64_t to_ns);
/// The difference, which any two numbers have here: what does not fit is cut to the largest.
std::int64_t difference(std::int64_t from, std::int64_t to);

}  // namespace tessera::record::detail

// Text for explain(): operations, ranks, times, signals. Text from files is escaped, so that it cannot move a cursor or
// break a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/analysis/evidence.h"

namespace tessera::analysis::detail {

/// Returns "all_reduce(f32[1024], sum)" or "send(f32[10], to 3)".
std::string text_of(const RecordedOperation& operation);
/// Returns the text of its first operation, with the number of others and its position in a graph.
std::string text_of(const CollectiveCall& launch);
/// Returns "rank 2", "ranks 0, 1 and 3" or "ranks 0-63 and 65".
std::string text_of_ranks(std::vector<int> ranks);
/// Returns "31 s", "250 ms", "4 min" or "2.5 h".
std::string text_of_duration(std::int64_t nanoseconds);
/// Returns "SIGKILL"; "signal 77" for one without a name.
std::string text_of_signal(int signal);
/// Returns "rank waits" or "3 ranks wait": a number with the correct form of a verb.
std::string text_of_count(std::size_t number, std::string_view one, std::string_view many);

/// Escapes control characters and invalid UTF-8 as \x1b.
std::string visible(std::string_view text);
/// Returns the first line, truncated if it is long.
std::string first_line(std::string_view text, std::size_t most = 240);

/// Returns the time from one moment to another; 0 if either is unknown or the result is negative.
std::int64_t elapsed(std::int64_t from_ns, std::int64_t to_ns);
/// Returns the difference of two numbers, saturated on overflow.
std::int64_t difference(std::int64_t from, std::int64_t to);

}  // namespace tessera::analysis::detail

// Sizes in bytes as people write them.
//
//   parse_bytes("32MiB") == 33554432       parse_bytes("1.5 GiB") == 1610612736       format_bytes(33554432) == "32
//   MiB"
//
// KiB, MiB, GiB, TiB, PiB and EiB are powers of 1024, and so are bare K, M, G, T, P, E; kB, MB, GB, TB, PB and EB are
// powers of 1000; B or nothing is bytes. Upper and lower case are the same. A fraction of a byte is cut off.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera {

/// The number of bytes that `text` says; InvalidArgument when it says none, or more than fit 64 bits.
TESSERA_API std::uint64_t parse_bytes(std::string_view text);

/// "0 B", "17 B", "32 MiB", "1.5 GiB": in the largest unit of 1024 that leaves at least 1, with at most two decimals.
/// Exact, and read back by parse_bytes as the same number, when it has at most two decimals in that unit.
TESSERA_API std::string format_bytes(std::uint64_t nbytes);

}  // namespace tessera

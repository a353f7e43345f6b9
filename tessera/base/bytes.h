// Sizes in bytes as text.
//
//   parse_bytes("32MiB") == 33554432
//   parse_bytes("1.5 GiB") == 1610612736
//   format_bytes(33554432) == "32 MiB"
//
// KiB, MiB, GiB, TiB, PiB and EiB, and also K, M, G, T, P and E, are powers of 1024. kB, MB, GB, TB, PB and EB are
// powers of 1000. B or no unit means bytes. Case is ignored. A fraction of a byte is truncated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera {

/// Returns the bytes that `text` denotes. Throws InvalidArgument if the text is malformed or the value exceeds 64 bits.
TESSERA_API std::uint64_t parse_bytes(std::string_view text);

/// Returns "0 B", "17 B", "32 MiB", "1.5 GiB": in the largest unit of 1024 with a value of at least 1, and at most two
/// decimals. If two decimals are exact in that unit, parse_bytes() returns the same number.
TESSERA_API std::string format_bytes(std::uint64_t nbytes);

}  // namespace tessera

// The spans of a run packed for a page that must draw a million of them at once: each lane is three arrays (begin and
// length in units, name), and a pyramid of what it does from afar. All arrays of all lanes lie one after another in one
// little-endian buffer, which goes into the page as base64.
//
//   level 0   2^k bins over the whole run: which part of the bin the lane was busy, 0 to 255
//   level 1   2^(k-1) bins ...                 up to 256 bins
//
// `no_data` of a lane is the time before which nothing is known of it, since later records overwrote the older ones.
// A page draws bins while a bin is as wide as a pixel or wider, and spans when fewer are in sight. The unit is one
// nanosecond in runs of up to four seconds, and grows with the run, so that a time fits 32 bits.
#pragma once

#include <cstddef>
#include <string>

#include "tessera/record/report/detail/run_tables.h"
#include "tessera/record/report/detail/spans.h"

namespace tessera::record::detail {

/// What goes into the page.
struct PackedTimeline {
  PageJson json = {};        ///< the lanes, and where their arrays begin in the buffer
  std::string base64 = {};   ///< the buffer
  std::size_t events = 0;    ///< spans that are in it
  std::size_t left_out = 0;  ///< of the oldest, which only the pyramid has
};

/// Packs them. Where there are more than `most_events`, each lane keeps its share of the latest.
PackedTimeline pack_timeline(const Spans& spans, std::size_t most_events);

/// As RFC 4648 has it, with padding.
std::string to_base64(const std::string& bytes);

}  // namespace tessera::record::detail

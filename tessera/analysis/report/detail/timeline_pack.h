// Packs the spans of a run for a page that must draw a million of them: each lane has three arrays (start and length in
// units, name), and a pyramid for distant views. The arrays of all lanes are concatenated in one little-endian buffer,
// which the page holds as base64.
//
//   level 0   2^k bins over the complete run: busy fraction of the lane in the bin, 0 to 255
//   level 1   2^(k-1) bins ...                 up to 256 bins
//
// `no_data` of a lane is the time before which it is unknown, because later records overwrote older ones. A page draws
// bins while a bin is at least one pixel wide, and spans if fewer are visible. The unit is one nanosecond in runs of up
// to four seconds, and grows with the run, so that a time fits 32 bits.
#pragma once

#include <cstddef>
#include <string>

#include "tessera/analysis/report/detail/run_tables.h"
#include "tessera/analysis/report/detail/spans.h"

namespace tessera::analysis::detail {

/// Timeline data of the page.
struct PackedTimeline {
  PageJson json = {};  ///< Lanes, and the offsets of their arrays in the buffer.
  std::string base64 = {};
  std::size_t events = 0;    ///< Number of spans in the buffer.
  std::size_t left_out = 0;  ///< Number of oldest spans that only the pyramid contains.
};

/// Packs the spans. If there are more than `max_events`, each lane keeps its share of the latest.
PackedTimeline pack_timeline(const Spans& spans, std::size_t max_events);

/// Encodes bytes by RFC 4648, with padding.
std::string to_base64(const std::string& bytes);

}  // namespace tessera::analysis::detail

#include "tessera/analysis/report/detail/timeline_pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>

namespace tessera::analysis::detail {
namespace {

static_assert(std::endian::native == std::endian::little, "the buffer is little-endian");

constexpr std::size_t kTopBins = 256;
constexpr std::size_t kMaxBins = 1 << 16;
constexpr std::size_t kMaxPyramid = 2 << 20;  // bytes of all lanes

struct Extent {
  std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
};

Extent extent_of(const Spans& spans) {
  Extent extent;
  for (const Lane& lane : spans.lanes) {
    for (const Span& each : lane.spans) {
      extent.begin_ns = std::min(extent.begin_ns, each.begin_ns);
      extent.end_ns = std::max(extent.end_ns, each.end_ns);
    }
  }
  // A gap before all data shows that there was more: from the start of the run, if that is near.
  if (spans.start_ns > 0 && extent.begin_ns < extent.end_ns) {
    const std::int64_t earliest = extent.begin_ns - (extent.end_ns - extent.begin_ns) / 16;
    extent.begin_ns = std::min(extent.begin_ns, std::max(spans.start_ns, earliest));
  }
  return extent;
}

// Returns the fraction of each bin that the spans cover; overlaps count once.
std::vector<std::uint8_t> busy_bins(const std::vector<Span>& spans, std::int64_t begin_ns, double bin_ns,
                                    std::size_t bins) {
  std::vector<float> busy(bins, 0);
  std::int64_t covered = std::numeric_limits<std::int64_t>::min();
  for (const Span& each : spans) {
    const std::int64_t from = std::max(each.begin_ns, covered);
    if (each.end_ns <= from) continue;
    covered = each.end_ns;
    const double first = static_cast<double>(from - begin_ns) / bin_ns;
    const double last = static_cast<double>(each.end_ns - begin_ns) / bin_ns;
    const auto begin = std::min(static_cast<std::size_t>(first), bins - 1);
    const auto end = std::min(static_cast<std::size_t>(last), bins - 1);
    for (std::size_t bin = begin; bin <= end; ++bin) {
      const double left = std::max(first, static_cast<double>(bin));
      const double right = std::min(last, static_cast<double>(bin + 1));
      busy[bin] += static_cast<float>(std::max(right - left, 0.0));
    }
  }
  std::vector<std::uint8_t> bytes(bins);
  for (std::size_t bin = 0; bin < bins; ++bin) {
    // Any activity must be visible.
    const float share = std::min(busy[bin], 1.0F) * 255;
    bytes[bin] = static_cast<std::uint8_t>(busy[bin] > 0 ? std::max(share, 1.0F) : 0.0F);
  }
  return bytes;
}

class Packer {
 public:
  Packer(const Spans& spans, std::size_t max_events) : spans_(spans), max_events_(max_events) {}

  PackedTimeline pack() {
    for (const Lane& lane : spans_.lanes) all_ += lane.spans.size();
    if (all_ == 0) {
      packed_.json = nullptr;
      return std::move(packed_);
    }
    const Extent extent = extent_of(spans_);
    begin_ns_ = extent.begin_ns;
    span_ns_ = std::max<std::int64_t>(extent.end_ns - extent.begin_ns, 1);
    unit_ns_ = span_ns_ / std::numeric_limits<std::uint32_t>::max() + 1;
    max_bins_ = std::clamp(std::bit_floor(kMaxPyramid / 2 / spans_.lanes.size()), kTopBins, kMaxBins);
    PageJson lanes = PageJson::array();
    for (const Lane& lane : spans_.lanes) lanes.push_back(lane_json(lane));
    packed_.json = {{"begin_ns", std::to_string(begin_ns_)},
                    {"span_ns", span_ns_},
                    {"unit_ns", unit_ns_},
                    {"events", packed_.events},
                    {"left_out", packed_.left_out},
                    {"has_kernels", spans_.has_kernels},
                    {"has_graphs", spans_.has_graphs},
                    {"has_rest", spans_.has_rest},
                    {"names", spans_.names.names()},
                    {"lanes", std::move(lanes)}};
    packed_.base64 = to_base64(bytes_);
    return std::move(packed_);
  }

 private:
  // Returns the latest spans of a lane that fit.
  std::span<const Span> kept_of(const Lane& lane) {
    std::size_t count = lane.spans.size();
    if (all_ > max_events_) {
      count = static_cast<std::size_t>(static_cast<double>(count) * static_cast<double>(max_events_) /
                                       static_cast<double>(all_));
    }
    packed_.events += count;
    packed_.left_out += lane.spans.size() - count;
    return std::span(lane.spans).last(count);
  }

  PageJson lane_json(const Lane& lane) {
    const std::span<const Span> kept = kept_of(lane);
    PageJson json = {{"rank", lane.rank},
                     {"kind", to_string(lane.kind)},
                     {"depth", lane.depth},
                     {"is_derived", lane.is_derived},
                     {"count", kept.size()},
                     {"left_out", lane.spans.size() - kept.size()},
                     {"no_data", lane.since_ns > begin_ns_ ? units(lane.since_ns - begin_ns_) : 0}};
    json["begin"] = put<std::uint32_t>(kept, [this](const Span& each) { return units(each.begin_ns - begin_ns_); });
    json["length"] = put<std::uint32_t>(
        kept, [this](const Span& each) { return units(each.end_ns - begin_ns_) - units(each.begin_ns - begin_ns_); });
    json["name"] = put<std::uint16_t>(kept, [](const Span& each) { return each.name; });
    json["levels"] = put_pyramid(lane);
    return json;
  }

  [[nodiscard]] std::uint32_t units(std::int64_t ns) const { return static_cast<std::uint32_t>(ns / unit_ns_); }

  // Appends an array; returns its offset.
  template <class Number, class Value>
  std::size_t put(std::span<const Span> spans, const Value& value) {
    align(sizeof(Number));
    const std::size_t offset = bytes_.size();
    bytes_.resize(offset + spans.size() * sizeof(Number));
    char* to = bytes_.data() + offset;
    for (const Span& each : spans) {
      const Number number = value(each);
      std::memcpy(to, &number, sizeof number);
      to += sizeof number;
    }
    return offset;
  }

  void align(std::size_t to) { bytes_.resize((bytes_.size() + to - 1) / to * to); }

  PageJson put_pyramid(const Lane& lane) {
    const std::size_t wanted = std::bit_ceil(std::max<std::size_t>(lane.spans.size() / 2, 1));
    std::size_t bins = std::clamp(wanted, kTopBins, max_bins_);
    std::vector<std::uint8_t> level =
        busy_bins(lane.spans, begin_ns_, static_cast<double>(span_ns_) / static_cast<double>(bins), bins);
    PageJson levels = PageJson::array();
    while (true) {
      levels.push_back({{"offset", bytes_.size()}, {"bins", bins}});
      bytes_.append(reinterpret_cast<const char*>(level.data()), bins);
      if (bins <= kTopBins) return levels;
      bins /= 2;
      for (std::size_t i = 0; i < bins; ++i) {
        level[i] = static_cast<std::uint8_t>((level[2 * i] + level[2 * i + 1] + 1) / 2);
      }
    }
  }

  const Spans& spans_;
  std::size_t max_events_;
  std::size_t all_ = 0;
  std::int64_t begin_ns_ = 0;
  std::int64_t span_ns_ = 1;
  std::int64_t unit_ns_ = 1;
  std::size_t max_bins_ = kTopBins;
  std::string bytes_;
  PackedTimeline packed_;
};

}  // namespace

PackedTimeline pack_timeline(const Spans& spans, std::size_t max_events) { return Packer(spans, max_events).pack(); }

std::string to_base64(const std::string& bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text((bytes.size() + 2) / 3 * 4, '=');
  char* to = text.data();
  const auto* from = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size();
  for (; left >= 3; left -= 3, from += 3) {
    const std::uint32_t word =
        static_cast<std::uint32_t>(from[0]) << 16 | static_cast<std::uint32_t>(from[1]) << 8 | from[2];
    for (int shift = 18; shift >= 0; shift -= 6) *to++ = kDigits[word >> shift & 63];
  }
  if (left > 0) {
    const std::uint32_t word =
        static_cast<std::uint32_t>(from[0]) << 16 | (left > 1 ? static_cast<std::uint32_t>(from[1]) << 8 : 0);
    *to++ = kDigits[word >> 18 & 63];
    *to++ = kDigits[word >> 12 & 63];
    if (left > 1) *to = kDigits[word >> 6 & 63];
  }
  return text;
}

}  // namespace tessera::analysis::detail

#include "tessera/memory/statistics.h"

#include <fmt/format.h>

#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/bytes.h"

namespace tessera::memory {
namespace {

using Lines = std::vector<std::pair<const char*, std::uint64_t>>;

// Text and JSON show the same values in the same order: sizes, then counts.
Lines sizes(const Statistics& s) {
  return {{"reserved_nbytes", s.now.reserved_nbytes}, {"live_nbytes", s.now.live_nbytes},
          {"rounding_nbytes", s.now.rounding_nbytes}, {"pending_nbytes", s.now.pending_nbytes},
          {"cached_nbytes", s.now.cached_nbytes},     {"peak_reserved_nbytes", s.peak_reserved_nbytes},
          {"peak_live_nbytes", s.peak_live_nbytes}};
}

Lines counts(const Statistics& s) {
  return {{"live_blocks", s.now.live_blocks},
          {"pending_blocks", s.now.pending_blocks},
          {"cached_blocks", s.now.cached_blocks},
          {"allocations", s.allocations},
          {"frees", s.frees},
          {"covered_reuses", s.covered_reuses},
          {"device_waits", s.device_waits},
          {"events_recorded", s.events_recorded},
          {"capture_reuses", s.capture_reuses},
          {"maps", s.maps},
          {"unmaps", s.unmaps},
          {"moves", s.moves},
          {"retries_pending", s.retries_pending},
          {"retries_trim", s.retries_trim},
          {"retries_synchronize", s.retries_synchronize},
          {"retries_borrow", s.retries_borrow},
          {"retries_callback", s.retries_callback},
          {"collections", s.collections},
          {"out_of_memory", s.out_of_memory}};
}

// Converts "peak_live_nbytes" to "peak live".
std::string spoken(std::string name) {
  if (name.ends_with("_nbytes")) name.resize(name.size() - 7);
  for (char& letter : name) letter = letter == '_' ? ' ' : letter;
  return name;
}

}  // namespace

std::string Statistics::to_text() const {
  std::string text;
  for (const auto& [name, value] : sizes(*this)) text += fmt::format("{:<20} {}\n", spoken(name), format_bytes(value));
  for (const auto& [name, value] : counts(*this)) text += fmt::format("{:<20} {}\n", spoken(name), value);
  return text;
}

std::string Statistics::to_json() const {
  nlohmann::ordered_json json;
  for (const auto& [name, value] : sizes(*this)) json[name] = value;
  for (const auto& [name, value] : counts(*this)) json[name] = value;
  return json.dump(2);
}

}  // namespace tessera::memory

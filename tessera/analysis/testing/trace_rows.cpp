#include "tessera/analysis/testing/trace_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

namespace tessera::analysis::testing {

using nlohmann::json;

std::vector<json> events(const json& trace, const std::string& key, const std::string& value) {
  std::vector<json> found;
  for (const json& event : trace.at("traceEvents")) {
    if (event.contains(key) && event.at(key) == value) found.push_back(event);
  }
  return found;
}

std::string overlap(const json& trace) {
  // Start and negated end, so that the longer of two with equal starts comes first.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::pair<std::int64_t, std::int64_t>>> rows;
  const auto ns = [](const json& number) { return std::llround(number.get<double>() * 1000); };
  for (const json& event : events(trace, "ph", "X")) {
    const std::int64_t begin = ns(event.at("ts"));
    rows[{event.at("pid"), event.at("tid")}].emplace_back(begin, -(begin + ns(event.at("dur"))));
  }
  for (auto& [row, slices] : rows) {
    std::sort(slices.begin(), slices.end());
    std::vector<std::int64_t> around;  // ends of the enclosing slices
    for (const auto& [begin, minus_end] : slices) {
      const std::int64_t rounded = begin >> 50;  // rounding error of a JSON number, in traces of more than 11 days
      while (!around.empty() && around.back() <= begin + rounded) around.pop_back();
      if (!around.empty() && around.back() < -minus_end - rounded) {
        return "row " + std::to_string(row.second) + " at " + std::to_string(begin) + " ns";
      }
      around.push_back(-minus_end);
    }
  }
  return {};
}

}  // namespace tessera::analysis::testing

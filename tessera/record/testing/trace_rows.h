// What tests ask of a Chrome trace as JSON.
#pragma once

#include <string>
#include <vector>
#include <nlohmann/json.hpp>

namespace tessera::record::testing {

/// The events of a trace that have this value at a key.
std::vector<nlohmann::json> events(const nlohmann::json& trace, const std::string& key, const std::string& value);

/// Slices of a row nest or do not overlap: viewers drop others. The first that does not; empty: all do.
std::string overlap(const nlohmann::json& trace);

}  // namespace tessera::record::testing

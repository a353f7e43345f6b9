// Queries on a Chrome trace in JSON, for tests.
#pragma once

#include <string>
#include <vector>
#include <nlohmann/json.hpp>

namespace tessera::analysis::testing {

/// Returns the events of a trace with this value at a key.
std::vector<nlohmann::json> events(const nlohmann::json& trace, const std::string& key, const std::string& value);

/// Returns the first slice that overlaps another of its row without nesting, which viewers drop; empty if none.
std::string overlap(const nlohmann::json& trace);

}  // namespace tessera::analysis::testing

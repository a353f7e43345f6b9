// The prices that plans are made with, measured where they are paid.
//
//   shard::calibrate(mesh, {.save_to = "prices.json"});      // once, on the machine at hand
//   shard::load_cost_model("prices.json");                   // in every run after that
//
// Plans must be the same on all ranks, and so must prices: every rank of the world calls these functions, at the same
// point of the program, those off a mesh too. What was planned at other prices is planned again when next asked for.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/layout/cost_model.h"
#include "tessera/layout/mesh.h"

namespace tessera::shard {

/// How prices are measured.
struct CalibrateOptions {
  std::chrono::milliseconds budget = std::chrono::seconds(2);  ///< most time for it, beside that of making groups
  std::string save_to = {};  ///< the world's first rank writes them there, as a whole; empty: nobody does
  std::optional<device::Device> device = {};  ///< where tensors lie; none: the host
};
/// Measures what starting a step costs, copies on the device, and for each axis of the mesh latency and bandwidth, by
/// gathers along it; a link class is as slow as its slowest axis. The slowest rank counts. Sets the prices and returns
/// them; what was not measured stays as it was.
TESSERA_API layout::CostModel calibrate(const layout::Mesh& mesh, const CalibrateOptions& options = {});

/// Sets the prices. MismatchError where ranks give different ones.
TESSERA_API void set_cost_model(const layout::CostModel& model);
/// Sets the prices of a file, which the world's first rank reads. Its error is the error of all.
TESSERA_API void load_cost_model(const std::string& path);

}  // namespace tessera::shard

// Measures and sets the cost model that redistribution plans are made with.
//
//   shard::calibrate(mesh, {.save_to = "prices.json"});      // once per machine
//   shard::load_cost_model("prices.json");                   // in every later run
//
// Plans must be equal on all ranks, so costs must be too. Every rank of the world calls these functions at the same
// point of the program, even ranks outside the mesh. A plan made with other costs is made again at its next use.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/layout/cost_model.h"
#include "tessera/layout/mesh.h"

namespace tessera::shard {

/// Options of calibrate().
struct CalibrateOptions {
  /// Time limit of the measurement. Group creation is not included.
  std::chrono::milliseconds budget = std::chrono::seconds(2);
  std::string save_to = {};                   ///< File that world rank 0 writes atomically. Empty: no file is written.
  std::optional<device::Device> device = {};  ///< Device of the measured tensors. Default: the host.
};
/// Measures the cost of starting a step, of copies on the device and, for each mesh axis, latency and bandwidth by
/// all-gathers along the axis. The slowest rank counts, and a link class is as slow as its slowest axis. Sets the cost
/// model and returns it. Costs that were not measured keep their values.
TESSERA_API layout::CostModel calibrate(const layout::Mesh& mesh, const CalibrateOptions& options = {});

/// Sets the cost model. Throws MismatchError if the ranks pass different models.
TESSERA_API void set_cost_model(const layout::CostModel& model);
/// Sets the cost model from a file that world rank 0 reads. If reading fails, all ranks throw the error of rank 0.
TESSERA_API void load_cost_model(const std::string& path);

}  // namespace tessera::shard

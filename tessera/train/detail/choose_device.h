// The device of the ranks of a run (run.device).
#pragma once

#include <string>

#include "tessera/device/device.h"
#include "tessera/train/config.h"
#include "tessera/train/saved_model.h"

namespace tessera::train::detail {

/// The device of a rank, and the reason if it is not the best one of the machine.
struct ChosenDevice {
  device::Device device;     ///< Device of this rank.
  std::string why_not = {};  ///< With "auto": why other devices are not used; empty if there are none.
};

/// Returns the device of this rank. With "auto", it is the best one that has every operator of the model: another
/// device than the host, if there is one per rank, a backend connects their memory, and a small model of the family can
/// do the work there. Tasks of the user's own stay on the host unless the option names a device. Throws
/// InvalidArgument if the named device does not exist, lacks an operator, or is one of fewer than ranks.
ChosenDevice choose_device(const Config& config, ModelUse use = ModelUse::kTraining);

}  // namespace tessera::train::detail

// The device of the ranks of a run (run.device).
#pragma once

#include <string>

#include "tessera/device/device.h"
#include "tessera/train/config.h"

namespace tessera::train::detail {

/// Returns the device of this rank. With "auto", it is the best one that has every operator of the model: another
/// device than the host, if a step of a small model of the family succeeds there. Ranks that communicate, and tasks of
/// the user's own, stay on the host unless the option names a device. Throws InvalidArgument if the named device does
/// not exist or lacks an operator.
device::Device choose_device(const Config& config);

}  // namespace tessera::train::detail

// barrier: transfers nothing; ranks only meet.
#include "tessera/comm/collectives/detail/definitions.h"

namespace tessera::comm {

const CollectiveDef kBarrierDef = {
    .name = "barrier",
    .check = [](const Operation& /*operation*/, int /*rank*/, int /*size*/) {},
    .extents = [](const Operation& /*operation*/, int /*rank*/, int /*size*/) { return Extents{}; },
    .transfers = [](const Operation& /*operation*/, int /*rank*/, int /*size*/) { return Transfers(); }};

}  // namespace tessera::comm

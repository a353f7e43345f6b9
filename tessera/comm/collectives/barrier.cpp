// barrier: transfers nothing; ranks only meet.
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

void check(const Operation& /*operation*/, int /*rank*/, int /*size*/) {}
Extents extents(const Operation& /*operation*/, int /*rank*/, int /*size*/) { return {}; }
Transfers transfers(const Operation& /*operation*/, int /*rank*/, int /*size*/) { return {}; }

const CollectiveRegistration kBarrier{
    {.kind = OpKind::kBarrier, .name = "barrier", .check = check, .extents = extents, .transfers = transfers}};

}  // namespace
}  // namespace tessera::comm

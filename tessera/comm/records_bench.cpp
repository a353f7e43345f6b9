// What it costs to record an operation of a group.
#include "tessera/base/rank.h"
#include "tessera/base/testing/bench.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

// All its states: asked for, begun, met, ended; three records and three rows, a fourth
// where ranks had to be waited for.
TESSERA_BENCH(record) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  const ProcessGroup group = world();
  const device::Stream stream = device::Device::get("host").default_stream();
  detail::GroupRecord& record = group.state()->record;
  Task task;
  task.operations.push_back({.kind = OpKind::kAllReduce, .dtype = DType::kF32, .count = 1024});
  context.measure({.name = "record_operation",
                   .unit = "ns",
                   .ours =
                       [&] {
                         record.asked(task, stream);
                         record.began(task);
                         record.met(task);
                         record.ended(task);
                       },
                   .must = 80});
}

}  // namespace
}  // namespace tessera::comm

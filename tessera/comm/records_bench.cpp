// Measures the recording of an operation of a group.
#include "tessera/base/rank.h"
#include "tessera/base/testing/bench.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

// All states of an operation that runs immediately: enqueued, started, all arrived, finished; three records and three
// rows, and a fourth if it had to wait for ranks.
TESSERA_BENCH(record) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  const ProcessGroup group = world();
  const device::Stream stream = device::Device::get("host").default_stream();
  detail::GroupRecord& record = group.state()->record;
  const Operation operation{.kind = OpKind::kAllReduce, .dtype = DType::kF32, .count = 1024};
  Task task;
  task.operations = std::span(&operation, 1);
  const probe::ClockSource clock = probe::best_clock_source();
  context.measure({.name = "record_operation",
                   .unit = "ns",
                   .ours =
                       [&] {
                         task.number = record.next_number();
                         const std::uint64_t ticks = probe::read_ticks(clock);
                         record.asked(task, stream, ticks);
                         record.began(task, ticks);
                         record.met(task);
                         record.ended(task, probe::read_ticks(clock));
                       },
                   .must = 80});
}

}  // namespace
}  // namespace tessera::comm

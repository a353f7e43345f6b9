// Measures the comparison of operations between ranks.
#include "tessera/base/testing/bench.h"
#include "tessera/comm/detail/peer_memory/failures.h"

namespace tessera::comm {
namespace {

// The check of an operation that is always on: its notice (the fingerprint and the data for mismatch errors), and the
// comparison with that of one peer.
TESSERA_BENCH(check) {
  alignas(64) detail::Notice notices[2];
  const Operation op{.kind = OpKind::kAllReduce, .dtype = DType::kF32, .count = 1024};
  std::uint64_t sequence = 0;
  context.measure({.name = "check_always_on",
                   .unit = "ns",
                   .ours =
                       [&] {
                         ++sequence;
                         detail::Notice& mine =
                             *::new (&notices[sequence % 2]) detail::Notice(detail::notice_of(op, sequence, 77));
                         bench::do_not_optimize(mine);
                         const detail::Notice& other = notices[(sequence + 1) % 2];
                         const bool agrees = other.fingerprint == mine.fingerprint && other.task == mine.task;
                         bench::do_not_optimize(agrees);
                       },
                   .must = 20});
}

}  // namespace
}  // namespace tessera::comm

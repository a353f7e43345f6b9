#include "tessera/analysis/memory/trace_replay.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/analysis/memory/detail/idle_device.h"
#include "tessera/base/error.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/null_upstream.h"

namespace tessera::analysis {
namespace {

using memory::Allocator;
using memory::BlockState;
using memory::BlockView;
using memory::Buffer;
using memory::NullCounts;
using memory::NullOptions;
using memory::NullUpstream;
using memory::Policy;
using memory::SegmentView;
using memory::Snapshot;

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kMaxStreams = 1024;
constexpr std::size_t kNoOp = std::numeric_limits<std::size_t>::max();

// Returns the op after which the log has the most live bytes; checks every op, so that the replay need not.
std::size_t find_peak(const Trace& trace) {
  enum : std::uint8_t { kNever, kLive, kFreed };
  std::vector<std::uint8_t> states(trace.keys, kNever);
  std::uint64_t live = 0;
  std::uint64_t most = 0;
  std::size_t peak = kNoOp;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& op = trace.ops[i];
    TESSERA_CHECK(op.key < trace.keys && op.stream < trace.streams, "replay: op ", i, " must use a key below ",
                  trace.keys, " and a stream below ", trace.streams, ", got key ", op.key, " and stream ", op.stream);
    TESSERA_CHECK(states[op.key] == (op.is_alloc ? kNever : kLive), "replay: op ", i,
                  op.is_alloc ? " allocates key " : " frees key ", op.key, " at the wrong time");
    states[op.key] = op.is_alloc ? kLive : kFreed;
    live += op.is_alloc ? op.nbytes : std::uint64_t{0} - op.nbytes;
    if (op.is_alloc && live > most) {
      most = live;
      peak = i;
    }
  }
  return peak;
}

// Measures bytes outside of live blocks and their rounding, and the longest run of them.
void measure_free(const Snapshot& snapshot, ReplayResult& result) {
  for (const SegmentView& segment : snapshot.segments) {
    std::uint64_t run = 0;
    for (const BlockView& block : segment.blocks) {
      run = block.state == BlockState::kLive ? 0 : run + block.nbytes;
      if (block.state != BlockState::kLive) result.free_nbytes_at_peak += block.nbytes;
      result.largest_free_nbytes_at_peak = std::max(result.largest_free_nbytes_at_peak, run);
    }
  }
}

class Replay {
 public:
  Replay(const Trace& trace, const Policy& policy, std::size_t capacity)
      : trace_(trace),
        peak_at_(find_peak(trace)),
        upstream_(std::make_shared<NullUpstream>(
            NullOptions{.capacity_nbytes = capacity,
                        .granularity = std::min(NullOptions().granularity, policy.granule_nbytes),
                        .name = "replay"})),
        device_(detail::make_idle_device(capacity)),
        allocator_(device_, {.policy = policy, .upstream = upstream_, .name = "replay"}),
        buffers_(trace.keys) {
    for (std::uint32_t i = 0; i < trace.streams; ++i) {
      streams_.push_back(i == 0 ? device_.default_stream() : device_.create_stream());
    }
  }

  ReplayResult run() {
    const Clock::time_point begin = Clock::now();
    Clock::duration aside{};  // time outside of the replay
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      const TraceOp& op = trace_.ops[i];
      if (op.is_alloc) {
        allocate(op);
      } else {
        live_ -= buffers_[op.key].nbytes();
        buffers_[op.key].reset();
        streams_[op.stream].poll();  // its uses are over, and the allocator learns it
      }
      if (i == peak_at_) [[unlikely]] {
        const Clock::time_point before = Clock::now();
        measure_free(allocator_.snapshot(), result_);
        aside = Clock::now() - before;
      }
    }
    const auto took = std::chrono::duration<double, std::nano>(Clock::now() - begin - aside);
    result_.ops = trace_.ops.size();
    result_.ns_per_op = trace_.ops.empty() ? 0 : took.count() / static_cast<double>(trace_.ops.size());
    const NullCounts counts = upstream_->counts();
    result_.peak_reserved_nbytes = counts.peak_mapped_nbytes;
    result_.maps = counts.maps;
    result_.unmaps = counts.unmaps;
    result_.moves = counts.moves;
    return result_;
  }

 private:
  void allocate(const TraceOp& op) {
    try {
      buffers_[op.key] = allocator_.allocate(op.nbytes, streams_[op.stream]);
      live_ += buffers_[op.key].nbytes();
      result_.peak_live_nbytes = std::max(result_.peak_live_nbytes, live_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kOutOfMemory) throw;
      ++result_.failures;
    }
  }

  const Trace& trace_;
  std::size_t peak_at_;
  std::shared_ptr<NullUpstream> upstream_;
  Device device_;
  Allocator allocator_;
  std::vector<Stream> streams_;
  std::vector<Buffer> buffers_;  // by key
  std::uint64_t live_ = 0;
  ReplayResult result_;
};

}  // namespace

double ReplayResult::ratio() const {
  if (peak_live_nbytes == 0) return 0;
  return static_cast<double>(peak_reserved_nbytes) / static_cast<double>(peak_live_nbytes);
}

double ReplayResult::fragmentation() const {
  if (free_nbytes_at_peak == 0) return 0;
  return 1 - static_cast<double>(largest_free_nbytes_at_peak) / static_cast<double>(free_nbytes_at_peak);
}

std::string ReplayResult::to_json() const {
  const nlohmann::ordered_json json = {{"ops", ops},
                                       {"failures", failures},
                                       {"peak_live_nbytes", peak_live_nbytes},
                                       {"peak_reserved_nbytes", peak_reserved_nbytes},
                                       {"ratio", ratio()},
                                       {"free_nbytes_at_peak", free_nbytes_at_peak},
                                       {"largest_free_nbytes_at_peak", largest_free_nbytes_at_peak},
                                       {"fragmentation", fragmentation()},
                                       {"maps", maps},
                                       {"unmaps", unmaps},
                                       {"moves", moves},
                                       {"ns_per_op", ns_per_op}};
  return json.dump(2);
}

ReplayResult replay(const Trace& trace, const Policy& policy, std::size_t capacity_nbytes) {
  policy.check();
  TESSERA_CHECK(trace.streams <= kMaxStreams, "replay: a log must have at most ", kMaxStreams, " streams, got ",
                trace.streams);
  return Replay(trace, policy, capacity_nbytes).run();
}

}  // namespace tessera::analysis

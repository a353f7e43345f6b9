#include "tessera/comm/detail/peer_memory/signals.h"

#include <algorithm>
#include <map>

#include "tessera/base/error.h"
#include "tessera/comm/deadline_text.h"
#include "tessera/comm/detail/group_record.h"
#include "tessera/comm/detail/peer_memory/failures.h"

namespace tessera::comm::detail {
namespace {

using std::chrono::nanoseconds;

// The words of a pad are plain memory that was zeroed.
std::atomic<std::uint64_t>& atomic(std::uint64_t& word) { return reinterpret_cast<std::atomic<std::uint64_t>&>(word); }
std::atomic<std::uint32_t>& atomic(std::uint32_t& word) { return reinterpret_cast<std::atomic<std::uint32_t>&>(word); }

const char* text_of(Signal::Kind kind) {
  switch (kind) {
    case Signal::Kind::kPut: return "put_signal";
    case Signal::Kind::kWait: return "wait_signal";
    case Signal::Kind::kBarrier: return "barrier";
  }
  return "signal";
}

constexpr std::uint64_t kLogMask = (std::uint64_t{1} << kLogBits) - 1;

}  // namespace

PeerSignals::PeerSignals(std::shared_ptr<const Communicator> communicator, const PeerMemory& memory,
                         const std::atomic<std::int64_t>& extended_ns, int rank, SignalPads pads)
    : communicator_(std::move(communicator)),
      memory_(memory),
      extended_ns_(extended_ns),
      rank_(rank),
      pads_(std::move(pads)) {}

void PeerSignals::enqueue(const Signal& signal, const device::Stream& stream) {
  const std::int64_t extended = stream.is_capturing() ? Task::kAtEachRun : extended_ns_.load(std::memory_order_relaxed);
  // Declares no accesses: which memory a signal orders is unknown, and peers access it too.
  stream.run([self = shared_from_this(), signal, extended] { self->run(signal, extended); },
             {.label = text_of(signal.kind), .accesses = std::span<const device::Access>()});
}

void PeerSignals::run(const Signal& signal, std::int64_t extended_ns) const {
  if (has_verdict(memory_.group())) throw_verdict(memory_.group(), *pads_.group);
  const nanoseconds now = memory_.waiting().now();
  const RunningSignal run{
      .signal = signal,
      .until = signal.deadline >= nanoseconds::max() - now ? nanoseconds::max() : now + signal.deadline,
      .extended_ns = extended_ns == Task::kAtEachRun ? extended_ns_.load(std::memory_order_relaxed) : extended_ns};
  switch (signal.kind) {
    case Signal::Kind::kPut: return put(run, signal.peer);
    case Signal::Kind::kWait: (void)wait(run, signal.peer); return;
    case Signal::Kind::kBarrier: return barrier(run);
  }
}

void PeerSignals::put(const RunningSignal& run, int peer) const {
  SignalLine& line = pads_.line(peer, run.signal.channel, rank_);
  const Reaching reaching(memory_, rank_, *pads_.group);
  // Its pads are freed after it has left, when no other rank accesses them.
  if (memory_.group().board(peer).has_left.load(std::memory_order_seq_cst) != 0) {
    fail(run, {.kind = Failure::Kind::kDeadRank, .missing = {peer}, .text = text_of_gone(memory_, peer)}, peer);
  }
  std::atomic<std::uint64_t>& arrived = atomic(line.arrived);
  const std::uint64_t number = arrived.load(std::memory_order_relaxed) + 1;
  atomic(line.log).store(run.signal.log == 0 ? 0 : number << kLogBits | run.signal.log, std::memory_order_relaxed);
  arrived.fetch_add(1, std::memory_order_seq_cst);
  if (atomic(line.sleepers).load(std::memory_order_seq_cst) != 0) memory_.waiting().wake(arrived);
}

// Returns the number of the signal that arrived.
std::uint64_t PeerSignals::wait(const RunningSignal& run, int peer) const {
  SignalLine& line = pads_.line(rank_, run.signal.channel, peer);
  const std::uint64_t number = atomic(line.awaited).fetch_add(1, std::memory_order_relaxed) + 1;
  const std::atomic<std::uint64_t>& arrived = atomic(line.arrived);
  const std::function<bool()> is_there = [&] { return arrived.load(std::memory_order_acquire) >= number; };
  const std::function<bool()> is_over = [&] { return has_verdict(memory_.group()) || is_gone(memory_, peer); };
  std::size_t noted = 0;  // handle of the record
  const std::function<void()> note = [&] {
    if (noted != 0 || pads_.record == nullptr) return;
    noted = pads_.record->signal_waits(pads_.pool, text_of(run.signal.kind), peer, run.signal.channel, number);
  };
  try {
    while (!is_there()) {
      const bool came = memory_.waiting().wait({.is_there = is_there,
                                                .word = arrived,
                                                .sleepers = atomic(line.sleepers),
                                                .is_over = is_over,
                                                .timeout = time_left(run),
                                                .what = text_of(run.signal.kind),
                                                .before_sleep = &note});
      if (!came && (is_over() || time_left(run) == nanoseconds(0))) fail_waiting(run, peer, number);
    }
  } catch (...) {
    if (noted != 0) pads_.record->signal_ended(noted, std::current_exception());
    throw;
  }
  if (noted != 0) pads_.record->signal_ended(noted, nullptr);
  return number;
}

void PeerSignals::barrier(const RunningSignal& run) const {
  const int size = memory_.group().size();
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank_) put(run, peer);
  }
  // The request that each rank announced for its pool. A rank that announced none, or is at the next request, agrees.
  std::map<std::uint64_t, std::vector<int>> by_log;
  for (int peer = 0; peer < size; ++peer) {
    std::uint64_t log = run.signal.log;
    if (peer != rank_) {
      const std::uint64_t number = wait(run, peer);
      const std::uint64_t said =
          atomic(pads_.line(rank_, run.signal.channel, peer).log).load(std::memory_order_relaxed);
      if (said != 0 && said >> kLogBits == (number << kLogBits) >> kLogBits) log = said & kLogMask;
    }
    by_log[log].push_back(peer);
  }
  if (run.signal.log == 0 || by_log.size() <= 1) return;
  const auto most = std::ranges::max_element(by_log, {}, [](const auto& entry) { return entry.second.size(); });
  Failure failure{.kind = Failure::Kind::kMismatch};
  for (const auto& [log, ranks] : by_log) {
    if (log != most->first) failure.missing.insert(failure.missing.end(), ranks.begin(), ranks.end());
  }
  failure.text = "ranks differ: " + text_of_members(failure.missing, world_of(memory_)) +
                 " made other pool requests than " + text_of_members(most->second, world_of(memory_)) +
                 "; call rendezvous() to see the difference";
  fail(run, std::move(failure), rank_);
}

nanoseconds PeerSignals::extra(const RunningSignal& run) const {
  return nanoseconds(extended_ns_.load(std::memory_order_relaxed) - run.extended_ns);
}

nanoseconds PeerSignals::time_left(const RunningSignal& run) const {
  if (run.until == nanoseconds::max()) return run.until;
  return std::max(run.until + extra(run) - memory_.waiting().now(), nanoseconds(0));
}

void PeerSignals::fail_waiting(const RunningSignal& run, int peer, std::uint64_t number) const {
  if (has_verdict(memory_.group())) throw_verdict(memory_.group(), *pads_.group);
  if (is_gone(memory_, peer)) {
    fail(run, {.kind = Failure::Kind::kDeadRank, .missing = {peer}, .text = text_of_gone(memory_, peer)}, peer);
  }
  const std::uint64_t arrived = atomic(pads_.line(rank_, run.signal.channel, peer).arrived).load();
  fail(run,
       {.kind = Failure::Kind::kDeadline,
        .missing = {peer},
        .text = "signal " + std::to_string(number) + " of " + text_of_members(memory_, peer) +
                " did not arrive within " + text_of_deadline(run.signal.deadline, extra(run)) + " (" +
                std::to_string(arrived) + " arrived)"},
       peer);
}

void PeerSignals::fail(const RunningSignal& run, Failure failure, int peer) const {
  failure.by = rank_;
  std::string what = pads_.pool + ", " + text_of(run.signal.kind) + "(";
  if (run.signal.kind != Signal::Kind::kBarrier) what += "rank " + std::to_string(peer) + ", ";
  failure.text = what + "channel " + std::to_string(run.signal.channel) + ") of " + text_of_members(memory_, rank_) +
                 ": " + failure.text;
  write_verdict(memory_.group(), memory_.waiting(), failure);
  if (has_verdict(memory_.group())) throw_verdict(memory_.group(), *pads_.group);
  // Another rank was writing the verdict and may have died while doing so.
  throw_failure(failure.kind, failure.text, *pads_.group);
}

}  // namespace tessera::comm::detail

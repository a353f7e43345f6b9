// The state of a symmetric pool on one rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/detail/symmetric/offset_plan.h"
#include "tessera/comm/detail/symmetric/registry.h"
#include "tessera/comm/detail/symmetric/rendezvous.h"
#include "tessera/comm/detail/symmetric/request_log.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/symmetric_backend.h"

namespace tessera::comm {

/// The state of a pool. Thread-safe.
struct SymmetricState {
  using Segment = detail::SymmetricSegment;

  SymmetricState(const ProcessGroup& its_group, const device::Stream& its_stream);
  // Waits, for a limited time, until the streams no longer use its memory.
  ~SymmetricState();
  SymmetricState(const SymmetricState&) = delete;
  SymmetricState& operator=(const SymmetricState&) = delete;

  // Creates its signals and, if `nbytes` is not 0, its first segment.
  void create(std::size_t nbytes);
  std::uint64_t allocate(std::size_t nbytes);
  void free(std::uint64_t offset, std::size_t nbytes) noexcept;
  void rendezvous();
  void signal(Signal signal, const device::Stream& on);
  // Returns the byte at `offset` on `peer`, or null if it is not mapped yet.
  std::byte* find(std::uint64_t offset, int peer);

  const ProcessGroup group;
  const device::Stream stream;
  SymmetricBackend* const backend;
  std::uint64_t number = 0;  // number among the pools of these ranks
  std::string name;
  int channels = 0;
  std::pair<std::byte*, std::shared_ptr<const void>> pad;  // pad of this rank, and its owner
  std::shared_ptr<SignalBackend> signals;

  std::mutex mutex;  // protects the members below; held during a rendezvous
  detail::OffsetPlan plan;
  detail::RequestLog log;

  std::atomic<std::uint64_t> digest{0};  // digest of the log, for barriers
  std::atomic<bool> is_broken{false};    // the pool is unusable
  std::string broken;                    // the reason; written once, before is_broken

  std::mutex lookup_mutex;  // protects the members below
  std::vector<Segment> segments;
  std::set<StreamId> streams;  // streams that signals were enqueued on

 private:
  void note(const detail::SymmetricRequest& request);
  void check_usable() const;
  std::vector<detail::RankContribution> meet_and_map(std::uint64_t nbytes, std::size_t pad_lines);
  void take_pad(std::size_t lines);
};

}  // namespace tessera::comm

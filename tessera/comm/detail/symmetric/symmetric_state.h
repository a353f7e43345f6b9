// What a symmetric pool is on one rank.
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

/// Thread-safe.
struct SymmetricState {
  using Segment = detail::SymmetricSegment;

  SymmetricState(const ProcessGroup& its_group, const device::Stream& its_stream);
  // Waits, for a while, until its streams have done with its memory.
  ~SymmetricState();
  SymmetricState(const SymmetricState&) = delete;
  SymmetricState& operator=(const SymmetricState&) = delete;

  // Makes its signals and, with `nbytes`, its first segment.
  void create(std::size_t nbytes);
  std::uint64_t allocate(std::size_t nbytes);
  void free(std::uint64_t offset, std::size_t nbytes) noexcept;
  void rendezvous();
  void signal(Signal signal, const device::Stream& on);
  // Where the byte at `offset` is on `peer`; null: not mapped yet.
  std::byte* find(std::uint64_t offset, int peer);

  const ProcessGroup group;
  const device::Stream stream;
  SymmetricBackend* const backend;
  std::uint64_t number = 0;  // among the pools of these ranks
  std::string name;
  int channels = 0;
  std::pair<std::byte*, std::shared_ptr<const void>> pad;  // this rank's, and what keeps it
  std::shared_ptr<SignalBackend> signals;

  std::mutex mutex;  // for what follows; held for the whole of a rendezvous
  detail::OffsetPlan plan;
  detail::RequestLog log;

  std::atomic<std::uint64_t> digest{0};  // of the log, for barriers
  std::atomic<bool> is_broken{false};    // it can do nothing any more
  std::string broken;                    // why; written once, before that

  std::mutex lookup_mutex;  // for what follows
  std::vector<Segment> segments;
  std::set<StreamId> streams;  // that signals went to

 private:
  void note(const detail::SymmetricRequest& request);
  void check_usable() const;
  std::vector<detail::Record> meet_and_map(std::uint64_t nbytes, std::size_t pad_lines);
  void take_pad(std::size_t lines);
};

}  // namespace tessera::comm

// A block: a run of bytes of one segment that is live, free, or without memory. The blocks of a segment tile it; prev
// and next are its neighbors by address. Guarded by the lock of its heap, except for fields that the owner of a live
// block reads (address, size, requested), which do not change while it is live.
//
//            allocate                 free, others may still use it
//   ready ------------> live ----------------------------> pending
//     ^ ^                 |  free                              |  covered, waited for, proved, completed
//     | '-----------------'                                    |
//     '--------------------------------------------------------'
//     | unmap        ^ map
//     '---> hole ----'            taken: out of all lists while a call outside the lock works on it
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/base/ids.h"
#include "tessera/device/event.h"
#include "tessera/device/stream.h"
#include "tessera/memory/detail/capture_order.h"
#include "tessera/memory/label.h"

namespace tessera::memory {

namespace detail {

class Heap;
struct Segment;

/// A stream that used a block, besides the one it belongs to.
struct Use {
  const device::StreamSlot* slot = nullptr;
  device::Stream stream;  ///< while live: the stream of the event recorded at free; afterwards empty
  Tick tick;              ///< 0 while live; set at free
  device::Event event;    ///< recorded at free; if empty, only a clock or completion frees the block

  [[nodiscard]] bool is_done() const { return slot->completed() >= tick; }
};

struct GraphKeeper;

/// Data that few blocks need: uses by other streams, and state of captures.
struct BlockExtra {
  std::vector<Use> uses;
  Marks marks;             ///< pending in a capture: nodes that must complete
  CaptureId capture;       ///< capture of the marks; 0 if none
  bool is_barred = false;  ///< pending in a capture: used by a stream outside it, so it waits for the end
  bool is_input = false;   ///< live: of another graph than that whose capture allocated it
  std::vector<std::shared_ptr<GraphKeeper>> keepers;  ///< of graphs that captured a use of it
  std::size_t holds = 0;                              ///< freed: number of graphs that still hold it

  void clear() {
    uses.clear();
    marks.clear();
    capture = {};
    is_barred = false;
    is_input = false;
    keepers.clear();
    holds = 0;
  }
};

enum class Phase : std::uint8_t { kLive, kReady, kPending, kHole, kTaken };

}  // namespace detail

/// A block. Two cache lines, which no block of another heap shares.
struct alignas(64) Block {
  std::byte* address = nullptr;
  std::size_t size = 0;
  std::size_t requested = 0;
  detail::Heap* heap = nullptr;
  const device::StreamSlot* slot = nullptr;  ///< stream of the allocation
  Block* prev = nullptr;
  Block* next = nullptr;
  Block* bin_prev = nullptr;  ///< in its bin, while ready or pending; bin_next also chains unused Block objects
  Block* bin_next = nullptr;
  detail::Segment* segment = nullptr;
  Tick tick;  ///< while ready: uses by the stream of its heap are over at this tick
  LabelId label = 0;
  std::uint32_t stack = 0;
  std::uint64_t moment = 0;    ///< capture heap: CaptureMoment of its allocation
  std::uint32_t graph = 0;     ///< capture heap: number of the graph whose capture last received it
  std::uint32_t freed_at = 0;  ///< while ready: number of frees of its heap then, for collection by age
  std::uint16_t bin = 0;
  detail::Phase phase = detail::Phase::kReady;
  std::unique_ptr<detail::BlockExtra> extra;

  [[nodiscard]] std::byte* end() const { return address + size; }
};
static_assert(sizeof(Block) == 128);

}  // namespace tessera::memory

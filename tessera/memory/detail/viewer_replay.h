// PyTorch's viewer shows past states by undoing a trace, event by event, from the state at its end; an event that does
// not fit the state it is undone in makes it fail, or draw nonsense. This does the same on plain data and tells which
// events fit. Where the record was complete, all do.
#pragma once

#include <vector>

#include "tessera/memory/snapshot.h"

namespace tessera::memory::detail {

/// An event of a trace that can be undone.
struct ViewerEvent {
  const TraceEntry* entry = nullptr;
  bool is_fixed = false;  // of kMap and kUnmap: a whole segment rather than a piece of one that grows
};

/// The events of the snapshot's trace that can be undone, oldest first.
std::vector<ViewerEvent> viewer_events(const Snapshot& snapshot);

}  // namespace tessera::memory::detail

// The viewer of PyTorch shows past states by undoing a trace, event by event, from its final state. It fails or draws
// nonsense if an event does not fit the state. This does the same on plain data and returns the events that fit: all of
// them, if the record was complete.
#pragma once

#include <vector>

#include "tessera/memory/snapshot.h"

namespace tessera::analysis::detail {

/// An event of a trace that can be undone.
struct ViewerEvent {
  const memory::TraceEntry* entry = nullptr;
  bool is_fixed = false;  // kMap and kUnmap: a complete fixed segment rather than a chunk of an expandable one
};

/// Returns the events of the trace of the snapshot that can be undone, oldest first.
std::vector<ViewerEvent> viewer_events(const memory::Snapshot& snapshot);

}  // namespace tessera::analysis::detail

// Record and row kinds that hold only numbers and ids. A record outlives the objects it describes, and other processes
// read it: an address in it would be invalid, or would force the writer to keep works and buffers alive.
#pragma once

#include "tessera/base/probe/schema.h"

namespace tessera::probe {

/// Returns true if no field of the kind is an address.
template <Describable Kind>
consteval bool holds_ids_only() {
  for (const FieldInfo& field : Kind::record_fields()) {
    if (field.type == FieldType::kAddress) return false;
  }
  return true;
}

}  // namespace tessera::probe

// Kinds of records and rows that hold numbers and ids alone. A record outlives what it tells of, and is read by others:
// an address in it would lead to nothing, and whoever kept one alive for it would keep works and buffers.
#pragma once

#include "tessera/base/probe/schema.h"

namespace tessera::probe {

/// Whether no field of the kind is an address.
template <Describable Kind>
consteval bool holds_ids_only() {
  for (const FieldInfo& field : Kind::record_fields()) {
    if (field.type == FieldType::kAddress) return false;
  }
  return true;
}

}  // namespace tessera::probe

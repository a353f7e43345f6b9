#include "tessera/comm/collectives/collective.h"

#include <algorithm>
#include <iterator>

#include "tessera/base/error.h"
#include "tessera/comm/collectives/detail/definitions.h"

namespace tessera::comm {

std::pair<std::int64_t, std::int64_t> share_of(std::int64_t count, int rank, int size) {
  const std::int64_t step = (count + size - 1) / size;
  const std::int64_t first = std::min(step * rank, count);
  return {first, std::min(first + step, count) - first};
}

// The table: a collective is a file of this folder and a row here, in the order of OpKind.
const CollectiveDef& definition(OpKind kind) {
  static constexpr const CollectiveDef* kDefinitions[kOpKinds] = {
      &kAllReduceDef, &kAllGatherDef, &kReduceScatterDef, &kAllToAllDef,  &kRaggedAllToAllDef,
      &kBroadcastDef, &kReduceDef,    &kScatterDef,       &kGatherDef,    &kBarrierDef,
      nullptr,        nullptr,        &kPermuteDef,       &kRendezvousDef};
  const auto at = static_cast<std::size_t>(kind);
  const CollectiveDef* const found = at < std::size(kDefinitions) ? kDefinitions[at] : nullptr;
  if (found == nullptr)
    TESSERA_THROW(InvalidArgument, to_string(kind), " is a point-to-point operation, not a collective");
  return *found;
}

void check_arguments(const Operation& operation, int rank, int size) {
  const CollectiveDef& def = definition(operation.kind);
  def.check(operation, rank, size);
  const auto item = static_cast<std::int64_t>(itemsize(operation.dtype));
  const Extents extents = def.extents(operation, rank, size);
  TESSERA_CHECK(extents.in == 0 || operation.in != nullptr, text_of(operation), ": input must not be null");
  TESSERA_CHECK(extents.out == 0 || operation.out != nullptr, text_of(operation), ": output must not be null");
  if (extents.in == 0 || extents.out == 0) return;
  const std::byte* in = operation.in;
  const std::byte* out = operation.out;
  if (out + extents.out * item <= in || in + extents.in * item <= out) return;
  const auto allowed = def.in_place == nullptr ? std::nullopt : def.in_place(operation, rank, size);
  TESSERA_CHECK(allowed, text_of(operation), ": input and output must not overlap");
  TESSERA_CHECK(out - in == *allowed * item, text_of(operation), ": an output that overlaps the input must start ",
                *allowed * item, " bytes after it, got ", out - in, " bytes");
}

}  // namespace tessera::comm

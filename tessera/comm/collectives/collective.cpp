#include "tessera/comm/collectives/collective.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>

#include "tessera/base/error.h"

namespace tessera::comm {
namespace {

// By kind; no definition if `transfers` is null. Initialized at compile time and filled before main, in any order of
// files; read by all threads afterwards.
constinit CollectiveDef registered[kMaxOpKinds] = {};

// An exception before main cannot be caught.
[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "tessera: %s\n", why.c_str());
  std::abort();
}

}  // namespace

std::pair<std::int64_t, std::int64_t> share_of(std::int64_t count, int rank, int size) {
  const std::int64_t step = (count + size - 1) / size;
  const std::int64_t first = std::min(step * rank, count);
  return {first, std::min(first + step, count) - first};
}

CollectiveRegistration::CollectiveRegistration(const CollectiveDef& def) {
  const std::string name(def.name);
  if (name.empty() || def.check == nullptr || def.extents == nullptr || def.transfers == nullptr) {
    refuse("collective '" + name + "' must have a name, check, extents and transfers");
  }
  const auto at = static_cast<std::size_t>(def.kind);
  if (at >= std::size(registered) || is_message(def.kind)) {
    refuse("collective '" + name + "': kind must be in [0, " + std::to_string(kMaxOpKinds) +
           ") and not that of send or recv, got " + std::to_string(at));
  }
  for (const CollectiveDef& other : registered) {
    if (other.transfers == nullptr || (other.kind != def.kind && other.name != def.name)) continue;
    refuse("collective '" + name + "' of kind " + std::to_string(at) + " is registered already, as '" +
           std::string(other.name) + "' of kind " + std::to_string(static_cast<int>(other.kind)));
  }
  registered[at] = def;
}

const CollectiveDef* find_definition(OpKind kind) noexcept {
  const auto at = static_cast<std::size_t>(kind);
  return at < std::size(registered) && registered[at].transfers != nullptr ? &registered[at] : nullptr;
}

const CollectiveDef& definition(OpKind kind) {
  const CollectiveDef* const found = find_definition(kind);
  if (found != nullptr) return *found;
  TESSERA_CHECK(!is_message(kind), "definition: kind must be a collective, got ", to_string(kind));
  TESSERA_THROW(InvalidArgument, "definition: kind must be registered, got ", static_cast<int>(kind),
                "; register it with CollectiveRegistration");
}

std::vector<CollectiveDef> all_collectives() {
  std::vector<CollectiveDef> all;
  std::ranges::copy_if(registered, std::back_inserter(all), [](const auto& def) { return def.transfers != nullptr; });
  return all;
}

std::int64_t max_input_of(const Operation& operation, int size) {
  const CollectiveDef& def = definition(operation.kind);
  return def.max_input == nullptr ? operation.count : def.max_input(operation, size);
}

void check_arguments(const Operation& operation, int rank, int size) {
  const CollectiveDef& def = definition(operation.kind);
  def.check(operation, rank, size);
  const auto item = static_cast<std::int64_t>(itemsize(operation.dtype));
  const Extents extents = def.extents(operation, rank, size);
  TESSERA_CHECK(extents.in == 0 || operation.in != nullptr, text_of(operation), ": input must be the address of ",
                extents.in, " elements, got null");
  TESSERA_CHECK(extents.out == 0 || operation.out != nullptr, text_of(operation), ": output must be the address of ",
                extents.out, " elements, got null");
  if (extents.in == 0 || extents.out == 0) return;
  const std::byte* in = operation.in;
  const std::byte* out = operation.out;
  if (out + extents.out * item <= in || in + extents.in * item <= out) return;
  const auto allowed = def.in_place == nullptr ? std::nullopt : def.in_place(operation, rank, size);
  TESSERA_CHECK(allowed, text_of(operation), ": input and output must not overlap, got ", static_cast<const void*>(in),
                " and ", static_cast<const void*>(out), "; this operation has no in-place form");
  TESSERA_CHECK(out - in == *allowed * item, text_of(operation), ": an output that overlaps the input must start ",
                *allowed * item, " bytes after it, got ", out - in, " bytes");
}

}  // namespace tessera::comm

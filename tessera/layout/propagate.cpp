#include "tessera/layout/propagate.h"

#include "tessera/base/error.h"
#include "tessera/layout/detail/call.h"

namespace tessera::layout {
namespace {

// The outputs where inputs fit together as they are, or why they do not.
Propagation match(const detail::Call& call) {
  Propagation out;
  if (const auto found = call.match(out.conflict)) {
    if (auto outputs = call.outputs_under(*found, out.conflict)) out.outputs = std::move(*outputs);
  }
  if (!out.conflict.empty()) out.conflict = call.rule().name + ": " + out.conflict;
  return out;
}

}  // namespace

Propagation propagate(const FactorRule& rule, std::span<const Operand> inputs, std::span<const Shape> outputs) {
  return match(detail::Call(rule, inputs, outputs));
}

}  // namespace tessera::layout

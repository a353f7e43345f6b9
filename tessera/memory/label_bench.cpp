// Cost of a label: opening and closing a scope with a known text.
#include "tessera/base/testing/bench.h"
#include "tessera/memory/label.h"

namespace tessera::memory {
namespace {

TESSERA_BENCH(label) {
  context.measure({.name = "label_known",
                   .ours =
                       [] {
                         const Label label("optimizer state");
                         bench::do_not_optimize(detail::current_label);
                       },
                   .must = 60});
}

}  // namespace
}  // namespace tessera::memory

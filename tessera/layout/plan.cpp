// Text form of plans.
#include "tessera/layout/plan.h"

#include <fmt/format.h>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"

namespace tessera::layout {
namespace {

// Returns "tp" for an axis, "tp(2)4" for a sub-axis: 4 ranks of the axis read as 2 x 4 x ...
std::string axes_text(const Step& step) {
  const Mesh& mesh = step.before.mesh();
  std::string text;
  for (const SubAxis& part : step.axes) {
    const Axis& axis = mesh.axis(part.axis);
    if (!text.empty()) text += ',';
    text += axis.name;
    if (part.size != axis.size) text += fmt::format("({}){}", part.before, part.size);
  }
  return text;
}

}  // namespace

std::string_view to_string(StepKind kind) {
  switch (kind) {
    case StepKind::kAllGather: return "all-gather";
    case StepKind::kSlice: return "slice";
    case StepKind::kAllToAll: return "all-to-all";
    case StepKind::kReduceScatter: return "reduce-scatter";
    case StepKind::kAllReduce: return "all-reduce";
    case StepKind::kPermute: return "permute";
    case StepKind::kBoxExchange: return "box exchange";
    case StepKind::kPartition: return "partition";
    case StepKind::kZeroFill: return "zero-fill";
  }
  TESSERA_THROW(InvalidArgument, "unknown kind of step ", static_cast<int>(kind));
}

bool communicates(StepKind kind) {
  return kind != StepKind::kSlice && kind != StepKind::kPartition && kind != StepKind::kZeroFill;
}

std::string Plan::text() const {
  if (steps.empty()) return "no steps\n";
  std::string text;
  for (const Step& step : steps) {
    text += fmt::format("{} over {} -> {}: ", to_string(step.kind), axes_text(step), step.after.placements_text());
    if (communicates(step.kind)) text += fmt::format("{} received, ", format_bytes(step.nbytes));
    if (step.copy_nbytes > 0) text += fmt::format("{} copied, ", format_bytes(step.copy_nbytes));
    text += fmt::format("{:.2f} us\n", step.us);
  }
  if (!is_exact) text += "plan may not be optimal: too many axes to search all plans\n";
  return text;
}

}  // namespace tessera::layout

#include "tessera/shard/trace.h"

#include <fmt/format.h>

#include <utility>

#include "tessera/base/bytes.h"
#include "tessera/memory/label.h"
#include "tessera/shard/detail/tracing.h"

namespace tessera::shard {
namespace {

constinit thread_local TraceLayouts* innermost = nullptr;
constinit thread_local std::string_view moving_for = {};

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

std::string placed_text(DType dtype, const Shape& shape, const layout::Layout& layout) {
  return fmt::format("{}{} {}", to_string(dtype), to_string(shape), layout.placements_text());
}

std::string operand_text(const Tensor& tensor) {
  if (!tensor) return "none";
  if (tensor.has_layout()) return placed_text(tensor.dtype(), tensor.shape(), tensor.layout());
  return fmt::format("{}{}", to_string(tensor.dtype()), to_string(tensor.shape()));
}

std::string steps_text(const layout::Plan& plan) {
  std::string out;
  for (const layout::Step& step : plan.steps) {
    out += out.empty() ? "" : ", then ";
    out += to_string(step.kind);
    for (std::size_t i = 0; i < step.axes.size(); ++i) {
      out += i == 0 ? " over " : " and ";
      out += plan.request.to.mesh().axis(step.axes[i].axis).name;
    }
  }
  return out.empty() ? "nothing" : out;
}

TraceEvent labelled(TraceEvent::Kind kind) {
  TraceEvent event;
  event.kind = kind;
  event.label = memory::Label::text_of(memory::detail::current_label);
  return event;
}

}  // namespace

std::string TraceEvent::text() const {
  std::string out;
  switch (kind) {
    case Kind::kCall: out = fmt::format("{}({}) -> {}", op, joined(inputs), joined(outputs)); break;
    case Kind::kCooperation:
      out = fmt::format("{} cooperates over {}: {}", op, axes, format_bytes(static_cast<std::uint64_t>(nbytes)));
      break;
    case Kind::kCollective:
      out = fmt::format("{}({}) -> {} over {}: {}", op, joined(inputs), joined(outputs), axes,
                        format_bytes(static_cast<std::uint64_t>(nbytes)));
      break;
    case Kind::kMove:
      out = fmt::format("move {} -> {}: {}, {}, {:.1f} us; {}", joined(inputs), joined(outputs), steps_text(*plan),
                        format_bytes(static_cast<std::uint64_t>(nbytes)), us,
                        is_automatic ? "automatic, for " + op : "requested");
      break;
  }
  return label.empty() ? out : out + " [" + label + "]";
}

TraceLayouts::TraceLayouts(std::ostream* to)
    : to_(to), outer_(std::exchange(innermost, this)), before_(shard_counts()) {}
TraceLayouts::~TraceLayouts() { innermost = outer_; }

ShardCounts TraceLayouts::counts() const {
  ShardCounts now = shard_counts();
  now.calls -= before_.calls;
  now.hits -= before_.hits;
  now.evictions -= before_.evictions;
  now.automatic -= before_.automatic;
  now.collectives -= before_.collectives;
  now.nbytes -= before_.nbytes;
  return now;
}

namespace detail {

void tell(const TraceEvent& event) {
  for (TraceLayouts* scope = innermost; scope != nullptr; scope = scope->outer_) {
    scope->events_.push_back(event);
    if (scope->to_ != nullptr) *scope->to_ << event.text() << '\n';
  }
}

std::string axes_text(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes) {
  std::string out;
  for (const layout::SubAxis& axis : axes) {
    out += out.empty() ? "" : " and ";
    out += mesh.axis(axis.axis).name;
  }
  return out;
}

bool is_tracing() { return innermost != nullptr; }

void trace_call(const tensor::Call& call, const DispatchPlan& entry) {
  TraceEvent event = labelled(TraceEvent::Kind::kCall);
  event.op = call.op.name();
  for (const Tensor& input : call.inputs) event.inputs.push_back(operand_text(input));
  for (std::size_t o = 0; o < entry.outputs.size(); ++o) {
    event.outputs.push_back(placed_text(entry.infos[o].dtype, entry.infos[o].shape, entry.outputs[o]));
  }
  tell(event);
}

void trace_list_call(const tensor::Call& call) {
  TraceEvent event = labelled(TraceEvent::Kind::kCall);
  event.op = call.op.name();
  for (const Tensor& input : call.inputs) event.inputs.push_back(operand_text(input));
  for (const Tensor& output : call.outputs) event.outputs.push_back(operand_text(output));
  tell(event);
}

void trace_cooperation(const tensor::Call& call, const layout::Mesh& mesh, std::span<const layout::SubAxis> axes,
                       int statistics, std::int64_t nbytes) {
  TraceEvent event = labelled(TraceEvent::Kind::kCooperation);
  event.op = call.op.name();
  event.nbytes = nbytes;
  event.axes = axes_text(mesh, axes);
  if (statistics > 1) event.axes += fmt::format(", {} statistics in one launch", statistics);
  tell(event);
}

void trace_collective(const std::string& name, const Tensor& from, const Tensor& to, const std::string& axes,
                      std::int64_t nbytes) {
  TraceEvent event = labelled(TraceEvent::Kind::kCollective);
  event.op = name;
  event.inputs = {operand_text(from)};
  event.outputs = {operand_text(to)};
  event.axes = axes;
  event.nbytes = nbytes;
  tell(event);
}

void trace_local_map(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  TraceEvent event = labelled(TraceEvent::Kind::kCall);
  event.op = "local_map";
  for (const Tensor& input : inputs) event.inputs.push_back(operand_text(input));
  for (const Tensor& output : outputs) event.outputs.push_back(operand_text(output));
  tell(event);
}

void trace_move(DType dtype, const std::shared_ptr<const layout::Plan>& plan) {
  if (innermost == nullptr) return;
  TraceEvent event = labelled(TraceEvent::Kind::kMove);
  event.plan = plan;
  event.nbytes = plan->nbytes;
  event.us = plan->us;
  event.is_automatic = !moving_for.empty();
  event.op = moving_for;
  event.inputs = {placed_text(dtype, plan->request.shape, plan->request.from)};
  event.outputs = {plan->request.to.placements_text()};
  tell(event);
}

AutomaticRedistributes::AutomaticRedistributes(std::string_view what) : outer_(std::exchange(moving_for, what)) {}
AutomaticRedistributes::~AutomaticRedistributes() { moving_for = outer_; }

}  // namespace detail
}  // namespace tessera::shard

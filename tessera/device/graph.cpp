#include "tessera/device/graph.h"

#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/device/detail/state.h"

namespace tessera::device {
namespace {

std::atomic<std::uint32_t> graphs_made{0};  // number of executables in this process

GraphState& state_of(const Graph& graph) {
  TESSERA_CHECK(graph.state() != nullptr,
                "Graph must not be empty or destroyed; capture one with Stream::begin_capture");
  graph.state()->device->owner.check("graph");
  return *graph.state();
}

GraphExecState& state_of(const GraphExec& exec) {
  TESSERA_CHECK(exec.state() != nullptr,
                "GraphExec must not be empty or destroyed; create one with Graph::instantiate");
  exec.state()->device->owner.check("graph");
  return *exec.state();
}

std::vector<NodeInfo> nodes_of(GraphState& graph) {
  const std::lock_guard lock(graph.mutex);
  return graph.backend->nodes();
}

std::vector<Access> accesses_of(GraphState& graph) {
  std::vector<Access> all;
  for (const NodeInfo& node : nodes_of(graph)) all.insert(all.end(), node.accesses.begin(), node.accesses.end());
  return all;
}

std::string escaped(std::string_view label) {
  std::string text;
  for (const char c : label) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

}  // namespace

GraphState::~GraphState() {
  if (device != nullptr && !device->owner.is_this()) abandon(backend);
}

GraphExecState::~GraphExecState() {
  if (device != nullptr && !device->owner.is_this()) abandon(backend);
}

std::string_view to_string(NodeKind kind) {
  static constexpr std::string_view kNames[] = {"kernel",       "host",       "copy",  "fill",         "empty",
                                                "event record", "event wait", "graph", "memory value", "other"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(EdgeKind kind) { return kind == EdgeKind::kFull ? "full" : "weak"; }

std::vector<NodeInfo> Graph::nodes() const { return nodes_of(state_of(*this)); }

std::string Graph::to_dot() const {
  std::string text = "digraph {\n  node [shape=box];\n";
  for (const NodeInfo& node : nodes()) {
    text += fmt::format("  n{} [label=\"{}\\n{}\"];\n", node.id.value(), escaped(node.label), to_string(node.kind));
    for (const Dependency& edge : node.dependencies) {
      text += fmt::format("  n{} -> n{}{};\n", edge.node.value(), node.id.value(),
                          edge.kind == EdgeKind::kWeak ? " [style=dashed]" : "");
    }
  }
  return text + "}\n";
}

std::string Graph::to_json() const {
  auto list = nlohmann::json::array();
  for (const NodeInfo& node : nodes()) {
    auto edges = nlohmann::json::array();
    for (const Dependency& edge : node.dependencies) {
      edges.push_back({{"node", edge.node.value()}, {"kind", to_string(edge.kind)}});
    }
    list.push_back({{"id", node.id.value()},
                    {"kind", to_string(node.kind)},
                    {"label", node.label},
                    {"dependencies", std::move(edges)}});
  }
  return nlohmann::json{{"nodes", std::move(list)}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Graph Graph::clone() const {
  GraphState& graph = state_of(*this);
  auto copy = std::make_shared<GraphState>();
  const std::lock_guard lock(graph.mutex);
  copy->device = graph.device;
  copy->backend = graph.backend->clone();
  copy->external_records = graph.external_records;
  return Graph(std::move(copy));
}

GraphExec Graph::instantiate(InstantiateOptions options) const {
  GraphState& graph = state_of(*this);
  auto exec = std::make_shared<GraphExecState>();
  exec->device = graph.device;
  if (graph.device->checker != nullptr) exec->accesses = accesses_of(graph);
  const std::lock_guard lock(graph.mutex);
  graph.device->faults.pass(DriverCall::kInstantiate);
  exec->backend = graph.device->backend->instantiate(*graph.backend, options);
  exec->backend->launched.graph = graphs_made.fetch_add(1, std::memory_order_relaxed) + 1;
  exec->external_records = graph.external_records;
  return GraphExec(std::move(exec));
}

UpdateResult GraphExec::update(const Graph& graph) const {
  GraphExecState& exec = state_of(*this);
  GraphState& source = state_of(graph);
  TESSERA_CHECK(source.device == exec.device, "update: the graph must be of device ", exec.device->name, ", got ",
                source.device->name);
  std::vector<Access> accesses;
  if (exec.device->checker != nullptr) accesses = accesses_of(source);
  const std::scoped_lock lock(exec.mutex, source.mutex);
  exec.device->faults.pass(DriverCall::kUpdate);
  UpdateResult result = exec.backend->update(*source.backend);
  if (result.updated) {
    exec.external_records = source.external_records;
    exec.accesses = std::move(accesses);
  }
  return result;
}

void GraphExec::launch(const Stream& stream) const {
  GraphExecState& exec = state_of(*this);
  TESSERA_CHECK(static_cast<bool>(stream), "launch: Stream must not be empty");
  StreamState& on = *stream.state();
  TESSERA_CHECK(on.device == exec.device.get(), "launch: the stream must be on ", exec.device->name, ", got ", on.name,
                " on ", on.device->name);
  if (detail::is_launch_noted()) (void)probe::recorder();  // created here if necessary, not under the lock
  {
    const std::scoped_lock lock(on.mutex, exec.mutex);
    on.device->faults.pass(DriverCall::kGraphLaunch);
    const bool eager = !on.is_capturing();
    const std::uint64_t before_launch = on.slot->tick().value();
    if (eager && on.device->checker != nullptr) on.device->checker->launch(on, "graph", exec.accesses);
    // Events recorded by nodes are reached after all earlier work of this stream, and possibly no later.
    const Tick before = eager && !exec.external_records.empty() ? on.take_tick() : Tick{};
    const bool is_noted = eager && detail::is_launch_noted();
    if (eager) ++exec.backend->launched.replay;
    if (is_noted) on.log.note(on, "graph", exec.backend->launched);
    const bool is_timed = is_noted && ProfileWindow::is_open();
    if (is_timed) on.log.note_begin(on);
    on.backend->launch_graph(exec.backend);
    if (eager) on.before_last_full = before_launch;
    if (is_timed) on.log.note_end(on);
    for (const auto& event : exec.external_records) {
      if (!eager) {
        const std::lock_guard device_lock(on.device->mutex);
        if (on.capture != nullptr) on.capture->external_records.push_back(event);
        continue;
      }
      const std::lock_guard event_lock(event->mutex);
      event->is_recorded = true;
      event->capture = {};
      event->stream = on.id();
      event->tick = before;
      event->clock = on.clock;
    }
  }
  on.backend->drain();
}

}  // namespace tessera::device

#include "tessera/device/host/detail/host_graph.h"

namespace tessera::device::host::detail {
namespace {

std::string shown(const GraphNodes& nodes, std::size_t place) {
  return tessera::detail::concat("node ", place + 1, " ('", nodes[place].label, "', ", nodes[place].kind, ")");
}

const GraphNodes* child_of(const GraphNode& node) {
  return node.extras != nullptr ? node.extras->child.get() : nullptr;
}

// Returns why work of `after` cannot replace work of `before`; empty if it can.
std::string difference(const GraphNodes& before, const GraphNodes& after) {
  using tessera::detail::concat;
  for (std::size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    const GraphNode& old = before[i];
    const GraphNode& now = after[i];
    if (old.kind != now.kind) return concat(shown(before, i), " became ", shown(after, i));
    if (old.edges != now.edges) return concat(shown(after, i), " depends on other nodes than before");
    if (child_of(old) != nullptr && child_of(now) != nullptr) {
      const std::string inside = difference(*child_of(old), *child_of(now));
      if (!inside.empty()) return concat("in ", shown(after, i), ": ", inside);
    }
  }
  if (before.size() < after.size()) return concat(shown(after, before.size()), " was not there before");
  if (before.size() > after.size()) return concat(shown(before, after.size()), " is missing");
  return {};
}

}  // namespace

std::vector<NodeInfo> HostGraph::nodes() {
  std::vector<NodeInfo> infos;
  infos.reserve(nodes_->size());
  for (std::size_t i = 0; i < nodes_->size(); ++i) infos.push_back(nodes_->info(i));
  return infos;
}

std::unique_ptr<GraphBackend> HostGraph::clone() {
  // Nodes never change, so a graph of its own may share them.
  return std::make_unique<HostGraph>(nodes_);
}

HostGraphExec::HostGraphExec(std::shared_ptr<HostShared> shared, std::shared_ptr<ReplayPool> pool,
                             std::shared_ptr<const GraphNodes> nodes, InstantiateOptions options)
    : shared_(std::move(shared)),
      pool_(std::move(pool)),
      options_(options),
      nodes_(std::move(nodes)),
      plan_(std::make_shared<GraphPlan>(shared_, pool_, nodes_, options_.parallel)) {}

UpdateResult HostGraphExec::update(GraphBackend& graph) {
  auto* other = dynamic_cast<HostGraph*>(&graph);
  TESSERA_CHECK(other != nullptr, "update: the graph belongs to another kind of device");
  const std::lock_guard lock(mutex_);
  std::string reason = difference(*nodes_, *other->work());
  if (!reason.empty()) return {false, std::move(reason)};
  auto plan = std::make_shared<GraphPlan>(shared_, pool_, other->work(), options_.parallel);
  nodes_ = other->work();
  plan_ = std::move(plan);
  return {true};
}

void HostGraphExec::launch(StreamCore& core) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t sequence = core.enqueue(GraphOp{plan_, last_, plan_->prepare(), launched});
  last_ = {core.timeline(), sequence};
}

std::shared_ptr<const GraphNodes> HostGraphExec::work() const {
  const std::lock_guard lock(mutex_);
  return nodes_;
}

}  // namespace tessera::device::host::detail

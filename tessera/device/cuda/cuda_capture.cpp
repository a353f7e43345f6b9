#include "tessera/device/cuda/cuda_capture.h"

#include <algorithm>
#include <utility>

#include "tessera/device/cuda/cuda_graph.h"
#include "tessera/device/cuda/cuda_stream.h"
#include "tessera/device/cuda/host_call.h"

namespace tessera::device::cuda {

void CudaCapture::label(CUgraphNode node, const LaunchInfo& info) {
  NodeLabel label;
  label.label = info.label;
  if (info.accesses) {
    label.has_declared_accesses = true;
    label.accesses.assign(info.accesses->begin(), info.accesses->end());
  }
  const std::lock_guard lock(mutex_);
  notes_.labels.insert_or_assign(node, std::move(label));
}

void CudaCapture::keep(const std::shared_ptr<void>& thing) {
  const std::lock_guard lock(mutex_);
  if (kept_.insert(thing.get()).second) notes_.keeps.push_back(thing);
}

void CudaCapture::spin(const void* stream, SpinTotals spins) {
  const std::lock_guard lock(mutex_);
  SpinTotals& most = spins_[stream];
  most.share = std::max(most.share, spins.share);
  most.streams = std::max(most.streams, spins.streams);
}

void CudaCapture::know(std::span<const CUgraphNode> nodes) {
  const std::lock_guard lock(mutex_);
  for (CUgraphNode node : nodes) {
    if (!notes_.labels.contains(node)) known_.insert(node);
  }
}

bool CudaCapture::knows(CUgraphNode node) const {
  const std::lock_guard lock(mutex_);
  return notes_.labels.contains(node) || known_.contains(node);
}

void CudaCapture::order(std::span<const CUgraphNode> nodes) {
  const std::lock_guard lock(mutex_);
  ordered_.insert(nodes.begin(), nodes.end());
}

bool CudaCapture::is_ordered(CUgraphNode node) const {
  const std::lock_guard lock(mutex_);
  return ordered_.contains(node);
}

CaptureNotes CudaCapture::take() {
  const std::lock_guard lock(mutex_);
  for (const auto& [stream, spins] : spins_) {
    notes_.spins.share += spins.share;
    notes_.spins.streams += spins.streams;
  }
  kept_ = {};
  known_ = {};
  ordered_ = {};
  spins_ = {};
  return std::exchange(notes_, {});
}

std::shared_ptr<CudaCapture> CaptureRegistry::begin(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  auto capture = std::make_shared<CudaCapture>(id);
  captures_.emplace(id, capture);
  count_.store(captures_.size(), std::memory_order_relaxed);
  return capture;
}

void CaptureRegistry::end(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto at = captures_.find(id);
  if (at == captures_.end()) return;
  at->second->set_over();
  captures_.erase(at);
  count_.store(captures_.size(), std::memory_order_relaxed);
}

std::shared_ptr<CudaCapture> CaptureRegistry::find(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto at = captures_.find(id);
  return at != captures_.end() ? at->second : nullptr;
}

CaptureView view_capture(CudaContext& context, CUstream stream) {
  CaptureView view;
  cuuint64_t id = 0;
  const CUgraphNode* nodes = nullptr;
  std::size_t count = 0;
  // Always with edge data: without it, the driver fails if one edge is not a plain one.
  TESSERA_CUDA(context, cuStreamGetCaptureInfo, stream, &view.status, &id, &view.graph, &nodes, &view.edges, &count);
  if (view.status == CU_STREAM_CAPTURE_STATUS_NONE) return {};
  view.id = id;
  if (view.is_active() && nodes != nullptr) view.nodes = {nodes, count};
  return view;
}

EdgeKind edge_kind(const CUgraphEdgeData& edge) {
  // A port other than 0 is reached before the node has completed, whatever the type is.
  const bool is_weak = edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC || edge.from_port != 0;
  return is_weak ? EdgeKind::kWeak : EdgeKind::kFull;
}

Dependencies dependencies_of(CudaContext& context, CUgraphNode node) {
  // One call for the usual few. If all entries are filled, there may be more.
  constexpr std::size_t kFew = 8;
  CUgraphNode few_nodes[kFew];
  CUgraphEdgeData few_edges[kFew];
  std::size_t count = kFew;
  TESSERA_CUDA(context, cuGraphNodeGetDependencies, node, few_nodes, few_edges, &count);
  Dependencies dependencies;
  if (count < kFew) [[likely]] {
    for (std::size_t i = 0; i < count; ++i) dependencies.push_back({node_id(few_nodes[i]), edge_kind(few_edges[i])});
    return dependencies;
  }
  TESSERA_CUDA(context, cuGraphNodeGetDependencies, node, nullptr, nullptr, &count);
  std::vector<CUgraphNode> nodes(count);
  std::vector<CUgraphEdgeData> edges(count);
  TESSERA_CUDA(context, cuGraphNodeGetDependencies, node, nodes.data(), edges.data(), &count);
  for (std::size_t i = 0; i < count; ++i) dependencies.push_back({node_id(nodes[i]), edge_kind(edges[i])});
  return dependencies;
}

CudaCapture* CudaStream::own_capture(CaptureView& view) {
  view = view_capture(context_, stream_);
  if (view.id == 0) return nullptr;
  if (seen_ == nullptr || seen_->id() != view.id) {
    seen_ = context_.captures().any() ? context_.captures().find(view.id) : nullptr;
  }
  return seen_.get();
}

void CudaStream::note_captured_slow(const LaunchInfo& info, const std::shared_ptr<void>& keep) {
  CaptureView view;
  CudaCapture* const capture = own_capture(view);
  if (capture == nullptr) return;
  if (keep != nullptr) capture->keep(keep);
  // After an operation its node alone is what the stream's next one depends on.
  const bool says_something = !info.label.empty() || info.accesses.has_value();
  if (says_something && view.nodes.size() == 1) capture->label(view.nodes[0], info);
}

void CudaStream::begin_capture() {
  context_.make_current();
  // Relaxed: other threads, and our own memory calls, must not break a capture.
  TESSERA_CUDA(context_, cuStreamBeginCapture, stream_, CU_STREAM_CAPTURE_MODE_RELAXED);
  begun_ = context_.captures().begin(view_capture(context_, stream_).id);
}

std::unique_ptr<GraphBackend> CudaStream::end_capture() {
  context_.make_current();
  CUgraph graph = nullptr;
  const CUresult result = driver().cuStreamEndCapture(stream_, &graph);
  CaptureNotes notes;
  if (begun_ != nullptr) {
    // The capture is over, whatever the driver returned.
    context_.captures().end(begun_->id());
    notes = begun_->take();
    begun_.reset();
  }
  if (result != CUDA_SUCCESS || graph == nullptr) {
    context_.fail(result != CUDA_SUCCESS ? result : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamEndCapture",
                  {__FILE__, __LINE__});
  }
  return std::make_unique<CudaGraph>(context_, graph, std::move(notes));
}

void CudaStream::abort_capture() {
  context_.make_current();
  CUgraph graph = nullptr;
  TESSERA_CUDA_NOTHROW(context_, cuStreamEndCapture, stream_, &graph);
  if (graph != nullptr) TESSERA_CUDA_NOTHROW(context_, cuGraphDestroy, graph);
  if (begun_ == nullptr) return;
  context_.captures().end(begun_->id());
  begun_->take();
  begun_.reset();
}

// Queries about a stream with its own handle, or about a node, need no current context.
void CudaStream::make_current_for_query() {
  if (reinterpret_cast<std::uintptr_t>(stream_) <= reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD))
    context_.make_current();
}

CaptureInfo CudaStream::capture_info() {
  make_current_for_query();
  const CaptureView view = view_capture(context_, stream_);
  CaptureInfo info{CaptureId(view.id), {}};
  for (std::size_t i = 0; i < view.nodes.size(); ++i) {
    info.dependencies.push_back(
        {node_id(view.nodes[i]), view.edges != nullptr ? edge_kind(view.edges[i]) : EdgeKind::kFull});
  }
  return info;
}

void CudaStream::check_nodes(CudaCapture& capture, const CaptureView& view, std::span<const CUgraphNode> nodes,
                             const char* call) {
  // A node is an address to the driver, so unknown nodes are not queried. Nearly all are known by their labels or are
  // current dependencies of this stream; listing all nodes is for the rest.
  bool has_listed = false;
  for (CUgraphNode node : nodes) {
    if (capture.knows(node) || std::find(view.nodes.begin(), view.nodes.end(), node) != view.nodes.end()) continue;
    if (!std::exchange(has_listed, true)) capture.know(nodes_of(context_, view.graph));
    TESSERA_CHECK(capture.knows(node), call, ": node ", node_id(node), " is not part of the capture of ", name_);
  }
}

// Returns the incoming edges of a node, all full if a library created it.
Dependencies CudaStream::ordered_dependencies(const CudaCapture& capture, CUgraphNode node) {
  Dependencies dependencies = dependencies_of(context_, node);
  const auto is_weak = [](const Dependency& edge) { return edge.kind == EdgeKind::kWeak; };
  if (std::none_of(dependencies.begin(), dependencies.end(), is_weak) || !capture.is_ordered(node)) return dependencies;
  Dependencies ordered;
  for (const Dependency& edge : dependencies) ordered.push_back({edge.node, EdgeKind::kFull});
  return ordered;
}

void CudaStream::order_native(CudaCapture& capture, std::span<const CUgraphNode> before,
                              std::span<const CUgraphNode> after) {
  std::vector<CUgraphNode> created;
  std::vector<CUgraphNode> next(after.begin(), after.end());
  while (!next.empty()) {
    CUgraphNode node = next.back();
    next.pop_back();
    const auto is_in = [&](std::span<const CUgraphNode> nodes) {
      return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
    };
    if (is_in(before) || is_in(created) || capture.knows(node)) continue;
    created.push_back(node);
    for (const Dependency& edge : dependencies_of(context_, node)) next.push_back(node_of(edge.node));
  }
  capture.order(created);
  capture.know(created);
}

Dependencies CudaStream::capture_predecessors(NodeId id) {
  if (seen_ != nullptr && seen_->is_active() && seen_->knows(node_of(id))) [[likely]]
    return ordered_dependencies(*seen_, node_of(id));
  make_current_for_query();
  CaptureView view;
  CudaCapture* const capture = own_capture(view);
  TESSERA_CHECK(view.id != 0, "capture_predecessors: ", name_, " is not capturing");
  CUgraphNode node = node_of(id);
  if (capture == nullptr) return dependencies_of(context_, node);
  check_nodes(*capture, view, {&node, 1}, "capture_predecessors");
  Dependencies dependencies = ordered_dependencies(*capture, node);
  SmallVector<CUgraphNode, 4> nodes;  // queried in the next iteration
  for (const Dependency& dependency : dependencies) nodes.push_back(node_of(dependency.node));
  capture->know(nodes);
  return dependencies;
}

void CudaStream::set_capture_dependencies(std::span<const NodeId> ids) {
  context_.make_current();
  CaptureView view;
  CudaCapture* const capture = own_capture(view);
  TESSERA_CHECK(view.is_active(), "set_capture_dependencies: ", name_, " is not capturing");
  SmallVector<CUgraphNode, 4> nodes;
  for (const NodeId id : ids) nodes.push_back(node_of(id));
  if (capture != nullptr) check_nodes(*capture, view, nodes, "set_capture_dependencies");
  // The driver takes the nodes as an array it may write to, and writes nothing.
  TESSERA_CUDA(context_, cuStreamUpdateCaptureDependencies, stream_, const_cast<CUgraphNode*>(nodes.data()), nullptr,
               nodes.size(), CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

void CudaStream::capture_host_function(HostFunction body, const CaptureView& view) {
  auto call = std::make_unique<GraphCall>(std::make_shared<HostFunction>(std::move(body)), nullptr, errors_);
  GraphCall* raw = call.get();
  give_to_graph(context_, view.graph, std::move(call));
  TESSERA_CUDA(context_, cuLaunchHostFunc, stream_, &GraphCall::run, raw);
}

void CudaStream::capture_graph(const std::shared_ptr<GraphExecBackend>& exec, const CaptureView& view,
                               CudaCapture& capture) {
  auto& ours = static_cast<CudaGraphExec&>(*exec);
  const CudaGraph& source = ours.source();
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_GRAPH;
  params.graph.graph = source.graph();
  CUgraphNode node = nullptr;
  // No edge data: plain full edges, even if the stream's own would be weak; only kernels can start early.
  TESSERA_CUDA(context_, cuGraphAddNode, &node, view.graph, view.nodes.data(), nullptr, view.nodes.size(), &params);
  CUgraph inner = nullptr;
  TESSERA_CUDA(context_, cuGraphChildGraphNodeGetGraph, node, &inner);
  rebind_host_calls(context_, inner, view.graph, nullptr);
  TESSERA_CUDA(context_, cuStreamUpdateCaptureDependencies, stream_, &node, nullptr, 1,
               CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  for (const auto& keep : source.keeps()) capture.keep(keep);
  if (source.spins().streams > 0) capture.spin(this, source.spins());
}

}  // namespace tessera::device::cuda

#include "tessera/device/cuda/cuda_capture.h"

#include <algorithm>

#include "tessera/base/mutant.h"
#include "tessera/device/cuda/cuda_graph.h"
#include "tessera/device/cuda/cuda_stream.h"
#include "tessera/device/cuda/host_call.h"

namespace tessera::device::cuda {

void Capture::label(CUgraphNode node, const LaunchInfo& info) {
  NodeLabel label;
  label.label = info.label;
  if (info.accesses) {
    label.has_declared_accesses = true;
    label.accesses.assign(info.accesses->begin(), info.accesses->end());
  }
  const std::lock_guard lock(mutex_);
  notes_.labels.insert_or_assign(node, std::move(label));
}

void Capture::keep(const std::shared_ptr<void>& thing) {
  const std::lock_guard lock(mutex_);
  if (kept_.insert(thing.get()).second) notes_.keeps.push_back(thing);
}

void Capture::spin(const void* stream, SpinTotals spins) {
  const std::lock_guard lock(mutex_);
  SpinTotals& most = spins_[stream];
  most.share = std::max(most.share, spins.share);
  most.streams = std::max(most.streams, spins.streams);
}

void Capture::know(std::span<const CUgraphNode> nodes) {
  const std::lock_guard lock(mutex_);
  known_.insert(nodes.begin(), nodes.end());
}

bool Capture::knows(CUgraphNode node) const {
  const std::lock_guard lock(mutex_);
  return known_.contains(node);
}

CaptureNotes Capture::take() {
  const std::lock_guard lock(mutex_);
  for (const auto& [stream, spins] : spins_) {
    notes_.spins.share += spins.share;
    notes_.spins.streams += spins.streams;
  }
  return std::move(notes_);
}

std::shared_ptr<Capture> CaptureRegistry::begin(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  auto capture = std::make_shared<Capture>(id);
  captures_.emplace(id, capture);
  count_.store(captures_.size(), std::memory_order_relaxed);
  return capture;
}

void CaptureRegistry::end(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  captures_.erase(id);
  count_.store(captures_.size(), std::memory_order_relaxed);
}

std::shared_ptr<Capture> CaptureRegistry::find(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto at = captures_.find(id);
  return at != captures_.end() ? at->second : nullptr;
}

CaptureView view_capture(CudaContext& context, CUstream stream) {
  CaptureView view;
  cuuint64_t id = 0;
  const CUgraphNode* nodes = nullptr;
  std::size_t count = 0;
  // Always with edge data: without, the driver fails as soon as one edge is not a plain one.
  TESSERA_CUDA(context, cuStreamGetCaptureInfo, stream, &view.status, &id, &view.graph, &nodes, &view.edges, &count);
  if (view.status == CU_STREAM_CAPTURE_STATUS_NONE) return {};
  view.id = id;
  if (view.is_active() && nodes != nullptr) view.nodes = {nodes, count};
  return view;
}

EdgeKind edge_kind(const CUgraphEdgeData& edge) {
  // A port other than 0 is reached before the node has completed, whatever the type says.
  const bool is_weak = edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC || edge.from_port != 0;
  return is_weak && !TESSERA_MUTANT("cuda.edge_kind_lost") ? EdgeKind::kWeak : EdgeKind::kFull;
}

std::vector<Dependency> dependencies_of(CudaContext& context, CUgraphNode node) {
  std::size_t count = 0;
  TESSERA_CUDA(context, cuGraphNodeGetDependencies, node, nullptr, nullptr, &count);
  std::vector<CUgraphNode> nodes(count);
  std::vector<CUgraphEdgeData> edges(count);
  if (count > 0) {
    TESSERA_CUDA(context, cuGraphNodeGetDependencies, node, nodes.data(), edges.data(), &count);
  }
  std::vector<Dependency> dependencies;
  dependencies.reserve(count);
  for (std::size_t i = 0; i < count; ++i) dependencies.push_back({node_id(nodes[i]), edge_kind(edges[i])});
  return dependencies;
}

std::shared_ptr<Capture> CudaStream::own_capture(CaptureView& view) {
  view = view_capture(context_, stream_);
  if (view.id == 0 || !context_.captures().any()) return nullptr;
  return context_.captures().find(view.id);
}

void CudaStream::note_captured_slow(const LaunchInfo& info, const std::shared_ptr<void>& keep) {
  CaptureView view;
  const auto capture = own_capture(view);
  if (capture == nullptr) return;
  if (keep != nullptr) capture->keep(keep);
  // After an operation its node alone is what the stream's next one depends on.
  const bool says_something = !info.label.empty() || info.accesses.has_value();
  if (says_something && view.nodes.size() == 1 && !TESSERA_MUTANT("cuda.label_lost")) {
    capture->label(view.nodes[0], info);
  }
}

void CudaStream::begin_capture() {
  context_.make_current();
  // Relaxed: what other threads do, and our own memory calls, must not break a capture.
  TESSERA_CUDA(context_, cuStreamBeginCapture, stream_, CU_STREAM_CAPTURE_MODE_RELAXED);
  begun_ = context_.captures().begin(view_capture(context_, stream_).id);
}

std::unique_ptr<GraphBackend> CudaStream::end_capture() {
  context_.make_current();
  CUgraph graph = nullptr;
  const CUresult result = driver().cuStreamEndCapture(stream_, &graph);
  CaptureNotes notes;
  if (begun_ != nullptr) {
    // Whatever the driver says, the capture is over.
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
  if (TESSERA_MUTANT("cuda.abort_ignored")) return;
  CUgraph graph = nullptr;
  TESSERA_CUDA_NOTHROW(context_, cuStreamEndCapture, stream_, &graph);
  if (graph != nullptr) TESSERA_CUDA_NOTHROW(context_, cuGraphDestroy, graph);
  if (begun_ == nullptr) return;
  context_.captures().end(begun_->id());
  begun_.reset();
}

CaptureInfo CudaStream::capture_info() {
  context_.make_current();
  CaptureView view;
  const auto capture = own_capture(view);
  CaptureInfo info{CaptureId(view.id), {}};
  if (capture != nullptr) capture->know(view.nodes);
  if (TESSERA_MUTANT("cuda.capture_dependencies_empty")) return info;
  info.dependencies.reserve(view.nodes.size());
  for (std::size_t i = 0; i < view.nodes.size(); ++i) {
    info.dependencies.push_back(
        {node_id(view.nodes[i]), view.edges != nullptr ? edge_kind(view.edges[i]) : EdgeKind::kFull});
  }
  return info;
}

std::vector<Dependency> CudaStream::capture_predecessors(NodeId node) {
  context_.make_current();
  CaptureView view;
  const auto capture = own_capture(view);
  TESSERA_CHECK(view.id != 0, "capture_predecessors: ", name_, " is not capturing");
  // A node is an address to the driver, so one that it never named is not asked about.
  if (capture != nullptr && !capture->knows(node_of(node))) capture->know(nodes_of(context_, view.graph));
  TESSERA_CHECK(capture == nullptr || capture->knows(node_of(node)), "capture_predecessors: node ", node,
                " is not part of the capture of ", name_);
  if (TESSERA_MUTANT("cuda.predecessors_empty")) return {};
  auto dependencies = dependencies_of(context_, node_of(node));
  if (capture != nullptr) {
    std::vector<CUgraphNode> nodes;
    for (const Dependency& dependency : dependencies) nodes.push_back(node_of(dependency.node));
    capture->know(nodes);
  }
  return dependencies;
}

void CudaStream::set_capture_dependencies(std::span<const NodeId> ids) {
  context_.make_current();
  CaptureView view;
  const auto capture = own_capture(view);
  TESSERA_CHECK(view.is_active(), "set_capture_dependencies: ", name_, " is not capturing");
  std::vector<CUgraphNode> nodes;
  for (const NodeId id : ids) nodes.push_back(node_of(id));
  const auto is_known = [&](CUgraphNode node) { return capture->knows(node); };
  if (capture != nullptr && !std::all_of(nodes.begin(), nodes.end(), is_known)) {
    capture->know(nodes_of(context_, view.graph));
    for (CUgraphNode node : nodes) {
      TESSERA_CHECK(is_known(node), "set_capture_dependencies: node ", node_id(node), " is not part of the capture of ",
                    name_);
    }
  }
  if (TESSERA_MUTANT("cuda.set_dependencies_ignored")) return;
  TESSERA_CUDA(context_, cuStreamUpdateCaptureDependencies, stream_, nodes.data(), nullptr, nodes.size(),
               CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

void CudaStream::capture_host_function(HostFunction body, const CaptureView& view) {
  auto call = std::make_unique<GraphCall>(std::make_shared<HostFunction>(std::move(body)), nullptr, errors_);
  GraphCall* raw = call.get();
  give_to_graph(context_, view.graph, std::move(call));
  TESSERA_CUDA(context_, cuLaunchHostFunc, stream_, &GraphCall::run, raw);
}

void CudaStream::capture_graph(const std::shared_ptr<GraphExecBackend>& exec, const CaptureView& view,
                               Capture& capture) {
  if (TESSERA_MUTANT("cuda.child_graph_dropped")) return;
  auto& ours = static_cast<CudaGraphExec&>(*exec);
  const CudaGraph& source = ours.source();
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_GRAPH;
  params.graph.graph = source.graph();
  CUgraphNode node = nullptr;
  // No edge data: plain full edges, also where the stream's own would be weak; only kernels can start early.
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

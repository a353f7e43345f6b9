#include "tessera/device/cuda/cuda_graph.h"

#include <algorithm>
#include <unordered_map>

#include "tessera/device/cuda/cuda_context.h"

namespace tessera::device::cuda {
namespace {

NodeKind kind_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return NodeKind::kKernel;
    case CU_GRAPH_NODE_TYPE_MEMCPY: return NodeKind::kCopy;
    case CU_GRAPH_NODE_TYPE_MEMSET: return NodeKind::kFill;
    case CU_GRAPH_NODE_TYPE_HOST: return NodeKind::kHost;
    case CU_GRAPH_NODE_TYPE_GRAPH: return NodeKind::kGraph;
    case CU_GRAPH_NODE_TYPE_EMPTY: return NodeKind::kEmpty;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return NodeKind::kEventWait;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return NodeKind::kEventRecord;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return NodeKind::kMemoryValue;
    default: return NodeKind::kOther;
  }
}

// Keeps the objects that a graph's nodes use alive while the driver may run them.
struct KeptThings : Retired {
  explicit KeptThings(std::vector<std::shared_ptr<void>> kept) : things(std::move(kept)) {}
  std::vector<std::shared_ptr<void>> things;
};

// Sorts nodes topologically; keeps the driver's order otherwise.
std::vector<NodeInfo> sorted(std::vector<NodeInfo> nodes) {
  std::unordered_map<NodeId, std::size_t> places;
  for (std::size_t i = 0; i < nodes.size(); ++i) places.emplace(nodes[i].id, i);
  std::vector<std::size_t> waiting(nodes.size());
  std::vector<std::vector<std::size_t>> behind(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const Dependency& dependency : nodes[i].dependencies) {
      const auto at = places.find(dependency.node);
      if (at == places.end()) continue;
      behind[at->second].push_back(i);
      ++waiting[i];
    }
  }
  std::vector<std::size_t> order;
  order.reserve(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (waiting[i] == 0) order.push_back(i);
  }
  for (std::size_t next = 0; next < order.size(); ++next) {
    for (const std::size_t i : behind[order[next]]) {
      if (--waiting[i] == 0) order.push_back(i);
    }
  }
  std::vector<NodeInfo> out;
  out.reserve(order.size());
  for (const std::size_t i : order) out.push_back(std::move(nodes[i]));
  return out;
}

const char* update_reason(CUgraphExecUpdateResult result) {
  switch (result) {
    case CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED: return "the topology of the graph changed";
    case CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED: return "the kind of a node changed";
    case CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED:
    case CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE:
      return "the kernel of a node cannot be replaced by the new one";
    case CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED:
      return "the parameters of a node changed in a way that cannot be updated";
    case CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED: return "a node cannot be updated";
    case CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED:
      return "the attributes of a node changed in a way that cannot be updated";
    default: return "the driver rejected the update";
  }
}

}  // namespace

std::vector<CUgraphNode> nodes_of(CudaContext& context, CUgraph graph) {
  std::size_t count = 0;
  TESSERA_CUDA(context, cuGraphGetNodes, graph, nullptr, &count);
  std::vector<CUgraphNode> nodes(count);
  if (count > 0) TESSERA_CUDA(context, cuGraphGetNodes, graph, nodes.data(), &count);
  return nodes;
}

CudaGraph::~CudaGraph() { TESSERA_CUDA_NOTHROW(context_, cuGraphDestroy, graph_); }

std::string CudaGraph::kernel_name(CUgraphNode node) {
  CUDA_KERNEL_NODE_PARAMS params{};
  TESSERA_CUDA(context_, cuGraphKernelNodeGetParams, node, &params);
  const char* name = nullptr;
  if (params.func != nullptr) {
    TESSERA_CUDA(context_, cuFuncGetName, &name, params.func);
  } else if (params.kern != nullptr && driver().cuKernelGetName != nullptr) {
    TESSERA_CUDA(context_, cuKernelGetName, &name, params.kern);
  }
  return name != nullptr ? name : "kernel";
}

NodeInfo CudaGraph::info_of(CUgraphNode node) {
  CUgraphNodeType type{};
  TESSERA_CUDA(context_, cuGraphNodeGetType, node, &type);
  TESSERA_CHECK_AS(NotSupported, type != CU_GRAPH_NODE_TYPE_CONDITIONAL,
                   "the graph has a conditional node, whose body cannot be checked; capture both branches, or choose "
                   "between two graphs on the host");
  NodeInfo info;
  info.id = node_id(node);
  info.kind = kind_of(type);
  if (const auto at = notes_.labels.find(node); at != notes_.labels.end()) {
    info.label = at->second.label;
    info.accesses = at->second.accesses;
    info.has_declared_accesses = at->second.has_declared_accesses;
  }
  if (info.label.empty()) {
    info.label = info.kind == NodeKind::kKernel ? kernel_name(node) : std::string(to_string(info.kind));
  }
  return info;
}

std::vector<NodeInfo> CudaGraph::nodes() {
  context_.make_current();
  std::vector<NodeInfo> infos;
  for (CUgraphNode node : nodes_of(context_, graph_)) {
    infos.push_back(info_of(node));
    infos.back().dependencies = dependencies_of(context_, node);
  }
  return sorted(std::move(infos));
}

std::string CudaGraph::describe(CUgraphNode node) {
  const NodeInfo info = info_of(node);
  return tessera::detail::concat(to_string(info.kind), " node \"", info.label, "\"");
}

std::unique_ptr<CudaGraph> CudaGraph::copy_for(const std::shared_ptr<GraphRuns>& runs, std::size_t& calls) {
  context_.make_current();
  CUgraph copy = nullptr;
  TESSERA_CUDA(context_, cuGraphClone, &copy, graph_);
  auto out = std::make_unique<CudaGraph>(context_, copy, CaptureNotes{{}, notes_.keeps, notes_.spins});
  for (const auto& [node, label] : notes_.labels) {
    CUgraphNode copied = nullptr;
    TESSERA_CUDA(context_, cuGraphNodeFindInClone, &copied, node, copy);
    out->notes_.labels.emplace(copied, label);
  }
  calls = rebind_host_calls(context_, copy, copy, runs);
  return out;
}

std::unique_ptr<GraphBackend> CudaGraph::clone() {
  std::size_t calls = 0;
  return copy_for(nullptr, calls);
}

CudaGraphExec::CudaGraphExec(CudaContext& context, CudaGraph& graph) : context_(context) {
  source_ = graph.copy_for(runs_, calls_);
  for (CUgraphNode node : nodes_of(context_, source_->graph())) {
    CUgraphNodeType type{};
    TESSERA_CUDA(context_, cuGraphNodeGetType, node, &type);
    TESSERA_CHECK_AS(NotSupported, type != CU_GRAPH_NODE_TYPE_CONDITIONAL,
                     "instantiate: the graph has a conditional node, whose body cannot be checked; choose between two "
                     "graphs on the host instead");
  }
  if (!source_->keeps().empty()) {
    give_to_graph(context_, source_->graph(), std::make_unique<KeptThings>(source_->keeps()));
  }
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  const CUresult result = driver().cuGraphInstantiateWithParams(&exec_, source_->graph(), &params);
  if (result == CUDA_SUCCESS) return;
  context_.note(result, "cuGraphInstantiateWithParams", {__FILE__, __LINE__});
  if (params.hErrNode_out == nullptr) context_.fail(result, "cuGraphInstantiateWithParams", {__FILE__, __LINE__});
  TESSERA_THROW(DeviceError, "instantiate: the driver rejects the ", source_->describe(params.hErrNode_out), " (error ",
                static_cast<int>(result), ")");
}

CudaGraphExec::~CudaGraphExec() {
  // Running launches keep what they need; the driver frees the rest afterwards.
  if (exec_ != nullptr) TESSERA_CUDA_NOTHROW(context_, cuGraphExecDestroy, exec_);
}

UpdateResult CudaGraphExec::refuse(CudaGraph& graph, const CUgraphExecUpdateResultInfo& info) {
  // Restores what a failed update may have changed.
  CUgraphExecUpdateResultInfo ignored{};
  driver().cuGraphExecUpdate(exec_, source_->graph(), &ignored);
  std::string reason = update_reason(info.result);
  try {
    if (info.errorNode != nullptr) reason += ": " + graph.describe(info.errorNode);
    if (info.errorFromNode != nullptr) reason += ", which depends on the " + graph.describe(info.errorFromNode);
  } catch (const Error&) {
    reason += ": a node that the driver does not describe";
  }
  return {false, std::move(reason)};
}

UpdateResult CudaGraphExec::update(GraphBackend& graph) {
  context_.make_current();
  std::size_t calls = 0;
  auto source = static_cast<CudaGraph&>(graph).copy_for(runs_, calls);
  if (!source->keeps().empty()) {
    give_to_graph(context_, source->graph(), std::make_unique<KeptThings>(source->keeps()));
  }
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = driver().cuGraphExecUpdate(exec_, source->graph(), &info);
  if (result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) return refuse(*source, info);
  if (result != CUDA_SUCCESS) context_.fail(result, "cuGraphExecUpdate", {__FILE__, __LINE__});
  source_ = std::move(source);
  calls_ = calls;
  return {true, {}};
}

void CudaGraphExec::launch(CUstream stream, const std::shared_ptr<StreamErrors>& errors) {
  if (calls_ == 0) [[likely]] {
    TESSERA_CUDA(context_, cuGraphLaunch, exec_, stream);
    return;
  }
  runs_->begin(errors, calls_);
  const CUresult result = driver().cuGraphLaunch(exec_, stream);
  if (result == CUDA_SUCCESS) return;
  runs_->cancel_last();
  context_.fail(result, "cuGraphLaunch", {__FILE__, __LINE__});
}

}  // namespace tessera::device::cuda

// Names of operations and element types in the PyTorch flight recorder and in Tessera.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::analysis::detail {

/// Returns "Float" for "f32"; a name without a PyTorch equivalent unchanged.
std::string torch_dtype(std::string_view dtype);
/// Returns "f32" for "Float"; an unknown name unchanged.
std::string dtype_of_torch(std::string_view name);

/// Returns a name that the analyzer of PyTorch accepts, without the backend: it stops at unknown names.
std::string torch_operation(std::string_view kind);
/// Returns "all_gather" for "_all_gather_base"; an unknown name unchanged.
std::string operation_of_torch(std::string_view name);

/// Parsed "nccl:send 0->1".
struct ProfilingName {
  std::string backend = {};    ///< "nccl"
  std::string operation = {};  ///< "send"
  int peer = -1;               ///< Group rank of the peer; -1 if it is not a point-to-point operation or unknown.
};
/// Parses a name as group rank `rank` wrote it.
ProfilingName parse_profiling_name(std::string_view name);
/// Returns "nccl:send 0->1", "nccl:recv 1<-0" or "nccl:all_reduce".
std::string profiling_name(std::string_view kind, int rank, int peer);

/// Returns "[0, 1]".
std::string torch_ranks(const std::vector<int>& ranks);
/// Parses such a text; empty if it is invalid or has no ranks.
std::vector<int> ranks_of_torch(std::string_view text);

}  // namespace tessera::analysis::detail

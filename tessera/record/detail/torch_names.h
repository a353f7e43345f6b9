// Names of operations and element types, in PyTorch's flight recorder and here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::record::detail {

/// "Float" for "f32"; a name that PyTorch has none for stays as it is.
std::string torch_dtype(std::string_view dtype);
/// "f32" for "Float"; a name that is not known here stays as it is.
std::string dtype_of_torch(std::string_view name);

/// What PyTorch's analyzer takes an operation for: it stops at names that it does not know. Without the backend.
std::string torch_operation(std::string_view kind);
/// "all_gather" for "_all_gather_base"; a name that is not known here stays as it is.
std::string operation_of_torch(std::string_view name);

/// "nccl:send 0->1" taken apart.
struct ProfilingName {
  std::string backend = {};    ///< "nccl"
  std::string operation = {};  ///< "send"
  int peer = -1;               ///< of a message, in the group; -1: it is none, or its name does not say
};
/// Takes it apart, as rank `rank` of its group wrote it.
ProfilingName parse_profiling_name(std::string_view name);
/// "nccl:send 0->1", "nccl:recv 1<-0", "nccl:all_reduce".
std::string profiling_name(std::string_view kind, int rank, int peer);

/// "[0, 1]".
std::string torch_ranks(const std::vector<int>& ranks);
/// The ranks in such a text; empty: there are none, or it is no such text.
std::vector<int> ranks_of_torch(std::string_view text);

}  // namespace tessera::record::detail

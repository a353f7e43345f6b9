#include "tessera/analysis/detail/torch_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "tessera/analysis/detail/launch_file.h"

namespace tessera::analysis::detail {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;  // Tessera name, PyTorch name

constexpr std::array kDTypes = {Pair{"f64", "Double"},
                                Pair{"f32", "Float"},
                                Pair{"f16", "Half"},
                                Pair{"bf16", "BFloat16"},
                                Pair{"f8e4m3", "Float8_e4m3fn"},
                                Pair{"f8e5m2", "Float8_e5m2"},
                                Pair{"i64", "Long"},
                                Pair{"i32", "Int"},
                                Pair{"i16", "Short"},
                                Pair{"i8", "Char"},
                                Pair{"u64", "UInt64"},
                                Pair{"u32", "UInt32"},
                                Pair{"u16", "UInt16"},
                                Pair{"u8", "Byte"},
                                Pair{"bool", "Bool"},
                                Pair{"c64", "ComplexFloat"},
                                Pair{"c128", "ComplexDouble"}};

// The first pair of a Tessera name is written; later ones are only read.
constexpr std::array kOperations = {Pair{"all_reduce", "all_reduce"},
                                    Pair{"all_gather", "_all_gather_base"},
                                    Pair{"reduce_scatter", "_reduce_scatter_base"},
                                    Pair{"all_to_all", "all_to_all"},
                                    Pair{"broadcast", "broadcast"},
                                    Pair{"reduce", "reduce"},
                                    Pair{"scatter", "scatter"},
                                    Pair{"gather", "gather"},
                                    Pair{"barrier", "all_reduce_barrier"},
                                    Pair{"send", "send"},
                                    Pair{"recv", "recv"},
                                    Pair{"coalesced", "coalesced"},
                                    Pair{"ragged_all_to_all", "all_to_all"},
                                    Pair{"permute", "all_to_all"},
                                    Pair{"rendezvous", "_all_gather_base"},
                                    Pair{"all_reduce", "allreduce_coalesced"},
                                    Pair{"all_gather", "all_gather"},
                                    Pair{"all_gather", "all_gather_into_tensor_coalesced"},
                                    Pair{"all_gather", "ALLGATHER_coalesced"},
                                    Pair{"reduce_scatter", "reduce_scatter"},
                                    Pair{"reduce_scatter", "reduce_scatter_tensor_coalesced"},
                                    Pair{"reduce_scatter", "REDUCE_SCATTER_coalesced"},
                                    Pair{"broadcast", "_broadcast_oop"},
                                    Pair{"reduce", "_reduce_oop"}};

template <class Table>
std::string ours(const Table& table, std::string_view name) {
  for (const auto& [own, torch] : table) {
    if (torch == name) return std::string(own);
  }
  return std::string(name);
}

// Removes a number from the front of the text and returns it; -1 if the text does not start with a number.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number >= kMaxRanks) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::string torch_dtype(std::string_view dtype) {
  for (const auto& [own, torch] : kDTypes) {
    if (own == dtype) return std::string(torch);
  }
  return std::string(dtype);
}
std::string dtype_of_torch(std::string_view name) { return ours(kDTypes, name); }

std::string torch_operation(std::string_view kind) {
  for (const auto& [own, torch] : kOperations) {
    if (own == kind) return std::string(torch);
  }
  return "all_reduce_barrier";  // has no elements: not compared
}
std::string operation_of_torch(std::string_view name) { return ours(kOperations, name); }

ProfilingName parse_profiling_name(std::string_view name) {
  ProfilingName parts;
  const std::size_t colon = name.find(':');
  if (colon != std::string_view::npos) {
    parts.backend = name.substr(0, colon);
    name.remove_prefix(colon + 1);
  }
  const std::size_t space = name.find(' ');
  parts.operation = name.substr(0, space);
  if (space == std::string_view::npos) return parts;
  name.remove_prefix(space + 1);
  const int own = take_number(name);
  const std::string_view arrow = parts.operation == "send" ? "->" : "<-";
  if (own < 0 || !name.starts_with(arrow)) return parts;
  name.remove_prefix(arrow.size());
  const int peer = take_number(name);
  if (name.empty()) parts.peer = peer;
  return parts;
}

std::string profiling_name(std::string_view kind, int rank, int peer) {
  std::string name = "nccl:" + torch_operation(kind);
  if (peer < 0) return name;
  return name + " " + std::to_string(rank) + (kind == "send" ? "->" : "<-") + std::to_string(peer);
}

std::string torch_ranks(const std::vector<int>& ranks) {
  std::string text = "[";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text + "]";
}

std::vector<int> ranks_of_torch(std::string_view text) {
  std::vector<int> ranks;
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return ranks;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const int rank = take_number(text);
    if (rank < 0 || ranks.size() >= static_cast<std::size_t>(kMaxRanks)) return {};
    ranks.push_back(rank);
    if (text.empty()) return ranks;
    if (text.front() != ',') return {};
    text.remove_prefix(1);
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  return ranks;
}

}  // namespace tessera::analysis::detail

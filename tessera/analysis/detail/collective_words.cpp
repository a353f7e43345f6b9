#include "tessera/analysis/detail/collective_words.h"

#include <algorithm>
#include <utility>

#include "tessera/analysis/detail/torch_names.h"
#include "tessera/base/dtype.h"

namespace tessera::analysis::detail {
namespace {

using Words = std::pair<std::string_view, std::string_view>;

constexpr Words kCollectives[] = {
    {"all_reduce", "allreduce"},
    {"all_gather", "_allgather_base"},
    {"reduce_scatter", "_reduce_scatter_base"},
    {"ragged_all_to_all", "all_to_allv"},
};

template <std::size_t N>
std::string translated(const Words (&words)[N], std::string_view word) {
  for (const auto& [ours, theirs] : words) {
    if (ours == word) return std::string(theirs);
  }
  return std::string(word);
}

// "all_reduce" -> "AllReduce".
std::string in_capitals(std::string_view name) {
  std::string text;
  bool begins = true;
  for (const char letter : name) {
    if (letter == '_') {
      begins = true;
      continue;
    }
    text += begins && letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
    begins = false;
  }
  return text;
}

// Returns nothing on overflow: records may be corrupt.
std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::optional<std::int64_t> itemsize_of(std::string_view dtype) {
  for (const DType each : kAllDTypes) {
    if (to_string(each) == dtype) return static_cast<std::int64_t>(itemsize(each));
  }
  return std::nullopt;
}

// Returns the elements of one operation, in its dtype.
std::optional<Elements> elements_of(const Group& group, const RecordedOperation& operation) {
  const std::string& kind = operation.kind;
  if (kind == "ragged_all_to_all" || (operation.parts != 0 && kind != "permute")) return std::nullopt;
  const auto all = product(operation.count, static_cast<std::int64_t>(group.ranks.size()));
  if (!all) return std::nullopt;
  const bool is_root = operation.root == group.rank;
  Elements found{operation.count, operation.count, torch_dtype(operation.dtype)};
  if (kind == "barrier") found.in = found.out = 0;
  if (kind == "reduce_scatter" || kind == "all_to_all") found.in = *all;
  if (kind == "all_gather" || kind == "all_to_all") found.out = *all;
  if (kind == "scatter") found.in = is_root ? *all : 0;
  if (kind == "gather") found.out = is_root ? *all : 0;
  if (found.dtype.empty()) found.dtype = "Byte";
  return found;
}

}  // namespace

std::string profiler_collective(const CollectiveCall& launch) {
  if (launch.operations.size() != 1) return "coalesced";
  const RecordedOperation& operation = launch.operations.front();
  if (operation.kind == "all_to_all" && operation.parts != 0) return "all_to_allv";
  return translated(kCollectives, operation.kind);
}

std::string kernel_name(const Group& group, const CollectiveCall& launch) {
  std::string name = "ncclDevKernel_";
  if (launch.operations.size() != 1) {
    name += "Coalesced";
  } else {
    const RecordedOperation& operation = launch.operations.front();
    name += in_capitals(operation.kind);
    if (!operation.reduction.empty()) name += "_" + in_capitals(operation.reduction);
    if (!operation.dtype.empty() && operation.kind != "barrier") name += "_" + operation.dtype;
  }
  return name + "(tessera " + group.backend + ")";
}

std::optional<Elements> elements_of(const Group& group, const CollectiveCall& launch) {
  const bool is_mixed =
      std::any_of(launch.operations.begin(), launch.operations.end(),
                  [&](const RecordedOperation& each) { return each.dtype != launch.operations.front().dtype; });
  if (!launch.is_whole) return std::nullopt;
  Elements sum;
  for (const RecordedOperation& operation : launch.operations) {
    const auto each = elements_of(group, operation);
    const auto size = is_mixed ? itemsize_of(operation.dtype) : std::optional<std::int64_t>(1);
    if (!each || !size) return std::nullopt;
    const auto in = product(each->in, *size);
    const auto out = product(each->out, *size);
    if (!in || !out || __builtin_add_overflow(sum.in, *in, &sum.in) ||
        __builtin_add_overflow(sum.out, *out, &sum.out)) {
      return std::nullopt;
    }
    sum.dtype = is_mixed ? "Byte" : each->dtype;
  }
  return sum;
}

}  // namespace tessera::analysis::detail

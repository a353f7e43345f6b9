// The sharding table: for each meaning of a dimension, the axes of the mesh that shard it. Data, FSDP, tensor and
// sequence parallelism are rows:
//
//   ShardingTable table({{"batch", "dp+fsdp"}, {"sequence", "tp"}, {"embed", ""},
//                        {"heads", "tp"}, {"mlp", "tp"}, {"vocab", "tp"}, {"parameters", "fsdp"}});
//
// The row "parameters" names the axis over which every parameter is stored in shards and gathered for its use (FSDP).
// These shards divide the first dimension, within the shards of its own row: they are contiguous in memory, so
// gathering them copies nothing. An empty row replicates. A meaning without a row is an error.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/layout/layout.h"
#include "tessera/nn/meaning.h"

namespace tessera::nn {

/// Layouts of a parameter.
struct ParameterLayouts {
  layout::Layout stored;  ///< Layout of the leaf, its gradient and its optimizer state.
  layout::Layout in_use;  ///< Layout of the tensor that calls read.
};

/// Maps meanings to mesh axes. A value.
class TESSERA_API ShardingTable {
 public:
  /// Name of the row for stored parameters.
  static constexpr std::string_view kParameters = "parameters";

  /// Constructs an empty table.
  ShardingTable() = default;
  /// Constructs a table of rows {meaning, axes}, such as {"batch", "dp+fsdp"}. Throws InvalidArgument if a meaning is
  /// empty or occurs twice, or an axis is empty or occurs twice in a row.
  ShardingTable(std::initializer_list<std::pair<std::string, std::string>> rows);

  /// Returns a table with this row added or replaced.
  [[nodiscard]] ShardingTable with(const std::string& meaning, std::string_view axes) const;
  /// Returns all rows by meaning.
  [[nodiscard]] const std::map<std::string, std::vector<std::string>>& rows() const { return rows_; }
  /// Returns the axis over which parameters are stored in shards; empty if there is no such row.
  [[nodiscard]] std::string parameter_axis() const;

  /// Returns the layout of a tensor with these meanings; empty without a mesh. `what` names the tensor in errors.
  /// Throws InvalidArgument if a meaning has no row, the mesh lacks an axis, or two dimensions use one axis.
  [[nodiscard]] layout::Layout layout_of(const layout::Mesh& mesh, const Meaning& meaning, std::string_view what) const;
  /// Returns the layouts of a parameter; both empty without a mesh. Also throws InvalidArgument if the meanings do not
  /// fit the shape, or an axis does not divide its dimension.
  [[nodiscard]] ParameterLayouts layouts_of(const layout::Mesh& mesh, const Shape& shape, const Meaning& meaning,
                                            std::string_view what) const;

 private:
  void add(const std::string& meaning, std::string_view axes);
  [[nodiscard]] const std::vector<std::string>& axes_of(const std::string& meaning, std::string_view what) const;

  std::map<std::string, std::vector<std::string>> rows_;
};

/// Returns the table for models of this library: batches over dp and fsdp; sequences between blocks, heads, hidden
/// units and vocabulary over tp; stored parameters over fsdp. Axes that the mesh lacks are left out. Without
/// `is_sequence_parallel`, each rank of tp holds complete sequences.
TESSERA_API ShardingTable standard_sharding(const layout::Mesh& mesh, bool is_sequence_parallel = true);

}  // namespace tessera::nn

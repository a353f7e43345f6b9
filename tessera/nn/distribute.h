// Distributes a model over a mesh by a sharding table. Its parameters are laid out by the meanings of their
// dimensions, and gathered for their use in units (FSDP):
//
//   Gpt2 model(config);
//   nn::distribute(model, mesh, nn::standard_sharding(mesh));
//
// A model that is too large for one rank is constructed under a ShardingScope, which creates each parameter in shards.
// The values are the same, bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layout/mesh.h"
#include "tessera/nn/module.h"
#include "tessera/nn/sharding_table.h"
#include "tessera/shard/exposed.h"
#include "tessera/shard/gatherer.h"

namespace tessera::nn {

/// Options of distribute().
struct DistributeOptions {
  DType compute_dtype = DType::kF32;  ///< Dtype in which calls read floating parameters.
  bool prefetches = true;             ///< True if units are gathered ahead of their use, on a separate stream.
  /// Patterns of the paths of modules that are units, "layers.*"; "*" matches any text without a dot. Empty: the
  /// elements of all numbered lists. Parameters outside of these modules form units between them.
  std::vector<std::string> units = {};
  std::shared_ptr<shard::ExposedTime> exposed = {};  ///< Receives the time spent waiting. Default: a new object.
};

/// Lays out all parameters of a model. Without a mesh, only the compute dtype applies. All ranks of the mesh call it
/// with equal parameters. Call it before optimizers are created. Throws InvalidArgument, which names the parameter and
/// the row of the table, if they do not fit; the model is then unchanged.
TESSERA_API void distribute(const Module& model, const layout::Mesh& mesh, const ShardingTable& table,
                            const DistributeOptions& options = {});

/// Creates parameters of this thread in shards, for the lifetime of the scope. Scopes must nest.
class TESSERA_API ShardingScope {
 public:
  /// An empty mesh creates plain parameters.
  ShardingScope(layout::Mesh mesh, ShardingTable table);
  ~ShardingScope();
  ShardingScope(const ShardingScope&) = delete;
  ShardingScope& operator=(const ShardingScope&) = delete;
  /// Returns the innermost scope of this thread; null if there is none.
  static const ShardingScope* current();
  /// Returns the layout in which a parameter is created.
  [[nodiscard]] layout::Layout stored(const Shape& shape, const Meaning& meaning, const std::string& what) const;

 private:
  layout::Mesh mesh_;
  ShardingTable table_;
  const ShardingScope* outer_;
};

/// Replaces the sharding table of activations for the lifetime of the scope, for example to compute a batch that is not
/// sharded.
class TESSERA_API ActivationTableScope {
 public:
  /// Parameters keep their layouts.
  ActivationTableScope(const Module& model, ShardingTable table);
  ~ActivationTableScope();
  ActivationTableScope(const ActivationTableScope&) = delete;
  ActivationTableScope& operator=(const ActivationTableScope&) = delete;

 private:
  std::shared_ptr<detail::ModelContext> context_;
  ShardingTable previous_;
};

/// Returns the mesh of a model; empty before distribute(), and on one rank.
TESSERA_API const layout::Mesh& mesh_of(const Module& model);
/// Returns the sharding table of a model.
TESSERA_API const ShardingTable& table_of(const Module& model);
/// Returns the bytes of gathered parameters of a model.
TESSERA_API shard::HeldBytes gathered_bytes(const Module& model);
/// Releases the gathered parameters of the last unit that the model read. Call it after the last call of a forward
/// pass, so that backward does not hold them longer than it needs.
TESSERA_API void release_gathered(const Module& model);
/// Casts each parameter of a model to the compute dtype once, at its first use, for the lifetime of the scope: forward,
/// backward and all micro-batches of a step read the same values. Parameters must not change meanwhile.
class TESSERA_API CastScope {
 public:
  /// Begins the scope.
  explicit CastScope(const Module& model);
  /// Releases the cast parameters.
  ~CastScope();
  CastScope(const CastScope&) = delete;
  CastScope& operator=(const CastScope&) = delete;

 private:
  std::shared_ptr<detail::ParameterUnits> units_;  // null: the model reads its leaves
};
/// Returns a table with one line per parameter: path, shape, meanings, layout stored, layout in use and bytes per rank.
TESSERA_API std::string sharding_text(const Module& model);
/// Returns this table for a model that distribute() would lay out on `mesh`, with the bytes of the rank with the most.
/// Throws what distribute() throws.
TESSERA_API std::string sharding_text(const Module& model, const layout::Mesh& mesh, const ShardingTable& table);

}  // namespace tessera::nn

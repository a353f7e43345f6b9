// The shared object of module handles, and what all modules of a model share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/nn/checkpointing.h"
#include "tessera/nn/detail/parameter_units.h"
#include "tessera/nn/module.h"
#include "tessera/nn/packing.h"
#include "tessera/nn/sharding_table.h"
#include "tessera/shard/exposed.h"

namespace tessera::nn::detail {

/// State that all modules of a model share. A module that is added to another takes over its context.
struct ModelContext {
  layout::Mesh mesh;  // empty: one rank
  ShardingTable table;
  std::shared_ptr<shard::ExposedTime> exposed;
  std::shared_ptr<ParameterUnits> units;  // null: parameters are read as they are stored
  ModuleObserver observer;
  Packing packing;                                              // empty: each row is one document
  std::vector<std::pair<Meaning, layout::Layout>> activations;  // layouts by meaning, for the table
};

/// The adapter of a linear map (lora.h).
struct LoraAdapter {
  Parameter a;
  Parameter b;
  double scale;
};

/// The shared object of module handles.
struct ModuleState {
  struct Entry {
    std::string name;
    std::variant<std::shared_ptr<ParameterSlot>, std::shared_ptr<ModuleState>> item;
  };
  std::string kind;
  std::string name;                   // in the parent
  std::weak_ptr<ModuleState> parent;  // the first module that it was added to
  std::vector<Entry> entries;
  std::shared_ptr<ModelContext> context = std::make_shared<ModelContext>();
  bool is_training = true;
  std::optional<CheckpointingOptions> checkpointing;
  std::optional<LoraAdapter> lora;  // of a Linear module
};

/// Calls `visit` for this module and all below it, in the order of registration, with their paths. A module that was
/// added twice is visited twice.
void for_each_module(const std::shared_ptr<ModuleState>& module, const std::string& path,
                     const std::function<void(const std::string& path, const std::shared_ptr<ModuleState>&)>& visit);
/// Calls `visit` for all parameters and buffers, in the order of registration, with their paths, shared ones at each of
/// their paths.
void for_each_slot(const std::shared_ptr<ModuleState>& module, const std::string& path,
                   const std::function<void(const std::string& path, const std::shared_ptr<ParameterSlot>&)>& visit);

/// Returns true if `text` matches `pattern`, in which "*" stands for any text and everything else for itself.
bool matches(std::string_view pattern, std::string_view text);
/// Returns the modules below the model whose path matches `pattern`, in which "*" stands for any text without a dot.
std::vector<std::shared_ptr<ModuleState>> modules_at(const Module& model, std::string_view pattern);

/// Returns x at this layout, with the time of its transfer in `exposed`, also in backward.
Tensor constrained(const Tensor& x, const layout::Layout& to, const std::shared_ptr<shard::ExposedTime>& exposed);

/// Returns the result `y` of a linear map of `x` plus that of its adapter, if it has one.
Tensor adapted(const ModuleState& linear, const Tensor& x, const Tensor& y);

}  // namespace tessera::nn::detail

#include "tessera/nn/distribute.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "tessera/autograd/autograd.h"
#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/memory/label.h"
#include "tessera/nn/detail/module_state.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"

namespace tessera::nn {
namespace {

using detail::ModelContext;
using detail::ModuleState;
using detail::ParameterSlot;
using Slots = std::vector<std::shared_ptr<ParameterSlot>>;

// The innermost scope of a rank. A part of the rank: thread-local storage is scarce, and modules are not thread-safe.
struct CurrentScope {
  const ShardingScope* scope = nullptr;
};

const ShardingScope*& current_scope() {
  return current_rank()->part<CurrentScope>([] { return std::make_shared<CurrentScope>(); }).scope;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Modules that are units of their own: those that match, or the elements of numbered lists.
std::vector<const ModuleState*> unit_modules(const Module& model, const std::vector<std::string>& patterns) {
  std::vector<const ModuleState*> out;
  if (patterns.empty()) {
    detail::for_each_module(model.state(), "", [&](const std::string&, const std::shared_ptr<ModuleState>& each) {
      if (is_number(each->name)) out.push_back(each.get());
    });
    return out;
  }
  for (const std::string& pattern : patterns) {
    const auto found = detail::modules_at(model, pattern);
    TESSERA_CHECK(!found.empty(), "distribute: units must match paths of modules, got '", pattern,
                  "'; print the model to see its paths");
    for (const auto& module : found) out.push_back(module.get());
  }
  return out;
}

// Splits the parameters into units: those of each unit module, and those between two such modules.
class UnitSplit {
 public:
  explicit UnitSplit(std::vector<const ModuleState*> modules) : modules_(std::move(modules)) {}

  std::vector<Slots> split(const ModuleState& model) {
    visit(model);
    close();
    return std::move(units_);
  }

 private:
  void visit(const ModuleState& module) {
    const bool is_unit = std::ranges::find(modules_, &module) != modules_.end();
    if (is_unit) close();
    for (const ModuleState::Entry& entry : module.entries) {
      if (const auto* slot = std::get_if<std::shared_ptr<ParameterSlot>>(&entry.item)) {
        const bool is_new = std::ranges::find(open_, *slot) == open_.end();
        if (is_new && !(*slot)->is_buffer) open_.push_back(*slot);
      } else {
        visit(*std::get<std::shared_ptr<ModuleState>>(entry.item));
      }
    }
    if (is_unit) close();
  }
  void close() {
    if (!open_.empty()) units_.push_back(std::move(open_));
    open_.clear();
  }

  std::vector<const ModuleState*> modules_;
  std::vector<Slots> units_;
  Slots open_;
};

// Returns a leaf of the same values in the stored layout.
Tensor stored_leaf(const Tensor& leaf, const layout::Layout& stored) {
  if (!stored || leaf.layout() == stored) return leaf;
  const autograd::NoGrad no_grad;
  const memory::Label label("parameters");
  const Tensor out = leaf.has_layout() ? shard::redistribute(leaf.detach(), stored)
                                       : shard::distribute(leaf.detach(), stored, shard::DataOn::kEveryRank);
  if (autograd::requires_grad(leaf)) autograd::set_requires_grad(out, true);
  return out;
}

void add_units(const Module& model, const DistributeOptions& options, const std::string& axis, ModelContext& context) {
  auto units = std::make_shared<detail::ParameterUnits>(
      shard::GathererOptions{.dtype = options.compute_dtype, .axis = axis, .prefetches = options.prefetches},
      *context.exposed);
  for (const Slots& unit : UnitSplit(unit_modules(model, options.units)).split(*model.state())) units->add(unit);
  for (const NamedParameter& each : model.named_parameters()) each.parameter.slot()->units = units;
  context.units = std::move(units);
}

std::string meaning_text(const Meaning& meaning) {
  std::string text;
  for (const DimMeaning& each : meaning) text += (text.empty() ? "" : ", ") + (each.name.empty() ? "-" : each.name);
  return "[" + text + "]";
}

using Rows = std::vector<std::vector<std::string>>;

Rows heading() { return {{"parameter", "shape", "meaning", "stored", "in use", "per rank"}}; }

void add_row(Rows& rows, const NamedParameter& each, const ParameterLayouts& layouts, std::size_t nbytes) {
  const Tensor& leaf = each.parameter.leaf();
  rows.push_back({each.path, std::string(to_string(leaf.dtype())) + to_string(leaf.shape()),
                  meaning_text(each.parameter.meaning()), layouts.stored ? layouts.stored.placements_text() : "-",
                  layouts.in_use ? layouts.in_use.placements_text() : "-", format_bytes(nbytes)});
}

std::string aligned(const Rows& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    text += "\n";
  }
  return text;
}

}  // namespace

void distribute(const Module& model, const layout::Mesh& mesh, const ShardingTable& table,
                const DistributeOptions& options) {
  ModelContext& context = *model.state()->context;
  TESSERA_CHECK(!context.mesh && context.units == nullptr, "distribute: a model must be distributed once, got ",
                model.kind(), " again");
  const std::vector<NamedParameter> parameters = model.named_parameters();
  std::vector<ParameterLayouts> layouts;
  for (const NamedParameter& each : parameters)
    layouts.push_back(
        table.layouts_of(mesh, each.parameter.shape(), each.parameter.meaning(), "parameter " + each.path));
  (void)unit_modules(model, options.units);  // throws before anything changes
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ParameterSlot& slot = *parameters[i].parameter.slot();
    slot.leaf = stored_leaf(slot.leaf, layouts[i].stored);
    slot.in_use = layouts[i].in_use;
  }
  context.mesh = mesh;
  context.table = table;
  context.exposed = options.exposed ? options.exposed : std::make_shared<shard::ExposedTime>();
  const std::string axis = mesh ? table.parameter_axis() : std::string();
  const bool is_gathered = !axis.empty() && mesh.axis(mesh.index_of(axis)).size > 1;
  const bool is_cast = std::ranges::any_of(
      parameters, [&](const NamedParameter& each) { return each.parameter.leaf().dtype() != options.compute_dtype; });
  if (is_gathered || is_cast) add_units(model, options, axis, context);
}

ShardingScope::ShardingScope(layout::Mesh mesh, ShardingTable table)
    : mesh_(std::move(mesh)), table_(std::move(table)), outer_(current_scope()) {
  current_scope() = this;
}

ShardingScope::~ShardingScope() { current_scope() = outer_; }

const ShardingScope* ShardingScope::current() {
  const auto* current = current_rank()->find_part<CurrentScope>();
  return current != nullptr ? current->scope : nullptr;
}

layout::Layout ShardingScope::stored(const Shape& shape, const Meaning& meaning, const std::string& what) const {
  return table_.layouts_of(mesh_, shape, meaning, what).stored;
}

ActivationTableScope::ActivationTableScope(const Module& model, ShardingTable table)
    : context_(model.state()->context), previous_(context_->table) {
  context_->table = std::move(table);
  context_->activations.clear();
}

ActivationTableScope::~ActivationTableScope() {
  context_->table = std::move(previous_);
  context_->activations.clear();
}

const layout::Mesh& mesh_of(const Module& model) { return model.state()->context->mesh; }

const ShardingTable& table_of(const Module& model) { return model.state()->context->table; }

shard::HeldBytes gathered_bytes(const Module& model) {
  const auto& units = model.state()->context->units;
  return units == nullptr ? shard::HeldBytes() : units->held();
}

void release_gathered(const Module& model) {
  const auto& units = model.state()->context->units;
  if (units != nullptr) units->release();
}

CastScope::CastScope(const Module& model) : units_(model.state()->context->units) {
  if (units_ != nullptr) units_->keep_casts(true);
}

CastScope::~CastScope() {
  if (units_ == nullptr) return;
  units_->release();
  units_->keep_casts(false);
}

std::string sharding_text(const Module& model) {
  Rows rows = heading();
  for (const NamedParameter& each : model.named_parameters()) {
    const Tensor& leaf = each.parameter.leaf();
    add_row(rows, each, {leaf.has_layout() ? leaf.layout() : layout::Layout(), each.parameter.layout_in_use()},
            leaf.local() ? leaf.local().nbytes() : 0);
  }
  return aligned(rows);
}

std::string sharding_text(const Module& model, const layout::Mesh& mesh, const ShardingTable& table) {
  Rows rows = heading();
  for (const NamedParameter& each : model.named_parameters()) {
    const Tensor& leaf = each.parameter.leaf();
    const ParameterLayouts layouts =
        table.layouts_of(mesh, leaf.shape(), each.parameter.meaning(), "parameter " + each.path);
    const std::int64_t numel =
        layouts.stored ? layout::largest_local_numel(layouts.stored, leaf.shape()) : leaf.numel();
    add_row(rows, each, layouts, static_cast<std::size_t>(numel) * itemsize(leaf.dtype()));
  }
  return aligned(rows);
}

}  // namespace tessera::nn

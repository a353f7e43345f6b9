#include "tessera/layout/layout.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "tessera/base/error.h"
#include "tessera/base/fnv1a.h"
#include "tessera/base/nearest.h"
#include "tessera/layout/detail/layout_state.h"
#include "tessera/layout/detail/rank_steps.h"

namespace tessera::layout {
namespace {

using detail::LayoutState;

constexpr std::string_view kReductions[] = {"sum", "avg", "min", "max", "prod"};

std::span<const std::int64_t> sizes_of(const DimShardings& dim) {
  return dim.sizes ? std::span<const std::int64_t>(*dim.sizes) : std::span<const std::int64_t>();
}

bool is_same(const LayoutParts& a, const LayoutParts& b) {
  return a.partials == b.partials &&
         std::ranges::equal(a.dims, b.dims, [](const DimShardings& x, const DimShardings& y) {
           return x.shardings == y.shardings && !x.sizes == !y.sizes && std::ranges::equal(sizes_of(x), sizes_of(y));
         });
}

// Returns a key for the table in this process; the hash of the text is the key outside.
std::uint64_t key_of(const Mesh& mesh, const LayoutParts& parts) {
  std::uint64_t key = mesh.id().value();
  const auto mix = [&key](std::int64_t value) {
    key = (key ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;
    key ^= key >> 29;
  };
  const auto mix_part = [&mix](const SubAxis& part) {
    mix(part.axis);
    mix(part.before);
    mix(part.size);
  };
  for (const DimShardings& dim : parts.dims) {
    mix(static_cast<std::int64_t>(dim.shardings.size()));
    for (const Sharding& sharding : dim.shardings) {
      mix_part(sharding.by);
      mix(sharding.blocks);
    }
    for (const std::int64_t size : sizes_of(dim)) mix(size);
  }
  for (const PartialAxis& partial : parts.partials) {
    mix_part(partial.by);
    mix(static_cast<std::int64_t>(partial.reduction));
  }
  return key;
}

// Computed once per layout, so its speed does not matter.
LayoutHash hash_of(std::string_view text) {
  tessera::detail::Fnv1a128 hash;
  hash.add(text);
  return {hash.high(), hash.low()};
}

detail::PlacedSharding place(const Mesh& mesh, const Sharding& sharding) {
  detail::PlacedSharding placed{sharding.by.size, sharding.blocks, {}};
  SmallVector<RankStep, 4> steps;
  detail::add_steps_of_part(steps, mesh.axis(sharding.by.axis), sharding.by.before, sharding.by.size);
  std::int64_t weight = sharding.by.size;
  for (const RankStep& step : steps) {
    weight /= step.size;
    placed.steps.push_back({static_cast<std::uint32_t>(step.stride), static_cast<std::uint32_t>(step.size),
                            static_cast<std::uint32_t>(weight)});
  }
  return placed;
}

// Collects the sub-axes of all axes that no split uses, by axis, major to minor.
void place_replicas(LayoutState& state) {
  std::vector<SubAxis> chunking;
  for (const DimShardings& dim : state.parts.dims) {
    for (const Sharding& sharding : dim.shardings) chunking.push_back(sharding.by);
  }
  std::sort(chunking.begin(), chunking.end());
  std::size_t next = 0;
  for (int i = 0; i < state.mesh.ndim(); ++i) {
    const Axis& axis = state.mesh.axis(i);
    std::int64_t from = 1;
    for (; next < chunking.size() && chunking[next].axis == i; ++next) {
      detail::add_steps_of_part(state.replicas, axis, from, chunking[next].before / from);
      from = chunking[next].before * chunking[next].size;
    }
    detail::add_steps_of_part(state.replicas, axis, from, axis.size / from);
  }
}

void place_dims(LayoutState& state) {
  for (const DimShardings& dim : state.parts.dims) {
    detail::PlacedDim& placed = state.dims.emplace_back();
    for (const Sharding& sharding : dim.shardings) {
      placed.shardings.push_back(place(state.mesh, sharding));
      placed.has_blocks = placed.has_blocks || sharding.blocks > 1;
    }
    if (dim.sizes) {
      placed.starts.push_back(0);
      for (const std::int64_t size : *dim.sizes) {
        placed.starts.push_back(placed.starts.back() + size);
        placed.largest = std::max(placed.largest, size);
      }
    }
    state.is_counted = state.is_counted || dim.sizes;
    state.is_plain = state.is_plain && !placed.has_blocks && !dim.sizes;
  }
}

std::unique_ptr<LayoutState> make_state(const Mesh& mesh, LayoutParts parts, std::uint64_t key) {
  auto state = std::make_unique<LayoutState>();
  state->mesh = mesh;
  for (DimShardings& dim : parts.dims) {  // a private copy: the caller may hold a non-const pointer
    if (dim.sizes) dim.sizes = std::make_shared<const std::vector<std::int64_t>>(*dim.sizes);
  }
  state->parts = std::move(parts);
  state->key = key;
  state->placements_text = detail::placements_text(mesh, state->parts);
  const std::string text = mesh.text() + ' ' + state->placements_text;
  state->hash = hash_of(text);
  state->first_rank = mesh.ranks().first;
  place_dims(*state);
  place_replicas(*state);
  return state;
}

// All layouts of the process. release() removes counted layouts.
class LayoutTable {
 public:
  // Returns the entry of these canonical parts and takes a reference.
  LayoutState* get(const Mesh& mesh, LayoutParts parts) {
    const std::uint64_t key = key_of(mesh, parts);
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = entries_.equal_range(key);
    for (auto each = begin; each != end; ++each) {
      LayoutState* state = each->second.get();
      if (state->mesh == mesh && is_same(state->parts, parts)) {
        if (state->is_counted) state->holders.fetch_add(1, std::memory_order_relaxed);
        return state;
      }
    }
    auto made = make_state(mesh, std::move(parts), key);
    made->id = LayoutId(++last_id_);
    made->holders = 1;
    return entries_.emplace(key, std::move(made))->second.get();
  }

  // Drops a reference. The last one is dropped under the lock, so that no thread finds an entry that is being removed.
  void release(LayoutState* state) noexcept {
    std::int64_t holders = state->holders.load(std::memory_order_relaxed);
    while (holders > 1) {
      if (state->holders.compare_exchange_weak(holders, holders - 1, std::memory_order_acq_rel)) return;
    }
    std::unique_ptr<LayoutState> gone;  // destroyed after the lock
    const std::lock_guard lock(mutex_);
    if (state->holders.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const auto [begin, end] = entries_.equal_range(state->key);
    for (auto each = begin; each != end; ++each) {
      if (each->second.get() != state) continue;
      gone = std::move(each->second);
      entries_.erase(each);
      return;
    }
  }

  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  std::mutex mutex_;
  std::unordered_multimap<std::uint64_t, std::unique_ptr<LayoutState>> entries_;
  std::uint64_t last_id_ = 0;
};

// Never destroyed: static objects may hold layouts.
LayoutTable& table() {
  static auto& all = *new LayoutTable;
  return all;
}

}  // namespace

std::size_t detail::interned_layouts() { return table().size(); }

Reduction parse_reduction(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kReductions); ++i) {
    if (kReductions[i] == text) return static_cast<Reduction>(i);
  }
  TESSERA_THROW(InvalidArgument, "unknown reduction '", detail::shown(text), "'",
                did_you_mean(text.substr(0, 32), kReductions), "; must be one of ", kReductions);
}

bool can_mix(Reduction a, Reduction b) {
  const auto is_linear = [](Reduction each) { return each == Reduction::kSum || each == Reduction::kAvg; };
  return a == b || (is_linear(a) && is_linear(b));
}

Layout::Layout(const Layout& other) noexcept : state_(other.state_) {
  if (state_ != nullptr && state_->is_counted) state_->holders.fetch_add(1, std::memory_order_relaxed);
}

Layout& Layout::operator=(Layout other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Layout::~Layout() {
  if (state_ != nullptr && state_->is_counted) table().release(state_);
}

Layout::Layout(const Mesh& mesh, std::span<const AxisPlacement> placements) {
  if (!mesh) return;
  std::vector<Placement> by_axis(static_cast<std::size_t>(mesh.ndim()));
  for (auto each = placements.begin(); each != placements.end(); ++each) {
    TESSERA_CHECK(
        std::none_of(placements.begin(), each, [&](const AxisPlacement& one) { return one.axis == each->axis; }),
        "layout: each axis must be named once, got axis '", each->axis, "' twice");
    by_axis[static_cast<std::size_t>(mesh.index_of(each->axis))] = each->placement;
  }
  *this = create(mesh, by_axis);
}

Layout Layout::create(const Mesh& mesh, LayoutParts parts) {
  TESSERA_CHECK(mesh, "layout: mesh must not be empty; assign one first");
  detail::canonicalize(mesh, parts);
  return Layout(table().get(mesh, std::move(parts)));
}

Layout Layout::create(const Mesh& mesh, std::span<const Placement> placements) {
  TESSERA_CHECK(mesh, "layout: mesh must not be empty; assign one first");
  TESSERA_CHECK(placements.size() == mesh.axes().size(), "layout: mesh ", mesh.text(),
                " requires one placement per axis (", mesh.axes().size(), " axes), got ", placements.size(),
                " placements");
  LayoutParts parts;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const Placement& placement = placements[i];
    const SubAxis whole{static_cast<std::int32_t>(i), 1, mesh.axes()[i].size};
    if (placement.kind == Placement::Kind::kPartial) parts.partials.push_back({whole, placement.reduction});
    if (placement.kind != Placement::Kind::kShard) continue;
    TESSERA_CHECK(placement.dim >= 0 && placement.dim < detail::kMaxDims, "layout: axis '", mesh.axes()[i].name,
                  "': dimension must be in [0, ", detail::kMaxDims, "), got dimension ", placement.dim,
                  "; negative dimensions require the shape of a tensor");
    const auto dim = static_cast<std::size_t>(placement.dim);
    if (parts.dims.size() <= dim) parts.dims.resize(dim + 1);
    parts.dims[dim].shardings.push_back({whole, 1});
  }
  return create(mesh, std::move(parts));
}

Layout Layout::create(const Mesh& mesh, std::initializer_list<Placement> placements) {
  return create(mesh, std::span(placements.begin(), placements.size()));
}

Layout Layout::replicated(const Mesh& mesh) { return create(mesh, LayoutParts{}); }

const LayoutState& Layout::state() const {
  TESSERA_CHECK(state_ != nullptr, "layout: handle must not be empty; assign a layout first");
  return *state_;
}

const Mesh& Layout::mesh() const { return state().mesh; }
LayoutId Layout::id() const { return state().id; }
LayoutHash Layout::hash() const { return state().hash; }
int Layout::ndim() const { return static_cast<int>(state().parts.dims.size()); }
std::span<const PartialAxis> Layout::partials() const { return state().parts.partials; }
bool Layout::is_replicated() const { return state().parts.dims.empty() && state().parts.partials.empty(); }
LayoutParts Layout::parts() const { return state().parts; }
const std::string& Layout::placements_text() const { return state().placements_text; }
std::string Layout::text() const { return state().mesh.text() + ' ' + state().placements_text; }

std::span<const Sharding> Layout::shardings(int dim) const {
  TESSERA_CHECK(dim >= 0, "layout ", text(), ": dimension must be at least 0, got ", dim);
  const auto& dims = state().parts.dims;
  return dim < ndim() ? std::span<const Sharding>(dims[static_cast<std::size_t>(dim)].shardings)
                      : std::span<const Sharding>();
}

std::span<const std::int64_t> Layout::sizes(int dim) const {
  TESSERA_CHECK(dim >= 0, "layout ", text(), ": dimension must be at least 0, got ", dim);
  return dim < ndim() ? sizes_of(state().parts.dims[static_cast<std::size_t>(dim)]) : std::span<const std::int64_t>();
}

}  // namespace tessera::layout

// A layout: how the dimensions of a tensor are sharded over a mesh, and the axes along which its values are partial.
//
// Each dimension has an ordered list of splits (`Sharding`), the coarsest first. A mesh axis, or a factor of one (a
// sub-axis), makes each split. [tp, dp] first splits for tp and then splits each chunk for dp. A split may divide its
// range into `blocks` equal blocks and split each block. Such a strided shard results when dimensions are flattened
// into one and a dimension other than the first is sharded.
//
// Without `sizes`, n indices are split into chunks of ceil(n / ranks); the last chunks may be short or empty. `sizes`
// lists the chunk sizes of the first split of a dimension instead.
//
// A layout has no shape and no dtype: {Shard(0)} fits every tensor of at least one dimension. Layouts are interned, so
// a comparison compares two pointers. Layouts with explicit sizes are reference-counted; all others are never freed.
// The id is valid in this process; hash() and text() are valid everywhere.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/base/reduction.h"
#include "tessera/layout/mesh.h"

namespace tessera::layout {

/// Returns sum, avg, min, max or prod by its name. Throws InvalidArgument, which suggests the nearest name.
TESSERA_API Reduction parse_reduction(std::string_view text);
/// Returns true if a tensor may be partial under both reductions: they are equal, or they are sum and avg.
TESSERA_API bool can_mix(Reduction a, Reduction b);

/// A mesh axis or a factor of one. An axis of size n is read as before x size x after, major to minor. The coordinate
/// along the sub-axis is (coordinate / after) % size.
struct SubAxis {
  std::int32_t axis = 0;    ///< Index of the axis in the mesh.
  std::int64_t before = 1;  ///< Product of the sizes of the factors that are major to this one.
  std::int64_t size = 1;    ///< Number of ranks along the sub-axis.
  /// Orders by axis, then major to minor.
  friend auto operator<=>(const SubAxis&, const SubAxis&) = default;
};

/// One split of a dimension.
struct Sharding {
  SubAxis by;               ///< Sub-axis whose ranks receive the chunks.
  std::int64_t blocks = 1;  ///< Number of equal blocks that are split separately.
  /// Orders by sub-axis, then by blocks.
  friend auto operator<=>(const Sharding&, const Sharding&) = default;
};

/// All splits of one dimension.
struct DimShardings {
  std::vector<Sharding> shardings;                              ///< Coarsest first.
  std::shared_ptr<const std::vector<std::int64_t>> sizes = {};  ///< Chunk sizes of the first split. Null: ceil-chunks.
};

/// A sub-axis along which each rank holds a partial value of each element.
struct PartialAxis {
  SubAxis by;                             ///< Sub-axis whose ranks hold the partial values.
  Reduction reduction = Reduction::kSum;  ///< Operation that reduces them.
  /// Orders by sub-axis, then by reduction.
  friend auto operator<=>(const PartialAxis&, const PartialAxis&) = default;
};

/// A layout as plain data, in any order. Layout::create() converts it to the canonical form.
struct LayoutParts {
  std::vector<DimShardings> dims;     ///< Dimensions after the last are not sharded.
  std::vector<PartialAxis> partials;  ///< All of one reduction, except that sum and avg mix.
};

/// Effect of one mesh axis on a tensor: Shard(0), Replicate() or Partial().
struct Placement {
  /// The three kinds of placement.
  enum class Kind : std::uint8_t { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;           ///< Selects the field below that applies.
  int dim = 0;                            ///< Sharded dimension, for kShard.
  Reduction reduction = Reduction::kSum;  ///< Reduction, for kPartial.
  /// Compares all fields.
  friend bool operator==(const Placement&, const Placement&) = default;
};
/// Returns the placement of an axis that shards dimension `dim`. Axes that
/// shard the same dimension apply in mesh order.
inline Placement Shard(int dim) { return {Placement::Kind::kShard, dim, Reduction::kSum}; }
/// Returns the placement of an axis whose ranks hold equal data.
inline Placement Replicate() { return {}; }
/// Returns the placement of an axis whose ranks hold partial values. Their reduction is the tensor.
inline Placement Partial(Reduction reduction = Reduction::kSum) { return {Placement::Kind::kPartial, 0, reduction}; }

/// The placement of the mesh axis with this name.
struct AxisPlacement {
  std::string_view axis;  ///< Name of the axis.
  Placement placement;    ///< Effect of the axis.
};

/// Process-local number of a layout. Never 0 and never reused.
using LayoutId = Id<struct LayoutTag, std::uint64_t>;
/// Hash of a layout that is the same in all processes and runs: the 128-bit FNV-1a hash of its text.
struct LayoutHash {
  std::uint64_t high = 0;  ///< Upper 64 bits.
  std::uint64_t low = 0;   ///< Lower 64 bits.
  /// Orders as a 128-bit number.
  friend auto operator<=>(const LayoutHash&, const LayoutHash&) = default;
};

namespace detail {
struct LayoutState;
struct LayoutAccess;
}  // namespace detail

/// Handle to a layout. Cheap to copy, empty until assigned, safe to share between threads.
class TESSERA_API Layout {
 public:
  /// Constructs an empty handle, which can only be assigned, compared and tested.
  Layout() noexcept = default;
  /// Constructs the layout with these placements: Layout(mesh, {{"dp", Shard(0)}}). Axes that are not named replicate.
  /// An empty mesh gives an empty layout, that of a plain tensor. Throws InvalidArgument, which suggests the nearest
  /// name, if the mesh has no such axis, or if an axis is named twice.
  Layout(const Mesh& mesh, std::initializer_list<AxisPlacement> placements)
      : Layout(mesh, std::span(placements.begin(), placements.size())) {}
  /// Constructs the layout with these placements.
  Layout(const Mesh& mesh, std::span<const AxisPlacement> placements);
  /// Constructs a handle to the same layout.
  Layout(const Layout& other) noexcept;
  /// Takes over the layout of `other`, which becomes empty.
  Layout(Layout&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  /// Assigns the layout of `other`.
  Layout& operator=(Layout other) noexcept;
  ~Layout();

  /// Returns the layout with one placement per mesh axis. Throws InvalidArgument if a dimension is negative: a layout
  /// does not know the number of dimensions.
  static Layout create(const Mesh& mesh, std::span<const Placement> placements);
  /// Returns the layout with one placement per mesh axis: Layout::create(mesh, {Shard(0), Replicate()}).
  static Layout create(const Mesh& mesh, std::initializer_list<Placement> placements);
  /// Returns the canonical layout of `parts`. Splits of size 1 are dropped. Throws InvalidArgument, which names the
  /// axis, if an axis or sub-axis is used twice, reductions mix, or a sub-axis does not divide its axis or the factors
  /// that the axis was flattened from. Splits by two adjacent sub-axes are not one split by both: if a size is not
  /// divisible, the chunks differ.
  static Layout create(const Mesh& mesh, LayoutParts parts);
  /// Returns the layout with no sharded dimension and no partial axis.
  static Layout replicated(const Mesh& mesh);
  /// Returns the layout on `mesh` of a placements_text(), of the short form "S0,R,P(max)", or of placements by name as
  /// errors print them: "{dp: Shard(0)}". Throws InvalidArgument if the text is malformed.
  static Layout parse(const Mesh& mesh, std::string_view text);
  /// Returns the layout of a text(). Throws InvalidArgument if the text is malformed.
  static Layout parse(std::string_view text);

  /// Returns true if the handle refers to a layout.
  explicit operator bool() const { return state_ != nullptr; }
  /// Returns the mesh of the layout.
  [[nodiscard]] const Mesh& mesh() const;
  /// Returns the process-local number of the layout.
  [[nodiscard]] LayoutId id() const;
  /// Returns the hash, which is the same for equal layouts in every process.
  [[nodiscard]] LayoutHash hash() const;
  /// Returns the number of dimensions up to the last sharded one. A tensor of this layout has at least as many.
  [[nodiscard]] int ndim() const;
  /// Returns the splits of a dimension, the coarsest first. Empty if `dim` is not sharded.
  [[nodiscard]] std::span<const Sharding> shardings(int dim) const;
  /// Returns the explicit chunk sizes of the first split of a dimension. Empty for ceil-chunks.
  [[nodiscard]] std::span<const std::int64_t> sizes(int dim) const;
  /// Returns the partial axes, ordered by axis.
  [[nodiscard]] std::span<const PartialAxis> partials() const;
  /// Returns true if no dimension is sharded and no axis is partial.
  [[nodiscard]] bool is_replicated() const;
  /// Returns the layout as plain data that can be modified.
  [[nodiscard]] LayoutParts parts() const;

  /// Returns "{Shard(0), Replicate(), Partial()}", one placement per mesh axis. Other forms: Partial(max); Shard(0,
  /// order=1), the index among the splits of the dimension, if that is not the axis order; Shard(0, blocks=4); Shard(0,
  /// sizes=3/5); and 2:Shard(0)*4:Replicate() for an axis whose sub-axes have different placements.
  [[nodiscard]] const std::string& placements_text() const;
  /// Returns the text of the mesh, a space and the placements.
  [[nodiscard]] std::string text() const;

  /// Returns true if both handles refer to the same layout.
  friend bool operator==(const Layout& a, const Layout& b) noexcept { return a.state_ == b.state_; }

 private:
  friend struct detail::LayoutAccess;
  explicit Layout(detail::LayoutState* state) : state_(state) {}  // takes over one reference
  [[nodiscard]] const detail::LayoutState& state() const;

  detail::LayoutState* state_ = nullptr;
};

}  // namespace tessera::layout

/// Hash of layouts for unordered containers.
template <>
struct std::hash<tessera::layout::Layout> {
  /// Returns the hash of the layout id.
  std::size_t operator()(const tessera::layout::Layout& layout) const noexcept {
    return std::hash<tessera::layout::LayoutId>()(layout ? layout.id() : tessera::layout::LayoutId());
  }
};

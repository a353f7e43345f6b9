// A layout: how the dimensions of a tensor are cut over a mesh, and along which axes its values are still partial.
//
// Kept by dimension: each has an ordered list of cuts, the first the coarsest. A cut is by a mesh axis or a part of one
// (a sub-axis). The order is the order of cutting: [tp, dp] first cuts for tp, then each piece for dp. A cut may first
// divide what it cuts into `blocks` equal blocks and cut each of them: this is a dimension that was flattened from
// several of which not the first was cut (known elsewhere as a strided shard). Nothing else is needed for either case.
//
// Sizes that an axis does not divide are cut in ceil-chunks: ceil(n / parts) each, the last ones short or empty. With
// `sizes` the pieces of a dimension's first cut are given one by one instead.
//
// A layout knows neither shape nor dtype: {Shard(0)} fits every tensor of at least one dimension. Layouts are interned:
// comparing two is comparing two pointers. Those with explicit sizes are counted and go when nobody holds them, all
// others stay. The id is for this process; outside it hash() and text() are the names.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/layout/mesh.h"

namespace tessera::layout {

/// How partial values make the whole.
enum class Reduction : std::uint8_t { kSum, kAvg, kMin, kMax, kProd };
/// "sum", "avg", "min", "max", "prod".
TESSERA_API std::string_view to_string(Reduction reduction);
/// The reduction of this name; InvalidArgument names the nearest.
TESSERA_API Reduction parse_reduction(std::string_view text);
/// Whether values partial in both ways at once make sense: the same, or sum with avg.
TESSERA_API bool can_mix(Reduction a, Reduction b);

/// A mesh axis, or a part of it. An axis of size n is read as before x size x after, major to minor; the part's
/// coordinate is (coordinate / after) % size.
struct SubAxis {
  std::int32_t axis = 0;    ///< of the mesh
  std::int64_t before = 1;  ///< ranks of the parts that are major to it
  std::int64_t size = 1;    ///< its ranks
  /// By axis, then major to minor.
  friend auto operator<=>(const SubAxis&, const SubAxis&) = default;
};

/// One cut of a dimension.
struct Cut {
  SubAxis by;               ///< whose ranks get the pieces
  std::int64_t blocks = 1;  ///< what is cut is divided into this many equal blocks first, and each is cut
  /// By sub-axis, then blocks.
  friend auto operator<=>(const Cut&, const Cut&) = default;
};

/// The cuts of one dimension, the first the coarsest.
struct DimCuts {
  std::vector<Cut> cuts;                                        ///< in the order of cutting
  std::shared_ptr<const std::vector<std::int64_t>> sizes = {};  ///< of the first cut's pieces; null: ceil-chunks
};

/// A (sub-)axis along which each rank holds only its part of every value.
struct PartialAxis {
  SubAxis by;                             ///< whose ranks hold the parts
  Reduction reduction = Reduction::kSum;  ///< makes the whole of them
  /// By sub-axis, then reduction.
  friend auto operator<=>(const PartialAxis&, const PartialAxis&) = default;
};

/// A layout as plain data, in any order; Layout::create brings it to its one canonical form.
struct LayoutParts {
  std::vector<DimCuts> dims;          ///< dimensions behind the last are not cut
  std::vector<PartialAxis> partials;  ///< all of one kind, but for sum and avg
};

/// What one mesh axis does, as users write it: Shard(0), Replicate(), Partial().
struct Placement {
  /// The three there are.
  enum class Kind : std::uint8_t { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;           ///< which
  int dim = 0;                            ///< kShard
  Reduction reduction = Reduction::kSum;  ///< kPartial
  /// The same in all of this.
  friend bool operator==(const Placement&, const Placement&) = default;
};
/// The axis cuts dimension `dim`. Several axes that cut one dimension do so in mesh order.
inline Placement Shard(int dim) { return {Placement::Kind::kShard, dim, Reduction::kSum}; }
/// Every rank along the axis holds the same.
inline Placement Replicate() { return {}; }
/// The values along the axis, reduced, are the tensor.
inline Placement Partial(Reduction reduction = Reduction::kSum) { return {Placement::Kind::kPartial, 0, reduction}; }

/// Numbers a layout within this process; never 0, never reused.
using LayoutId = Id<struct LayoutTag, std::uint64_t>;
/// Names a layout in any process, of any run: FNV-1a of its text, over 128 bits.
struct LayoutHash {
  std::uint64_t high = 0;  ///< upper half
  std::uint64_t low = 0;   ///< lower half
  /// As a number of 128 bits.
  friend auto operator<=>(const LayoutHash&, const LayoutHash&) = default;
};

namespace detail {
struct LayoutState;
struct LayoutAccess;
}  // namespace detail

/// See the head of this file. A handle: cheap to copy, empty until assigned, safe to share between threads.
class TESSERA_API Layout {
 public:
  /// Empty; only assigning, comparing and asking for emptiness are allowed.
  Layout() noexcept = default;
  /// The same layout.
  Layout(const Layout& other) noexcept;
  /// Takes it over; the other is empty then.
  Layout(Layout&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  /// Becomes the other one.
  Layout& operator=(Layout other) noexcept;
  ~Layout();

  /// One placement for each axis of the mesh. A negative dimension is refused: the layout does not know how many there
  /// are.
  static Layout create(const Mesh& mesh, std::span<const Placement> placements);
  /// Likewise: Layout::create(mesh, {Shard(0), Replicate()}).
  static Layout create(const Mesh& mesh, std::initializer_list<Placement> placements);
  /// From cuts by dimension. An axis (or part of one) used twice, mixed partial kinds, parts that do not divide their
  /// axis or break the parts it was flattened from are refused with the name of the axis. What has size 1 is dropped.
  /// Two cuts by adjacent parts of an axis are not one cut by the whole: of a size that does not divide they make other
  /// pieces.
  static Layout create(const Mesh& mesh, LayoutParts parts);
  /// Nothing cut, nothing partial.
  static Layout replicated(const Mesh& mesh);
  /// The layout of placements_text(), or of the short form "S0,R,P(max)", on `mesh`.
  static Layout parse(const Mesh& mesh, std::string_view text);
  /// The layout of text().
  static Layout parse(std::string_view text);

  /// Whether it is a layout.
  explicit operator bool() const { return state_ != nullptr; }
  /// The mesh.
  [[nodiscard]] const Mesh& mesh() const;
  /// Numbers it within this process.
  [[nodiscard]] LayoutId id() const;
  /// The same for equal layouts in every process.
  [[nodiscard]] LayoutHash hash() const;
  /// How many dimensions have a say: the last one that is cut, and all before it. A tensor has at least as many.
  [[nodiscard]] int ndim() const;
  /// The cuts of a dimension, the first the coarsest; none for a dimension behind ndim().
  [[nodiscard]] std::span<const Cut> cuts(int dim) const;
  /// The given sizes of the pieces of the dimension's first cut; none: ceil-chunks.
  [[nodiscard]] std::span<const std::int64_t> sizes(int dim) const;
  /// What is partial, by axis.
  [[nodiscard]] std::span<const PartialAxis> partials() const;
  /// Nothing cut, nothing partial.
  [[nodiscard]] bool is_replicated() const;
  /// A copy as plain data, to be changed.
  [[nodiscard]] LayoutParts parts() const;

  /// "{Shard(0), Replicate(), Partial()}", one for each axis of the mesh. Where needed: Partial(max);
  /// Shard(0, order=1), its place among the cuts of the dimension, where that is not the order of axes;
  /// Shard(0, blocks=4); Shard(0, sizes=3/5); and 2:Shard(0)*4:Replicate() for an axis whose parts do different things.
  [[nodiscard]] const std::string& placements_text() const;
  /// The mesh, a space, the placements.
  [[nodiscard]] std::string text() const;

  /// The same layout.
  friend bool operator==(const Layout& a, const Layout& b) noexcept { return a.state_ == b.state_; }

 private:
  friend struct detail::LayoutAccess;
  explicit Layout(detail::LayoutState* state) : state_(state) {}  // takes over a count
  [[nodiscard]] const detail::LayoutState& state() const;

  detail::LayoutState* state_ = nullptr;  // interned
};

}  // namespace tessera::layout

/// Layouts can be keys of unordered containers.
template <>
struct std::hash<tessera::layout::Layout> {
  /// Of the id.
  std::size_t operator()(const tessera::layout::Layout& layout) const noexcept {
    return std::hash<tessera::layout::LayoutId>()(layout ? layout.id() : tessera::layout::LayoutId());
  }
};

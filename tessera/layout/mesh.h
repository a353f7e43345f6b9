// A mesh: ranks arranged along named axes. A mesh is pure geometry. It has no communicator, and its ranks need not
// exist, so a mesh of 100,000 ranks costs the same as a mesh of 8.
//
// Each axis consists of one or more factors (size, stride). One step along a factor advances by `stride` ranks. Strides
// nest: each is a multiple of the extent of the next smaller one, so coordinates follow by division. Mesh::create() is
// row-major: the last axis has stride 1. Slices keep their strides, and a flattened axis keeps its factors.
//
// Meshes are interned values. Equal meshes are the same object, so a comparison compares two pointers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/base/small_vector.h"

namespace tessera::layout {

/// Link between the ranks along an axis. The cost model assigns a latency and a bandwidth to each link.
enum class Link : std::uint8_t {
  kMemory,   ///< Shared memory of one machine, host to host.
  kNvlink,   ///< NVLink between GPUs of one machine or rack.
  kPcie,     ///< PCIe between GPUs of one machine.
  kNetwork,  ///< Network between machines.
};
/// Returns "memory", "nvlink", "pcie" or "network".
TESSERA_API std::string_view to_string(Link link);
/// Returns the link with this name. Throws InvalidArgument, which suggests the nearest name, if the name is unknown.
TESSERA_API Link parse_link(std::string_view text);

/// A progression of `size` ranks, `stride` apart.
struct RankStep {
  std::int64_t size = 1;    ///< Number of ranks.
  std::int64_t stride = 1;  ///< Distance between neighbors, in ranks.
  /// Compares size and stride.
  friend bool operator==(const RankStep&, const RankStep&) = default;
};

/// A set of ranks in closed form: first + sum of i_k * stride_k, ordered by the steps. The last step varies fastest.
struct TESSERA_API RankSet {
  std::int64_t first = 0;          ///< Rank at index 0.
  SmallVector<RankStep, 6> steps;  ///< Sizes above 1. Steps that form one progression are merged.

  /// Returns the number of ranks.
  [[nodiscard]] std::int64_t size() const;
  /// Returns the rank at index `place`, in [0, size()). Throws InvalidArgument if the index is out of range.
  [[nodiscard]] Rank at(std::int64_t place) const;
  /// Returns the index of a rank, or -1 if the set does not contain the rank.
  [[nodiscard]] std::int64_t place_of(Rank rank) const;
  /// Returns true if both sets have the same ranks in the same order, given that both keep the rules for `steps`.
  friend bool operator==(const RankSet&, const RankSet&) = default;
};

/// Description of an axis of a new mesh.
struct TESSERA_API AxisSpec {
  std::string name;           ///< A letter or '_', then letters, digits and '_'.
  std::int64_t size = 1;      ///< At least 1. An axis of size 1 has no cost.
  Link link = Link::kNvlink;  ///< Link between the ranks along the axis.
  /// Options for the communicator: ("backend", "nccl").
  std::vector<std::pair<std::string, std::string>> options = {};
};

/// An axis of a mesh.
struct Axis {
  std::string name;       ///< Unique in the mesh.
  std::int64_t size = 1;  ///< Number of ranks along the axis.
  /// Major to minor. One factor of size 1 if the axis has size 1.
  SmallVector<RankStep, 2> parts;
  Link link = Link::kNvlink;                                 ///< Link between the ranks along the axis.
  std::vector<std::pair<std::string, std::string>> options;  ///< Sorted by key.
  /// Compares all fields.
  friend bool operator==(const Axis&, const Axis&) = default;
};

/// Process-local number of a mesh. Never 0 and never reused.
using MeshId = Id<struct MeshTag, std::uint32_t>;
/// Index of a rank along each axis.
using Coordinates = SmallVector<std::int64_t, 8>;

/// Handle to a mesh. Cheap to copy, empty until assigned, safe to share between threads.
class TESSERA_API Mesh {
 public:
  /// Maximum number of axes.
  static constexpr int kMaxAxes = 12;

  /// Constructs an empty handle, which can only be assigned, compared and tested.
  Mesh() = default;
  /// Same as create(): Mesh mesh({{"dp", 2}, {"tp", 4}}).
  explicit Mesh(std::initializer_list<AxisSpec> axes) : Mesh(create(axes)) {}
  /// Returns a row-major mesh of the ranks from `first`. Throws InvalidArgument if two names are equal or the mesh
  /// would have more than 2^31 ranks.
  static Mesh create(std::vector<AxisSpec> axes, Rank first = Rank(0));
  /// Returns the mesh with this text, such as "dp=2,tp=4"; see text(). Throws InvalidArgument if the text is malformed.
  static Mesh parse(std::string_view text);

  /// Returns true if the handle refers to a mesh.
  explicit operator bool() const { return state_ != nullptr; }
  /// Returns the process-local number of the mesh.
  [[nodiscard]] MeshId id() const;
  /// Returns the number of axes.
  [[nodiscard]] int ndim() const;
  /// Returns the axis at `index`, in [0, ndim()).
  [[nodiscard]] const Axis& axis(int index) const;
  /// Returns all axes, major to minor.
  [[nodiscard]] std::span<const Axis> axes() const;
  /// Returns the index of the axis with this name. Throws InvalidArgument, which suggests the nearest name.
  [[nodiscard]] int index_of(std::string_view name) const;
  /// Returns the number of ranks in the mesh.
  [[nodiscard]] std::int64_t size() const;
  /// Returns all ranks, in the order of the axes.
  [[nodiscard]] RankSet ranks() const;

  /// Returns true if the rank is in the mesh.
  [[nodiscard]] bool contains(Rank rank) const;
  /// Returns the coordinates of a rank. Throws InvalidArgument if the rank is not in the mesh.
  [[nodiscard]] Coordinates coordinates(Rank rank) const;
  /// Returns the rank at these coordinates. Throws InvalidArgument if a coordinate is out of range.
  [[nodiscard]] Rank rank_at(std::span<const std::int64_t> coordinates) const;
  /// Returns `rank` and the ranks that differ from it only along `axes`, in the order of `axes`.
  [[nodiscard]] RankSet group(std::span<const int> axes, Rank rank) const;

  /// Returns the mesh of these axes, in this order, that contains `rank`.
  [[nodiscard]] Mesh slice(std::span<const std::string> names, Rank rank) const;
  /// Returns the mesh without this axis, at one coordinate of the axis.
  [[nodiscard]] Mesh at(std::string_view name, std::int64_t coordinate) const;
  /// Returns the same ranks with these axes merged, in this order, at the index of the first. The new axis has the
  /// slowest link (the largest enumerator) and no options.
  [[nodiscard]] Mesh flatten(std::span<const std::string> names, std::string name) const;
  /// Returns the same ranks with one axis split into several, major to minor. The
  /// product of their sizes must be the size of the axis.
  [[nodiscard]] Mesh unflatten(std::string_view name, std::span<const AxisSpec> into) const;

  /// Returns "dp=2@network,tp=4{backend=nccl}", which parse() reads. The text omits `@nvlink`. If the mesh is not
  /// row-major from rank 0, the text has the first rank, the strides, and the factors of flattened axes:
  /// "8+x=2:16*4:1". A mesh without axes is one rank: "8+".
  [[nodiscard]] const std::string& text() const;

  /// Returns true if both handles refer to the same mesh.
  friend bool operator==(const Mesh& a, const Mesh& b) { return a.state_ == b.state_; }

 private:
  struct State;
  explicit Mesh(const State* state) : state_(state) {}
  static Mesh intern(std::vector<Axis> axes, std::int64_t first);
  [[nodiscard]] const State& state() const;

  const State* state_ = nullptr;  // interned; never freed
};

}  // namespace tessera::layout

// A mesh: ranks arranged along named axes. It is geometry and nothing else: no communicator hangs on it, and the ranks
// need not exist, so that 100,000 of them cost what 8 do.
//
// Every axis is one or more parts (size, stride): moving one step along a part moves `stride` ranks. Strides nest (each
// is a multiple of the extent of the next smaller one), so that coordinates are found by division alone. A fresh mesh
// is row-major: the last axis has stride 1. Slices keep their strides; a flattened axis keeps its parts.
//
// Meshes are values that are interned: equal meshes are the same object, and comparing two is comparing two pointers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/base/small_vector.h"

namespace tessera::layout {

/// What the ranks along an axis talk over. The cost model gives each its latency and bandwidth.
enum class Link : std::uint8_t {
  kMemory,   ///< shared memory of one machine, host to host
  kNvlink,   ///< GPUs of one machine or rack over NVLink
  kPcie,     ///< GPUs of one machine over PCIe
  kNetwork,  ///< between machines
};
/// "memory", "nvlink", "pcie", "network".
TESSERA_API std::string_view to_string(Link link);
/// The link of this name; InvalidArgument names the nearest.
TESSERA_API Link parse_link(std::string_view text);

/// `size` ranks, `stride` apart.
struct RankStep {
  std::int64_t size = 1;    ///< how many
  std::int64_t stride = 1;  ///< from one to the next
  /// The same numbers.
  friend bool operator==(const RankStep&, const RankStep&) = default;
};

/// Ranks in closed form: first + sum of i_k * stride_k. The order is that of the steps, the last one fastest.
struct TESSERA_API RankSet {
  std::int64_t first = 0;          ///< the rank at place 0
  SmallVector<RankStep, 6> steps;  ///< none of size 1; two in a row that make one progression are one

  /// How many there are.
  [[nodiscard]] std::int64_t size() const;
  /// The rank at a place, 0 to size() - 1.
  [[nodiscard]] Rank at(std::int64_t place) const;
  /// The place of a rank; -1: it is not among them.
  [[nodiscard]] std::int64_t place_of(Rank rank) const;
  /// The same ranks in the same order, where steps are as said above.
  friend bool operator==(const RankSet&, const RankSet&) = default;
};

/// What is said of an axis when a mesh is made.
struct TESSERA_API AxisSpec {
  std::string name;           ///< a letter or '_', then letters, digits and '_'
  std::int64_t size = 1;      ///< at least 1; an axis of size 1 costs nothing anywhere
  Link link = Link::kNvlink;  ///< what its ranks talk over
  std::vector<std::pair<std::string, std::string>> options = {};  ///< for the communicator: ("backend", "nccl")
};

/// An axis of a mesh.
struct Axis {
  std::string name;                                          ///< unlike all others of the mesh
  std::int64_t size = 1;                                     ///< ranks along it
  SmallVector<RankStep, 2> parts;                            ///< major to minor; one of size 1 where the axis is
  Link link = Link::kNvlink;                                 ///< what its ranks talk over
  std::vector<std::pair<std::string, std::string>> options;  ///< sorted by key
  /// The same axis in all of this.
  friend bool operator==(const Axis&, const Axis&) = default;
};

/// Numbers a mesh within this process; never 0, never reused.
using MeshId = Id<struct MeshTag, std::uint32_t>;
/// A rank's place along each axis.
using Coordinates = SmallVector<std::int64_t, 8>;

/// See the head of this file. A handle: cheap to copy, empty until assigned, safe to share between threads.
class TESSERA_API Mesh {
 public:
  /// Most axes of a mesh.
  static constexpr int kMostAxes = 12;

  /// Empty; only assigning, comparing and asking for emptiness are allowed.
  Mesh() = default;
  /// Ranks `first` on, row-major. Names must differ; the product of sizes fits 2^31 ranks.
  static Mesh create(std::vector<AxisSpec> axes, Rank first = Rank(0));
  /// The mesh of a text form, "dp=2,tp=4"; see text().
  static Mesh parse(std::string_view text);

  /// Whether it is a mesh.
  explicit operator bool() const { return state_ != nullptr; }
  /// Numbers it within this process.
  [[nodiscard]] MeshId id() const;
  /// How many axes there are.
  [[nodiscard]] int ndim() const;
  /// An axis, 0 to ndim() - 1.
  [[nodiscard]] const Axis& axis(int index) const;
  /// All axes.
  [[nodiscard]] std::span<const Axis> axes() const;
  /// The axis of this name; InvalidArgument names the nearest.
  [[nodiscard]] int index_of(std::string_view name) const;
  /// How many ranks there are.
  [[nodiscard]] std::int64_t size() const;
  /// All ranks, in the order of the axes.
  [[nodiscard]] RankSet ranks() const;

  /// Whether the rank is on the mesh.
  [[nodiscard]] bool contains(Rank rank) const;
  /// The rank's coordinates; InvalidArgument when it is off the mesh.
  [[nodiscard]] Coordinates coordinates(Rank rank) const;
  /// The rank at these coordinates.
  [[nodiscard]] Rank rank_at(std::span<const std::int64_t> coordinates) const;
  /// The ranks that differ from `rank` along these axes alone, in the order of `axes`.
  [[nodiscard]] RankSet group(std::span<const int> axes, Rank rank) const;

  /// The mesh of these axes, in this order, that holds `rank`.
  [[nodiscard]] Mesh slice(std::span<const std::string> names, Rank rank) const;
  /// The mesh without this axis, at one coordinate of it.
  [[nodiscard]] Mesh at(std::string_view name, std::int64_t coordinate) const;
  /// The same ranks with these axes made one, in this order, at the place of the first; it takes the link of the
  /// slowest (the later enumerator) and the options of none.
  [[nodiscard]] Mesh flatten(std::span<const std::string> names, std::string name) const;
  /// The same ranks with an axis cut into several, major to minor; the product of sizes is its size.
  [[nodiscard]] Mesh unflatten(std::string_view name, std::span<const AxisSpec> into) const;

  /// "dp=2@network,tp=4{backend=nccl}": what parse() reads. `@nvlink` is left out. A mesh that is not row-major from
  /// rank 0 says where it starts and its strides, and parts of a flattened axis: "8+x=2:16*4:1". A mesh without axes is
  /// its one rank: "8+".
  [[nodiscard]] const std::string& text() const;

  /// The same mesh.
  friend bool operator==(const Mesh& a, const Mesh& b) { return a.state_ == b.state_; }

 private:
  struct State;
  explicit Mesh(const State* state) : state_(state) {}
  static Mesh intern(std::vector<Axis> axes, std::int64_t first);
  [[nodiscard]] const State& state() const;

  const State* state_ = nullptr;  // interned, for the life of the process
};

}  // namespace tessera::layout

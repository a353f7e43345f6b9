// Generates a program from a seed: random operators on tensors of random layouts. One device runs it on plain tensors,
// and the ranks of a mesh run it on sharded ones. Results and gradients must be equal.
//
// Exact programs compute with small integers, so that the order of summation does not change a bit and operators that
// choose (sort, amax, comparisons) choose equally. Smooth programs contain operators that round, and none that choose.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tessera/layout/layout.h"
#include "tessera/ops/testing/recombine.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard::testing {

/// One line of a program: a leaf with values and a layout, or a function of the tensors of earlier lines.
struct ProgramLine {
  std::string text;
  std::vector<std::size_t> inputs = {};
  std::function<Tensor(const std::vector<Tensor>&)> run = {};  // empty for a leaf
  ops::testing::Whole value = {};                              // of a leaf
  layout::Layout layout = {};                                  // of a leaf
};

/// Result of a run. For a sharded run, the tensors of this rank.
struct ProgramRun {
  std::vector<Tensor> tensors = {};    // per line; fewer if one was rejected
  std::vector<Tensor> gradients = {};  // of each floating-point leaf by the last line; empty if it has none
  std::string refused = {};            // reason if a line was rejected
};

/// A generated program.
class RandomProgram {
 public:
  /// Generates the program of `seed`, on `mesh` or on a random mesh.
  explicit RandomProgram(std::uint64_t seed, const layout::Mesh& mesh = {});
  /// Returns the mesh, which need not start at rank 0.
  [[nodiscard]] const layout::Mesh& mesh() const { return mesh_; }
  /// Returns the size of a world that holds the mesh. Some ranks may be outside the mesh.
  [[nodiscard]] int world_size() const { return world_size_; }
  /// Returns the maximum rounding error.
  [[nodiscard]] double tolerance() const { return is_exact_ ? 1e-12 : 1e-7; }
  /// Returns all lines as text.
  [[nodiscard]] std::string text() const;
  /// Runs on one device.
  [[nodiscard]] ProgramRun run_whole() const { return run(false); }
  /// Runs on the current rank, inside an AutoRedistribute scope.
  [[nodiscard]] ProgramRun run_sharded() const { return run(true); }
  /// Returns the lines.
  [[nodiscard]] const std::vector<ProgramLine>& lines() const { return lines_; }

 private:
  friend class ProgramBuilder;
  [[nodiscard]] ProgramRun run(bool is_sharded) const;

  std::uint64_t seed_;
  layout::Mesh mesh_;
  int world_size_ = 1;
  bool is_exact_ = false;
  std::vector<ProgramLine> lines_;
};

struct ProgramVerb;

/// Writes a program line by line and runs it at the same time.
class ProgramBuilder {
 public:
  using Run = std::function<Tensor(const std::vector<Tensor>&)>;

  ProgramBuilder(RandomProgram& program, std::mt19937_64& random) : program_(program), random_(random) {}

  /// Returns a random number in [0, below).
  std::int64_t pick(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  /// Returns true with a probability of `percent`.
  bool chance(int percent) { return pick(100) < percent; }
  /// Returns a floating-point tensor with at least so many dimensions; -1 if none exists.
  std::int64_t some(int min_dims = 0);
  /// Returns a tensor of exactly this shape, preferably not `but`; a new leaf if none exists.
  std::size_t like(const Shape& shape, std::size_t but);
  /// Returns the shape of a line.
  [[nodiscard]] const Shape& shape(std::size_t line) const { return values_[line].shape(); }
  /// Returns a random dimension of a line that has some.
  std::int64_t dim_of(std::size_t line) { return pick(shape(line).ndim()); }
  /// Returns a random, possibly empty set of dimensions.
  std::vector<std::int64_t> dims_of(std::size_t line);
  /// Adds a floating-point leaf, with integers in an exact program.
  std::size_t leaf(const Shape& shape);
  /// Adds a leaf of indices less than `end`.
  std::size_t indices(const Shape& shape, std::int64_t end);
  /// Adds a leaf of bools.
  std::size_t mask(const Shape& shape);
  /// Returns a random layout for a tensor of this shape.
  layout::Layout layout(const Shape& shape, int partial_percent);
  /// Adds a line with the text "op(%3, %4, rest)". Returns false, and adds nothing, if it is invalid.
  bool line(const std::string& op, const std::vector<std::size_t>& inputs, const Run& run,
            const std::string& rest = {});
  /// Returns true if the program is exact.
  [[nodiscard]] bool is_exact() const { return program_.is_exact_; }
  /// Writes the complete program.
  void write();

 private:
  std::size_t add_leaf(ops::testing::Whole value, layout::Layout layout);
  bool try_line(const ProgramVerb& verb);
  void keep_in_range();
  void add_loss();

  RandomProgram& program_;
  std::mt19937_64& random_;
  std::vector<Tensor> values_;
};

/// A kind of line. `write` returns false if it added nothing.
struct ProgramVerb {
  enum class In : std::uint8_t { kBoth, kExact, kSmooth };
  In in;
  std::function<bool(ProgramBuilder&)> write;
};
/// Returns all kinds.
const std::vector<ProgramVerb>& program_verbs();

}  // namespace tessera::shard::testing

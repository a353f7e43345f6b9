// A program from a seed: random operators on tensors of random layouts, written once and run by one device on plain
// tensors and by the ranks of a mesh on sharded ones. What both end with must be the same, gradients included.
//
// There are two kinds. Exact programs compute with small integers, so that no order of summing changes a bit and
// operators that choose (sort, amax, comparisons) choose alike; smooth ones have everything that rounds, and nothing
// that chooses.
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

/// One line of a program: a leaf, which has values and a layout, or a function of tensors of lines before it.
struct ProgramLine {
  std::string text;
  std::vector<std::size_t> inputs = {};
  std::function<Tensor(const std::vector<Tensor>&)> run = {};  // none: a leaf
  ops::testing::Whole value = {};                              // of a leaf
  layout::Layout layout = {};                                  // likewise
};

/// What a run gave. Of a sharded run this rank's tensors.
struct ProgramRun {
  std::vector<Tensor> tensors = {};    // of each line; fewer where one was refused
  std::vector<Tensor> gradients = {};  // of each floating leaf by the last line; none where there is none
  std::string refused = {};            // why a line could not be run
};

/// See the head of this file.
class RandomProgram {
 public:
  /// Of this seed; on a mesh that it chooses, or on this one.
  explicit RandomProgram(std::uint64_t seed, const layout::Mesh& mesh = {});
  /// The mesh, from rank 0 on or not.
  [[nodiscard]] const layout::Mesh& mesh() const { return mesh_; }
  /// Ranks of a world that the mesh fits in; some may be off it.
  [[nodiscard]] int world_size() const { return world_size_; }
  /// Errors up to this are rounding.
  [[nodiscard]] double tolerance() const { return is_exact_ ? 1e-12 : 1e-7; }
  /// All lines, one below the other.
  [[nodiscard]] std::string text() const;
  /// On one device.
  [[nodiscard]] ProgramRun run_whole() const { return run(false); }
  /// On the current rank, inside an AutoRedistribute scope.
  [[nodiscard]] ProgramRun run_sharded() const { return run(true); }
  /// The lines.
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

/// Writes a program line by line, running it on the way.
class ProgramBuilder {
 public:
  using Run = std::function<Tensor(const std::vector<Tensor>&)>;

  ProgramBuilder(RandomProgram& program, std::mt19937_64& random) : program_(program), random_(random) {}

  /// A number of [0, below).
  std::int64_t pick(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  /// True so many times in a hundred.
  bool chance(int percent) { return pick(100) < percent; }
  /// A floating tensor that is there, of at least so many dimensions; -1: there is none.
  std::int64_t some(int least_dims = 0);
  /// One of exactly this shape, other than `but` where there is one; a new leaf where there is none.
  std::size_t like(const Shape& shape, std::size_t but);
  /// The shape of a line.
  [[nodiscard]] const Shape& shape(std::size_t line) const { return values_[line].shape(); }
  /// Any dimension of it, which has some.
  std::int64_t dim_of(std::size_t line) { return pick(shape(line).ndim()); }
  /// Some dimensions of it; maybe none.
  std::vector<std::int64_t> dims_of(std::size_t line);
  /// A new floating leaf; integers where the program is exact.
  std::size_t leaf(const Shape& shape);
  /// A new leaf of indices below `end`.
  std::size_t indices(const Shape& shape, std::int64_t end);
  /// A new leaf of bools.
  std::size_t mask(const Shape& shape);
  /// A layout for a tensor of this shape.
  layout::Layout layout(const Shape& shape, int partial_percent);
  /// A line; "op(%3, %4, rest)" is its text. False: it makes no sense and is not there.
  bool line(const std::string& op, const std::vector<std::size_t>& inputs, const Run& run,
            const std::string& rest = {});
  /// Whether the program is exact.
  [[nodiscard]] bool is_exact() const { return program_.is_exact_; }
  /// Writes the whole program.
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

/// What a line may be; false: nothing came of it.
struct ProgramVerb {
  enum class In : std::uint8_t { kBoth, kExact, kSmooth };
  In in;
  std::function<bool(ProgramBuilder&)> write;
};
/// All of them.
const std::vector<ProgramVerb>& program_verbs();

}  // namespace tessera::shard::testing

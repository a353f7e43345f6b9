#include "tessera/shard/testing/random_program.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/layout/testing/random_requests.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard::testing {
namespace {

using layout::Layout;
using layout::Mesh;
using ops::testing::Whole;
using tessera::detail::concat;

constexpr std::int64_t kMaxElements = 1500;

// Returns a mesh of one to three axes; sometimes not from rank 0, not row-major, or smaller than the world.
Mesh random_mesh(std::mt19937_64& random, int& world_size) {
  static const char* const kMeshes[] = {"x=2",         "x=3",         "x=4",     "x=2,y=2",       "x=2,y=2",
                                        "x=3,y=2",     "x=2,y=3",     "x=2,y=4", "x=2,y=2,z=2",   "x=2,y=2,z=2",
                                        "x=2:1,y=2:2", "x=2:1,y=3:2", "1+x=2",   "1+x=2:1,y=2:2", "x=2:2,y=2:4,z=2:1"};
  const Mesh mesh = Mesh::parse(kMeshes[random() % std::size(kMeshes)]);
  world_size = 1;
  for (std::int64_t place = 0; place < mesh.size(); ++place) {
    world_size = std::max(world_size, mesh.ranks().at(place).value() + 1);
  }
  if (random() % 10 == 0) ++world_size;
  return mesh;
}

Shape random_shape(ProgramBuilder& from) {
  static constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12};
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1 + from.pick(3); n > 0; --n) sizes.push_back(kSizes[from.pick(std::size(kSizes))]);
  return Shape(std::span<const std::int64_t>(sizes));
}

bool is_real(const Tensor& tensor) { return is_floating(tensor.dtype()); }

double greatest(const Tensor& tensor) {
  double most = 0;
  for (const double value : ops::testing::read(tensor).values) {
    if (!std::isfinite(value)) return HUGE_VAL;
    most = std::max(most, std::abs(value));
  }
  return most;
}

}  // namespace

RandomProgram::RandomProgram(std::uint64_t seed, const Mesh& mesh)
    : seed_(seed), mesh_(mesh), world_size_(mesh ? static_cast<int>(mesh.size()) : 0) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15U + 7);
  if (!mesh) mesh_ = random_mesh(random, world_size_);
  is_exact_ = random() % 2 == 0;
  ProgramBuilder(*this, random).write();
}

std::string RandomProgram::text() const {
  std::string text = concat("mesh ", mesh_.text(), " in a world of ", world_size_, is_exact_ ? ", exact" : ", smooth");
  for (std::size_t i = 0; i < lines_.size(); ++i) text += concat("\n  %", i, " = ", lines_[i].text);
  return text;
}

ProgramRun RandomProgram::run(bool is_sharded) const {
  const AutoRedistribute automatic;
  ops::manual_seed(seed_);
  ProgramRun out;
  std::vector<Tensor> leaves;
  std::size_t at = 0;
  try {
    for (; at < lines_.size(); ++at) {
      const ProgramLine& line = lines_[at];
      if (!line.run) {
        out.tensors.push_back(is_sharded ? placed(line.value, line.layout) : plain(line.value));
        if (!is_real(out.tensors.back())) continue;
        autograd::set_requires_grad(out.tensors.back(), true);
        leaves.push_back(out.tensors.back());
        continue;
      }
      std::vector<Tensor> inputs;
      for (const std::size_t input : line.inputs) inputs.push_back(out.tensors[input]);
      out.tensors.push_back(line.run(inputs));
    }
    if (out.tensors.back().is_tracked()) {
      out.gradients = autograd::gradients({out.tensors.back()}, leaves, {}, {.allow_unused = true});
    }
  } catch (const Error& error) {
    out.refused = concat(at < lines_.size() ? concat("%", at) : std::string("backward"), ": ", error.message());
  }
  return out;
}

std::int64_t ProgramBuilder::some(int min_dims) {
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!is_real(values_[i]) || shape(i).ndim() < min_dims) continue;
    found.push_back(static_cast<std::int64_t>(i));
    if (i + 4 >= values_.size()) found.insert(found.end(), 2, static_cast<std::int64_t>(i));  // prefers late ones
  }
  return found.empty() ? -1 : found[static_cast<std::size_t>(pick(static_cast<std::int64_t>(found.size())))];
}

std::size_t ProgramBuilder::like(const Shape& wanted, std::size_t but) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (i != but && is_real(values_[i]) && shape(i) == wanted) found.push_back(i);
  }
  if (found.empty() || chance(20)) return leaf(wanted);
  return found[static_cast<std::size_t>(pick(static_cast<std::int64_t>(found.size())))];
}

std::vector<std::int64_t> ProgramBuilder::dims_of(std::size_t line) {
  std::vector<std::int64_t> dims;
  for (std::int64_t d = 0; d < shape(line).ndim(); ++d) {
    if (chance(50)) dims.push_back(d);
  }
  return dims;
}

Layout ProgramBuilder::layout(const Shape& of, int partial_percent) {
  if (of.ndim() == 0) return Layout::replicated(program_.mesh_);
  return layout::testing::random_layout(random_, program_.mesh_, of,
                                        {.special_percent = 25, .partial_percent = partial_percent});
}

std::size_t ProgramBuilder::add_leaf(Whole value, Layout layout) {
  values_.push_back(plain(value));
  ProgramLine line;
  line.text = concat("leaf ", value.dtype, value.shape, " ", layout.placements_text());
  line.value = std::move(value);
  line.layout = std::move(layout);
  program_.lines_.push_back(std::move(line));
  return values_.size() - 1;
}

// Shards of sums are invented fractions: not in exact programs.
std::size_t ProgramBuilder::leaf(const Shape& of) {
  Whole value{of, DType::kF64, {}};
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < of.numel(); ++i) {
    value.values.push_back(is_exact() ? static_cast<double>(pick(9) - 4) : normal(random_));
  }
  return add_leaf(std::move(value), layout(of, is_exact() ? 0 : 30));
}

std::size_t ProgramBuilder::indices(const Shape& of, std::int64_t end) {
  Whole value{of, chance(70) ? DType::kI64 : DType::kI32, {}};
  for (std::int64_t i = 0; i < of.numel(); ++i) value.values.push_back(static_cast<double>(pick(end)));
  return add_leaf(std::move(value), layout(of, 0));
}

std::size_t ProgramBuilder::mask(const Shape& of) {
  Whole value{of, DType::kBool, {}};
  for (std::int64_t i = 0; i < of.numel(); ++i) value.values.push_back(static_cast<double>(pick(2)));
  return add_leaf(std::move(value), layout(of, 0));
}

bool ProgramBuilder::line(const std::string& op, const std::vector<std::size_t>& inputs, const Run& run,
                          const std::string& rest) {
  std::vector<Tensor> given;
  std::string text = op + "(";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    given.push_back(values_[inputs[i]]);
    text += concat(i == 0 ? "%" : ", %", inputs[i]);
  }
  Tensor made;
  try {
    made = run(given);
    ops::testing::wait_for_work();
  } catch (const Error&) {
    return false;
  }
  if (made.numel() > kMaxElements || greatest(made) > 1e6) return false;
  values_.push_back(made);
  ProgramLine line;
  line.text = concat(text, rest.empty() ? "" : ", ", rest, ") -> ", made.dtype(), made.shape());
  line.inputs = inputs;
  line.run = run;
  program_.lines_.push_back(std::move(line));
  return true;
}

// Removes the leaves that were created for a rejected line.
bool ProgramBuilder::try_line(const ProgramVerb& verb) {
  const std::size_t before = values_.size();
  if (verb.write(*this)) return true;
  values_.resize(before);
  program_.lines_.resize(before);
  return false;
}

void ProgramBuilder::keep_in_range() {
  const std::size_t last = values_.size() - 1;
  if (!is_real(values_[last]) || greatest(values_[last]) <= (is_exact() ? 200 : 6)) return;
  if (is_exact()) {
    line(
        "clamp", {last}, [](const auto& in) { return ops::clamp(in[0], -8.0, 8.0); }, "-8, 8");
  } else {
    line("tanh", {last}, [](const auto& in) { return ops::tanh(in[0]); });
  }
}

// Adds the sum of all unused floating-point tensors, each with separate weights.
void ProgramBuilder::add_loss() {
  std::vector<bool> is_used(values_.size());
  for (const ProgramLine& each : program_.lines_) {
    for (const std::size_t input : each.inputs) is_used[input] = true;
  }
  std::vector<std::size_t> sums;
  for (std::size_t i = 0, count = values_.size(); i < count; ++i) {
    if (is_used[i] || !is_real(values_[i])) continue;
    const std::size_t weight = leaf(shape(i));
    if (!line("weighted", {i, weight}, [](const auto& in) { return ops::sum(ops::mul(in[0], in[1])); })) continue;
    sums.push_back(values_.size() - 1);
  }
  const auto add_up = [](const std::vector<Tensor>& in) {
    Tensor total = in[0];
    for (std::size_t i = 1; i < in.size(); ++i) total = ops::add(total, in[i]);
    return total;
  };
  if (!sums.empty()) line("add_up", sums, add_up);
}

void ProgramBuilder::write() {
  const tensor::GradModeScope no_grad(false);
  ops::manual_seed(program_.seed_);
  for (std::int64_t n = 1 + pick(2); n > 0; --n) leaf(random_shape(*this));
  const auto wanted = static_cast<std::size_t>(2 + pick(9));
  std::size_t lines = 0;
  for (int tries = 0; lines < wanted && tries < 100; ++tries) {
    const auto& verbs = program_verbs();
    const ProgramVerb& verb = verbs[static_cast<std::size_t>(pick(static_cast<std::int64_t>(verbs.size())))];
    if (verb.in != ProgramVerb::In::kBoth && (verb.in == ProgramVerb::In::kExact) != is_exact()) continue;
    if (!try_line(verb)) continue;
    ++lines;
    keep_in_range();
  }
  add_loss();
}

}  // namespace tessera::shard::testing

#include "tessera/ops/testing/recombine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "tessera/base/error.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

using layout::Layout;
using tessera::detail::concat;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t width_of(DType dtype) { return is_complex(dtype) ? 2 : 1; }

// ---- shards per rank, cached because the same few layouts recur ----

// The shard of one rank.
struct Held {
  std::vector<std::int64_t> places;  // global positions of its elements, in local order
  std::vector<std::size_t> group;    // ranks whose partial values combine with this one
  std::int64_t part = 0;             // index of this rank among them
};

struct Holding {
  Layout layout;
  Shape shape;
  std::vector<layout::LocalOperand> operands;  // by rank
  std::vector<Held> held;                      // by rank
  Reduction reduction = Reduction::kSum;
  std::int64_t parts = 1;     // number of partial values of a value
  std::int64_t averaged = 1;  // divisor of their sum
};

std::int64_t coordinate(const layout::Mesh& mesh, const layout::Coordinates& at, const layout::SubAxis& by) {
  const std::int64_t after = mesh.axis(by.axis).size / by.before / by.size;
  return at[static_cast<std::size_t>(by.axis)] / after % by.size;
}

std::vector<std::int64_t> places_of(const layout::LocalOperand& local, const Shape& shape) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(local.shape.numel()));
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::int64_t& place : places) {
    place = 0;
    for (std::size_t d = 0; d < index.size(); ++d) place = place * shape[d] + local.index[d].global(index[d]);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < local.shape[d]) break;
      index[d] = 0;
    }
  }
  return places;
}

// Returns the coordinates without those along partial axes: equal for the ranks whose partial values make one value.
layout::Coordinates without_partials(const Layout& layout, layout::Coordinates at) {
  const layout::Coordinates whole = at;
  for (const layout::PartialAxis& partial : layout.partials()) {
    const std::int64_t after = layout.mesh().axis(partial.by.axis).size / partial.by.before / partial.by.size;
    at[static_cast<std::size_t>(partial.by.axis)] -= coordinate(layout.mesh(), whole, partial.by) * after;
  }
  return at;
}

Holding make_holding(const Layout& layout, const Shape& shape) {
  Holding out{layout, shape, {}, {}};
  for (const layout::PartialAxis& partial : layout.partials()) {
    out.reduction = partial.reduction == Reduction::kAvg ? Reduction::kSum : partial.reduction;
    out.parts *= partial.by.size;
    if (partial.reduction == Reduction::kAvg) out.averaged *= partial.by.size;
  }
  const layout::RankSet ranks = layout.mesh().ranks();
  std::vector<layout::Coordinates> rest;
  for (std::int64_t r = 0; r < ranks.size(); ++r) {
    out.operands.push_back(layout::localize(std::span(&shape, 1), std::span(&layout, 1), ranks.at(r))[0]);
    Held& held = out.held.emplace_back();
    held.places = places_of(out.operands.back(), shape);
    const layout::Coordinates at = layout.mesh().coordinates(ranks.at(r));
    for (const layout::PartialAxis& partial : layout.partials()) {
      held.part = held.part * partial.by.size + coordinate(layout.mesh(), at, partial.by);
    }
    rest.push_back(without_partials(layout, at));
  }
  for (std::size_t r = 0; r < rest.size(); ++r) {
    for (std::size_t other = 0; other < rest.size(); ++other) {
      if (rest[other] == rest[r]) out.held[r].group.push_back(other);
    }
  }
  return out;
}

const Holding& holding_of(const Layout& layout, const Shape& shape) {
  thread_local std::unordered_map<Layout, std::unordered_map<Shape, Holding>> kept;
  auto& of_layout = kept[layout];
  const auto found = of_layout.find(shape);
  if (found != of_layout.end()) return found->second;
  return of_layout.emplace(shape, make_holding(layout, shape)).first->second;
}

// ---- partial values ----

std::uint64_t mixed(std::uint64_t value) {
  value = (value + 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
  return value ^ (value >> 31);
}

// Splits the values of one tensor into partial values.
struct PartMaker {
  const Holding& holding;
  DType dtype;
  double range;  // greatest magnitude of the finite global values
  int style;

  [[nodiscard]] double part(std::int64_t place, std::int64_t mine, double value) const {
    switch (holding.reduction) {
      case Reduction::kMin: return extreme(place, mine, value, 1);
      case Reduction::kMax: return extreme(place, mine, value, -1);
      case Reduction::kProd: return factor(place, mine, value);
      default: return summand(place, mine, value);
    }
  }

 private:
  [[nodiscard]] std::int64_t owner(std::int64_t place) const {
    return static_cast<std::int64_t>((mixed(static_cast<std::uint64_t>(place)) + static_cast<std::uint64_t>(style)) %
                                     static_cast<std::uint64_t>(holding.parts));
  }

  [[nodiscard]] double offset(std::int64_t place, std::int64_t mine) const {
    const std::int64_t turned = (mine + place + style) % holding.parts;  // these sum to zero over all partial values
    const double size = std::ceil((style == 0 ? 0.75 : 2.5) * (range + 1));
    return static_cast<double>(2 * turned - (holding.parts - 1)) * size;
  }

  [[nodiscard]] double share(std::int64_t mine, double total) const {
    const std::int64_t all = holding.parts * (holding.parts + 3) / 2;
    const double exact = total * static_cast<double>(mine + 2) / static_cast<double>(all);
    return is_floating(dtype) ? exact : std::floor(exact);
  }

  [[nodiscard]] double summand(std::int64_t place, std::int64_t mine, double value) const {
    if (dtype == DType::kBool) return mine == owner(place) ? value : 0;
    const double total = value * static_cast<double>(holding.averaged);
    if (mine != holding.parts - 1) return share(mine, total) + offset(place, mine);
    double others = 0;
    for (std::int64_t p = 0; p + 1 < holding.parts; ++p) others += share(p, total);
    return std::isfinite(total) ? total - others + offset(place, mine) : total;
  }

  [[nodiscard]] double extreme(std::int64_t place, std::int64_t mine, double value, double sign) const {
    if (mine == owner(place)) return value;
    if (dtype == DType::kBool) return sign > 0 ? 1 : 0;
    const std::uint64_t dice = mixed(static_cast<std::uint64_t>(place + 31 * mine)) % 4;
    if (dice == 0) return value + sign * (is_floating(dtype) ? 0.37 : 1);
    if (dice == 1 && style == 1 && is_floating(dtype)) return sign * kInfinity;
    return value + sign * std::ceil((range + 1) * static_cast<double>(mine + 2));
  }

  [[nodiscard]] double factor(std::int64_t place, std::int64_t mine, double value) const {
    if (dtype == DType::kBool) return mine == owner(place) ? value : 1;
    constexpr double kFactors[] = {-2, 0.5, 4, -0.25};
    const auto other = [&](std::int64_t p) {
      const double by = kFactors[(p + place) % 4];
      return is_floating(dtype) ? by : (by < 0 ? -1.0 : 1.0);
    };
    if (mine != owner(place)) return other(mine);
    double product = 1;
    for (std::int64_t p = 0; p < holding.parts; ++p) product *= p == mine ? 1 : other(p);
    return value / product;
  }
};

double combined(Reduction reduction, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  switch (reduction) {
    case Reduction::kMin: return std::min(a, b);
    case Reduction::kMax: return std::max(a, b);
    case Reduction::kProd: return a * b;
    default: return a + b;
  }
}

// Returns half the distance from 1 to the next number.
double epsilon(DType dtype) {
  switch (real_of(dtype)) {
    case DType::kF64: return 1.2e-16;
    case DType::kF32: return 6e-8;
    case DType::kF16: return 5e-4;
    case DType::kBF16: return 4e-3;
    case DType::kF8E4M3: return 0.0625;
    case DType::kF8E5M2: return 0.125;
    default: return 0;
  }
}

// Returns the possible error from rounding partial sums to the dtype.
double rounding_of(const std::vector<Whole>& parts, DType dtype, std::int64_t count) {
  double largest = 0;
  for (const Whole& part : parts) {
    for (const double value : part.values) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
  }
  return 2 * epsilon(dtype) * largest * static_cast<double>(count);
}

bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

Tensor own_memory(const Shape& shape, DType dtype, std::vector<std::int64_t>& words) {
  auto bytes = std::make_shared<std::vector<std::int64_t>>(std::move(words));
  bytes->resize(std::max<std::size_t>(bytes->size(), 1));
  return Tensor::wrap(bytes->data(), shape, dtype, device::Device::get("host"), bytes);
}

// Writes doubles as a dtype, in words that are aligned for all dtypes.
std::vector<std::int64_t> packed(const std::vector<double>& values, DType dtype) {
  const DType real = real_of(dtype);
  std::vector<std::int64_t> words((values.size() * itemsize(real) + 7) / 8);
  auto* bytes = reinterpret_cast<std::byte*>(words.data());
  if (real == DType::kF64) {
    if (!values.empty()) std::memcpy(bytes, values.data(), values.size() * sizeof(double));
    return words;
  }
  for (std::size_t i = 0; i < values.size(); ++i) write_element(bytes + i * itemsize(real), real, values[i]);
  return words;
}

// Returns for example "element [1, 2] (ranks 0, 2)".
std::string element_text(const Whole& whole, std::size_t at, const Layout& layout) {
  const auto place = static_cast<std::int64_t>(at / width_of(whole.dtype));
  const auto index = digits(whole.shape, place);
  std::string out = concat("element ", Shape(std::span<const std::int64_t>(index)));
  const Holding& holding = holding_of(layout, whole.shape);
  std::string ranks;
  for (std::size_t r = 0; r < holding.held.size(); ++r) {
    if (std::ranges::find(holding.held[r].places, place) == holding.held[r].places.end()) continue;
    ranks += concat(ranks.empty() ? "" : ", ", r);
  }
  return concat(out, ranks.find(',') == std::string::npos ? " (rank " : " (ranks ", ranks, ")");
}

}  // namespace

const std::vector<layout::LocalOperand>& local_operands(const Layout& layout, const Shape& shape) {
  return holding_of(layout, shape).operands;
}

void wait_for_work() {
  const device::Stream& stream = tensor::current_stream(device::Device::get("host"));
  try {
    stream.synchronize();
  } catch (const Error&) {
    stream.reset_error();
    throw;
  }
}

Tensor to_tensor(const Whole& whole) {
  auto words = packed(whole.values, whole.dtype);
  return own_memory(whole.shape, whole.dtype, words);
}

Parts sharding(const Whole& whole, const Layout& layout, int style) {
  const Holding& holding = holding_of(layout, whole.shape);
  PartMaker maker{holding, real_of(whole.dtype), 0, style};
  for (const double value : whole.values) {
    if (std::isfinite(value)) maker.range = std::max(maker.range, std::abs(value));
  }
  const std::size_t width = width_of(whole.dtype);
  Parts out{whole.shape, whole.dtype, layout, {}};
  std::vector<double> values;
  for (std::size_t r = 0; r < holding.held.size(); ++r) {
    const Held& held = holding.held[r];
    values.resize(held.places.size() * width);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t place = held.places[i / width];
      const double value = whole.values[static_cast<std::size_t>(place) * width + i % width];
      values[i] = holding.parts == 1 ? value : maker.part(place, held.part, value);
    }
    auto words = packed(values, whole.dtype);
    out.by_rank.push_back(own_memory(holding.operands[r].shape, whole.dtype, words));
  }
  return out;
}

Whole read(const Tensor& tensor) {
  Whole out{tensor.shape(), tensor.dtype(), {}};
  const DType real = real_of(tensor.dtype());
  const std::size_t width = width_of(tensor.dtype());
  const auto count = static_cast<std::size_t>(tensor.numel());
  out.values.resize(count * width);
  if (count == 0) return out;
  const std::byte* data = tensor.data();
  if (real == DType::kF64 && tensor.is_contiguous()) {
    std::memcpy(out.values.data(), data, out.values.size() * sizeof(double));
    return out;
  }
  for (std::size_t i = 0; i < count; ++i) {
    auto place = static_cast<std::int64_t>(i);
    std::int64_t offset = 0;
    for (std::size_t d = tensor.shape().size(); d-- > 0; place /= tensor.shape()[d]) {
      offset += place % tensor.shape()[d] * tensor.strides()[d];
    }
    const std::byte* at = data + offset * static_cast<std::int64_t>(itemsize(tensor.dtype()));
    for (std::size_t w = 0; w < width; ++w) out.values[i * width + w] = read_element(at + w * itemsize(real), real);
  }
  return out;
}

std::optional<Whole> recombine(const Parts& parts, std::string& wrong) {
  const Holding& holding = holding_of(parts.layout, parts.shape);
  const bool is_ordered = holding.reduction == Reduction::kMin || holding.reduction == Reduction::kMax;
  if (holding.parts > 1 && ((is_complex(parts.dtype) && holding.reduction != Reduction::kSum) ||
                            (parts.dtype == DType::kBool && !is_ordered && holding.reduction != Reduction::kProd))) {
    wrong = concat("partial (", holding.reduction, ") of ", parts.dtype, " is invalid");
    return std::nullopt;
  }
  std::vector<Whole> computed;
  for (std::size_t r = 0; r < parts.by_rank.size(); ++r) {
    const Tensor& part = parts.by_rank[r];
    if (part.shape() != holding.operands[r].shape || part.dtype() != parts.dtype) {
      wrong = concat("rank ", r, " has ", describe(part), ", but its layout requires ", parts.dtype,
                     holding.operands[r].shape);
      return std::nullopt;
    }
    computed.push_back(read(part));
  }
  const std::size_t width = width_of(parts.dtype);
  Whole out{parts.shape, parts.dtype, {}};
  out.values.resize(static_cast<std::size_t>(parts.shape.numel()) * width);
  std::vector<bool> is_known(out.values.size(), false);
  for (std::size_t r = 0; r < computed.size(); ++r) {
    const Held& held = holding.held[r];
    for (std::size_t i = 0; i < computed[r].values.size(); ++i) {
      double value = computed[held.group[0]].values[i];
      for (std::size_t g = 1; g < held.group.size(); ++g) {
        value = combined(holding.reduction, value, computed[held.group[g]].values[i]);
      }
      value /= static_cast<double>(holding.averaged);
      const std::size_t at = static_cast<std::size_t>(held.places[i / width]) * width + i % width;
      if (is_known[at] && !is_same(out.values[at], value)) {
        wrong = concat("replicas differ: ", element_text(out, at, parts.layout), " is ", value, " on rank ", r, ", ",
                       out.values[at], " on an earlier rank");
        return std::nullopt;
      }
      out.values[at] = value;
      is_known[at] = true;
    }
  }
  if (holding.parts > 1) out.rounding = rounding_of(computed, parts.dtype, holding.parts);
  const auto unknown = std::ranges::find(is_known, false);
  if (unknown != is_known.end()) {
    wrong = concat("no rank has element ", unknown - is_known.begin());
    return std::nullopt;
  }
  return out;
}

Whole reduced(const std::vector<const Whole*>& parts, Reduction reduction) {
  Whole out = *parts[0];
  const bool is_average = reduction == Reduction::kAvg;
  for (std::size_t p = 1; p < parts.size(); ++p) {
    TESSERA_CHECK_AS(MismatchError, parts[p]->shape == out.shape && parts[p]->dtype == out.dtype,
                     "statistics of the ranks must have one dtype and shape, got ", out.dtype, out.shape, " and ",
                     parts[p]->dtype, parts[p]->shape);
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      out.values[i] = combined(is_average ? Reduction::kSum : reduction, out.values[i], parts[p]->values[i]);
    }
  }
  for (double& value : out.values) value /= is_average ? static_cast<double>(parts.size()) : 1;
  return out;
}

std::string difference(const Whole& got, const Whole& want, double tolerance, const Layout& layout) {
  if (got.shape != want.shape || got.dtype != want.dtype) {
    return concat("must be ", want.dtype, want.shape, ", got ", got.dtype, got.shape);
  }
  const bool is_exact = !is_floating(want.dtype) && !is_complex(want.dtype);
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const double a = got.values[i];
    const double b = want.values[i];
    if (is_same(a, b)) continue;
    if (is_exact || !(std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)) + got.rounding)) {
      return concat(element_text(want, i, layout), " must be ", b, ", got ", a);
    }
  }
  return {};
}

}  // namespace tessera::ops::testing

#include "tessera/ops/testing/derived_samples.h"

#include <algorithm>
#include <cmath>

#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/reduce/reduce.h"

namespace tessera::ops::testing {

using tensor::Attributes;
using tensor::IntList;

Shape shape_of(const std::vector<std::int64_t>& sizes) { return Shape(std::span<const std::int64_t>(sizes)); }

Shape resized(const Shape& shape, std::int64_t dim, std::int64_t size) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes[static_cast<std::size_t>(dim < 0 ? dim + shape.ndim() : dim)] = size;
  return shape_of(sizes);
}

std::int64_t Derivation::size(bool or_none) {
  if (or_none && one_in(20)) return 0;
  constexpr std::int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 33};
  return kSizes[pick(std::size(kSizes))];
}

Shape Derivation::shape(std::int64_t least, std::int64_t most, bool or_none) {
  std::vector<std::int64_t> sizes;
  std::int64_t numel = 1;
  for (std::int64_t n = between(least, most); n > 0; --n) {
    const std::int64_t next = size(or_none);
    sizes.push_back(numel * next > 3000 ? between(1, 2) : next);
    numel *= std::max<std::int64_t>(sizes.back(), 1);
  }
  std::ranges::shuffle(sizes, random_);
  return shape_of(sizes);
}

IntList Derivation::dims(std::int64_t ndim, bool all) {
  std::vector<std::int64_t> chosen;
  for (std::int64_t d = 0; d < ndim; ++d) {
    if (all || one_in(2)) chosen.push_back(one_in(2) ? d : d - ndim);
  }
  std::ranges::shuffle(chosen, random_);
  IntList list;
  for (const std::int64_t d : chosen) list.push_back(d);
  return list;
}

SampleInput Derivation::values(std::size_t input, const Shape& shape) {
  std::vector<const SampleInput*> from;
  for (const OpSample& sample : samples_) {
    if (input < sample.inputs.size() && !sample.inputs[input].value.values.empty())
      from.push_back(&sample.inputs[input]);
  }
  SampleInput made = *from[random_() % from.size()];
  const std::vector<double> pool = made.value.values;
  made.value = Array(shape);
  for (double& value : made.value.values) value = pool[random_() % pool.size()];
  return made;
}

SampleInput Derivation::indices(const Shape& shape, std::int64_t size) {
  SampleInput made = integers(random_, size == 0 ? Shape({0}) : shape, 0, std::max<std::int64_t>(size, 1));
  if (one_in(2)) made.dtype = DType::kI32;
  return made;
}

namespace {

// Returns a shape that broadcasts to `whole`.
Shape broadcast_part(Derivation& from, const Shape& whole) {
  std::vector<std::int64_t> sizes(whole.begin() + (from.one_in(3) ? from.pick(whole.ndim() + 1) : 0), whole.end());
  for (std::int64_t& size : sizes) {
    if (from.one_in(4)) size = 1;
  }
  return shape_of(sizes);
}

OpSample derive_pointwise(Derivation& from) {
  const Shape whole = from.shape(0, 5);
  const OpSample& like =
      from.samples()[static_cast<std::size_t>(from.pick(static_cast<std::int64_t>(from.samples().size())))];
  OpSample sample{.inputs = {}, .attributes = like.attributes, .outputs = like.outputs};
  const std::size_t whole_one = from.random()() % like.inputs.size();
  for (std::size_t i = 0; i < like.inputs.size(); ++i) {
    sample.inputs.push_back(from.values(i, i == whole_one ? whole : broadcast_part(from, whole)));
  }
  return sample;
}

// Derives a reduction with the attributes that `make(dims, keepdim)` returns.
template <class Make>
DeriveFn reduction(const Make& make, std::int64_t most = 5, bool or_none = true) {
  return [=](Derivation& from) {
    const Shape shape = from.shape(0, most, or_none);
    const IntList dims = from.dims(shape.ndim());
    return OpSample{.inputs = {from.values(0, shape)}, .attributes = make(from, dims, from.one_in(2))};
  };
}

}  // namespace

void add_reduce_derivations(Derivations& to) {
  const auto plain = [](Derivation&, const IntList& dims, bool keepdim) {
    return Attributes(ReduceAttributes{dims, keepdim});
  };
  for (const char* op : {"amax", "amin", "any", "all", "logsumexp"}) to[op] = reduction(plain);
  to["prod"] = [plain](Derivation& from) {  // the product of many elements exceeds the range of half types
    const Shape shape = from.shape(0, 2, true);
    const bool is_small = shape.numel() <= 6;
    return OpSample{.inputs = {from.values(0, is_small ? shape : Shape({3, 2}))},
                    .attributes = plain(from, is_small ? from.dims(shape.ndim()) : IntList{-1}, from.one_in(2))};
  };
  to["sum"] = reduction([](Derivation&, const IntList& dims, bool keepdim) {
    return Attributes(SumAttributes{dims, keepdim, DType::kF64});
  });
  to["mean"] = reduction([](Derivation&, const IntList& dims, bool keepdim) {
    return Attributes(MeanAttributes{dims, keepdim, -1});
  });
  to["var"] = reduction([](Derivation& from, const IntList& dims, bool keepdim) {
    return Attributes(VarAttributes{dims, keepdim, from.pick(3)});
  });
  to["deviation"] =
      reduction([](Derivation&, const IntList& dims, bool) { return Attributes(DeviationAttributes{dims}); });
  to["norm"] = reduction(
      [](Derivation& from, const IntList& dims, bool keepdim) {
        const double kOrders[] = {2, 1, 3, 0, HUGE_VAL, -HUGE_VAL};
        return Attributes(PNormAttributes{kOrders[from.pick(6)], dims, keepdim});
      },
      5, false);
  for (const char* op : {"argmax", "argmin"}) {
    to[op] = [](Derivation& from) {
      const Shape shape = from.shape(0, 5, false);
      return OpSample{
          .inputs = {from.values(0, shape)},
          .attributes = Attributes(ArgAttributes{.dim = from.dim(shape.ndim()), .keepdim = from.one_in(2)})};
    };
  }
  to["cumsum"] = [](Derivation& from) {
    const Shape shape = from.shape(0, 4);
    SampleInput x = from.values(0, shape);
    x.dtype = DType::kF64;  // otherwise the order of additions differs from that of the reference
    return OpSample{.inputs = {x}, .attributes = Attributes(CumsumAttributes{from.dim(shape.ndim())})};
  };
  to["histc"] = [](Derivation& from) {
    SampleInput x = integers(from.random(), from.shape(0, 4), -5, 9);
    if (from.one_in(2)) x.dtype = DType::kF32;
    const std::int64_t bins = std::int64_t{1} << from.pick(4);  // widths are exact
    return OpSample{.inputs = {x}, .attributes = Attributes(HistcAttributes{bins, -4.0, 4.0})};
  };
}

OpSample derived_sample(const OpCaseInfo& info, Random& random, bool& is_derived) {
  static const Derivations known = [] {
    Derivations all;
    add_reduce_derivations(all);
    add_shape_derivations(all);
    add_index_derivations(all);
    add_nn_derivations(all);
    return all;
  }();
  const std::vector<OpSample> samples = info.samples(random);
  Derivation from(samples, random);
  is_derived = true;
  if (const auto found = known.find(info.op); found != known.end()) return found->second(from);
  const tensor::Operator op = tensor::find_op(info.op);
  const bool has_lists = op->input_lists > 0;
  if (op->def.traits.is_pointwise && !has_lists) return derive_pointwise(from);
  is_derived = false;
  return samples[random() % samples.size()];
}

}  // namespace tessera::ops::testing

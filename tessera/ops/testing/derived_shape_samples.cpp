// Derived samples of the shape and index families.
#include <algorithm>
#include <numeric>

#include "tessera/ops/index/index.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/derived_samples.h"

namespace tessera::ops::testing {
namespace {

using tensor::Attributes;
using tensor::IntList;

// Derives a sample with one argument; `make` returns the attributes for its shape.
template <class Make>
DeriveFn of_one(std::int64_t least, std::int64_t most, const Make& make, bool or_none = true) {
  return [=](Derivation& from) {
    const Shape shape = from.shape(least, most, or_none);
    return OpSample{.inputs = {from.values(0, shape)}, .attributes = Attributes(make(from, shape))};
  };
}

std::int64_t size_of(const Shape& shape, std::int64_t dim) { return shape.dim(static_cast<int>(dim)); }

// Returns sizes whose product is `count`.
Shape factored(Derivation& from, std::int64_t count) {
  std::vector<std::int64_t> sizes;
  if (count == 0) return Shape({from.size(false), 0});
  for (std::int64_t factor = 2; count > 1;) {
    if (count % factor != 0) {
      ++factor;
    } else if (!sizes.empty() && from.one_in(2)) {
      sizes.back() *= factor;
      count /= factor;
    } else {
      sizes.push_back(factor);
      count /= factor;
    }
  }
  if (from.one_in(3)) sizes.push_back(1);
  std::ranges::shuffle(sizes, from.random());
  return shape_of(sizes);
}

ViewAttributes some_view(Derivation& from, const Shape& shape) { return {factored(from, shape.numel())}; }

PermuteAttributes some_order(Derivation& from, const Shape& shape) { return {from.dims(shape.ndim(), true)}; }

SliceAttributes some_slice(Derivation& from, const Shape& shape) {
  const std::int64_t dim = from.dim(shape.ndim());
  const std::int64_t size = size_of(shape, dim);
  const std::int64_t start = size == 0 ? 0 : from.between(-size, size);  // the reference does not clamp further
  return {dim, start, from.one_in(4) ? INT64_MAX : from.between(0, size + 2), from.between(1, 4)};
}

SelectAttributes some_index(Derivation& from, const Shape& shape) {
  const std::int64_t dim = from.dim(shape.ndim());
  const std::int64_t size = size_of(shape, dim);
  return {dim, from.between(-size, size - 1)};
}

FlipAttributes some_flip(Derivation& from, const Shape& shape) { return {from.dims(shape.ndim())}; }

RollAttributes some_roll(Derivation& from, const Shape& shape) {
  RollAttributes a;
  a.dims = from.dims(shape.ndim());
  for (std::size_t i = 0; i < a.dims.size(); ++i) a.shifts.push_back(from.between(-40, 40));
  return a;
}

PadAttributes some_padding(Derivation& from, const Shape& shape) {
  PadAttributes a;
  for (std::int64_t d = 0; d < shape.ndim(); ++d) {
    a.before.push_back(from.pick(4));
    a.after.push_back(from.pick(3));
  }
  a.value = static_cast<double>(from.between(-2, 2)) / 2;
  return a;
}

UnsliceAttributes some_spread(Derivation& from, const Shape& shape) {
  UnsliceAttributes a;
  a.dim = from.dim(shape.ndim());
  a.step = from.between(1, 3);
  a.start = from.pick(4);
  const std::int64_t count = size_of(shape, a.dim);
  a.size = a.start + (count == 0 ? 0 : (count - 1) * a.step + 1) + from.pick(3);
  return a;
}

OpSample derive_expand(Derivation& from) {
  const Shape whole = from.shape(0, 5);
  std::vector<std::int64_t> sizes(whole.begin() + from.pick(whole.ndim() + 1), whole.end());
  for (std::int64_t& size : sizes) size = from.one_in(2) ? 1 : size;
  return {.inputs = {from.values(0, shape_of(sizes))}, .attributes = Attributes(ExpandAttributes{whole})};
}

OpSample derive_cat(Derivation& from) {
  const Shape shape = from.shape(1, 4);
  const std::int64_t dim = from.dim(shape.ndim());
  OpSample sample{.inputs = {}, .attributes = Attributes(CatAttributes{dim})};
  for (std::int64_t i = from.between(1, 5); i > 0; --i) {
    sample.inputs.push_back(from.values(0, resized(shape, dim, from.one_in(4) ? 0 : from.size())));
  }
  return sample;
}

// Returns the shape of an index with as many dimensions as x, not larger except along `dim`.
Shape index_shape(Derivation& from, const Shape& shape, std::int64_t dim) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : shape) sizes.push_back(from.one_in(3) ? from.between(0, size) : size);
  sizes[static_cast<std::size_t>(dim < 0 ? dim + shape.ndim() : dim)] = from.size();
  return shape_of(sizes);
}

OpSample derive_gather(Derivation& from) {
  const Shape shape = from.shape(1, 4, false);
  const std::int64_t dim = from.dim(shape.ndim());
  return {.inputs = {from.values(0, shape), from.indices(index_shape(from, shape, dim), size_of(shape, dim))},
          .attributes = Attributes(IndexAttributes{dim})};
}

OpSample derive_scatter_add(Derivation& from) {
  OpSample sample = derive_gather(from);
  sample.inputs.push_back(from.values(2, sample.inputs[1].value.shape));
  return sample;
}

OpSample derive_scatter_sum(Derivation& from) {
  const Shape shape = from.shape(1, 4);
  const std::int64_t dim = from.dim(shape.ndim());
  const std::int64_t size = from.size(false);
  return {.inputs = {from.values(0, shape), from.indices(shape, size)},
          .attributes = Attributes(IndexSumAttributes{dim, size, {}})};
}

OpSample derive_index_select(Derivation& from) {
  const Shape shape = from.shape(1, 4, false);
  const std::int64_t dim = from.dim(shape.ndim());
  return {.inputs = {from.values(0, shape), from.indices(from.shape(0, 2), size_of(shape, dim))},
          .attributes = Attributes(IndexSliceAttributes{.dim = dim})};
}

OpSample derive_index_add(Derivation& from) {
  const Shape shape = from.shape(1, 4, false);
  const std::int64_t dim = from.dim(shape.ndim());
  const std::int64_t count = from.size();
  return {.inputs = {from.values(0, shape), from.indices({count}, size_of(shape, dim)),
                     from.values(2, resized(shape, dim, count))},
          .attributes = Attributes(IndexSliceAttributes{.dim = dim})};
}

OpSample derive_masked_fill(Derivation& from) {
  const Shape whole = from.shape(0, 5);
  std::vector<std::int64_t> sizes(whole.begin() + from.pick(whole.ndim() + 1), whole.end());
  for (std::int64_t& size : sizes) size = from.one_in(3) ? 1 : size;
  return {.inputs = {from.values(0, whole), bools(from.random(), shape_of(sizes))},
          .attributes = Attributes(MaskedFillAttributes{0.5})};
}

}  // namespace

void add_shape_derivations(Derivations& to) {
  to["view"] = of_one(0, 4, some_view);
  to["permute"] = of_one(0, 5, some_order);
  to["slice"] = of_one(1, 4, some_slice);
  to["select"] = of_one(1, 4, some_index, false);
  to["flip"] = of_one(0, 5, some_flip);
  to["roll"] = of_one(0, 4, some_roll);
  to["pad"] = of_one(0, 4, some_padding);
  to["unslice"] = of_one(1, 4, some_spread);
  to["expand"] = derive_expand;
  to["cat"] = derive_cat;
  for (const char* op : {"tril", "triu"}) {
    to[op] = of_one(2, 4, [](Derivation& from, const Shape&) {
      return TriangleAttributes{from.between(-6, 6), {}, {}};
    });
  }
}

void add_index_derivations(Derivations& to) {
  to["gather"] = derive_gather;
  to["scatter_add"] = derive_scatter_add;
  to["scatter_sum"] = derive_scatter_sum;
  to["index_select"] = derive_index_select;
  to["index_add"] = derive_index_add;
  to["masked_fill"] = derive_masked_fill;
  to["embedding"] = [](Derivation& from) {
    const Shape table({from.size(false), from.size()});
    return OpSample{.inputs = {from.values(0, table), from.indices(from.shape(0, 3), table[0])},
                    .attributes = Attributes(EmbeddingAttributes{})};
  };
  to["one_hot"] = [](Derivation& from) {
    const std::int64_t classes = from.size(false);
    return OpSample{.inputs = {from.indices(from.shape(0, 3), classes)},
                    .attributes = Attributes(OneHotAttributes{classes, {}})};
  };
  to["sort"] = [](Derivation& from) {
    const Shape shape = from.shape(0, 4);
    return OpSample{.inputs = {from.values(0, shape)},
                    .attributes = Attributes(SortAttributes{from.dim(shape.ndim()), from.one_in(2)}),
                    .outputs = 2};
  };
  to["topk"] = [](Derivation& from) {
    const Shape shape = from.shape(1, 4, false);
    const std::int64_t dim = from.dim(shape.ndim());
    return OpSample{.inputs = {from.values(0, shape)},
                    .attributes = Attributes(TopkAttributes{from.between(0, size_of(shape, dim)), dim, from.one_in(2)}),
                    .outputs = 2};
  };
}

}  // namespace tessera::ops::testing

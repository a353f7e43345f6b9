// Cases of the shape family. References iterate over the result and find the index of each element in the input.
#include <algorithm>

#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

using tensor::Attributes;
using tensor::AttributesRef;
using Arrays = std::span<const Array>;
using Index = std::vector<std::int64_t>;

std::int64_t place(const Shape& shape, const Index& index) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < index.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

// Returns an array of `shape`. `source` returns the index in x of each element, or none for `fill`.
template <class F>
std::vector<Array> gathered(const Array& x, const Shape& shape, const F& source, double fill = 0) {
  Array out(shape, fill);
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    Index index = digits(shape, i);
    if (source(index))
      out.values[static_cast<std::size_t>(i)] = x.values[static_cast<std::size_t>(place(x.shape, index))];
  }
  return {out};
}

std::size_t dim_of(std::int64_t dim, const Shape& shape) {
  return static_cast<std::size_t>(dim < 0 ? dim + shape.ndim() : dim);
}

Shape replaced(const Shape& shape, std::size_t dim, std::int64_t size) {
  Index sizes(shape.begin(), shape.end());
  sizes[dim] = size;
  return Shape(std::span<const std::int64_t>(sizes));
}

// Uses sizes that only split dimensions, because strided samples cannot be viewed with arbitrary sizes.
const OpCase kView{{.op = "view",
                    .samples = [](Random& random) -> std::vector<OpSample> {
                      return {{.inputs = {normal(random, {6, 5})}, .attributes = Attributes(ViewAttributes{{2, 3, 5}})},
                              {.inputs = {normal(random, {4, 3})}, .attributes = Attributes(ViewAttributes{{4, 1, 3}})},
                              {.inputs = {normal(random, {0, 3})}, .attributes = Attributes(ViewAttributes{{0, 5}})},
                              {.inputs = {normal(random, {})}, .attributes = Attributes(ViewAttributes{{1, 1}})}};
                    },
                    .reference = [](Arrays in, const AttributesRef& a) -> std::vector<Array> {
                      return {Array(a.as<ViewAttributes>().shape, in[0].values)};
                    }}};

const OpCase kPermute{
    {.op = "permute",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {3, 4, 5})}, .attributes = Attributes(PermuteAttributes{{2, 0, 1}})},
               {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(PermuteAttributes{{-1, 0}})},
               {.inputs = {normal(random, {})}, .attributes = Attributes(PermuteAttributes{})}};
     },
     .reference =
         [](Arrays in, const AttributesRef& a) {
           const auto& dims = a.as<PermuteAttributes>().dims;
           Index sizes;
           for (const auto d : dims) sizes.push_back(in[0].shape.dim(static_cast<int>(d)));
           return gathered(in[0], Shape(std::span<const std::int64_t>(sizes)), [&](Index& index) {
             Index from(index.size());
             for (std::size_t i = 0; i < index.size(); ++i) from[dim_of(dims[i], in[0].shape)] = index[i];
             index = from;
             return true;
           });
         }}};

const OpCase kExpand{{.op = "expand",
                      .samples = [](Random& random) -> std::vector<OpSample> {
                        return {
                            {.inputs = {normal(random, {5, 1})}, .attributes = Attributes(ExpandAttributes{{5, 7}})},
                            {.inputs = {normal(random, {1, 4})}, .attributes = Attributes(ExpandAttributes{{3, 5, 4}})},
                            {.inputs = {normal(random, {1, 4})}, .attributes = Attributes(ExpandAttributes{{0, 4}})},
                            {.inputs = {normal(random, {})}, .attributes = Attributes(ExpandAttributes{{2}})}};
                      },
                      .reference =
                          [](Arrays in, const AttributesRef& a) {
                            return gathered(in[0], a.as<ExpandAttributes>().shape, [&](Index& index) {
                              index.erase(index.begin(), index.end() - in[0].shape.ndim());
                              for (std::size_t i = 0; i < index.size(); ++i)
                                index[i] = in[0].shape[i] == 1 ? 0 : index[i];
                              return true;
                            });
                          }}};

const OpCase kSlice{
    {.op = "slice",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {5, 7})}, .attributes = Attributes(SliceAttributes{1, 1, 6, 2})},
               {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(SliceAttributes{-2, -3, INT64_MAX, 1})},
               {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(SliceAttributes{0, 0, INT64_MAX, 1})},
               {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(SliceAttributes{0, 4, 2, 1})}};
     },
     .reference =
         [](Arrays in, const AttributesRef& ref) {
           const auto& a = ref.as<SliceAttributes>();
           const std::size_t dim = dim_of(a.dim, in[0].shape);
           const std::int64_t size = in[0].shape[dim];
           const std::int64_t start = a.start < 0 ? a.start + size : a.start;
           std::int64_t length = 0;
           for (std::int64_t i = start; i < std::min(a.end, size); i += a.step) ++length;
           return gathered(in[0], replaced(in[0].shape, dim, length), [&](Index& index) {
             index[dim] = start + index[dim] * a.step;
             return true;
           });
         }}};

const OpCase kSelect{{.op = "select",
                      .samples = [](Random& random) -> std::vector<OpSample> {
                        return {
                            {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(SelectAttributes{0, 3})},
                            {.inputs = {normal(random, {3, 4, 5})}, .attributes = Attributes(SelectAttributes{-1, -2})},
                            {.inputs = {normal(random, {3})}, .attributes = Attributes(SelectAttributes{0, 1})}};
                      },
                      .reference =
                          [](Arrays in, const AttributesRef& ref) {
                            const auto& a = ref.as<SelectAttributes>();
                            const std::size_t dim = dim_of(a.dim, in[0].shape);
                            Index sizes(in[0].shape.begin(), in[0].shape.end());
                            const std::int64_t at = a.index < 0 ? a.index + sizes[dim] : a.index;
                            sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
                            return gathered(in[0], Shape(std::span<const std::int64_t>(sizes)), [&](Index& index) {
                              index.insert(index.begin() + static_cast<std::ptrdiff_t>(dim), at);
                              return true;
                            });
                          }}};

std::vector<Array> cat_reference(Arrays in, const AttributesRef& ref) {
  const std::size_t dim = dim_of(ref.as<CatAttributes>().dim, in[0].shape);
  std::int64_t size = 0;
  for (const Array& x : in) size += x.shape[dim];
  Array out(replaced(in[0].shape, dim, size));
  for (std::int64_t i = 0; i < out.shape.numel(); ++i) {
    Index index = digits(out.shape, i);
    std::size_t which = 0;
    while (index[dim] >= in[which].shape[dim]) index[dim] -= in[which++].shape[dim];
    out.values[static_cast<std::size_t>(i)] = in[which].values[static_cast<std::size_t>(place(in[which].shape, index))];
  }
  return {out};
}

const OpCase kCat{{.op = "cat",
                   .samples = [](Random& random) -> std::vector<OpSample> {
                     return {{.inputs = {normal(random, {5, 2}), normal(random, {5, 3}), normal(random, {5, 0})},
                              .attributes = Attributes(CatAttributes{1})},
                             {.inputs = {normal(random, {2, 3, 4}), normal(random, {1, 3, 4})},
                              .attributes = Attributes(CatAttributes{-3})},
                             {.inputs = {normal(random, {4})}, .attributes = Attributes(CatAttributes{0})}};
                   },
                   .reference = cat_reference}};

const OpCase kFlip{{.op = "flip",
                    .samples = [](Random& random) -> std::vector<OpSample> {
                      return {
                          {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(FlipAttributes{{1}})},
                          {.inputs = {normal(random, {3, 4, 5})}, .attributes = Attributes(FlipAttributes{{0, -1}})},
                          {.inputs = {normal(random, {0, 3})}, .attributes = Attributes(FlipAttributes{{0}})},
                          {.inputs = {normal(random, {})}, .attributes = Attributes(FlipAttributes{})}};
                    },
                    .reference =
                        [](Arrays in, const AttributesRef& a) {
                          return gathered(in[0], in[0].shape, [&](Index& index) {
                            for (const auto dim : a.as<FlipAttributes>().dims) {
                              const std::size_t d = dim_of(dim, in[0].shape);
                              index[d] = in[0].shape[d] - 1 - index[d];
                            }
                            return true;
                          });
                        }}};

const OpCase kRoll{
    {.op = "roll",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {5, 7})}, .attributes = Attributes(RollAttributes{{2}, {1}})},
               {.inputs = {normal(random, {3, 4, 5})}, .attributes = Attributes(RollAttributes{{-1, 13}, {0, -1}})},
               {.inputs = {normal(random, {0, 3})}, .attributes = Attributes(RollAttributes{{1}, {0}})}};
     },
     .reference =
         [](Arrays in, const AttributesRef& ref) {
           const auto& a = ref.as<RollAttributes>();
           return gathered(in[0], in[0].shape, [&](Index& index) {
             for (std::size_t i = 0; i < a.dims.size(); ++i) {
               const std::size_t d = dim_of(a.dims[i], in[0].shape);
               const std::int64_t size = in[0].shape[d];
               index[d] = ((index[d] - a.shifts[i]) % size + size) % size;
             }
             return true;
           });
         }}};

const OpCase kPad{
    {.op = "pad",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {5, 7})}, .attributes = Attributes(PadAttributes{{0, 1}, {0, 2}, 0})},
               {.inputs = {normal(random, {3, 4})}, .attributes = Attributes(PadAttributes{{2, 0}, {1, 3}, 1.5})},
               {.inputs = {normal(random, {0, 2})}, .attributes = Attributes(PadAttributes{{1, 0}, {0, 0}, -1})}};
     },
     .reference =
         [](Arrays in, const AttributesRef& ref) {
           const auto& a = ref.as<PadAttributes>();
           Index sizes;
           for (std::size_t d = 0; d < in[0].shape.size(); ++d) {
             sizes.push_back(a.before[d] + in[0].shape[d] + a.after[d]);
           }
           return gathered(
               in[0], Shape(std::span<const std::int64_t>(sizes)),
               [&](Index& index) {
                 bool is_inside = true;
                 for (std::size_t d = 0; d < index.size(); ++d) {
                   index[d] -= a.before[d];
                   is_inside &= index[d] >= 0 && index[d] < in[0].shape[d];
                 }
                 return is_inside;
               },
               a.value.as_double());
         }}};

const OpCase kUnslice{
    {.op = "unslice",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {5, 3})}, .attributes = Attributes(UnsliceAttributes{1, 7, 1, 2})},
               {.inputs = {normal(random, {3, 4})}, .attributes = Attributes(UnsliceAttributes{0, 3, 0, 1})},
               {.inputs = {normal(random, {0, 4})}, .attributes = Attributes(UnsliceAttributes{0, 3, 2, 1})}};
     },
     .reference =
         [](Arrays in, const AttributesRef& ref) {
           const auto& a = ref.as<UnsliceAttributes>();
           const std::size_t dim = dim_of(a.dim, in[0].shape);
           return gathered(in[0], replaced(in[0].shape, dim, a.size), [&](Index& index) {
             const std::int64_t from = index[dim] - a.start;
             index[dim] = from / a.step;
             return from >= 0 && from % a.step == 0 && index[dim] < in[0].shape[dim];
           });
         }}};

std::vector<OpSample> triangle_samples(Random& random) {
  const auto of = [](std::int64_t diagonal) { return Attributes(TriangleAttributes{diagonal, {}, {}}); };
  return {{.inputs = {normal(random, {5, 7})}, .attributes = of(0)},
          {.inputs = {normal(random, {3, 5, 4})}, .attributes = of(-2)},
          {.inputs = {normal(random, {5, 5})}, .attributes = of(1)},
          {.inputs = {normal(random, {3, 0})}, .attributes = of(0)}};
}

template <bool kLower>
std::vector<Array> triangle_reference(Arrays in, const AttributesRef& ref) {
  const auto& a = ref.as<TriangleAttributes>();
  const auto at = [](const layout::IndexMap& map, std::int64_t i) {
    return map == layout::IndexMap() ? i : map.global(i);
  };
  return gathered(in[0], in[0].shape, [&](Index& index) {
    const std::int64_t above = at(a.columns, index.back()) - at(a.rows, index[index.size() - 2]);
    return kLower ? above <= a.diagonal : above >= a.diagonal;
  });
}

const OpCase kTril{{.op = "tril", .samples = triangle_samples, .reference = triangle_reference<true>}};
const OpCase kTriu{{.op = "triu", .samples = triangle_samples, .reference = triangle_reference<false>}};

}  // namespace
}  // namespace tessera::ops::testing

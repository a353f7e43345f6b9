// Cases of the index family. References are plain loops over the elements of the index.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/ops/index/index.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

using tensor::Attributes;
using tensor::AttributesRef;
using Arrays = std::span<const Array>;
using Index = std::vector<std::int64_t>;

std::size_t place(const Shape& shape, const Index& index) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < index.size(); ++d) at = at * shape[d] + index[d];
  return static_cast<std::size_t>(at);
}

std::size_t dim_of(std::int64_t dim, const Shape& shape) {
  return static_cast<std::size_t>(dim < 0 ? dim + shape.ndim() : dim);
}

Shape replaced(const Shape& shape, std::size_t dim, std::int64_t size) {
  Index sizes(shape.begin(), shape.end());
  sizes[dim] = size;
  return Shape(std::span<const std::int64_t>(sizes));
}

std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }

// Calls body(position in array, its index) for every element.
template <class F>
void for_each(const Array& array, const F& body) {
  for (std::int64_t i = 0; i < array.shape.numel(); ++i) body(static_cast<std::size_t>(i), digits(array.shape, i));
}

SampleInput as_i32(SampleInput input) {
  input.dtype = DType::kI32;
  return input;
}

SampleInput fixed(SampleInput input) {
  input.is_differentiable = false;
  return input;
}

const OpCase kIndexSelect{{.op = "index_select",
                           .samples = [](Random& random) -> std::vector<OpSample> {
                             return {{.inputs = {normal(random, {5, 7}), integers(random, {4}, 0, 5)},
                                      .attributes = Attributes(IndexSliceAttributes{0})},
                                     {.inputs = {normal(random, {3, 4, 5}), as_i32(integers(random, {6}, 0, 5))},
                                      .attributes = Attributes(IndexSliceAttributes{-1})},
                                     {.inputs = {normal(random, {3, 4, 5}), integers(random, {2, 3}, 0, 4)},
                                      .attributes = Attributes(IndexSliceAttributes{1})},
                                     {.inputs = {normal(random, {5, 7}), integers(random, {}, 0, 5)},
                                      .attributes = Attributes(IndexSliceAttributes{0})},
                                     {.inputs = {normal(random, {5, 7}), integers(random, {0}, 0, 5)},
                                      .attributes = Attributes(IndexSliceAttributes{1})}};
                           },
                           .reference = [](Arrays in, const AttributesRef& ref) -> std::vector<Array> {
                             const auto dim =
                                 static_cast<std::ptrdiff_t>(dim_of(ref.as<IndexSliceAttributes>().dim, in[0].shape));
                             const std::ptrdiff_t many = in[1].shape.ndim();
                             Index sizes(in[0].shape.begin(), in[0].shape.end());
                             sizes.erase(sizes.begin() + dim);
                             sizes.insert(sizes.begin() + dim, in[1].shape.begin(), in[1].shape.end());
                             Array out{Shape(std::span<const std::int64_t>(sizes))};
                             for_each(out, [&](std::size_t i, Index index) {
                               const Index at(index.begin() + dim, index.begin() + dim + many);
                               index.erase(index.begin() + dim, index.begin() + dim + many);
                               index.insert(index.begin() + dim, whole(in[1].values[place(in[1].shape, at)]));
                               out.values[i] = in[0].values[place(in[0].shape, index)];
                             });
                             return {out};
                           }}};

const OpCase kEmbedding{
    {.op = "embedding",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {6, 5}), integers(random, {3, 4}, 0, 6)},
                .attributes = Attributes(EmbeddingAttributes{})},
               {.inputs = {normal(random, {6, 3}), as_i32(integers(random, {}, 0, 6))},
                .attributes = Attributes(EmbeddingAttributes{})},
               {.inputs = {normal(random, {6, 3}), integers(random, {0, 2}, 0, 6)},
                .attributes = Attributes(EmbeddingAttributes{})}};
     },
     .reference = [](Arrays in, const AttributesRef&) -> std::vector<Array> {
       Index sizes(in[1].shape.begin(), in[1].shape.end());
       sizes.push_back(in[0].shape[1]);
       Array out{Shape(std::span<const std::int64_t>(sizes))};
       for_each(out, [&](std::size_t i, Index index) {
         const std::int64_t column = index.back();
         index.pop_back();
         out.values[i] = in[0].values[place(in[0].shape, {whole(in[1].values[place(in[1].shape, index)]), column})];
       });
       return {out};
     }}};

const OpCase kOneHot{
    {.op = "one_hot",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {integers(random, {3, 4}, 0, 5)}, .attributes = Attributes(OneHotAttributes{5, {}})},
               {.inputs = {as_i32(integers(random, {}, 0, 3))}, .attributes = Attributes(OneHotAttributes{3, {}})}};
     },
     .reference = [](Arrays in, const AttributesRef& ref) -> std::vector<Array> {
       Index sizes(in[0].shape.begin(), in[0].shape.end());
       sizes.push_back(ref.as<OneHotAttributes>().classes);
       Array out{Shape(std::span<const std::int64_t>(sizes))};
       for_each(out, [&](std::size_t i, Index index) {
         const std::int64_t at = index.back();
         index.pop_back();
         out.values[i] = whole(in[0].values[place(in[0].shape, index)]) == at ? 1 : 0;
       });
       return {out};
     }}};

const OpCase kGather{{.op = "gather",
                      .samples = [](Random& random) -> std::vector<OpSample> {
                        return {{.inputs = {normal(random, {5, 7}), integers(random, {5, 3}, 0, 7)},
                                 .attributes = Attributes(IndexAttributes{1})},
                                {.inputs = {normal(random, {5, 7}), integers(random, {9, 6}, 0, 5)},
                                 .attributes = Attributes(IndexAttributes{0})},
                                {.inputs = {normal(random, {3, 4, 5}), as_i32(integers(random, {3, 2, 5}, 0, 4))},
                                 .attributes = Attributes(IndexAttributes{-2})}};
                      },
                      .reference = [](Arrays in, const AttributesRef& ref) -> std::vector<Array> {
                        const std::size_t dim = dim_of(ref.as<IndexAttributes>().dim, in[0].shape);
                        Array out(in[1].shape);
                        for_each(out, [&](std::size_t i, Index index) {
                          index[dim] = whole(in[1].values[i]);
                          out.values[i] = in[0].values[place(in[0].shape, index)];
                        });
                        return {out};
                      }}};

// Returns distinct indices along each line of dimension 1.
SampleInput distinct(Random& random, std::int64_t rows, std::int64_t count, std::int64_t below) {
  SampleInput input = integers(random, {rows, count}, 0, 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double> all(static_cast<std::size_t>(below));
    std::iota(all.begin(), all.end(), 0);
    std::ranges::shuffle(all, random);
    std::copy_n(all.begin(), count, input.value.values.begin() + r * count);
  }
  return input;
}

const OpCase kScatter{{.op = "scatter",
                       .samples = [](Random& random) -> std::vector<OpSample> {
                         return {{.inputs = {normal(random, {5, 7}), distinct(random, 5, 3, 7), normal(random, {5, 3})},
                                  .attributes = Attributes(ScatterAttributes{1, 0})},
                                 {.inputs = {normal(random, {5, 7}), distinct(random, 4, 3, 7), absent()},
                                  .attributes = Attributes(ScatterAttributes{-1, 2.5})},
                                 {.inputs = {normal(random, {5, 7}), distinct(random, 5, 3, 7), absent()},
                                  .attributes = Attributes(ScatterAttributes{-1, 0})}};
                       },
                       .reference = [](Arrays in, const AttributesRef& ref) -> std::vector<Array> {
                         const auto& a = ref.as<ScatterAttributes>();
                         const std::size_t dim = dim_of(a.dim, in[0].shape);
                         Array out = in[0];
                         const bool has_source =
                             in[2].values.size() == in[1].values.size() && in[2].shape == in[1].shape;
                         for_each(in[1], [&](std::size_t i, Index index) {
                           index[dim] = whole(in[1].values[i]);
                           out.values[place(out.shape, index)] = has_source ? in[2].values[i] : a.value.as_double();
                         });
                         return {out};
                       }}};

void add_by_index(Array& out, const Array& index_array, const Array& source, std::size_t dim) {
  for_each(index_array, [&](std::size_t i, Index index) {
    index[dim] = whole(index_array.values[i]);
    out.values[place(out.shape, index)] += source.values[i];
  });
}

const OpCase kScatterAdd{
    {.op = "scatter_add",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {5, 7}), integers(random, {5, 6}, 0, 7), normal(random, {5, 6})},
                .attributes = Attributes(IndexAttributes{1})},
               {.inputs = {normal(random, {5, 7}), as_i32(integers(random, {8, 7}, 0, 5)), normal(random, {8, 7})},
                .attributes = Attributes(IndexAttributes{0})},
               {.inputs = {normal(random, {5, 7}), integers(random, {4, 2}, 0, 7), normal(random, {4, 2})},
                .attributes = Attributes(IndexAttributes{-1})}};
     },
     .reference = [](Arrays in, const AttributesRef& ref) -> std::vector<Array> {
       Array out = in[0];
       add_by_index(out, in[1], in[2], dim_of(ref.as<IndexAttributes>().dim, out.shape));
       return {out};
     }}};

const OpCase kScatterSum{{.op = "scatter_sum",
                          .samples = [](Random& random) -> std::vector<OpSample> {
                            return {{.inputs = {normal(random, {5, 6}), integers(random, {5, 6}, 0, 4)},
                                     .attributes = Attributes(IndexSumAttributes{1, 4, {}})},
                                    {.inputs = {normal(random, {3, 4, 2}), as_i32(integers(random, {3, 4, 2}, 0, 3))},
                                     .attributes = Attributes(IndexSumAttributes{0, 3, {}})}};
                          },
                          .reference = [](Arrays in, const AttributesRef& ref) -> std::vector<Array> {
                            const auto& a = ref.as<IndexSumAttributes>();
                            const std::size_t dim = dim_of(a.dim, in[0].shape);
                            Array out(replaced(in[0].shape, dim, a.size));
                            add_by_index(out, in[1], in[0], dim);
                            return {out};
                          }}};

void add_slices(Array& out, const Array& index_array, const Array& source, std::size_t dim) {
  for_each(source, [&](std::size_t i, Index index) {
    index[dim] = whole(index_array.values[static_cast<std::size_t>(index[dim])]);
    out.values[place(out.shape, index)] += source.values[i];
  });
}

const OpCase kIndexAdd{
    {.op = "index_add",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {5, 7}), integers(random, {6}, 0, 5), normal(random, {6, 7})},
                .attributes = Attributes(IndexSliceAttributes{0})},
               {.inputs = {normal(random, {3, 4, 5}), as_i32(integers(random, {7}, 0, 4)), normal(random, {3, 7, 5})},
                .attributes = Attributes(IndexSliceAttributes{-2})},
               {.inputs = {normal(random, {5, 7}), integers(random, {0}, 0, 5), normal(random, {5, 0})},
                .attributes = Attributes(IndexSliceAttributes{1})}};
     },
     .reference = [](Arrays in, const AttributesRef& ref) -> std::vector<Array> {
       Array out = in[0];
       add_slices(out, in[1], in[2], dim_of(ref.as<IndexSliceAttributes>().dim, out.shape));
       return {out};
     }}};

const OpCase kIndexSum{
    {.op = "index_sum",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {9, 4}), integers(random, {9}, 0, 5), absent()},
                .attributes = Attributes(IndexSumAttributes{0, 5, {}})},
               {.inputs = {normal(random, {3, 6}), as_i32(integers(random, {6}, 0, 4)), absent()},
                .attributes = Attributes(IndexSumAttributes{1, 4, {}})},
               {.inputs = {normal(random, {3, 2, 4, 5}), integers(random, {2, 4}, 0, 3), absent()},
                .attributes = Attributes(IndexSumAttributes{-2, 3, {}})},
               {.inputs = {normal(random, {5}), integers(random, {}, 0, 3), absent()},
                .attributes = Attributes(IndexSumAttributes{0, 3, {}})},
               {.inputs = {normal(random, {3, 2, 5}), integers(random, {3, 2}, 0, 6), fixed(normal(random, {6, 5}))},
                .attributes = Attributes(IndexSumAttributes{0, 6, {}}),
                .note = "like"}};
     },
     .reference = [](Arrays in, const AttributesRef& ref) -> std::vector<Array> {
       const auto& a = ref.as<IndexSumAttributes>();
       const std::ptrdiff_t many = in[1].shape.ndim();
       const std::ptrdiff_t dim = a.dim < 0 ? a.dim + in[0].shape.ndim() - many + 1 : a.dim;
       Index sizes(in[0].shape.begin(), in[0].shape.end());
       sizes.erase(sizes.begin() + dim, sizes.begin() + dim + many);
       sizes.insert(sizes.begin() + dim, a.size);
       Array out{Shape(std::span<const std::int64_t>(sizes))};
       for_each(in[0], [&](std::size_t i, Index index) {
         const Index at(index.begin() + dim, index.begin() + dim + many);
         index.erase(index.begin() + dim, index.begin() + dim + many);
         index.insert(index.begin() + dim, whole(in[1].values[place(in[1].shape, at)]));
         out.values[place(out.shape, index)] += in[0].values[i];
       });
       return {out};
     }}};

const OpCase kMaskedFill{
    {.op = "masked_fill",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {5, 7}), bools(random, {5, 7})},
                .attributes = Attributes(MaskedFillAttributes{0})},
               {.inputs = {normal(random, {3, 4, 5}), bools(random, {4, 1})},
                .attributes = Attributes(MaskedFillAttributes{-1.5})},
               {.inputs = {normal(random, {}), bools(random, {})}, .attributes = Attributes(MaskedFillAttributes{2})}};
     },
     .reference = [](Arrays in, const AttributesRef& ref) -> std::vector<Array> {
       Array out = in[0];
       for_each(out, [&](std::size_t i, Index index) {
         index.erase(index.begin(), index.end() - in[1].shape.ndim());
         for (std::size_t d = 0; d < index.size(); ++d) index[d] = in[1].shape[d] == 1 ? 0 : index[d];
         if (in[1].values[place(in[1].shape, index)] != 0)
           out.values[i] = ref.as<MaskedFillAttributes>().value.as_double();
       });
       return {out};
     }}};

std::vector<Array> ordered(const Array& x, std::int64_t of_dim, std::int64_t count, bool is_descending) {
  if (x.shape.size() == 0) return {x, Array(Shape())};
  const std::size_t dim = dim_of(of_dim, x.shape);
  Array values(replaced(x.shape, dim, count));
  Array indices(values.shape);
  for_each(values, [&](std::size_t i, Index index) {
    const std::int64_t rank = index[dim];
    std::vector<std::pair<double, std::int64_t>> line;
    for (index[dim] = 0; index[dim] < x.shape[dim]; ++index[dim]) {
      const double value = x.values[place(x.shape, index)];
      line.emplace_back(is_descending ? -value : value, index[dim]);
    }
    std::ranges::sort(line);
    const auto& found = line[static_cast<std::size_t>(rank)];
    values.values[i] = is_descending ? -found.first : found.first;
    indices.values[i] = static_cast<double>(found.second);
  });
  return {values, indices};
}

const OpCase kTopk{
    {.op = "topk",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {
           {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(TopkAttributes{3, -1, true}), .outputs = 2},
           {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(TopkAttributes{2, 0, false}), .outputs = 2},
           {.inputs = {integers(random, {4, 9}, 0, 3)},
            .attributes = Attributes(TopkAttributes{9, 1, true}),
            .outputs = 2},
           {.inputs = {normal(random, {})}, .attributes = Attributes(TopkAttributes{1, 0, true}), .outputs = 2}};
     },
     .reference =
         [](Arrays in, const AttributesRef& ref) {
           const auto& a = ref.as<TopkAttributes>();
           return ordered(in[0], a.dim, a.k, a.is_largest);
         }}};

const OpCase kSort{
    {.op = "sort",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {5, 7})}, .attributes = Attributes(SortAttributes{-1, false}), .outputs = 2},
               {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(SortAttributes{0, true}), .outputs = 2},
               {.inputs = {integers(random, {4, 9}, 0, 3)},
                .attributes = Attributes(SortAttributes{1, true}),
                .outputs = 2},
               {.inputs = {normal(random, {3, 0})}, .attributes = Attributes(SortAttributes{1, false}), .outputs = 2}};
     },
     .reference =
         [](Arrays in, const AttributesRef& ref) {
           const auto& a = ref.as<SortAttributes>();
           return ordered(in[0], a.dim, in[0].shape.size() == 0 ? 1 : in[0].shape[dim_of(a.dim, in[0].shape)],
                          a.is_descending);
         }}};

const OpCase kSampleIndex{
    {.op = "sample_index",
     .samples =
         [](Random& random) {
           std::vector<OpSample> samples = {
               {.inputs = {uniform(random, {5, 7}, 0, 2), uniform(random, {5, 4}, 0, 0.99)}},
               {.inputs = {uniform(random, {6}, 0, 1), uniform(random, {0}, 0, 1)}},
               {.inputs = {uniform(random, {2, 3, 4}, 0, 1), uniform(random, {2, 3, 5}, 0, 0.99)}}};
           for (OpSample& sample : samples) {
             for (SampleInput& input : sample.inputs) {
               input.is_differentiable = false;
               input.dtype = DType::kF32;  // stays f32: other numbers would not be probabilities
             }
           }
           return samples;
         },
     .reference = [](Arrays in, const AttributesRef&) -> std::vector<Array> {
       Array out(in[1].shape);
       for_each(out, [&](std::size_t i, Index index) {
         double sum = 0;
         for (index.back() = 0; index.back() < in[0].shape.dim(-1); ++index.back()) {
           sum += in[0].values[place(in[0].shape, index)];
         }
         double so_far = 0;
         for (index.back() = 0; index.back() + 1 < in[0].shape.dim(-1); ++index.back()) {
           so_far += in[0].values[place(in[0].shape, index)];
           if (so_far > in[1].values[i] * sum) break;
         }
         out.values[i] = static_cast<double>(index.back());
       });
       return {out};
     }}};

}  // namespace
}  // namespace tessera::ops::testing

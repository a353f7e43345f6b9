// Cases of the operators that create tensors. Random operators are compared with the published generator, one element
// at a time: Philox4x32-10, uniform numbers of 24 bits, normal numbers by the Box-Muller method.
#include <array>
#include <cmath>
#include <numbers>

#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

using tensor::Attributes;
using tensor::AttributesRef;
using Arrays = std::span<const Array>;

OpSample from_nothing(Attributes attributes) { return {.inputs = {}, .attributes = std::move(attributes)}; }

std::vector<OpSample> full_samples(Random& /*random*/) {
  return {from_nothing(Attributes(FullAttributes{{5, 7}, DType::kF32, 0.75})),
          from_nothing(Attributes(FullAttributes{{3, 4, 5}, DType::kF64, -2.5})),
          from_nothing(Attributes(FullAttributes{{}, DType::kBF16, 3})),
          from_nothing(Attributes(FullAttributes{{0, 3}, DType::kF32, 1})),
          from_nothing(Attributes(FullAttributes{{6}, DType::kI64, -7})),
          from_nothing(Attributes(FullAttributes{{6}, DType::kU16, 60000})),
          from_nothing(Attributes(FullAttributes{{2, 3}, DType::kBool, true}))};
}

const OpCase kFull{
    {.op = "full", .samples = full_samples, .reference = [](Arrays, const AttributesRef& ref) -> std::vector<Array> {
       const auto& a = ref.as<FullAttributes>();
       return {Array(a.shape, a.value.as_double())};
     }}};

std::vector<OpSample> arange_samples(Random& /*random*/) {
  return {from_nothing(Attributes(ArangeAttributes{7, DType::kI64, 3, -2, {}})),
          from_nothing(Attributes(ArangeAttributes{6, DType::kF32, 0.5, 0.25, {}})),
          from_nothing(Attributes(ArangeAttributes{5, DType::kF64, -1, 3, {}})),
          from_nothing(Attributes(ArangeAttributes{9, DType::kU8, 1, 1, {}})),
          from_nothing(Attributes(ArangeAttributes{0, DType::kI32, 0, 1, {}}))};
}

const OpCase kArange{{.op = "arange",
                      .samples = arange_samples,
                      .reference = [](Arrays, const AttributesRef& ref) -> std::vector<Array> {
                        const auto& a = ref.as<ArangeAttributes>();
                        Array out(Shape({a.size}));
                        double value = a.start.as_double();
                        for (double& element : out.values) {
                          element = value;
                          value += a.step.as_double();
                        }
                        return {out};
                      }}};

std::vector<OpSample> eye_samples(Random& /*random*/) {
  return {from_nothing(Attributes(EyeAttributes{{5, 7}, DType::kF32, {}})),
          from_nothing(Attributes(EyeAttributes{{4, 3}, DType::kI32, {}})),
          from_nothing(Attributes(EyeAttributes{{1, 1}, DType::kF16, {}})),
          from_nothing(Attributes(EyeAttributes{{3, 3}, DType::kBool, {}})),
          from_nothing(Attributes(EyeAttributes{{0, 4}, DType::kF64, {}}))};
}

const OpCase kEye{
    {.op = "eye", .samples = eye_samples, .reference = [](Arrays, const AttributesRef& ref) -> std::vector<Array> {
       Array out(ref.as<EyeAttributes>().shape);
       for (std::int64_t i = 0; i < out.shape.numel(); ++i) {
         const auto index = digits(out.shape, i);
         out.values[static_cast<std::size_t>(i)] = index[0] == index[1] ? 1 : 0;
       }
       return {out};
     }}};

// Random numbers -----------------------------------------------------------------------------------------------------

using Words = std::array<std::uint32_t, 4>;

// Computes ten rounds over the counter (block, call) with the seed as the key, as published.
Words philox(std::uint64_t seed, std::uint64_t call, std::uint64_t block) {
  Words c = {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
             static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(call >> 32)};
  auto k0 = static_cast<std::uint32_t>(seed);
  auto k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// One element of a random call.
struct Draw {
  std::uint64_t seed;
  std::uint64_t call;
  std::uint64_t element;

  [[nodiscard]] double uniform() const {
    return static_cast<double>(philox(seed, call, element / 4)[element % 4] >> 8) / 16777216.0;
  }
  [[nodiscard]] double normal() const {
    const Words words = philox(seed, call, element / 4);
    const std::size_t pair = element % 4 / 2 * 2;
    const double radius = std::sqrt(-2 * std::log((static_cast<double>(words[pair] >> 8) + 1) / 16777216.0));
    const double angle = 2 * std::numbers::pi * static_cast<double>(words[pair + 1] >> 8) / 16777216.0;
    return radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }
};

// Returns an array drawn element by element: `value(draw, attributes)`.
template <class F>
std::vector<Array> drawn(Arrays in, const AttributesRef& ref, const F& value) {
  const auto& a = ref.as<RandomAttributes>();
  const auto counter = static_cast<std::uint64_t>(in[0].values[0]);
  Array out(a.shape);
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    out.values[i] = value(Draw{static_cast<std::uint64_t>(a.seed), static_cast<std::uint64_t>(a.call) + counter, i}, a);
  }
  return {rounded(out, a.dtype)};
}

SampleInput counter_of(double value) {
  SampleInput input;
  input.value = Array(Shape(), value);
  input.dtype = DType::kI64;
  input.is_differentiable = false;
  return input;
}

using Change = void (*)(RandomAttributes&);
std::vector<OpSample> random_samples(std::initializer_list<DType> dtypes, Change change) {
  std::vector<OpSample> all;
  for (const DType dtype : dtypes) {
    for (const Shape& shape : {Shape({5, 7}), Shape({3, 2, 9}), Shape({0, 3}), Shape()}) {
      RandomAttributes a;
      a.shape = shape;
      a.dtype = dtype;
      a.seed = 0x123456789abcdef;
      a.call = 40 + static_cast<std::int64_t>(all.size());
      change(a);
      all.push_back({.inputs = {counter_of(static_cast<double>(all.size() % 3))}, .attributes = Attributes(a)});
    }
  }
  return all;
}

const OpCase kRand{{.op = "rand",
                    .samples =
                        [](Random&) {
                          return random_samples({DType::kF32, DType::kF64, DType::kBF16}, [](RandomAttributes& a) {
                            a.a = a.dtype == DType::kF64 ? -3.0 : 0.0;
                            a.b = a.dtype == DType::kF64 ? 5.0 : 1.0;
                          });
                        },
                    .reference =
                        [](Arrays in, const AttributesRef& ref) {
                          return drawn(in, ref, [](const Draw& draw, const RandomAttributes& a) {
                            return a.a.as_double() + draw.uniform() * (a.b.as_double() - a.a.as_double());
                          });
                        }}};

double normal_of(const Draw& draw, const RandomAttributes& a) {
  return a.a.as_double() + draw.normal() * a.b.as_double();
}

const OpCase kRandn{{.op = "randn",
                     .samples =
                         [](Random&) {
                           return random_samples({DType::kF32, DType::kF64}, [](RandomAttributes& a) {
                             a.a = a.dtype == DType::kF64 ? 2.0 : 0.0;
                             a.b = a.dtype == DType::kF64 ? 0.5 : 1.0;
                           });
                         },
                     .reference = [](Arrays in, const AttributesRef& ref) { return drawn(in, ref, normal_of); }}};

const OpCase kTruncNormal{{.op = "trunc_normal",
                           .samples =
                               [](Random&) {
                                 return random_samples({DType::kF32, DType::kF64}, [](RandomAttributes& a) {
                                   a.b = 2.0;
                                   a.low = -1.5;
                                   a.high = 1.0;
                                 });
                               },
                           .reference =
                               [](Arrays in, const AttributesRef& ref) {
                                 return drawn(in, ref, [](Draw draw, const RandomAttributes& a) {
                                   const std::uint64_t call = draw.call;
                                   for (std::uint64_t attempt = 1;; ++attempt) {  // redraws only this element
                                     const double value = normal_of(draw, a);
                                     if (value >= a.low.as_double() && value <= a.high.as_double()) return value;
                                     draw.call = call ^ (attempt << 48);
                                   }
                                 });
                               }}};

const OpCase kBernoulli{
    {.op = "bernoulli",
     .samples =
         [](Random&) {
           return random_samples({DType::kF32, DType::kBool}, [](RandomAttributes& a) { a.a = 0.375; });
         },
     .reference =
         [](Arrays in, const AttributesRef& ref) {
           return drawn(in, ref, [](const Draw& draw, const RandomAttributes& a) {
             return draw.uniform() < a.a.as_double() ? 1.0 : 0.0;
           });
         }}};

const OpCase kRandint{
    {.op = "randint",
     .samples =
         [](Random&) {
           return random_samples({DType::kI64, DType::kI32}, [](RandomAttributes& a) {
             a.a = -5;
             a.b = 100;
           });
         },
     .reference =
         [](Arrays in, const AttributesRef& ref) {
           return drawn(in, ref, [](const Draw& draw, const RandomAttributes& a) {
             const std::uint64_t word = philox(draw.seed, draw.call, draw.element / 4)[draw.element % 4];
             const auto range = static_cast<std::uint64_t>(a.b.as_int64() - a.a.as_int64());
             return static_cast<double>(a.a.as_int64() + static_cast<std::int64_t>(word * range >> 32));
           });
         }}};

std::vector<OpSample> randperm_samples(Random& /*random*/) {
  std::vector<OpSample> all;
  for (const std::int64_t n : {9, 1, 0, 300}) {
    RandomAttributes a;
    a.shape = Shape({n});
    a.dtype = DType::kI64;
    a.seed = 77;
    a.call = n;
    a.a = n;
    all.push_back({.inputs = {counter_of(2)}, .attributes = Attributes(a)});
  }
  return all;
}

const OpCase kRandperm{{.op = "randperm",
                        .samples = randperm_samples,
                        .why_no_reference = "which permutation it is has no public definition: ops_random_test"}};

}  // namespace
}  // namespace tessera::ops::testing

#include "tessera/ops/create/random.h"

#include <cmath>

#include "tessera/ops/create/detail/fill.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/detail/draws.h"
#include "tessera/ops/detail/integer_draws.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops {
namespace {

using detail::DrawKey;
using tensor::Attributes;
using tensor::Call;
using tensor::KernelCall;
using tensor::OutputInfo;

// Start of all draws. Reads the counter in device memory when the work runs.
struct Keyed {
  DrawKey key;
  const std::int64_t* counter = nullptr;
  void prepare() {
    if (counter != nullptr) key.call += static_cast<std::uint64_t>(*counter);
  }
};

Keyed keyed(const KernelCall& call) {
  const auto& attributes = call.as<RandomAttributes>();
  Keyed result{{static_cast<std::uint64_t>(attributes.seed), static_cast<std::uint64_t>(attributes.call)}};
  if (!call.inputs.empty() && call.inputs[0]) result.counter = call.inputs[0].data_as<std::int64_t>();
  return result;
}

detail::Places places_of(const KernelCall& call) {
  const auto& attributes = call.as<RandomAttributes>();
  return detail::Places(attributes.shape, attributes.global, attributes.index);
}

void infer_random(const Call& call, std::span<OutputInfo> outputs) {
  const auto& attributes = call.as<RandomAttributes>();
  if (!call.inputs.empty() && call.inputs[0]) {
    TESSERA_CHECK_CALL(call, call.inputs[0].dtype() == DType::kI64 && call.inputs[0].numel() == 1,
                       "counter must be an i64 tensor of one element, got ", describe(call.inputs[0]));
  }
  TESSERA_CHECK_CALL(call, !is_complex(attributes.dtype), "dtype must not be complex, got ", attributes.dtype);
  outputs[0] = {attributes.shape, attributes.dtype};
}

Attributes localize_random(const tensor::LocalizeCall& call) {
  RandomAttributes local = call.global.as<RandomAttributes>();
  local.global = local.shape;
  local.shape = call.outputs[0].shape;
  local.index = call.outputs[0].index;
  return Attributes(local);
}

// The kinds of draws
// ---------------------------------------------------------------------------------------------------

struct UniformDraw : Keyed {
  float low;
  float range;
  float last;  // largest value below the end of the range, which rounding could reach
  void operator()(float* tile, std::uint64_t first, std::int64_t n) const {
    detail::draw_uniform(tile, key, first, n);
    if (low == 0 && range == 1) return;
    for (std::int64_t i = 0; i < n; ++i) tile[i] = std::min(std::fma(tile[i], range, low), last);
  }
};
void infer_uniform(const Call& call, std::span<OutputInfo> outputs) {
  infer_random(call, outputs);
  const double low = call.as<RandomAttributes>().a.as_double();
  const double high = call.as<RandomAttributes>().b.as_double();
  TESSERA_CHECK_CALL(call, low <= high, "low must not exceed high, got low ", low, " and high ", high);
}
void run_uniform(const KernelCall& call) {
  const auto& attributes = call.as<RandomAttributes>();
  const double low = attributes.a.as_double();
  const double high = attributes.b.as_double();
  const auto least = static_cast<float>(low);
  const auto end = static_cast<float>(high);
  detail::launch_fill<float>(call, places_of(call),
                             UniformDraw{keyed(call), least, static_cast<float>(high - low),
                                         least < end ? std::nextafter(end, least) : least});
}

struct NormalDraw : Keyed {
  float mean;
  float std;
  void operator()(float* tile, std::uint64_t first, std::int64_t n) const {
    detail::draw_normal(tile, key, first, n);
    if (mean == 0 && std == 1) return;
    for (std::int64_t i = 0; i < n; ++i) tile[i] = std::fma(tile[i], std, mean);
  }
};
void infer_normal(const Call& call, std::span<OutputInfo> outputs) {
  infer_random(call, outputs);
  const double std = call.as<RandomAttributes>().b.as_double();
  TESSERA_CHECK_CALL(call, std >= 0, "standard deviation must be at least 0, got ", std);
}
void run_normal(const KernelCall& call) {
  const auto& attributes = call.as<RandomAttributes>();
  detail::launch_fill<float>(call, places_of(call),
                             NormalDraw{keyed(call), static_cast<float>(attributes.a.as_double()),
                                        static_cast<float>(attributes.b.as_double())});
}

struct TruncatedDraw : NormalDraw {
  float low;
  float high;
  void operator()(float* tile, std::uint64_t first, std::int64_t n) const {
    NormalDraw::operator()(tile, first, n);
    for (std::int64_t i = 0; i < n; ++i) {
      // Attempts use separate call numbers, far from those of the generator.
      for (std::uint64_t attempt = 1; !(tile[i] >= low && tile[i] <= high); ++attempt) {
        if (attempt == kMaxAttempts) {
          tile[i] = std::min(std::max(tile[i], low), high);
          break;
        }
        NormalDraw again = *this;
        again.key.call ^= attempt << 48;
        again(tile + i, first + static_cast<std::uint64_t>(i), 1);
      }
    }
  }
  static constexpr std::uint64_t kMaxAttempts = 1024;  // 0.95^1024 is 1e-23
};
void infer_truncated(const Call& call, std::span<OutputInfo> outputs) {
  infer_random(call, outputs);
  const auto& attributes = call.as<RandomAttributes>();
  const double mean = attributes.a.as_double();
  const double std = attributes.b.as_double();
  TESSERA_CHECK_CALL(call, std > 0, "standard deviation must be positive, got ", std);
  const auto below = [&](double x) { return 0.5 * std::erfc((mean - x) / std / std::sqrt(2.0)); };
  const double share = below(attributes.high.as_double()) - below(attributes.low.as_double());
  TESSERA_CHECK_CALL(call, share >= 0.05, "range must hold at least 5% of the distribution, got ", share * 100, "%");
}
void run_truncated(const KernelCall& call) {
  const auto& attributes = call.as<RandomAttributes>();
  detail::launch_fill<float>(call, places_of(call),
                             TruncatedDraw{{keyed(call), static_cast<float>(attributes.a.as_double()),
                                            static_cast<float>(attributes.b.as_double())},
                                           static_cast<float>(attributes.low.as_double()),
                                           static_cast<float>(attributes.high.as_double())});
}

struct BernoulliDraw : Keyed {
  float p;
  void operator()(float* tile, std::uint64_t first, std::int64_t n) const {
    detail::draw_uniform(tile, key, first, n);
    for (std::int64_t i = 0; i < n; ++i) tile[i] = tile[i] < p ? 1.0F : 0.0F;
  }
};
void infer_bernoulli(const Call& call, std::span<OutputInfo> outputs) {
  infer_random(call, outputs);
  const double p = call.as<RandomAttributes>().a.as_double();
  TESSERA_CHECK_CALL(call, p >= 0 && p <= 1, "probability must be in [0, 1], got ", p);
}
void run_bernoulli(const KernelCall& call) {
  detail::launch_fill<float>(call, places_of(call),
                             BernoulliDraw{keyed(call), static_cast<float>(call.as<RandomAttributes>().a.as_double())});
}

struct IntegerDraw : Keyed {
  detail::IntegerRange range;
  void operator()(std::int64_t* tile, std::uint64_t first, std::int64_t n) const {
    if (range.is_short()) {
      std::uint32_t words[detail::kTile];
      detail::draw_words(words, key, first, n);
      for (std::int64_t i = 0; i < n; ++i) tile[i] = range.of_word(words[i]);
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t element = first + static_cast<std::uint64_t>(i);
      std::uint32_t words[4];
      detail::words_of_block(key.seed, key.call, element / 2, words);
      tile[i] = range.of_words(words, element);
    }
  }
};
void infer_integers(const Call& call, std::span<OutputInfo> outputs) {
  infer_random(call, outputs);
  const auto& attributes = call.as<RandomAttributes>();
  TESSERA_CHECK_CALL(call, attributes.a.as_int64() < attributes.b.as_int64(), "low must be below high, got low ",
                     attributes.a.as_int64(), " and high ", attributes.b.as_int64());
}
void run_integers(const KernelCall& call) {
  const auto& attributes = call.as<RandomAttributes>();
  const std::int64_t low = attributes.a.as_int64();
  const auto range = static_cast<std::uint64_t>(attributes.b.as_int64()) - static_cast<std::uint64_t>(low);
  detail::launch_fill<std::int64_t>(call, places_of(call), IntegerDraw{keyed(call), {low, range}});
}

struct PermutationDraw : Keyed {
  detail::Permutation permutation;
  void prepare() {
    Keyed::prepare();
    detail::draw_words(permutation.keys, key, 0, detail::Permutation::kRounds);
  }
  void operator()(std::int64_t* tile, std::uint64_t first, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i) tile[i] = permutation.of(first + static_cast<std::uint64_t>(i));
  }
};
void infer_permutation(const Call& call, std::span<OutputInfo> outputs) {
  infer_random(call, outputs);
  const auto& attributes = call.as<RandomAttributes>();
  TESSERA_CHECK_CALL(call, attributes.shape.ndim() == 1, "shape must have 1 dimension, got ", attributes.shape);
  TESSERA_CHECK_CALL(call, attributes.a.as_int64() < (std::int64_t{1} << 62), "size must be below 2^62, got ",
                     attributes.a.as_int64());
}
void run_permutation(const KernelCall& call) {
  const auto n = static_cast<std::uint64_t>(call.as<RandomAttributes>().a.as_int64());
  detail::launch_fill<std::int64_t>(call, places_of(call),
                                    PermutationDraw{keyed(call), {n, detail::permutation_half(n)}});
}

// Operators
// -------------------------------------------------------------------------------------------------------------

using Infer = void (*)(const Call&, std::span<OutputInfo>);
tensor::Operator register_random(std::string_view name, Infer infer, void (*kernel)(const KernelCall&)) {
  return tensor::register_op(
      {.name = name,
       .inputs = "counter?",
       .infer = infer,
       .host = kernel,
       .rule = [](const Call& call) { return detail::rule_from_nothing(call, call.as<RandomAttributes>().shape); },
       .localize = localize_random,
       .cost = [](const Call& call) -> tensor::Cost {
         const auto& attributes = call.as<RandomAttributes>();
         const auto count = static_cast<double>(attributes.shape.numel());
         return {.flops = 30 * count, .nbytes = count * static_cast<double>(itemsize(attributes.dtype))};
       },
       .traits = {.is_random = true}});
}
const tensor::Operator kRand = register_random("rand", infer_uniform, run_uniform);
const tensor::Operator kRandn = register_random("randn", infer_normal, run_normal);
const tensor::Operator kTruncNormal = register_random("trunc_normal", infer_truncated, run_truncated);
const tensor::Operator kBernoulli = register_random("bernoulli", infer_bernoulli, run_bernoulli);
const tensor::Operator kRandint = register_random("randint", infer_integers, run_integers);
const tensor::Operator kRandperm = register_random("randperm", infer_permutation, run_permutation);

RandomAttributes drawn(const Shape& shape, DType dtype, const Scalar& a, const Scalar& b) {
  const GeneratorState state = next_call();
  RandomAttributes attributes;
  attributes.shape = shape;
  attributes.dtype = dtype;
  attributes.seed = static_cast<std::int64_t>(state.seed);
  attributes.call = static_cast<std::int64_t>(state.call);
  attributes.a = a;
  attributes.b = b;
  return attributes;
}

Tensor make(const tensor::Operator& op, const Shape& shape, const CreateOptions& options, const Scalar& a,
            const Scalar& b, DType dtype = DType::kF32) {
  CreateOptions chosen = options;
  if (!chosen.dtype) chosen.dtype = dtype;
  const Tensor counter = generator_counter();
  if (!counter && !options.layout) {
    const device::Device device = options.device ? options.device : tensor::default_device();
    return tensor::call_on(device, op, drawn(shape, *chosen.dtype, a, b));
  }
  return tensor::call_out(op, empty(shape, chosen), {counter}, drawn(shape, *chosen.dtype, a, b));
}

// Returns the given counter, or that of the enclosing scope.
Tensor counter_or_scope(const Tensor& counter) { return counter ? counter : generator_counter(); }

void fill(const tensor::Operator& op, const Tensor& x, const Tensor& counter, const Scalar& a, const Scalar& b) {
  tensor::call_out(op, x, {counter_or_scope(counter)}, drawn(x.shape(), x.dtype(), a, b));
}

Tensor filled_like(const tensor::Operator& op, const Tensor& x, const Tensor& counter, const Scalar& a,
                   const Scalar& b) {
  Tensor out = empty_like(x);
  fill(op, out, counter, a, b);
  return out;
}

}  // namespace

Tensor rand(const Shape& shape, const CreateOptions& options) { return make(kRand, shape, options, 0, 1); }
Tensor randn(const Shape& shape, const CreateOptions& options) { return make(kRandn, shape, options, 0, 1); }
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const CreateOptions& options) {
  return make(kRandint, shape, options, low, high, DType::kI64);
}
Tensor bernoulli(const Shape& shape, double p, const CreateOptions& options) {
  return make(kBernoulli, shape, options, p, 1);
}
Tensor trunc_normal(const Shape& shape, double mean, double std, double low, double high,
                    const CreateOptions& options) {
  Tensor out = empty(shape, options);
  trunc_normal_(out, mean, std, low, high);
  return out;
}
Tensor randperm(std::int64_t n, const CreateOptions& options) {
  return make(kRandperm, Shape({n}), options, n, 1, DType::kI64);
}

Tensor rand_like(const Tensor& x, const Tensor& counter) { return filled_like(kRand, x, counter, 0, 1); }
Tensor randn_like(const Tensor& x, const Tensor& counter) { return filled_like(kRandn, x, counter, 0, 1); }
Tensor bernoulli_like(const Tensor& x, double p, const Tensor& counter) {
  return filled_like(kBernoulli, x, counter, p, 1);
}

void uniform_(const Tensor& x, double low, double high, const Tensor& counter) { fill(kRand, x, counter, low, high); }
void normal_(const Tensor& x, double mean, double std, const Tensor& counter) { fill(kRandn, x, counter, mean, std); }
void trunc_normal_(const Tensor& x, double mean, double std, double low, double high, const Tensor& counter) {
  RandomAttributes attributes = drawn(x.shape(), x.dtype(), mean, std);
  attributes.low = low;
  attributes.high = high;
  tensor::call_out(kTruncNormal, x, {counter_or_scope(counter)}, attributes);
}
void bernoulli_(const Tensor& x, double p, const Tensor& counter) { fill(kBernoulli, x, counter, p, 1); }

}  // namespace tessera::ops

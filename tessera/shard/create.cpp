// Each function creates an empty tensor with its layout, into which an operator writes. Dispatch gives each rank the
// index maps of its shard.
#include "tessera/shard/create.h"

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/tensor/call.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using ops::CreateOptions;

// Draws with operators that have no in-place form.
Tensor drawn(const char* op, Tensor out, const Scalar& a, const Scalar& b) {
  const ops::GeneratorState state = ops::next_call();
  ops::RandomAttributes attributes;
  attributes.shape = out.shape();
  attributes.dtype = out.dtype();
  attributes.seed = static_cast<std::int64_t>(state.seed);
  attributes.call = static_cast<std::int64_t>(state.call);
  attributes.a = a;
  attributes.b = b;
  const Tensor counter = ops::generator_counter();
  tensor::call_out(tensor::find_op(op), out, {counter}, attributes);
  return out;
}

}  // namespace

Tensor empty(const Shape& shape, const Layout& layout, const CreateOptions& options) {
  TESSERA_CHECK(layout, "create: a layout is required for the tensor of shape ", shape);
  TESSERA_CHECK(layout.partials().empty(), "create: layout of the tensor of shape ", shape,
                " must not be partial, got ", layout.text(), "; create it replicated, and redistribute() it");
  layout::check_fits(layout, shape);
  const Rank rank = current_place().rank;
  Tensor local;
  if (layout.mesh().contains(rank)) {
    local = ops::empty(layout::local_shape(layout, shape, rank), options);
  }
  return Tensor::sharded(shape, options.dtype, layout, std::move(local));
}

Tensor full(const Shape& shape, const Scalar& value, const Layout& layout, const CreateOptions& options) {
  Tensor out = empty(shape, layout, options);
  ops::fill_(out, value);
  return out;
}
Tensor zeros(const Shape& shape, const Layout& layout, const CreateOptions& options) {
  return full(shape, 0, layout, options);
}
Tensor ones(const Shape& shape, const Layout& layout, const CreateOptions& options) {
  return full(shape, 1, layout, options);
}

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const Layout& layout,
              const CreateOptions& options) {
  const std::int64_t size = ops::arange_size(start, end, step);
  Tensor out = empty({size}, layout, options);
  tensor::call_out(tensor::find_op("arange"), out, {}, ops::ArangeAttributes{size, options.dtype, start, step, {}});
  return out;
}

Tensor eye(std::int64_t rows, std::int64_t columns, const Layout& layout, const CreateOptions& options) {
  Tensor out = empty({rows, columns}, layout, options);
  tensor::call_out(tensor::find_op("eye"), out, {}, ops::EyeAttributes{out.shape(), options.dtype, {}});
  return out;
}

Tensor rand(const Shape& shape, const Layout& layout, const CreateOptions& options) {
  return drawn("rand", empty(shape, layout, options), 0, 1);
}
Tensor randn(const Shape& shape, const Layout& layout, const CreateOptions& options) {
  return drawn("randn", empty(shape, layout, options), 0, 1);
}
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const Layout& layout,
               const CreateOptions& options) {
  return drawn("randint", empty(shape, layout, options), low, high);
}
Tensor bernoulli(const Shape& shape, double p, const Layout& layout, const CreateOptions& options) {
  return drawn("bernoulli", empty(shape, layout, options), p, 1);
}
Tensor trunc_normal(const Shape& shape, double mean, double std, double low, double high, const Layout& layout,
                    const CreateOptions& options) {
  Tensor out = empty(shape, layout, options);
  ops::trunc_normal_(out, mean, std, low, high);
  return out;
}
Tensor randperm(std::int64_t n, const Layout& layout, const CreateOptions& options) {
  return drawn("randperm", empty({n}, layout, options), n, 1);
}

}  // namespace tessera::shard

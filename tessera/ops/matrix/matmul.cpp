// Products that call other operators: with broadcasting, or with an added tensor.
#include "tessera/ops/matrix/detail/einsum_terms.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using tensor::call_as;

bool is_one(const Scalar& scalar) { return scalar.as_complex() == std::complex<double>(1, 0); }

// Returns true if a tensor of shape `from` broadcasts to `shape`, and not the reverse.
bool is_broadcast_to(const Shape& from, const Shape& shape) {
  if (from.size() > shape.size()) return false;
  for (std::size_t d = 1; d <= from.size(); ++d) {
    const std::int64_t size = from[from.size() - d];
    if (size != 1 && size != shape[shape.size() - d]) return false;
  }
  return true;
}

// A beta of 0 ignores the values of the input, even nan.
Tensor scaled_sum(const char* op, const Tensor& input, const Tensor& product, const Scalar& beta, const Scalar& alpha) {
  TESSERA_CHECK(is_broadcast_to(input.shape(), product.shape()), op,
                ": input must broadcast to the shape of the product, ", product.shape(), ", got ", describe(input));
  Tensor scaled = is_one(alpha) ? product : mul(product, alpha);
  if (!beta.as_bool()) return scaled;
  return add(is_one(beta) ? input : mul(input, beta), scaled);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  // The bias is added separately: inside the product it would be added once for each shard of a sum.
  Tensor product = detail::linear_without_bias(x, weight);
  if (!bias) return product;
  TESSERA_CHECK(bias.ndim() == 1 && bias.size(0) == weight.size(0),
                "linear: bias must have one value per row of weight ", describe(weight), ", got ", describe(bias));
  return add(product, bias);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  TESSERA_CHECK(a.ndim() > 0 && b.ndim() > 0, "matmul: operands must have at least 1 dimension, got ", describe(a),
                " and ", describe(b), "; use mul() for scalars");
  const std::int64_t b_rows = b.size(b.ndim() == 1 ? 0 : -2);
  TESSERA_CHECK(a.size(-1) == b_rows, "matmul: columns of the left operand must equal rows of the right operand, got ",
                a.size(-1), " of ", describe(a), " and ", b_rows, " of ", describe(b));
  if (a.ndim() == 2 && b.ndim() == 2) return call_as("matmul", [&] { return mm(a, b); });
  if (a.ndim() == 3 && b.ndim() == 3 && a.size(0) == b.size(0)) return call_as("matmul", [&] { return bmm(a, b); });
  const std::string letters = "abcdefghlmnopqrstuvw";
  const auto leading = [&](const Tensor& x) {
    const auto count = static_cast<std::size_t>(std::max(x.ndim() - 2, 0));
    TESSERA_CHECK(count <= letters.size(), "matmul: operands must have at most 22 dimensions, got ", describe(x));
    return letters.substr(letters.size() - count);
  };
  const std::string left = leading(a);
  const std::string right = leading(b);
  const std::string batch = left.size() > right.size() ? left : right;
  return call_as("matmul", [&] {
    return detail::sum_of_products(
        "matmul", {{a, left + (a.ndim() == 1 ? "k" : "ik")}, {b, right + (b.ndim() == 1 ? "k" : "kj")}},
        batch + (a.ndim() == 1 ? "" : "i") + (b.ndim() == 1 ? "" : "j"));
  });
}

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return call_as("addmm", [&] { return scaled_sum("addmm", input, mm(a, b), beta, alpha); });
}
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return call_as("baddbmm", [&] { return scaled_sum("baddbmm", input, bmm(a, b), beta, alpha); });
}

}  // namespace tessera::ops

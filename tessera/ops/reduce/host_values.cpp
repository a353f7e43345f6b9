#include "tessera/ops/reduce/host_values.h"

#include <cstring>

#include "tessera/ops/detail/elements.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {

Scalar item(const Tensor& x) {
  TESSERA_CHECK(x && x.numel() == 1, "item: x must have one element, got ", describe(x));
  if (x.has_layout()) {
    TESSERA_CHECK(x.layout().is_replicated(), "item: x must be replicated, got ", describe(x),
                  "; gather() gathers it on all ranks of the mesh");
    TESSERA_CHECK(x.local(), "item: this rank is not in the mesh of ", describe(x));
    return item(x.local());
  }
  alignas(16) std::byte element[16];
  TESSERA_CHECK_AS(NotSupported, x.storage().has_values(), "item: x must have values, got ", describe(x),
                   "; create it on a device with storage");
  const device::Stream& stream = tensor::current_stream(x.device());
  TESSERA_CHECK(!stream.is_capturing(), "item: cannot read ", describe(x), " while ", stream.name(),
                " is captured; read it after the graph is replayed");
  x.storage().use_on(stream);
  stream.copy(element, x.data(), itemsize(x.dtype()), "item");
  stream.synchronize();
  return detail::with_element_type(x.dtype(), [&](auto* type) -> Scalar {
    using T = std::remove_pointer_t<decltype(type)>;
    T value;
    std::memcpy(&value, element, sizeof value);
    if constexpr (detail::kIsComplex<T>) {
      return std::complex<double>(value);
    } else if constexpr (std::is_integral_v<T>) {
      return value;
    } else {
      return static_cast<double>(value);
    }
  });
}

bool equal(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const tensor::GradModeScope no_grad(false);
  return item(all(eq(a, b))).as_bool();
}

bool allclose(const Tensor& a, const Tensor& b, double relative, double absolute, bool equal_nan) {
  TESSERA_CHECK(a.shape() == b.shape() && a.dtype() == b.dtype(),
                "allclose: tensors must have the same shape and dtype, got ", describe(a), " and ", describe(b));
  const tensor::GradModeScope no_grad(false);
  const Tensor bound = add(mul(abs(b), relative), absolute);
  Tensor is_close = logical_or(eq(a, b), logical_and(le(abs(sub(a, b)), bound), isfinite(b)));
  if (equal_nan) is_close = logical_or(is_close, logical_and(isnan(a), isnan(b)));
  return item(all(is_close)).as_bool();
}

}  // namespace tessera::ops

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
  TESSERA_CHECK(x && x.numel() == 1, "item: ", describe(x), " is not one element");
  if (x.has_layout()) {
    TESSERA_CHECK(x.layout().is_replicated(), "item: ", describe(x),
                  " is not whole on this rank; full() gives the whole, on every rank of the mesh");
    TESSERA_CHECK(x.local(), "item: ", describe(x), " lies on a mesh that this rank is off");
    return item(x.local());
  }
  alignas(16) std::byte element[16];
  const device::Stream& stream = tensor::current_stream(x.device());
  TESSERA_CHECK(!stream.is_capturing(), "item: ", describe(x), " while ", stream.name(),
                " is captured: its value is there only when the graph is replayed");
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
  TESSERA_CHECK(a.shape() == b.shape() && a.dtype() == b.dtype(), "allclose: ", describe(a), " and ", describe(b),
                " differ in shape or dtype");
  const tensor::GradModeScope no_grad(false);
  const Tensor bound = add(mul(abs(b), relative), absolute);
  Tensor is_close = logical_or(eq(a, b), logical_and(le(abs(sub(a, b)), bound), isfinite(b)));
  if (equal_nan) is_close = logical_or(is_close, logical_and(isnan(a), isnan(b)));
  return item(all(is_close)).as_bool();
}

}  // namespace tessera::ops

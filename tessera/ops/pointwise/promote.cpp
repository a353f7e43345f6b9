#include "tessera/ops/pointwise/promote.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::ops {
namespace {

using Kind = tensor::Scalar::Kind;

Kind kind_of(DType dtype) {
  if (is_complex(dtype)) return Kind::kComplex;
  if (is_floating(dtype)) return Kind::kFloating;
  return is_integral(dtype) ? Kind::kInteger : Kind::kBool;
}

DType promote_floating(DType a, DType b) {
  if (a == b) return a;
  if (itemsize(a) != itemsize(b)) return itemsize(a) > itemsize(b) ? a : b;
  // Two formats of one width: neither holds all numbers of the other.
  return itemsize(a) == 2 ? DType::kF32 : DType::kF16;
}

DType promote_integers(DType a, DType b) {
  if (is_signed(a) == is_signed(b)) return itemsize(a) >= itemsize(b) ? a : b;
  const DType of_signed = is_signed(a) ? a : b;
  const DType of_unsigned = is_signed(a) ? b : a;
  if (itemsize(of_signed) > itemsize(of_unsigned)) return of_signed;
  switch (itemsize(of_unsigned)) {
    case 1: return DType::kI16;
    case 2: return DType::kI32;
    case 4: return DType::kI64;
    default: break;
  }
  TESSERA_THROW(InvalidArgument, "no integer dtype holds both ", a, " and ", b, "; cast one of them first");
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (kind_of(a) < kind_of(b)) std::swap(a, b);
  if (is_complex(a)) {
    return a == DType::kC128 || b == DType::kC128 || b == DType::kF64 ? DType::kC128 : DType::kC64;
  }
  if (kind_of(a) != kind_of(b)) return a;
  return is_floating(a) ? promote_floating(a, b) : promote_integers(a, b);
}

DType promote(DType a, const tensor::Scalar& b) {
  if (b.kind() <= kind_of(a)) return a;
  switch (b.kind()) {
    case Kind::kComplex: return a == DType::kF64 ? DType::kC128 : DType::kC64;
    case Kind::kFloating: return DType::kF32;
    default: return DType::kI64;
  }
}

}  // namespace tessera::ops

#include "tessera/ops/testing/op_case.h"

#include <cstring>
#include <ostream>

namespace tessera::ops::testing {
namespace {

std::vector<OpCaseInfo>& cases() {
  static auto* all = new std::vector<OpCaseInfo>();
  return *all;
}

SampleInput drawn(const Shape& shape, const std::function<double()>& draw) {
  SampleInput input;
  input.value = Array(shape);
  for (double& value : input.value.values) value = draw();
  return input;
}

// Calls `body` with a null pointer of the C++ type of `dtype`.
template <class F>
auto with_type(DType dtype, F&& body) {
  switch (dtype) {
    case DType::kF64: return body(static_cast<double*>(nullptr));
    case DType::kF32: return body(static_cast<float*>(nullptr));
    case DType::kF16: return body(static_cast<f16*>(nullptr));
    case DType::kBF16: return body(static_cast<bf16*>(nullptr));
    case DType::kF8E4M3: return body(static_cast<f8e4m3*>(nullptr));
    case DType::kF8E5M2: return body(static_cast<f8e5m2*>(nullptr));
    case DType::kI64: return body(static_cast<std::int64_t*>(nullptr));
    case DType::kI32: return body(static_cast<std::int32_t*>(nullptr));
    case DType::kI16: return body(static_cast<std::int16_t*>(nullptr));
    case DType::kI8: return body(static_cast<std::int8_t*>(nullptr));
    case DType::kU64: return body(static_cast<std::uint64_t*>(nullptr));
    case DType::kU32: return body(static_cast<std::uint32_t*>(nullptr));
    case DType::kU16: return body(static_cast<std::uint16_t*>(nullptr));
    case DType::kU8: return body(static_cast<std::uint8_t*>(nullptr));
    case DType::kBool: return body(static_cast<bool*>(nullptr));
    default: break;
  }
  TESSERA_THROW(InvalidArgument, "arrays do not support ", dtype);
}

}  // namespace

double read_element(const std::byte* at, DType dtype) {
  return with_type(dtype, [&](auto* type) {
    std::remove_pointer_t<decltype(type)> value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  });
}

void write_element(std::byte* at, DType dtype, double to) {
  with_type(dtype, [&](auto* type) {
    const auto value = static_cast<std::remove_pointer_t<decltype(type)>>(to);
    std::memcpy(at, &value, sizeof value);
    return 0.0;
  });
}

namespace {

std::int64_t offset_of(const Tensor& tensor, std::int64_t place) {
  const auto index = digits(tensor.shape(), place);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < index.size(); ++i) offset += index[i] * tensor.strides()[i];
  return offset * static_cast<std::int64_t>(itemsize(tensor.dtype()));
}

// Returns memory with the dimensions reversed and every second element unused.
Tensor strided_memory(const Shape& shape, DType dtype) {
  std::int64_t size = 2;
  std::vector<std::int64_t> strides;
  for (const std::int64_t dim : shape) {
    strides.push_back(size);
    size *= std::max<std::int64_t>(dim, 1);
  }
  const Tensor memory = Tensor::allocate(Shape({size}), dtype, device::Device::get("host"));
  return memory.as_strided(shape, Strides(strides), shape.is_empty() ? 0 : 1);
}

}  // namespace

OpCase::OpCase(OpCaseInfo info) { cases().push_back(std::move(info)); }
void PrintTo(const OpCaseInfo& info, std::ostream* out) { *out << info.op; }

const std::vector<OpCaseInfo>& all_cases() { return cases(); }

SampleInput normal(Random& random, const Shape& shape) {
  std::normal_distribution<double> of;
  return drawn(shape, [&] { return of(random); });
}
SampleInput uniform(Random& random, const Shape& shape, double low, double high) {
  std::uniform_real_distribution<double> of(low, high);
  return drawn(shape, [&] { return of(random); });
}
SampleInput integers(Random& random, const Shape& shape, std::int64_t low, std::int64_t high) {
  std::uniform_int_distribution<std::int64_t> of(low, high - 1);
  SampleInput input = drawn(shape, [&] { return static_cast<double>(of(random)); });
  input.dtype = DType::kI64;
  input.is_differentiable = false;
  return input;
}
SampleInput bools(Random& random, const Shape& shape) {
  SampleInput input = integers(random, shape, 0, 2);
  input.dtype = DType::kBool;
  return input;
}
SampleInput absent() {
  SampleInput input;
  input.is_absent = true;
  return input;
}

std::vector<std::int64_t> digits(const Shape& shape, std::int64_t place) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; place /= shape[i]) index[i] = place % shape[i];
  return index;
}

Tensor to_tensor(const Array& array, DType dtype, bool strided) {
  Tensor tensor =
      strided ? strided_memory(array.shape, dtype) : Tensor::allocate(array.shape, dtype, device::Device::get("host"));
  tensor.device().synchronize();  // waits for earlier users of the memory
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    write_element(tensor.data() + offset_of(tensor, i), dtype, array.values[static_cast<std::size_t>(i)]);
  }
  return tensor;
}

Array to_array(const Tensor& tensor) {
  tensor.device().synchronize();
  Array array(tensor.shape());
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    array.values[static_cast<std::size_t>(i)] = read_element(tensor.data() + offset_of(tensor, i), tensor.dtype());
  }
  return array;
}

Array rounded(const Array& array, DType dtype) {
  Array result = array;
  std::byte one[16];
  for (double& value : result.values) {
    write_element(one, dtype, value);
    value = read_element(one, dtype);
  }
  return result;
}

}  // namespace tessera::ops::testing

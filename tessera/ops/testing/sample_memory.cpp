#include "tessera/ops/testing/sample_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "tessera/ops/detail/elements.h"
#include "tessera/ops/pointwise/convert.h"

namespace tessera::ops::testing {
namespace {

using tessera::detail::concat;

struct Laid {
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
  std::int64_t size = 0;  // size of the storage, in elements
};

// Computes strides from the fastest dimension on, with a gap before each.
Laid laid_out(const Shape& shape, const std::vector<std::size_t>& order, Lay lay, Random& random) {
  Laid laid;
  laid.strides.resize(shape.size());
  std::int64_t step = lay == Lay::kReversed ? 2 : 1 + static_cast<std::int64_t>(random() % 3);
  laid.offset = lay == Lay::kReversed ? 1 : static_cast<std::int64_t>(random() % 4);
  for (const std::size_t d : order) {
    const std::int64_t count = std::max<std::int64_t>(shape[d], 1);
    const bool is_backwards = lay == Lay::kRandom && random() % 4 == 0;
    laid.strides[d] = is_backwards ? -step : step;
    if (is_backwards) laid.offset += step * (count - 1);
    step = step * count + (lay == Lay::kRandom ? static_cast<std::int64_t>(random() % 3) : 0);
  }
  laid.size = laid.offset + step + 1;
  return laid;
}

}  // namespace

Tensor allocate_laid(const Shape& shape, DType dtype, const device::Device& device, Lay lay, Random& random) {
  if (lay == Lay::kDense || shape.is_empty()) return Tensor::allocate(shape, dtype, device);
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0U);
  if (lay == Lay::kRandom) std::ranges::shuffle(order, random);
  const Laid laid = laid_out(shape, order, lay, random);
  const Tensor memory = Tensor::allocate(Shape({laid.size}), dtype, device);
  return memory.as_strided(shape, Strides(laid.strides), laid.offset);
}

void write_on(const device::Stream& stream, const Tensor& to, const Array& from, std::string_view label) {
  if (to.numel() == 0) return;
  const detail::ByteRange range = detail::byte_range(to);
  const device::Access accesses[] = {device::writes(range.address, range.nbytes)};
  stream.run(
      [data = to.data(), dtype = to.dtype(), strides = to.strides(), from] {
        for (std::int64_t i = 0; i < from.shape.numel(); ++i) {
          const auto index = digits(from.shape, i);
          std::int64_t offset = 0;
          for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
          write_element(data + offset * static_cast<std::int64_t>(itemsize(dtype)), dtype,
                        from.values[static_cast<std::size_t>(i)]);
        }
      },
      {.label = label, .accesses = accesses});
}

device::Device tested_device() {
  const char* name = std::getenv("TESSERA_TEST_DEVICE");
  return device::Device::get(name == nullptr ? "host" : name);
}

Tensor on_device(const Tensor& tensor, const device::Device& device) {
  if (tensor.device() == device) return tensor;
  const auto count = static_cast<std::int64_t>(tensor.storage().nbytes() / itemsize(tensor.dtype()));
  const Tensor memory = to(tensor.as_strided(Shape({count}), Strides({1}), 0), device);
  return memory.as_strided(tensor.shape(), tensor.strides(), tensor.offset());
}

Array read_back(const Tensor& tensor) { return to_array(to(tensor, device::Device::get("host"))); }

DType dtype_in(const SampleInput& input, DType dtype) { return input.dtype.value_or(dtype); }

std::vector<Array> reference_inputs(const OpSample& sample, DType dtype) {
  std::vector<Array> arrays;
  for (const SampleInput& input : sample.inputs) {
    arrays.push_back(input.is_absent ? Array() : rounded(input.value, dtype_in(input, dtype)));
  }
  return arrays;
}

void call_sample(const OpCaseInfo& info, const OpSample& sample, const device::Device& device,
                 std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const tensor::Operator op = tensor::find_op(info.op);
  const bool has_tensor = std::ranges::any_of(inputs, [](const Tensor& t) { return static_cast<bool>(t); }) ||
                          std::ranges::any_of(outputs, [](const Tensor& t) { return static_cast<bool>(t); });
  if (has_tensor) {
    tensor::call_into({op, inputs, sample.attributes.ref(), outputs});
  } else {
    outputs[0] = tensor::call_on(device, op, sample.attributes.ref());
  }
}

std::string difference(const Array& got, const Array& want, double tolerance) {
  if (got.shape != want.shape) return concat("shape must be ", want.shape, ", got ", got.shape);
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const double a = got.values[i];
    const double b = want.values[i];
    if ((std::isnan(a) && std::isnan(b)) || a == b) continue;
    if (!(std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)))) {
      return concat("element ", i, " must be ", b, ", got ", a);
    }
  }
  return {};
}

// Rounding inputs and result to a half type once each causes relative errors of about this size.
double tolerance_in(DType dtype, double in_f32) {
  switch (dtype) {
    case DType::kF64: return std::max(in_f32 * 1e-7, 1e-13);
    case DType::kBF16: return std::max(in_f32, 1.0 / 128);
    case DType::kF16: return std::max(in_f32, 1.0 / 1024);
    default: return in_f32;
  }
}

std::string text_of(const OpCaseInfo& info, const OpSample& sample) {
  std::string shapes;
  for (const SampleInput& input : sample.inputs) {
    shapes += shapes.empty() ? "" : ", ";
    shapes += input.is_absent ? std::string("none")
                              : concat(input.dtype ? to_string(*input.dtype) : std::string_view(), input.value.shape);
  }
  return concat(info.op, " ", sample.attributes.ref().text(), " (", shapes, ") ", sample.note);
}

}  // namespace tessera::ops::testing

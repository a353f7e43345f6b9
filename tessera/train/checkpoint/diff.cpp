#include "tessera/train/checkpoint/diff.h"

#include <cmath>
#include <cstring>
#include <span>
#include <unordered_map>

#include "tessera/train/checkpoint/detail/good_checkpoint.h"
#include "tessera/train/checkpoint/detail/whole_tensors.h"

namespace tessera::train {
namespace {

using detail::SavedTensor;
using Kind = CheckpointDifference::Kind;

// Counts elements of T whose bits differ; `parts` values make one element.
template <class T>
void compare(const std::byte* a, const std::byte* b, std::size_t count, std::size_t parts, CheckpointDifference& into) {
  for (std::size_t i = 0; i < count; ++i, a += parts * sizeof(T), b += parts * sizeof(T)) {
    if (std::memcmp(a, b, parts * sizeof(T)) == 0) continue;
    ++into.differing;
    for (std::size_t p = 0; p < parts; ++p) {
      T x;
      T y;
      std::memcpy(static_cast<void*>(&x), a + p * sizeof(T), sizeof(T));
      std::memcpy(static_cast<void*>(&y), b + p * sizeof(T), sizeof(T));
      const double difference = std::abs(static_cast<double>(x) - static_cast<double>(y));
      // A NaN stays: no value is greater.
      if (std::isnan(difference) || difference > into.largest) into.largest = difference;
      if (std::isnan(into.largest)) break;
    }
  }
}

void compare_as(DType dtype, const std::byte* a, const std::byte* b, std::size_t count, std::size_t parts,
                CheckpointDifference& into) {
  switch (dtype) {
    case DType::kF64: return compare<double>(a, b, count, parts, into);
    case DType::kF32: return compare<float>(a, b, count, parts, into);
    case DType::kF16: return compare<f16>(a, b, count, parts, into);
    case DType::kBF16: return compare<bf16>(a, b, count, parts, into);
    case DType::kF8E4M3: return compare<f8e4m3>(a, b, count, parts, into);
    case DType::kF8E5M2: return compare<f8e5m2>(a, b, count, parts, into);
    case DType::kI64: return compare<std::int64_t>(a, b, count, parts, into);
    case DType::kI32: return compare<std::int32_t>(a, b, count, parts, into);
    case DType::kI16: return compare<std::int16_t>(a, b, count, parts, into);
    case DType::kI8: return compare<std::int8_t>(a, b, count, parts, into);
    case DType::kU64: return compare<std::uint64_t>(a, b, count, parts, into);
    case DType::kU32: return compare<std::uint32_t>(a, b, count, parts, into);
    case DType::kU16: return compare<std::uint16_t>(a, b, count, parts, into);
    case DType::kU8:
    case DType::kBool: return compare<std::uint8_t>(a, b, count, parts, into);
    case DType::kC64:
    case DType::kC128: return;  // their real and imaginary parts are compared
  }
}

CheckpointDifference described(const SavedTensor& a, const SavedTensor& b) {
  CheckpointDifference out;
  out.name = a.name;
  out.shape[0] = a.shape;
  out.shape[1] = b.shape;
  out.dtype[0] = a.dtype;
  out.dtype[1] = b.dtype;
  if (a.shape != b.shape) out.kind = Kind::kShape;
  if (a.dtype != b.dtype) out.kind = Kind::kDType;
  return out;
}

}  // namespace

bool diff_checkpoints(const CheckpointInfo& a, const CheckpointInfo& b,
                      const std::function<void(const CheckpointDifference&)>& tell) {
  // Corruption is not a difference between two runs.
  detail::WholeTensors first(detail::good_checkpoint(a.path));
  detail::WholeTensors second(detail::good_checkpoint(b.path));
  bool is_equal = true;
  const auto say = [&](const CheckpointDifference& difference) {
    is_equal = is_equal && (difference.kind == Kind::kEqual || difference.is_text);
    if (tell) tell(difference);
  };
  std::unordered_map<std::string_view, std::size_t> places;
  const auto& others = second.index().tensors;
  for (std::size_t t = 0; t < others.size(); ++t) places.emplace(others[t].name, t);
  for (std::size_t t = 0; t < first.index().tensors.size(); ++t) {
    const SavedTensor& saved = first.index().tensors[t];
    const auto found = places.find(saved.name);
    if (found == places.end()) {
      CheckpointDifference only = described(saved, saved);
      only.kind = Kind::kOnlyFirst;
      say(only);
      continue;
    }
    CheckpointDifference difference = described(saved, others[found->second]);
    if (difference.kind == Kind::kEqual) {
      const std::span<const std::byte> x = first.read(t);
      const std::span<const std::byte> y = second.read(found->second);
      const DType part = real_of(saved.dtype);
      compare_as(part, x.data(), y.data(), x.size() / itemsize(saved.dtype), itemsize(saved.dtype) / itemsize(part),
                 difference);
      if (difference.differing > 0) difference.kind = Kind::kValues;
    }
    places.erase(found);
    say(difference);
  }
  for (const SavedTensor& saved : others) {
    if (!places.contains(saved.name)) continue;
    CheckpointDifference only = described(saved, saved);
    only.kind = Kind::kOnlySecond;
    say(only);
  }
  const auto& texts = second.index().texts;
  for (const auto& [name, text] : first.index().texts) {
    const auto found = texts.find(name);
    if (found != texts.end() && found->second == text) continue;
    say({.name = name, .is_text = true, .kind = found == texts.end() ? Kind::kOnlyFirst : Kind::kText});
  }
  for (const auto& [name, text] : texts) {
    if (!first.index().texts.contains(name)) say({.name = name, .is_text = true, .kind = Kind::kOnlySecond});
  }
  return is_equal;
}

}  // namespace tessera::train

#include "tessera/base/dtype.h"

#include <fmt/format.h>

#include "tessera/base/error.h"
#include "tessera/base/nearest.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, kAllDTypes.size()> kNames = {"f64", "f32", "f16",  "bf16", "f8e4m3", "f8e5m2",
                                                                    "i64", "i32", "i16",  "i8",   "u64",    "u32",
                                                                    "u16", "u8",  "bool", "c64",  "c128"};

}  // namespace

std::string_view to_string(DType dtype) {
  const auto at = static_cast<std::size_t>(dtype);
  return at < kNames.size() ? kNames[at] : "no dtype";
}

DType parse_dtype(std::string_view name) {
  for (const DType dtype : kAllDTypes) {
    if (to_string(dtype) == name) return dtype;
  }
  TESSERA_THROW(InvalidArgument, "dtype must be one of ", kNames, ", got '", name, "'", did_you_mean(name, kNames));
}

std::string to_string(f16 value) { return fmt::format("{}", static_cast<float>(value)); }
std::string to_string(bf16 value) { return fmt::format("{}", static_cast<float>(value)); }
std::string to_string(f8e4m3 value) { return fmt::format("{}", static_cast<float>(value)); }
std::string to_string(f8e5m2 value) { return fmt::format("{}", static_cast<float>(value)); }

}  // namespace tessera

// The arguments of an operator that are not tensors, as a plain struct:
//
//   struct SoftmaxAttributes {
//     std::int64_t dim = 0;
//     TESSERA_ATTRIBUTES(dim)
//   };
//
// Kernels and gradients read the struct. Generic code (records, caches, errors) uses a pointer and a table of functions
// generated from the named fields: compare, hash, print, copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/base/small_vector.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/scalar.h"

namespace tessera::tensor {

/// A list of integers: dims, sizes, indices.
using IntList = SmallVector<std::int64_t, 8>;

/// Lists the fields of an attributes struct. Every field must be listed.
#define TESSERA_ATTRIBUTES(...)                             \
  static constexpr std::string_view kFields = #__VA_ARGS__; \
  [[nodiscard]] auto fields() const { return std::tie(__VA_ARGS__); }

/// Attributes of an operator without attributes.
struct NoAttributes {
  static constexpr std::string_view kFields = {};           ///< Empty.
  [[nodiscard]] std::tuple<> fields() const { return {}; }  ///< Returns an empty tuple.
};

namespace detail {

TESSERA_API std::string attribute_text(bool value);
TESSERA_API std::string attribute_text(std::int64_t value);
TESSERA_API std::string attribute_text(double value);
TESSERA_API std::string attribute_text(const Scalar& value);
TESSERA_API std::string attribute_text(DType value);
TESSERA_API std::string attribute_text(const Shape& value);
TESSERA_API std::string attribute_text(const IntList& value);
TESSERA_API std::string attribute_text(const std::string& value);
TESSERA_API std::string attribute_text(const layout::IndexMap& value);
TESSERA_API std::string attribute_text(const std::vector<layout::IndexMap>& value);

/// Mixes a word into a hash.
inline std::size_t mixed(std::size_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
  return hash ^ hash >> 29;
}
inline std::size_t attribute_hash(bool value) { return value ? 1 : 0; }
inline std::size_t attribute_hash(std::int64_t value) { return static_cast<std::size_t>(value); }
inline std::size_t attribute_hash(DType value) { return static_cast<std::size_t>(value); }
inline std::size_t attribute_hash(double value) { return std::hash<double>()(value); }  // equal for 0 and -0
inline std::size_t attribute_hash(const Scalar& value) {
  const auto kind = static_cast<std::size_t>(value.kind());
  if (value.kind() <= Scalar::Kind::kInteger) return mixed(kind, static_cast<std::uint64_t>(value.as_int64()));
  return mixed(mixed(kind, attribute_hash(value.as_double())), attribute_hash(value.as_complex().imag()));
}
inline std::size_t attribute_hash(std::span<const std::int64_t> values) {
  std::size_t hash = values.size();
  for (const std::int64_t value : values) hash = mixed(hash, static_cast<std::uint64_t>(value));
  return hash;
}
inline std::size_t attribute_hash(const Shape& value) { return attribute_hash(value.values()); }
inline std::size_t attribute_hash(const IntList& value) { return attribute_hash(std::span<const std::int64_t>(value)); }
inline std::size_t attribute_hash(const std::string& value) { return std::hash<std::string>()(value); }
TESSERA_API std::size_t attribute_hash(const layout::IndexMap& value);
TESSERA_API std::size_t attribute_hash(const std::vector<layout::IndexMap>& value);
/// Returns "dim=1, keepdim=false" from the names, split at commas, and the values.
TESSERA_API std::string fields_text(std::string_view names, std::span<const std::string> values);

}  // namespace detail

/// Function table of one attributes struct.
struct AttributesType {
  /// The struct. The program and the library may each have a table.
  const std::type_info* type;
  std::string_view fields;                              ///< Names of the fields, separated by commas.
  bool (*equal)(const void* a, const void* b);          ///< Returns true if all fields are equal.
  std::size_t (*hash)(const void* at);                  ///< Hashes the fields.
  std::string (*text)(const void* at);                  ///< Returns "dim=1, keepdim=false".
  std::shared_ptr<const void> (*copy)(const void* at);  ///< Returns a shared copy.
  /// Returns a default-constructed struct, or null if that is impossible.
  std::shared_ptr<const void> (*make)();

  /// Returns true if both tables describe the same struct.
  friend bool operator==(const AttributesType& a, const AttributesType& b) { return &a == &b || *a.type == *b.type; }
};

/// Thrown when attributes are read as another struct. Holds the requested struct.
class TESSERA_API AttributesMismatch : public InvalidArgument {
 public:
  /// `asked` is the table of the requested struct.
  AttributesMismatch(SourcePlace place, std::string message, const AttributesType& asked)
      : InvalidArgument(place, std::move(message)), asked_(&asked) {}
  /// Returns the table of the requested struct.
  [[nodiscard]] const AttributesType& asked() const { return *asked_; }

 private:
  const AttributesType* asked_;
};

namespace detail {
/// Throws AttributesMismatch.
[[noreturn]] TESSERA_API void refuse_attributes(const std::string& text, const AttributesType& asked);
}  // namespace detail

/// Returns the function table of A.
template <class A>
const AttributesType& attributes_type() {
  static constexpr AttributesType kType = {
      &typeid(A),
      A::kFields,
      [](const void* a, const void* b) {
        return static_cast<const A*>(a)->fields() == static_cast<const A*>(b)->fields();
      },
      [](const void* at) {
        return std::apply(
            [](const auto&... field) {
              std::size_t sum = 0;
              ((sum = detail::mixed(sum, detail::attribute_hash(field))), ...);
              return sum;
            },
            static_cast<const A*>(at)->fields());
      },
      [](const void* at) {
        return std::apply(
            [](const auto&... field) {
              const std::vector<std::string> values = {detail::attribute_text(field)...};
              return detail::fields_text(A::kFields, values);
            },
            static_cast<const A*>(at)->fields());
      },
      [](const void* at) -> std::shared_ptr<const void> {
        return std::make_shared<const A>(*static_cast<const A*>(at));
      },
      []() -> std::shared_ptr<const void> {
        if constexpr (std::is_default_constructible_v<A>) return std::make_shared<const A>();
        return nullptr;
      },
  };
  return kType;
}

/// A non-owning reference to attributes, which must outlive it.
class AttributesRef {
 public:
  /// Refers to empty attributes.
  AttributesRef() : AttributesRef(kNone) {}
  /// Refers to `attributes`.
  template <class A>
  requires requires(const A& a) { a.fields(); }
  AttributesRef(const A& attributes)  // NOLINT(google-explicit-constructor): passed straight to a call
      : at_(&attributes), type_(&attributes_type<A>()) {}
  /// Refers to copied attributes at `at`.
  AttributesRef(const void* at, const AttributesType& type) : at_(at), type_(&type) {}

  /// Returns the attributes as A. Throws AttributesMismatch if they are another struct.
  template <class A>
  [[nodiscard]] const A& as() const {
    const AttributesType& asked = attributes_type<A>();
    if (type_ != &asked && *type_ != asked) [[unlikely]]
      detail::refuse_attributes(text(), asked);
    return *static_cast<const A*>(at_);
  }
  /// Returns "dim=1, keepdim=false".
  [[nodiscard]] std::string text() const { return type_->text(at_); }
  /// Returns a hash of the values.
  [[nodiscard]] std::size_t hash() const { return type_->hash(at_); }
  /// Returns true if type and values are equal.
  friend bool operator==(const AttributesRef& a, const AttributesRef& b) {
    return *a.type_ == *b.type_ && a.type_->equal(a.at_, b.at_);
  }
  /// Returns the function table.
  [[nodiscard]] const AttributesType& type() const { return *type_; }
  /// Returns the address of the attributes.
  [[nodiscard]] const void* data() const { return at_; }

 private:
  static constexpr NoAttributes kNone = {};
  const void* at_;
  const AttributesType* type_;
};

/// An owning, shared copy of attributes.
class Attributes {
 public:
  /// Constructs empty attributes.
  Attributes() = default;
  /// Copies `from`. An empty struct is not copied.
  explicit Attributes(const AttributesRef& from) : type_(&from.type()) {
    if (!type_->fields.empty()) copy_ = type_->copy(from.data());
  }
  /// Returns a reference to the copy.
  [[nodiscard]] AttributesRef ref() const { return copy_ ? AttributesRef(copy_.get(), *type_) : AttributesRef(); }

 private:
  std::shared_ptr<const void> copy_;
  const AttributesType* type_ = nullptr;
};

}  // namespace tessera::tensor

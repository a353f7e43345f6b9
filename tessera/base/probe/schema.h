// Self-description of records and of rows of state tables. A kind is one struct:
//
//   struct LaunchRecord {
//     std::uint32_t stream;
//     probe::StringId label;
//     std::uint64_t tick;
//     TESSERA_RECORD(LaunchRecord, "launch", stream, label, tick)
//   };
//
// Each record file has the description (name; per field: name, type, offset) before the first record of the kind, so
// that a reader can print a struct that it does not know.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"

namespace tessera::probe {

/// A string interned in one record file, valid for that file only. 0 reads as "(table full)".
using StringId = Id<struct StringTag, std::uint32_t>;
/// A time in ticks of the clock of the recorder (tsc_clock.h); the reader shows it as wall time. 0 means never.
using Moment = Id<struct MomentTag, std::uint64_t>;

/// Type of a field. The values are part of the file format.
enum class FieldType : std::uint8_t {
  kU8 = 1,        ///< unsigned, 8 bits
  kU16 = 2,       ///< unsigned, 16 bits
  kU32 = 3,       ///< unsigned, 32 bits
  kU64 = 4,       ///< unsigned, 64 bits
  kI8 = 5,        ///< signed, 8 bits
  kI16 = 6,       ///< signed, 16 bits
  kI32 = 7,       ///< signed, 32 bits
  kI64 = 8,       ///< signed, 64 bits
  kF32 = 9,       ///< float
  kF64 = 10,      ///< double
  kBool = 11,     ///< bool
  kString = 12,   ///< StringId
  kMoment = 13,   ///< Moment
  kAddress = 14,  ///< pointer
  kText = 15,     ///< char[N], terminated by a zero or by its size
};

/// One field of a kind.
struct FieldInfo {
  const char* name;      ///< Name in the struct.
  FieldType type;        ///< Type of the value.
  std::uint16_t offset;  ///< Bytes from the start of the struct.
  std::uint16_t nbytes;  ///< Size in bytes.
};

/// One kind of record or row.
struct KindInfo {
  const char* name;                   ///< Name that readers show.
  std::uint16_t nbytes;               ///< Size of the struct.
  std::span<const FieldInfo> fields;  ///< In the order of the macro arguments.
};

namespace detail {

template <class T>
struct PlainType {
  using type = T;
};
template <class Tag, class Rep>
struct PlainType<Id<Tag, Rep>> {
  using type = Rep;
};
template <class T>
requires std::is_enum_v<T>
struct PlainType<T> {
  using type = std::underlying_type_t<T>;
};

template <class Field>
consteval FieldType field_type() {
  using T = typename PlainType<Field>::type;
  if constexpr (std::is_same_v<Field, StringId>) {
    return FieldType::kString;
  } else if constexpr (std::is_same_v<Field, Moment>) {
    return FieldType::kMoment;
  } else if constexpr (std::is_same_v<T, bool>) {
    return FieldType::kBool;
  } else if constexpr (std::is_pointer_v<T>) {
    return FieldType::kAddress;
  } else if constexpr (std::is_array_v<T>) {
    static_assert(std::is_same_v<std::remove_extent_t<T>, char>, "the only arrays in a record are char[N]");
    return FieldType::kText;
  } else if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) <= 8, "a record has no long double");
    return sizeof(T) == 4 ? FieldType::kF32 : FieldType::kF64;
  } else {
    static_assert(std::is_integral_v<T>, "a field is an integer, an id, an enum, a float, bool, a pointer or char[N]");
    constexpr std::uint8_t base = std::is_signed_v<T> ? 5 : 1;
    constexpr std::uint8_t width = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return static_cast<FieldType>(base + width);
  }
}

inline constexpr std::size_t kNameBytes = 24;  // in the file, including the terminating zero

template <std::size_t N>
consteval const char* checked_name(const char (&name)[N]) {
  static_assert(N <= kNameBytes, "names of kinds and fields have at most 23 characters");
  return name;
}

/// Returns the number of a kind, the same in all record files of this process, and adds the kind to all open files.
TESSERA_API std::uint16_t register_kind(const KindInfo& info);

template <class Kind>
inline constinit std::atomic<std::uint16_t> kind_number{0};

template <class Kind>
std::uint16_t kind_number_of() {
  const std::uint16_t known = kind_number<Kind>.load(std::memory_order_relaxed);
  if (known != 0) [[likely]]
    return known;
  static constexpr auto fields = Kind::record_fields();
  const std::uint16_t number = register_kind({Kind::kRecordName, sizeof(Kind), fields});
  kind_number<Kind>.store(number, std::memory_order_relaxed);
  return number;
}

#define TESSERA_DETAIL_PARENS ()
#define TESSERA_DETAIL_EXPAND(...) TESSERA_DETAIL_EXPAND2(TESSERA_DETAIL_EXPAND2(TESSERA_DETAIL_EXPAND2(__VA_ARGS__)))
#define TESSERA_DETAIL_EXPAND2(...) TESSERA_DETAIL_EXPAND3(TESSERA_DETAIL_EXPAND3(TESSERA_DETAIL_EXPAND3(__VA_ARGS__)))
#define TESSERA_DETAIL_EXPAND3(...) TESSERA_DETAIL_EXPAND4(TESSERA_DETAIL_EXPAND4(TESSERA_DETAIL_EXPAND4(__VA_ARGS__)))
#define TESSERA_DETAIL_EXPAND4(...) __VA_ARGS__
#define TESSERA_DETAIL_FIELD(Type, member)                                                    \
  ::tessera::probe::FieldInfo{::tessera::probe::detail::checked_name(#member),                \
                              ::tessera::probe::detail::field_type<decltype(Type::member)>(), \
                              static_cast<std::uint16_t>(offsetof(Type, member)), sizeof(Type::member)},
#define TESSERA_DETAIL_FIELDS(Type, member, ...) \
  TESSERA_DETAIL_FIELD(Type, member) __VA_OPT__(TESSERA_DETAIL_MORE TESSERA_DETAIL_PARENS(Type, __VA_ARGS__))
#define TESSERA_DETAIL_MORE() TESSERA_DETAIL_FIELDS

}  // namespace detail

/// Makes the enclosing struct a kind of record (at most 40 bytes) or row (at most 488 bytes) with these fields.
#define TESSERA_RECORD(Type, text, ...)                                                    \
  static constexpr const char* kRecordName = ::tessera::probe::detail::checked_name(text); \
  static constexpr auto record_fields() {                                                  \
    return std::to_array<::tessera::probe::FieldInfo>(                                     \
        {TESSERA_DETAIL_EXPAND(TESSERA_DETAIL_FIELDS(Type, __VA_ARGS__))});                \
  }

/// A struct with TESSERA_RECORD.
template <class T>
concept Describable = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> && requires {
  { T::kRecordName } -> std::convertible_to<std::string_view>;
  T::record_fields();
};

}  // namespace tessera::probe

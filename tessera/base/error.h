// Typed errors and the checks that throw them.
//
//   TESSERA_CHECK(offset % granule == 0, "map: offset ", offset, " must be a multiple of ", granule);
//   TESSERA_CHECK_AS(OutOfMemory, used + nbytes <= capacity, "host device: ", nbytes, " more bytes do not fit");
//   TESSERA_THROW(NotSupported, "capture of a hold");
//
// Each error has its kind, the file and line of the check, the rank and, for a failed comparison, the values of both
// sides. A message names the object, the value and the fix; this header adds the rest.
#pragma once

#include <charconv>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tessera/base/export.h"

namespace tessera {

/// Kind of an error, for code that handles errors.
enum class ErrorKind {
  kInvalidArgument,  ///< The caller passed an invalid value; nothing was changed.
  kOutOfMemory,      ///< A device, or a limit set on it, has no memory left.
  kDevice,           ///< a driver call or a kernel failed
  kTimeout,          ///< a deadline passed
  kAborted,          ///< The operation was aborted.
  kMismatch,         ///< ranks or files disagree
  kNotSupported,     ///< This build, device or backend does not support the operation.
  kIo,               ///< a file or socket failed
};

/// Returns "invalid argument", "out of memory", ...
TESSERA_API std::string_view to_string(ErrorKind kind);

/// Source location of a check.
struct SourcePlace {
  const char* file;  ///< Path as compiled, relative to the source root if the compiler supports it.
  int line;          ///< Line number.
};

/// Base of all exceptions thrown by Tessera.
class TESSERA_API Error : public std::runtime_error {
 public:
  /// Takes the rank from the calling thread.
  Error(ErrorKind kind, SourcePlace place, std::string message, std::string operands = {});
  /// Returns the kind of the error.
  [[nodiscard]] ErrorKind kind() const { return kind_; }
  /// Returns the message without kind, location and rank.
  [[nodiscard]] const std::string& message() const { return message_; }
  /// Returns the failed expression with the values of both sides; empty for TESSERA_THROW.
  [[nodiscard]] const std::string& operands() const { return operands_; }
  /// Returns the source location of the throw.
  [[nodiscard]] SourcePlace place() const { return place_; }
  /// Returns the rank of the throwing thread; 0 in a world of one.
  [[nodiscard]] int rank() const { return rank_; }

 private:
  ErrorKind kind_;
  SourcePlace place_;
  int rank_;
  std::string message_;
  std::string operands_;
};

namespace detail {
template <ErrorKind Kind>
class TESSERA_API TypedError : public Error {
 public:
  TypedError(SourcePlace place, std::string message, std::string operands = {})
      : Error(Kind, place, std::move(message), std::move(operands)) {}
};
}  // namespace detail

/// The caller passed an invalid value; nothing was changed.
class TESSERA_API InvalidArgument : public detail::TypedError<ErrorKind::kInvalidArgument> {
  using TypedError::TypedError;
};
/// A device, or a limit set on it, has no memory left.
class TESSERA_API OutOfMemory : public detail::TypedError<ErrorKind::kOutOfMemory> {
  using TypedError::TypedError;
};
/// A driver call or a kernel failed.
class TESSERA_API DeviceError : public detail::TypedError<ErrorKind::kDevice> {
  using TypedError::TypedError;
};
/// A deadline passed.
class TESSERA_API TimeoutError : public detail::TypedError<ErrorKind::kTimeout> {
  using TypedError::TypedError;
};
/// The operation was aborted.
class TESSERA_API AbortedError : public detail::TypedError<ErrorKind::kAborted> {
  using TypedError::TypedError;
};
/// Ranks or files disagree.
class TESSERA_API MismatchError : public detail::TypedError<ErrorKind::kMismatch> {
  using TypedError::TypedError;
};
/// This build, device or backend does not support the operation.
class TESSERA_API NotSupported : public detail::TypedError<ErrorKind::kNotSupported> {
  using TypedError::TypedError;
};
/// A file or socket failed.
class TESSERA_API IoError : public detail::TypedError<ErrorKind::kIo> {
  using TypedError::TypedError;
};

namespace detail {

inline void append(std::string& out, std::string_view part) { out += part; }
inline void append(std::string& out, const char* part) { out += part != nullptr ? part : "(null)"; }
inline void append(std::string& out, bool part) { out += part ? "true" : "false"; }
inline void append(std::string& out, char part) { out += part; }
inline void append(std::string& out, std::nullptr_t) { out += "null"; }
TESSERA_API void append(std::string& out, const void* part);
TESSERA_API void append(std::string& out, double part);

template <std::integral T>
void append(std::string& out, T part) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, part).ptr;
  out.append(text, end);
}

template <class R, class P>
void append(std::string& out, std::chrono::duration<R, P> part) {
  append(out, std::chrono::duration<double, std::milli>(part).count());
  out += " ms";
}

/// Appends any type that has a to_string() in its namespace.
template <class T>
requires requires(const T& part) {
  { to_string(part) } -> std::convertible_to<std::string_view>;
}
void append(std::string& out, const T& part) { out += to_string(part); }

/// A file path, which is also a range of paths.
template <class T>
concept PathLike = requires(const T& part) {
  { part.string() } -> std::convertible_to<std::string_view>;
  part.lexically_normal();
};
void append(std::string& out, const PathLike auto& part) { out += part.string(); }

/// Appends a list as [a, b, c].
template <std::ranges::input_range T>
requires(!PathLike<T> && !std::convertible_to<const T&, std::string_view> && !requires(const T& part) {
  { to_string(part) } -> std::convertible_to<std::string_view>;
}) void append(std::string& out, const T& parts) {
  out += '[';
  bool first = true;
  for (const auto& part : parts) {
    if (!first) out += ", ";
    first = false;
    append(out, part);
  }
  out += ']';
}

template <class T>
concept CanAppend = requires(std::string& out, const T& part) {
  append(out, part);
};

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

/// Decomposes a failed comparison to show the values of both sides. It is evaluated only after a check has failed, so a
/// check costs as much as its condition. The condition must have no side effects.
template <class L>
struct LeftOperand {
  const L& left;
  explicit operator bool() const { return static_cast<bool>(left); }
};

struct Values {
  std::string text;
  explicit operator bool() const { return false; }
};

struct Operands {
  template <class L>
  LeftOperand<L> operator<=(const L& left) const {
    return {left};
  }
};

#define TESSERA_DETAIL_SHOW(op)                                 \
  template <class L, class R>                                   \
  Values operator op(const LeftOperand<L>& l, const R& right) { \
    if constexpr (CanAppend<L> && CanAppend<R>) {               \
      return {concat(l.left, " " #op " ", right)};              \
    } else {                                                    \
      return {};                                                \
    }                                                           \
  }
TESSERA_DETAIL_SHOW(==)
TESSERA_DETAIL_SHOW(!=)
TESSERA_DETAIL_SHOW(<)
TESSERA_DETAIL_SHOW(<=)
TESSERA_DETAIL_SHOW(>)
TESSERA_DETAIL_SHOW(>=)
#undef TESSERA_DETAIL_SHOW

template <class T>
std::string shown(const char* expression, const T& operands) {
  if constexpr (std::same_as<T, Values>) {
    if (!operands.text.empty()) return concat(expression, ", with ", operands.text);
  }
  return expression;
}

template <class E, class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(SourcePlace place, std::string operands,
                                                        const Parts&... parts) {
  throw E(place, concat(parts...), std::move(operands));
}

}  // namespace detail

/// Throws an error of the given type, with the concatenated parts as its message.
#define TESSERA_THROW(type, ...) ::tessera::detail::throw_error<type>({__FILE__, __LINE__}, {}, __VA_ARGS__)

/// Throws an error of the given type, with the parts as its message, unless the condition holds.
// clang-format off
#define TESSERA_CHECK_AS(type, condition, ...)                                                                  \
  do {                                                                                                          \
    if (!(condition)) [[unlikely]] {                                                                            \
      _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wparentheses\"")                        \
      auto tessera_operands = ::tessera::detail::shown(#condition, ::tessera::detail::Operands{} <= condition); \
      _Pragma("GCC diagnostic pop")                                                                             \
      ::tessera::detail::throw_error<type>({__FILE__, __LINE__}, std::move(tessera_operands), __VA_ARGS__);     \
    }                                                                                                           \
  } while (false)
// clang-format on

/// Throws InvalidArgument, with the parts as its message, unless the condition holds.
#define TESSERA_CHECK(condition, ...) TESSERA_CHECK_AS(::tessera::InvalidArgument, condition, __VA_ARGS__)

}  // namespace tessera

// Reads Python pickles of plain data: None, bool, int, float, str, bytes, list, tuple and dict, in protocols 0 to 5.
// Opcodes that create objects or call functions are rejected by name, because a pickle is a program.
//
// The file is not trusted. Lengths are compared with the remaining bytes, the number of values is bounded, and nothing
// recurses. Values belong to the Pickle and are shared where the file shares them: a list may contain itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tessera::analysis::detail {

class PickleValue;
/// A list or tuple.
using PickleList = std::vector<PickleValue>;
/// A dict in order. If a key occurs twice, the last one counts.
using PickleDict = std::vector<std::pair<PickleValue, PickleValue>>;

/// Small handle to a value, valid during the lifetime of its Pickle.
class PickleValue {
 public:
  /// Alternatives of a value.
  using Held = std::variant<std::monostate, bool, std::int64_t, double, const std::string*, PickleList*, PickleDict*>;
  PickleValue() = default;
  explicit PickleValue(Held held) : held_(held) {}

  [[nodiscard]] const Held& held() const { return held_; }
  [[nodiscard]] bool is_none() const { return std::holds_alternative<std::monostate>(held_); }
  /// Returns the value, or nothing if it has another type. A bool is an int too.
  [[nodiscard]] std::optional<std::int64_t> integer() const;
  [[nodiscard]] const std::string* text() const;
  [[nodiscard]] const PickleList* list() const;
  [[nodiscard]] const PickleDict* dict() const;
  /// Returns the value of a key of a dict; null if it is not a dict or has no such key.
  [[nodiscard]] const PickleValue* find(std::string_view key) const;

 private:
  Held held_;
};

/// One pickle. Movable, not copyable.
class Pickle {
 public:
  /// Maximum number of values.
  static constexpr std::size_t kMaxValues = std::size_t{1} << 25;

  /// Parses the bytes of a file of this name. Throws IoError with the file and the byte if it is not a pickle of plain
  /// data, is truncated, or holds too many values.
  static Pickle parse(std::string_view bytes, const std::string& name);
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;

  /// Returns the top-level value.
  [[nodiscard]] const PickleValue& root() const { return root_; }

 private:
  friend class PickleParser;
  Pickle() = default;

  std::deque<std::string> texts_;
  std::deque<PickleList> lists_;
  std::deque<PickleDict> dicts_;
  PickleValue root_;
};

}  // namespace tessera::analysis::detail

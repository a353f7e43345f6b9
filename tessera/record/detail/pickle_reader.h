// Reads Python pickles of plain data: None, bool, int, float, str, bytes, list, tuple and dict, in protocols 0 to 5.
// What would make an object, or call anything, is refused by name: a pickle is a program, and this is not its machine.
//
// Nothing in the file is believed. Lengths are compared with what is left, the number of values is bounded, and nothing
// recurses. Values live in the Pickle and are shared where the file shares them: a list may hold itself.
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

namespace tessera::record::detail {

class PickleValue;
/// A list, or a tuple.
using PickleList = std::vector<PickleValue>;
/// A dict, in order; a key may stand in it twice, and the last counts.
using PickleDict = std::vector<std::pair<PickleValue, PickleValue>>;

/// A value; a small handle. Of its Pickle's life.
class PickleValue {
 public:
  /// What it may hold.
  using Held = std::variant<std::monostate, bool, std::int64_t, double, const std::string*, PickleList*, PickleDict*>;
  PickleValue() = default;
  explicit PickleValue(Held held) : held_(held) {}

  [[nodiscard]] const Held& held() const { return held_; }
  [[nodiscard]] bool is_none() const { return std::holds_alternative<std::monostate>(held_); }
  /// What it is, or nothing if it is something else. A bool is an int too.
  [[nodiscard]] std::optional<std::int64_t> integer() const;
  [[nodiscard]] const std::string* text() const;
  [[nodiscard]] const PickleList* list() const;
  [[nodiscard]] const PickleDict* dict() const;
  /// The value of a key of a dict; null: it is no dict, or has no such key.
  [[nodiscard]] const PickleValue* find(std::string_view key) const;

 private:
  Held held_;
};

/// One pickle. Movable, not copyable.
class Pickle {
 public:
  /// The most values that are read.
  static constexpr std::size_t kMostValues = std::size_t{1} << 25;

  /// Reads the bytes of a file of this name. IoError, naming the file and the byte, when it is no pickle of plain data,
  /// is cut off, or holds too much.
  static Pickle parse(std::string_view bytes, const std::string& name);
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;

  /// What it holds.
  [[nodiscard]] const PickleValue& root() const { return root_; }

 private:
  friend class PickleParser;
  Pickle() = default;

  std::deque<std::string> texts_;
  std::deque<PickleList> lists_;
  std::deque<PickleDict> dicts_;
  PickleValue root_;
};

}  // namespace tessera::record::detail

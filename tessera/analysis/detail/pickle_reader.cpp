#include "tessera/analysis/detail/pickle_reader.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "tessera/base/error.h"

namespace tessera::analysis::detail {
namespace {

// Returns the Python name of an opcode that creates objects; null for supported opcodes.
const char* refused_name(unsigned char opcode) {
  switch (opcode) {
    case 'c': return "GLOBAL";
    case 0x93: return "STACK_GLOBAL";
    case 'R': return "REDUCE";
    case 'b': return "BUILD";
    case 'i': return "INST";
    case 'o': return "OBJ";
    case 0x81: return "NEWOBJ";
    case 0x92: return "NEWOBJ_EX";
    case 'P': return "PERSID";
    case 'Q': return "BINPERSID";
    case 0x82: return "EXT1";
    case 0x83: return "EXT2";
    case 0x84: return "EXT4";
    case 0x8f: return "EMPTY_SET";
    case 0x90: return "ADDITEMS";
    case 0x91: return "FROZENSET";
    case 0x97: return "NEXT_BUFFER";
    case 0x98: return "READONLY_BUFFER";
    default: return nullptr;
  }
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | (code >> 18 & 0x7));
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

}  // namespace

std::optional<std::int64_t> PickleValue::integer() const {
  if (const auto* number = std::get_if<std::int64_t>(&held_)) return *number;
  if (const auto* flag = std::get_if<bool>(&held_)) return *flag ? 1 : 0;
  return std::nullopt;
}
const std::string* PickleValue::text() const {
  const auto* text = std::get_if<const std::string*>(&held_);
  return text != nullptr ? *text : nullptr;
}
const PickleList* PickleValue::list() const {
  const auto* list = std::get_if<PickleList*>(&held_);
  return list != nullptr ? *list : nullptr;
}
const PickleDict* PickleValue::dict() const {
  const auto* dict = std::get_if<PickleDict*>(&held_);
  return dict != nullptr ? *dict : nullptr;
}
const PickleValue* PickleValue::find(std::string_view key) const {
  const PickleDict* entries = dict();
  if (entries == nullptr) return nullptr;
  for (auto entry = entries->rbegin(); entry != entries->rend(); ++entry) {
    const std::string* text = entry->first.text();
    if (text != nullptr && *text == key) return &entry->second;
  }
  return nullptr;
}

class PickleParser {
 public:
  PickleParser(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Pickle parse() {
    while (!is_over_) {
      opcode_at_ = at_;
      step(static_cast<unsigned char>(take(1)[0]));
    }
    check(marks_.empty() && stack_.size() == 1, "must end with one value");
    pickle_.root_ = stack_.back();
    return std::move(pickle_);
  }

 private:
  using Value = PickleValue;

  void check(bool is_right, std::string_view what) const {
    TESSERA_CHECK_AS(IoError, is_right, "pickle ", name_, ": byte ", opcode_at_, ": ", what);
  }
  std::string_view take(std::uint64_t nbytes) {
    check(nbytes <= bytes_.size() - at_, "truncated here");
    const std::string_view taken = bytes_.substr(at_, nbytes);
    at_ += nbytes;
    return taken;
  }
  // Numbers are little-endian.
  template <class Number>
  Number number() {
    Number value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    check(end != std::string_view::npos, "unterminated line");
    const std::string_view text = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  void push(Value value) {
    check(++values_ <= Pickle::kMaxValues, "too many values for a flight recorder");
    stack_.push_back(value);
  }
  void push_text(std::string text) {
    pickle_.texts_.push_back(std::move(text));
    push(Value(&pickle_.texts_.back()));
  }
  Value pop() {
    check(stack_.size() > floor(), "missing value");
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }
  const Value& top() const {
    check(stack_.size() > floor(), "missing value");
    return stack_.back();
  }
  // Values below the last mark must not be touched.
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<Value> pop_to_mark() {
    check(!marks_.empty(), "missing mark");
    std::vector<Value> values(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }
  void push_list(std::vector<Value> values) {
    pickle_.lists_.push_back(std::move(values));
    push(Value(&pickle_.lists_.back()));
  }
  void push_tuple(std::size_t count) {
    check(stack_.size() >= floor() + count, "missing value");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<Value> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    push_list(std::move(values));
  }
  void push_dict() {
    pickle_.dicts_.emplace_back();
    push(Value(&pickle_.dicts_.back()));
  }
  void extend_list(const std::vector<Value>& values) {
    auto* const* list = std::get_if<PickleList*>(&top().held());
    check(list != nullptr, "values for an object that is not a list");
    (*list)->insert((*list)->end(), values.begin(), values.end());
  }
  void extend_dict(const std::vector<Value>& values) {
    auto* const* dict = std::get_if<PickleDict*>(&top().held());
    check(dict != nullptr && values.size() % 2 == 0,
          "keys and values for an object that is not a dict, or a key without a value");
    for (std::size_t i = 0; i < values.size(); i += 2) (*dict)->emplace_back(values[i], values[i + 1]);
  }
  void put(std::uint64_t place) { memo_[place] = top(); }
  void get(std::uint64_t place) {
    const auto found = memo_.find(place);
    check(found != memo_.end(), "reference to a value that was not stored");
    push(found->second);
  }

  std::uint64_t line_number() {
    const std::string_view text = line();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    check(error == std::errc() && end == text.data() + text.size(), "not a number");
    return value;
  }
  void push_line_integer() {
    std::string_view text = line();
    if (text == "00" || text == "01") return push(Value(text == "01"));
    if (text.ends_with('L')) text.remove_suffix(1);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    check(error == std::errc() && end == text.data() + text.size(), "not a 64-bit integer");
    push(Value(value));
  }
  void push_line_float() {
    const std::string_view text = line();
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    check(error == std::errc() && end == text.data() + text.size(), "not a float");
    push(Value(value));
  }
  // Two's complement, little-endian; beyond 64 bits the value is approximate.
  void push_long(std::uint64_t nbytes) {
    const std::string_view digits = take(nbytes);
    if (nbytes > 8) {
      double value = 0;
      for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit)
        value = value * 256 + static_cast<unsigned char>(*digit);
      return push(Value(value));
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < nbytes; ++i) value |= std::uint64_t{static_cast<unsigned char>(digits[i])} << 8 * i;
    if (nbytes > 0 && nbytes < 8 && (digits[nbytes - 1] & 0x80) != 0) value |= ~std::uint64_t{0} << 8 * nbytes;
    push(Value(static_cast<std::int64_t>(value)));
  }
  void push_float() {
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
    push(Value(std::bit_cast<double>(bits)));
  }
  // \uXXXX and \UXXXXXXXX; all other bytes are code points of Latin-1.
  void push_escaped() {
    const std::string_view raw = line();
    std::string text;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      const std::size_t digits = raw[i] == '\\' && i + 1 < raw.size() ? (raw[i + 1] == 'u'   ? 4
                                                                         : raw[i + 1] == 'U' ? 8
                                                                                             : 0)
                                                                      : 0;
      std::uint32_t code = static_cast<unsigned char>(raw[i]);
      if (digits != 0) {
        check(i + 2 + digits <= raw.size(), "truncated escape");
        const char* first = raw.data() + i + 2;
        const auto [end, error] = std::from_chars(first, first + digits, code, 16);
        check(error == std::errc() && end == first + digits && code <= 0x10ffff, "invalid escape");
        i += 1 + digits;
      }
      append_utf8(text, code);
    }
    push_text(std::move(text));
  }
  void push_quoted() {
    std::string_view text = line();
    const bool is_quoted =
        text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front();
    check(is_quoted, "string without quotes");
    push_text(std::string(text.substr(1, text.size() - 2)));
  }

  void step(unsigned char opcode) {
    if (step_simple(opcode) || step_text(opcode) || step_container(opcode) || step_memo(opcode)) return;
    const char* refused = refused_name(opcode);
    TESSERA_CHECK_AS(IoError, refused == nullptr, "pickle ", name_, ": byte ", opcode_at_, ": ", refused,
                     " creates an object; only plain data is supported");
    TESSERA_THROW(IoError, "pickle ", name_, ": byte ", opcode_at_, ": ", static_cast<int>(opcode),
                  " is not a pickle opcode; the file is not a pickle, or is corrupt");
  }
  bool step_simple(unsigned char opcode) {
    switch (opcode) {
      case 0x80: check(static_cast<unsigned char>(take(1)[0]) <= 5, "protocol must be at most 5"); return true;
      case 0x95: (void)number<std::uint64_t>(); return true;  // a frame: the length to read ahead
      case '.': is_over_ = true; return true;
      case 'N': push(Value()); return true;
      case 0x88: push(Value(true)); return true;
      case 0x89: push(Value(false)); return true;
      case 'I':
      case 'L': push_line_integer(); return true;
      case 'J': push(Value(std::int64_t{number<std::int32_t>()})); return true;
      case 'K': push(Value(std::int64_t{number<std::uint8_t>()})); return true;
      case 'M': push(Value(std::int64_t{number<std::uint16_t>()})); return true;
      case 0x8a: push_long(number<std::uint8_t>()); return true;
      case 0x8b: push_long(number<std::uint32_t>()); return true;
      case 'F': push_line_float(); return true;
      case 'G': push_float(); return true;
      default: return false;
    }
  }
  bool step_text(unsigned char opcode) {
    switch (opcode) {
      case 'S': push_quoted(); return true;
      case 'V': push_escaped(); return true;
      case 'U':
      case 'C':
      case 0x8c: push_text(std::string(take(number<std::uint8_t>()))); return true;
      case 'T':
      case 'B':
      case 'X': push_text(std::string(take(number<std::uint32_t>()))); return true;
      case 0x8d:
      case 0x8e:
      case 0x96: push_text(std::string(take(number<std::uint64_t>()))); return true;
      default: return false;
    }
  }
  bool step_container(unsigned char opcode) {
    switch (opcode) {
      case '(':
        check(++values_ <= Pickle::kMaxValues, "too many marks for a flight recorder");
        marks_.push_back(stack_.size());
        return true;
      case '0': (void)pop(); return true;
      case '1': (void)pop_to_mark(); return true;
      case '2': push(top()); return true;
      case '}': push_dict(); return true;
      case ']':
      case ')': push_list({}); return true;
      case 'l':
      case 't': push_list(pop_to_mark()); return true;
      case 0x85:
      case 0x86:
      case 0x87: push_tuple(opcode - 0x84U); return true;
      case 'd': {
        const std::vector<Value> values = pop_to_mark();
        push_dict();
        extend_dict(values);
        return true;
      }
      case 'a': {
        const Value value = pop();
        extend_list({value});
        return true;
      }
      case 'e': extend_list(pop_to_mark()); return true;
      case 's': {
        const Value value = pop();
        const Value key = pop();
        extend_dict({key, value});
        return true;
      }
      case 'u': extend_dict(pop_to_mark()); return true;
      default: return false;
    }
  }
  bool step_memo(unsigned char opcode) {
    switch (opcode) {
      case 'p': put(line_number()); return true;
      case 'q': put(number<std::uint8_t>()); return true;
      case 'r': put(number<std::uint32_t>()); return true;
      case 0x94: put(memo_.size()); return true;
      case 'g': get(line_number()); return true;
      case 'h': get(number<std::uint8_t>()); return true;
      case 'j': get(number<std::uint32_t>()); return true;
      default: return false;
    }
  }

  std::string_view bytes_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::size_t values_ = 0;
  bool is_over_ = false;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Value> memo_;
  Pickle pickle_;
};

Pickle Pickle::parse(std::string_view bytes, const std::string& name) { return PickleParser(bytes, name).parse(); }

}  // namespace tessera::analysis::detail

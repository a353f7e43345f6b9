#include "tessera/train/detail/template_expression.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::train::detail {
namespace {

using Value = TemplateValue;

Value undefined() { return Value(Value::value_t::discarded); }

std::string trimmed(const std::string& text, bool at_start, bool at_end) {
  const char* const blank = " \t\n\r\f\v";
  const std::size_t begin = at_start ? text.find_first_not_of(blank) : 0;
  if (begin == std::string::npos) return "";
  const std::size_t end = at_end ? text.find_last_not_of(blank) + 1 : text.size();
  return end <= begin ? "" : text.substr(begin, end - begin);
}

bool are_equal(const Value& a, const Value& b) {
  if (a.is_discarded() || b.is_discarded()) return a.is_discarded() && b.is_discarded();
  return a == b;
}

// A recursive descent parser that computes values as it reads. Operands that are not needed are read, not computed.
class Parser {
 public:
  static constexpr int kMaxDepth = 12;
  static constexpr std::size_t kMaxNbytes = std::size_t{64} << 20;

  Parser(std::string_view text, const Value& variables) : text_(text), variables_(variables) {}

  Value whole() {
    Value value = conditional();
    skip_blanks();
    if (at_ != text_.size()) refuse("'" + std::string(text_.substr(at_)) + "'");
    check_nbytes(nbytes_of(value));
    return value;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    TESSERA_THROW(NotSupported, "chat template: ", what, " in '", text_, "' is not supported");
  }

  void check_nbytes(std::size_t nbytes) const {
    if (nbytes > kMaxNbytes) refuse("a value of " + std::to_string(nbytes) + " bytes");
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool is_next(std::string_view symbol) {
    skip_blanks();
    return text_.substr(at_).starts_with(symbol);
  }
  bool take(std::string_view symbol) {
    if (!is_next(symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  static bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
  std::string_view next_word() {
    skip_blanks();
    std::size_t end = at_;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool take_word(std::string_view word) {
    if (next_word() != word) return false;
    at_ += word.size();
    return true;
  }
  std::string name() {
    std::string word(next_word());
    TESSERA_CHECK(!word.empty(), "chat template: a name is missing in '", text_, "'");
    at_ += word.size();
    return word;
  }
  void expect(std::string_view symbol) {
    TESSERA_CHECK(take(symbol), "chat template: '", symbol, "' is missing in '", text_, "'");
  }
  // Reads an operand without effects if `is_needed` is false.
  template <class F>
  Value operand(bool is_needed, const F& read) {
    const bool before = is_idle_;
    is_idle_ = is_idle_ || !is_needed;
    Value value = read();
    is_idle_ = before;
    return value;
  }

  // The value before `if` is read twice: first without computing it, as it may be invalid if the condition is false.
  Value conditional() {
    return nested([&] { return one_conditional(); });
  }
  template <class F>
  Value nested(const F& read) {
    TESSERA_CHECK_AS(NotSupported, ++depth_ <= kMaxDepth, "chat template: more than ", kMaxDepth,
                     " nested expressions are not supported in '", text_, "'");
    Value value = read();
    --depth_;
    return value;
  }
  Value one_conditional() {
    const std::size_t begin = at_;
    Value value = operand(false, [&] { return either(); });
    if (take_word("if")) {
      const bool is_first = is_true(either());
      const std::size_t after = at_;
      value = undefined();
      if (is_first) {
        at_ = begin;
        value = either();
        at_ = after;
      }
      if (take_word("else")) {
        Value other = operand(!is_first, [&] { return conditional(); });
        if (!is_first) value = std::move(other);
      }
    } else {
      at_ = begin;
      value = either();
    }
    return value;
  }
  Value either() {
    Value left = both();
    while (take_word("or")) {
      const bool is_needed = !is_true(left);
      Value right = operand(is_needed, [&] { return both(); });
      if (is_needed) left = std::move(right);
    }
    return left;
  }
  Value both() {
    Value left = negation();
    while (take_word("and")) {
      const bool is_needed = is_true(left);
      Value right = operand(is_needed, [&] { return negation(); });
      if (is_needed) left = std::move(right);
    }
    return left;
  }
  Value negation() {
    bool is_negated = false;
    bool has_not = false;
    for (; take_word("not"); is_negated = !is_negated) has_not = true;
    Value value = comparison();
    return has_not ? Value(is_true(value) != is_negated) : std::move(value);
  }

  Value comparison() {
    Value left = sum();
    while (true) {
      if (take("==")) {
        left = are_equal(left, sum());
      } else if (take("!=")) {
        left = !are_equal(left, sum());
      } else if (take("<=")) {
        left = ordered(left, sum()) <= 0;
      } else if (take(">=")) {
        left = ordered(left, sum()) >= 0;
      } else if (take("<")) {
        left = ordered(left, sum()) < 0;
      } else if (take(">")) {
        left = ordered(left, sum()) > 0;
      } else if (take_word("in")) {
        left = is_in(left, sum());
      } else if (next_word() == "not") {
        at_ += 3;
        TESSERA_CHECK(take_word("in"), "chat template: 'in' is missing in '", text_, "'");
        left = !is_in(left, sum());
      } else if (take_word("is")) {
        const bool is_negated = take_word("not");
        left = passes(left, name()) != is_negated;
      } else {
        return left;
      }
    }
  }
  int ordered(const Value& a, const Value& b) const {
    if (is_idle_) return 0;
    if (!(a.is_number() && b.is_number()) && !(a.is_string() && b.is_string())) refuse("an order of other types");
    return a < b ? -1 : b < a ? 1 : 0;
  }
  [[nodiscard]] bool is_in(const Value& item, const Value& all) const {
    if (is_idle_ || all.is_discarded()) return false;
    if (all.is_string() && item.is_string()) {
      return all.get_ref<const std::string&>().find(item.get_ref<const std::string&>()) != std::string::npos;
    }
    if (all.is_object()) return item.is_string() && all.contains(item.get_ref<const std::string&>());
    return all.is_array() && std::ranges::any_of(all, [&](const Value& each) { return are_equal(each, item); });
  }
  [[nodiscard]] bool passes(const Value& value, const std::string& test) const {
    if (test == "defined") return !value.is_discarded();
    if (test == "undefined") return value.is_discarded();
    if (test == "none") return value.is_null();
    if (test == "string") return value.is_string();
    if (test == "mapping") return value.is_object();
    if (test == "iterable" || test == "sequence") return value.is_array() || value.is_string() || value.is_object();
    if (test == "number") return value.is_number();
    if (test == "boolean") return value.is_boolean();
    if (test == "true") return value == Value(true);
    if (test == "false") return value == Value(false);
    refuse("the test '" + test + "'");
  }

  Value sum() {
    Value left = product();
    while (true) {
      if (take("~")) {
        const Value right = product();
        check_nbytes(nbytes_of(left) + nbytes_of(right));
        left = text_of(left) + text_of(right);
      } else if (is_next("+")) {
        take("+");
        left = added(left, product());
      } else if (is_next("-") && !is_next("-%") && !is_next("-}")) {
        take("-");
        left = computed('-', number_of(left), number_of(product()));
      } else {
        return left;
      }
    }
  }
  [[nodiscard]] Value added(const Value& a, const Value& b) const {
    if (is_idle_) return undefined();
    check_nbytes(nbytes_of(a) + nbytes_of(b));
    if (a.is_string() && b.is_string()) return a.get<std::string>() + b.get<std::string>();
    if (a.is_array() && b.is_array()) {
      Value all = a;
      for (const Value& each : b) all.push_back(each);
      return all;
    }
    return computed('+', number_of(a), number_of(b));
  }
  [[nodiscard]] std::int64_t computed(char sign, std::int64_t a, std::int64_t b) const {
    std::int64_t result = 0;
    const bool is_exact = sign == '+'   ? !__builtin_add_overflow(a, b, &result)
                          : sign == '-' ? !__builtin_sub_overflow(a, b, &result)
                                        : !__builtin_mul_overflow(a, b, &result);
    if (!is_exact) refuse("an integer of more than 64 bits");
    return result;
  }
  // The sign of the remainder is that of the divisor.
  static std::int64_t remainder(std::int64_t a, std::int64_t divisor) {
    const std::int64_t rest = divisor == -1 ? 0 : a % divisor;
    return rest != 0 && (rest < 0) != (divisor < 0) ? rest + divisor : rest;
  }
  [[nodiscard]] std::int64_t number_of(const Value& value) const {
    if (is_idle_) return 1;
    if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
    if (!value.is_number_integer()) refuse("arithmetic with " + std::string(value.type_name()));
    return value.get<std::int64_t>();
  }
  Value product() {
    Value left = filtered();
    while (true) {
      const bool is_remainder = is_next("%") && !is_next("%}");
      if (!is_remainder && !is_next("*")) return left;
      ++at_;
      const std::int64_t right = number_of(filtered());
      TESSERA_CHECK(!is_remainder || right != 0, "chat template: division by zero in '", text_, "'");
      left = is_remainder ? remainder(number_of(left), right) : computed('*', number_of(left), right);
    }
  }

  Value filtered() {
    Value value = postfix();
    while (is_next("|") && !is_next("||")) {
      take("|");
      value = apply_filter(std::move(value), name());
    }
    return value;
  }
  Value apply_filter(Value value, const std::string& filter) {
    std::vector<Value> arguments;
    if (take("(")) arguments = list(")");
    if (filter == "default") {
      if (arguments.empty()) refuse("default without a value");
      const bool is_empty = value.is_discarded() || (arguments.size() > 1 && is_true(arguments[1]) && !is_true(value));
      return is_empty ? arguments[0] : value;
    }
    if (!arguments.empty()) refuse("the filter '" + filter + "' with arguments");
    if (is_idle_) return undefined();
    if (filter == "trim") return trimmed(text_of(value), true, true);
    if (filter == "length" || filter == "count")
      return value.is_string() ? value.get_ref<const std::string&>().size() : value.size();
    if (filter == "upper" || filter == "lower") return with_case(text_of(value), filter == "upper");
    if (filter == "string") return text_of(value);
    if (filter == "tojson") return value.dump();
    if (filter == "first" || filter == "last") return item(value, Value(filter == "first" ? 0 : -1));
    refuse("the filter '" + filter + "'");
  }
  static std::string with_case(std::string text, bool is_upper) {
    for (char& c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x80) c = static_cast<char>(is_upper ? std::toupper(byte) : std::tolower(byte));
    }
    return text;
  }

  Value postfix() {
    Value value = primary();
    while (true) {
      if (take(".")) {
        const std::string member = name();
        value = is_next("(") ? method(value, member) : item(value, Value(member));
      } else if (take("[")) {
        value = subscript(value);
      } else {
        return value;
      }
    }
  }
  [[nodiscard]] Value item(const Value& of, const Value& key) const {
    if (is_idle_) return undefined();
    TESSERA_CHECK(!of.is_discarded(), "chat template: a member of an undefined value in '", text_, "'");
    if (of.is_object() && key.is_string()) {
      const auto found = of.find(key.get_ref<const std::string&>());
      return found == of.end() ? undefined() : *found;
    }
    if (!key.is_number_integer() || !(of.is_array() || of.is_string())) return undefined();
    const auto size = static_cast<std::int64_t>(of.is_string() ? of.get_ref<const std::string&>().size() : of.size());
    std::int64_t index = key.get<std::int64_t>();
    if (index < 0) index += size;
    if (index < 0 || index >= size) return undefined();
    if (of.is_string()) return std::string(1, of.get_ref<const std::string&>()[static_cast<std::size_t>(index)]);
    return of[static_cast<std::size_t>(index)];
  }
  Value subscript(const Value& of) {
    const Value first = is_next(":") ? undefined() : conditional();
    if (take("]")) return item(of, first);
    expect(":");
    if (is_next(":")) refuse("a slice with a step");
    const Value last = is_next("]") ? undefined() : conditional();
    expect("]");
    if (is_idle_) return undefined();
    if (!of.is_array() && !of.is_string()) refuse("a slice of " + std::string(of.type_name()));
    const auto size = static_cast<std::int64_t>(of.is_string() ? of.get_ref<const std::string&>().size() : of.size());
    const auto bound = [&](const Value& value, std::int64_t otherwise) {
      const std::int64_t at = value.is_discarded() ? otherwise : number_of(value);
      return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
    };
    const std::int64_t begin = bound(first, 0);
    const std::int64_t end = std::max(begin, bound(last, size));
    if (of.is_string()) {
      return of.get_ref<const std::string&>().substr(static_cast<std::size_t>(begin),
                                                     static_cast<std::size_t>(end - begin));
    }
    return Value(Value::array_t(of.begin() + begin, of.begin() + end));
  }
  Value method(const Value& of, const std::string& called) {
    expect("(");
    const std::vector<Value> arguments = list(")");
    if (is_idle_) return undefined();
    const bool is_plain = arguments.empty();
    if (of.is_string() && is_plain) {
      const std::string& text = of.get_ref<const std::string&>();
      if (called == "strip") return trimmed(text, true, true);
      if (called == "lstrip") return trimmed(text, true, false);
      if (called == "rstrip") return trimmed(text, false, true);
      if (called == "upper" || called == "lower") return with_case(text, called == "upper");
    }
    if (of.is_string() && arguments.size() == 1 && arguments[0].is_string()) {
      const std::string& text = of.get_ref<const std::string&>();
      const std::string& part = arguments[0].get_ref<const std::string&>();
      if (called == "startswith") return text.starts_with(part);
      if (called == "endswith") return text.ends_with(part);
      if (called == "split" && !part.empty()) return pieces(text, part);
    }
    if (of.is_object() && called == "get" && arguments.size() == 1) {
      const Value found = item(of, arguments[0]);
      return found.is_discarded() ? Value(nullptr) : found;
    }
    refuse("the method '" + called + "'");
  }
  static Value pieces(const std::string& text, const std::string& separator) {
    Value all = Value::array();
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + separator.size())
      all.push_back(text.substr(begin, end - begin));
    all.push_back(text.substr(begin));
    return all;
  }

  // Values up to a closing bracket, which is taken.
  std::vector<Value> list(std::string_view close) {
    std::vector<Value> values;
    std::size_t nbytes = 0;
    while (!take(close)) {
      if (!values.empty()) expect(",");
      if (take(close)) break;
      values.push_back(conditional());
      check_nbytes(nbytes += nbytes_of(values.back()));
    }
    return values;
  }

  Value primary() {
    skip_blanks();
    TESSERA_CHECK(at_ < text_.size(), "chat template: a value is missing in '", text_, "'");
    const char first = text_[at_];
    if (first == '\'' || first == '"') return string_literal();
    if (std::isdigit(static_cast<unsigned char>(first)) != 0) return integer_literal();
    if (take("(")) {
      Value value = conditional();
      expect(")");
      return value;
    }
    if (take("[")) return Value(Value::array_t(list("]")));
    if (take("-")) return computed('-', 0, number_of(nested([&] { return postfix(); })));
    if (!is_letter(first)) refuse("'" + std::string(1, first) + "'");
    const std::string word = name();
    if (word == "true" || word == "True") return true;
    if (word == "false" || word == "False") return false;
    if (word == "none" || word == "None") return nullptr;
    if (is_next("(")) return call(word);
    const auto found = variables_.find(word);
    return is_idle_ || found == variables_.end() ? undefined() : *found;
  }
  Value call(const std::string& function) {
    take("(");
    if (function == "namespace") {
      Value members = Value::object();
      while (!take(")")) {
        if (!members.empty()) expect(",");
        const std::string key = name();
        expect("=");
        members[key] = conditional();
      }
      return members;
    }
    const std::vector<Value> arguments = list(")");
    if (function != "raise_exception") refuse("the function '" + function + "'");
    TESSERA_CHECK(is_idle_, "chat template: ", arguments.empty() ? std::string() : text_of(arguments[0]));
    return undefined();
  }
  Value string_literal() {
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      }
      value += c;
    }
    TESSERA_CHECK(at_ < text_.size(), "chat template: a quote is missing in '", text_, "'");
    ++at_;
    return value;
  }
  Value integer_literal() {
    const std::string digits(next_word());
    if (digits.size() > 15 || !std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; }))
      refuse("the number '" + digits + "'");
    at_ += digits.size();
    if (at_ < text_.size() && text_[at_] == '.') refuse("a number with a fraction");
    return std::stoll(digits);
  }

  std::string_view text_;
  const Value& variables_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool is_idle_ = false;  // operands are read, not computed
};

}  // namespace

TemplateValue evaluate_expression(std::string_view text, const TemplateValue& variables) {
  return Parser(text, variables).whole();
}

}  // namespace tessera::train::detail

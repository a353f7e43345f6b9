// Parses a pattern to a tree, and writes the tree as a program.
#include <algorithm>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/train/data/detail/regex.h"

namespace tessera::train::detail {
namespace {

constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kMaxCount = 1000;
constexpr std::size_t kMaxInstructions = 10000;
constexpr int kMaxDepth = 64;

struct Node {
  enum class Kind : std::uint8_t { kSet, kSequence, kAlternatives, kRepeat, kAhead };
  Kind kind = Kind::kSequence;
  std::uint32_t set = 0;
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  bool is_possessive = false;
  bool is_negated = false;
  std::vector<Node> parts = {};

  [[nodiscard]] bool can_be_empty() const {
    switch (kind) {
      case Kind::kSet: return false;
      case Kind::kSequence: return std::ranges::all_of(parts, &Node::can_be_empty);
      case Kind::kAlternatives: return std::ranges::any_of(parts, &Node::can_be_empty);
      case Kind::kRepeat: return min == 0 || parts[0].can_be_empty();
      case Kind::kAhead: return true;
    }
    return true;
  }
};

class Parser {
 public:
  Parser(std::string_view pattern, std::vector<CharSet>& sets) : pattern_(pattern), sets_(sets) {}

  Node parse() {
    Node node = alternatives(0);
    check(is_end(), "')' has no '('");
    return node;
  }

 private:
  template <class... Parts>
  void supports(bool holds, const Parts&... construct) const {
    TESSERA_CHECK_AS(NotSupported, holds, "pattern '", pattern_, "': ", construct..., " at character ", at_,
                     " is not supported");
  }
  template <class... Parts>
  void check(bool holds, const Parts&... problem) const {
    TESSERA_CHECK(holds, "pattern '", pattern_, "': ", problem..., ", at character ", at_);
  }

  [[nodiscard]] bool is_end() const { return at_ >= pattern_.size(); }
  [[nodiscard]] bool is_next(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!is_next(text)) return false;
    at_ += text.size();
    return true;
  }
  std::uint32_t take_character() {
    check(!is_end(), "ends too early");
    const CodePoint point = code_point_at(pattern_, at_);
    check(point.is_valid, "must be UTF-8");
    at_ += point.nbytes;
    return point.value;
  }

  Node alternatives(int depth) {
    supports(depth <= kMaxDepth, "nesting of more than ", kMaxDepth, " groups");
    Node node{.kind = Node::Kind::kAlternatives};
    do {
      node.parts.push_back(sequence(depth));
    } while (take("|"));
    return node.parts.size() == 1 ? Node(std::move(node.parts[0])) : node;
  }

  Node sequence(int depth) {
    Node node{.kind = Node::Kind::kSequence};
    while (!is_end() && !is_next("|") && !is_next(")")) node.parts.push_back(repeated(atom(depth)));
    return node;
  }

  Node atom(int depth) {
    for (const std::string_view anchor : {"^", "$"}) supports(!is_next(anchor), "anchor '", anchor, "'");
    for (const std::string_view quantifier : {"*", "+", "?"}) {
      check(!is_next(quantifier), "'", quantifier, "' repeats nothing");
    }
    if (take("(")) return group(depth);
    if (take("[")) return char_class();
    if (take(".")) return set_node({{.first = '\n', .last = '\n'}}, true);
    if (is_next("\\")) return set_node({escaped()}, false);
    const std::uint32_t character = take_character();
    return set_node({{.first = character, .last = character}}, false);
  }

  Node group(int depth) {
    Node node{.kind = Node::Kind::kAhead};
    const bool before = ignores_case_;
    bool is_ahead = false;
    if (take("?i:")) {
      ignores_case_ = true;
    } else if (take("?!")) {
      is_ahead = node.is_negated = true;
    } else if (take("?=")) {
      is_ahead = true;
    } else if (!take("?:")) {
      supports(!is_next("?"), "group '(", pattern_.substr(at_, 3), "'");
    }
    Node body = alternatives(depth + 1);
    check(take(")"), "'(' has no ')'");
    ignores_case_ = before;
    if (!is_ahead) return body;
    node.parts.push_back(std::move(body));
    return node;
  }

  Node repeated(Node body) {
    Node node{.kind = Node::Kind::kRepeat};
    if (take("?")) {
      node.min = 0;
    } else if (take("*")) {
      node.min = 0, node.max = kUnlimited;
    } else if (take("+")) {
      node.max = kUnlimited;
    } else if (!counts(node)) {
      return body;
    }
    const bool is_counted = pattern_[at_ - 1] == '}';
    supports(!is_next("?"), "lazy quantifier '", pattern_.substr(at_ - 1, 2), "'");
    if (is_next("+")) {
      supports(!is_counted && body.kind == Node::Kind::kSet, "possessive quantifier '", pattern_.substr(at_ - 1, 2),
               "' of more than one character");
      node.is_possessive = take("+");
    }
    supports(!is_next("*") && !is_next("+") && !is_next("{"), "quantifier of a quantifier");
    supports(body.kind != Node::Kind::kAhead, "quantifier of a lookahead");
    supports(node.max != kUnlimited || !body.can_be_empty(), "unlimited repetition of what can be empty");
    node.parts.push_back(std::move(body));
    return node;
  }

  bool counts(Node& node) {
    const std::size_t start = at_;
    if (!take("{")) return false;
    const std::optional<std::uint32_t> min = number();
    const bool has_comma = take(",");
    const std::optional<std::uint32_t> max = has_comma ? number() : min;
    if (!min || !take("}")) {
      at_ = start;
      supports(false, "'{' without a count");
    }
    node.min = *min;
    node.max = max.value_or(kUnlimited);
    check(node.min <= node.max && node.max > 0, "counts of '{' must rise");
    return true;
  }

  std::optional<std::uint32_t> number() {
    if (is_end() || pattern_[at_] < '0' || pattern_[at_] > '9') return std::nullopt;
    std::uint32_t value = 0;
    while (!is_end() && pattern_[at_] >= '0' && pattern_[at_] <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(pattern_[at_++] - '0');
      supports(value <= kMaxCount, "a count of more than ", kMaxCount);
    }
    return value;
  }

  Node char_class() {
    const bool is_negated = take("^");
    std::vector<CharSet::Part> parts;
    check(!is_next("]"), "an empty class");
    while (!take("]")) {
      check(!is_end(), "'[' has no ']'");
      supports(!is_next("["), "class in a class");
      supports(!is_next("&&"), "intersection of classes");
      CharSet::Part part = class_part();
      const bool is_character = part.kind == CharSet::Kind::kRange && !part.is_negated;
      if (is_character && is_next("-") && !is_next("-]")) {
        take("-");
        const CharSet::Part end = class_part();
        check(end.kind == CharSet::Kind::kRange && end.first >= part.first, "a range must rise");
        part.last = end.first;
      }
      parts.push_back(part);
    }
    return set_node(std::move(parts), is_negated);
  }

  CharSet::Part class_part() {
    if (is_next("\\")) return escaped();
    const std::uint32_t character = take_character();
    return {.first = character, .last = character};
  }

  CharSet::Part escaped() {
    using Kind = CharSet::Kind;
    const std::size_t start = at_;
    take("\\");
    const std::uint32_t letter = take_character();
    const auto one = [](std::uint32_t value) { return CharSet::Part{.first = value, .last = value}; };
    switch (letter) {
      case 'r': return one('\r');
      case 'n': return one('\n');
      case 't': return one('\t');
      case 'f': return one('\f');
      case 'v': return one('\v');
      case 's':
      case 'S': return {.kind = Kind::kSpace, .is_negated = letter == 'S'};
      case 'w':
      case 'W': return {.kind = Kind::kWord, .is_negated = letter == 'W'};
      case 'd':
      case 'D': return {.kind = Kind::kCategory, .is_negated = letter == 'D', .first = category_bits("Nd").value()};
      case 'p':
      case 'P': return category(letter == 'P');
      default: break;
    }
    const bool is_plain = letter < 0x80 && !is_word(letter);
    if (!is_plain) {
      at_ = start;
      supports(false, "escape '", pattern_.substr(start, 2), "'");
    }
    return one(letter);
  }

  CharSet::Part category(bool is_negated) {
    const std::size_t start = at_;
    check(take("{"), "\\p must be followed by {NAME}");
    const bool is_inverted = take("^");
    const std::size_t end = pattern_.find('}', at_);
    check(end != std::string_view::npos, "'{' has no '}'");
    const std::string_view name = pattern_.substr(at_, end - at_);
    const std::optional<std::uint32_t> bits = category_bits(name);
    at_ = bits ? end + 1 : start;
    supports(bits.has_value(), "property '", name, "'");
    return {.kind = CharSet::Kind::kCategory, .is_negated = is_negated != is_inverted, .first = *bits};
  }

  Node set_node(std::vector<CharSet::Part> parts, bool is_negated) {
    sets_.emplace_back(std::move(parts), is_negated, ignores_case_);
    return {.kind = Node::Kind::kSet, .set = static_cast<std::uint32_t>(sets_.size() - 1)};
  }

  std::string_view pattern_;
  std::vector<CharSet>& sets_;
  std::size_t at_ = 0;
  bool ignores_case_ = false;
};

class Writer {
 public:
  explicit Writer(Regex::Program& program) : program_(program) {}

  void write(const Node& node) {
    TESSERA_CHECK_AS(NotSupported, program_.instructions.size() < kMaxInstructions,
                     "pattern: repetitions must expand to at most ", kMaxInstructions, " steps");
    switch (node.kind) {
      case Node::Kind::kSet: add({.op = Regex::Op::kRun, .argument = node.set}); break;
      case Node::Kind::kSequence:
        for (const Node& part : node.parts) write(part);
        break;
      case Node::Kind::kAlternatives: write_alternatives(node); break;
      case Node::Kind::kRepeat: write_repeat(node); break;
      case Node::Kind::kAhead: {
        const std::uint32_t start = add({.op = Regex::Op::kAhead, .is_negated = node.is_negated});
        write(node.parts[0]);
        add({.op = Regex::Op::kDone});
        program_.instructions[start].argument = here();
      }
    }
  }

  void finish() {
    add({.op = Regex::Op::kDone});
    firsts_.resize(program_.instructions.size());
    for (auto& fork : program_.forks) {
      for (Regex::Branch& branch : fork) branch.first = first_of(branch.instruction);
    }
  }

 private:
  [[nodiscard]] std::uint32_t here() const { return static_cast<std::uint32_t>(program_.instructions.size()); }
  std::uint32_t add(const Regex::Instruction& each) {
    program_.instructions.push_back(each);
    return here() - 1;
  }
  std::uint32_t add_fork() {
    program_.forks.emplace_back();
    return add({.op = Regex::Op::kFork, .argument = static_cast<std::uint32_t>(program_.forks.size() - 1)});
  }
  void add_branch(std::uint32_t fork) {
    program_.forks[program_.instructions[fork].argument].push_back({.instruction = here(), .first = {}});
  }

  void write_alternatives(const Node& node) {
    const std::uint32_t fork = add_fork();
    std::vector<std::uint32_t> jumps;
    for (const Node& part : node.parts) {
      add_branch(fork);
      write(part);
      jumps.push_back(add({.op = Regex::Op::kJump}));
    }
    for (const std::uint32_t jump : jumps) program_.instructions[jump].argument = here();
  }

  void write_repeat(const Node& node) {
    const Node& body = node.parts[0];
    if (body.kind == Node::Kind::kSet) {
      add({.op = Regex::Op::kRun,
           .is_possessive = node.is_possessive,
           .argument = body.set,
           .min = node.min,
           .max = node.max});
      return;
    }
    for (std::uint32_t i = 0; i < node.min; ++i) write(body);
    if (node.max == kUnlimited) {
      const std::uint32_t fork = add_fork();
      add_branch(fork);
      write(body);
      add({.op = Regex::Op::kJump, .argument = fork});
      add_branch(fork);
      return;
    }
    std::vector<std::uint32_t> forks;
    for (std::uint32_t i = node.min; i < node.max; ++i) {
      forks.push_back(add_fork());
      add_branch(forks.back());
      write(body);
    }
    for (const std::uint32_t fork : forks) add_branch(fork);
  }

  // Returns the bytes with which a match that continues at `index` can begin. Bytes that are not ASCII always can.
  const std::bitset<256>& first_of(std::uint32_t index) {
    if (firsts_[index]) return *firsts_[index];
    const Regex::Instruction& each = program_.instructions[index];
    std::bitset<256> bytes;
    switch (each.op) {
      case Regex::Op::kRun:
        for (unsigned byte = 0; byte < 256; ++byte) {
          bytes[byte] = byte >= 128 || program_.sets[each.argument].has_ascii(byte);
        }
        if (each.min == 0) bytes |= first_of(index + 1);
        break;
      case Regex::Op::kFork:
        for (const Regex::Branch& branch : program_.forks[each.argument]) bytes |= first_of(branch.instruction);
        break;
      case Regex::Op::kJump:
      case Regex::Op::kAhead: bytes = first_of(each.argument); break;
      case Regex::Op::kDone: bytes.set(); break;
    }
    return firsts_[index].emplace(bytes);
  }

  Regex::Program& program_;
  std::vector<std::optional<std::bitset<256>>> firsts_;
};

}  // namespace

Regex::Program compile(std::string_view pattern) {
  Regex::Program program;
  const Node tree = Parser(pattern, program.sets).parse();
  Writer writer(program);
  writer.write(tree);
  writer.finish();
  return program;
}

}  // namespace tessera::train::detail

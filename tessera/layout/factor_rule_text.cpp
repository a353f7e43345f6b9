// The text form of factor rules: one line for a complete rule. The parser reads from left to right; every error names
// the rule, the position and the expected text.
#include <cctype>
#include <charconv>
#include <iterator>

#include "tessera/base/error.h"
#include "tessera/base/nearest.h"
#include "tessera/layout/factor_rule.h"

namespace tessera::layout {
namespace {

constexpr std::string_view kLinearities[] = {"none", "joint", "multi"};
constexpr std::string_view kMonotonies[] = {"", "up", "down"};
constexpr std::string_view kKinds[] = {"sum",       "avg",     "min",      "max",      "prod",
                                       "replicate", "blocked", "permuted", "cooperate"};

bool is_name_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  FactorRule read() {
    skip_space();
    const std::size_t start = at_;
    while (at_ < text_.size() && (is_name_letter(text_[at_]) || text_[at_] == '.' || text_[at_] == '-')) ++at_;
    rule_.name = text_.substr(start, at_ - start);
    if (rule_.name.empty()) fail("the name of the operator");
    expect(':');
    if (!next_is('-')) read_operands(rule_.inputs);
    expect('-');
    expect('>');
    if (next_is('[')) read_operands(rule_.outputs);
    while (take(';')) read_section();
    skip_space();
    if (at_ < text_.size()) fail("';' or the end");
    return std::move(rule_);
  }

 private:
  [[noreturn]] void fail(std::string_view wanted) const {
    TESSERA_THROW(InvalidArgument, "factor rule '", text_, "': expected ", wanted, " at position ", at_,
                  at_ < text_.size() ? ", before '" : ", at the end", text_.substr(at_, 12),
                  at_ < text_.size() ? "'" : "");
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  [[nodiscard]] bool next_is(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string{'\'', c, '\''});
  }
  std::string_view word(std::string_view wanted) {
    skip_space();
    const std::size_t start = at_;
    if (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_])) != 0) {
      while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    }
    if (at_ == start) fail(wanted);
    return text_.substr(start, at_ - start);
  }
  std::int64_t number() {
    skip_space();
    std::int64_t value = 0;
    const char* const end = text_.data() + text_.size();
    const auto [last, error] = std::from_chars(text_.data() + at_, end, value);
    if (error != std::errc() || value < 0) fail("a number");
    at_ = static_cast<std::size_t>(last - text_.data());
    return value;
  }

  std::int32_t factor(std::string_view name) {
    for (std::size_t f = 0; f < rule_.factors.size(); ++f) {
      if (rule_.factors[f].name == name) return static_cast<std::int32_t>(f);
    }
    rule_.factors.push_back({.name = std::string(name)});
    return static_cast<std::int32_t>(rule_.factors.size() - 1);
  }

  void read_operands(std::vector<OperandFactors>& operands) {
    do {
      expect('[');
      OperandFactors& dims = operands.emplace_back();
      if (take(']')) continue;
      do {
        DimFactors& dim = dims.emplace_back();
        if (take('(')) {
          while (!take(')')) dim.push_back(factor(word("a factor or ')'")));
        } else if (!take('1')) {
          dim.push_back(factor(word("a factor, '(' or 1")));
        }
      } while (take(','));
      expect(']');
    } while (take(','));
  }

  // Reads either factors (k=sum, a:4) or, last, the algebra.
  void read_section() {
    const std::size_t start = at_;
    static_cast<void>(word("a factor or an algebra"));
    const bool is_algebra = !next_is('=') && !next_is(':');
    at_ = start;
    if (is_algebra && !rule_.algebra.empty()) fail("at most one list of algebras");
    do {
      if (is_algebra) {
        rule_.algebra.push_back(read_algebra());
      } else {
        read_factor();
      }
    } while (take(','));
  }

  void read_factor() {
    skip_space();
    const std::size_t start = at_;
    const std::string_view name = word("a factor");
    const std::size_t count = rule_.factors.size();
    Factor& it = rule_.factors[static_cast<std::size_t>(factor(name))];
    if (rule_.factors.size() > count) {
      at_ = start;
      fail("a factor of an operand");
    }
    if (take(':')) {
      it.size = number();
      if (it.size == 0) fail("a size of at least 1 before this position");
      return;
    }
    expect('=');
    const std::size_t kind_at = at_;
    const std::string_view kind = word("a kind");
    if (kind == "replicate") {
      it.kind = FactorKind::kReplicate;
    } else if (kind == "permuted") {
      it.kind = FactorKind::kPermuted;
    } else if (kind == "cooperate") {
      it.kind = FactorKind::kCooperate;
    } else if (kind == "blocked") {
      it.kind = FactorKind::kBlocked;
      expect('(');
      it.block = number();
      expect(')');
    } else {
      for (const Reduction reduction :
           {Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax, Reduction::kProd}) {
        if (to_string(reduction) != kind) continue;
        it.kind = FactorKind::kReduce;
        it.reduction = reduction;
        return;
      }
      at_ = kind_at;
      fail("sum, min, max, prod, replicate, blocked(n), permuted or cooperate" + did_you_mean(kind, kKinds));
    }
  }

  Algebra read_algebra() {
    Algebra algebra;
    const auto place = [this](std::span<const std::string_view> names, std::string_view wanted) {
      skip_space();
      const std::size_t start = at_;
      const std::string_view name = word(wanted);
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == name) return i;
      }
      at_ = start;
      fail(std::string(wanted) + did_you_mean(name, names));
    };
    algebra.linearity = static_cast<Linearity>(place(kLinearities, "none, joint or multi"));
    if (take('+')) algebra.monotony = static_cast<Monotony>(place(kMonotonies, "up or down"));
    return algebra;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  FactorRule rule_;
};

void print(std::string& out, const FactorRule& rule, const std::vector<OperandFactors>& operands) {
  for (std::size_t o = 0; o < operands.size(); ++o) {
    out += o > 0 ? ",[" : "[";
    for (std::size_t d = 0; d < operands[o].size(); ++d) {
      const DimFactors& dim = operands[o][d];
      if (d > 0) out += ',';
      if (dim.empty()) out += '1';
      if (dim.size() > 1) out += '(';
      for (std::size_t i = 0; i < dim.size(); ++i) {
        if (i > 0) out += ' ';
        out += rule.factors.at(static_cast<std::size_t>(dim[i])).name;
      }
      if (dim.size() > 1) out += ')';
    }
    out += ']';
  }
}

// Returns the factors in the order in which the text names them, which is also the order of parsing.
std::vector<const Factor*> by_appearance(const FactorRule& rule) {
  std::vector<const Factor*> out;
  std::vector<bool> is_seen(rule.factors.size(), false);
  for (const auto* operands : {&rule.inputs, &rule.outputs}) {
    for (const OperandFactors& dims : *operands) {
      for (const DimFactors& dim : dims) {
        for (const std::int32_t f : dim) {
          const auto at = static_cast<std::size_t>(f);
          if (!is_seen[at]) out.push_back(&rule.factors[at]);
          is_seen[at] = true;
        }
      }
    }
  }
  return out;
}

}  // namespace

std::string FactorRule::text() const {
  std::string out = name + ": ";
  print(out, *this, inputs);
  out += "->";
  print(out, *this, outputs);
  bool is_first = true;
  const auto item = [&](const Factor& factor) -> std::string& {
    out += is_first ? "; " : ", ";
    is_first = false;
    return out += factor.name;
  };
  for (const Factor* each : by_appearance(*this)) {
    const Factor& factor = *each;
    switch (factor.kind) {
      case FactorKind::kPass: break;
      case FactorKind::kReduce: (item(factor) += '=') += to_string(factor.reduction); break;
      case FactorKind::kReplicate: item(factor) += "=replicate"; break;
      case FactorKind::kPermuted: item(factor) += "=permuted"; break;
      case FactorKind::kCooperate: item(factor) += "=cooperate"; break;
      case FactorKind::kBlocked: item(factor) += "=blocked(" + std::to_string(factor.block) + ")"; break;
    }
    if (factor.size != 0) item(factor) += ":" + std::to_string(factor.size);
  }
  for (std::size_t i = 0; i < algebra.size(); ++i) {
    out += i == 0 ? "; " : ", ";
    out += kLinearities[static_cast<std::size_t>(algebra[i].linearity)];
    if (algebra[i].monotony != Monotony::kNone) {
      out += '+';
      out += kMonotonies[static_cast<std::size_t>(algebra[i].monotony)];
    }
  }
  return out;
}

FactorRule FactorRule::parse(std::string_view text) {
  FactorRule rule = Reader(text).read();
  rule.check();
  return rule;
}

}  // namespace tessera::layout

#include "tessera/memory/policy.h"

#include <array>
#include <bit>
#include <charconv>
#include <span>
#include <string_view>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/base/nearest.h"

namespace tessera::memory {
namespace {

constexpr std::string_view kSwitch[] = {"true", "false"};
constexpr std::string_view kCrossStream[] = {"wait", "grow"};  // names of the enumerators of CrossStream

// Returns a size that is read back exactly, and needs no quotes on a command line.
std::string size_text(std::size_t nbytes) {
  std::string text = format_bytes(nbytes);
  if (parse_bytes(text) != nbytes) return std::to_string(nbytes);
  std::erase(text, ' ');
  return text;
}

std::string number_text(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

template <class Number>
Number read_number(const std::string& text, const char* what) {
  Number number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  TESSERA_CHECK(problem == std::errc() && end == text.data() + text.size(), "must be ", what, ", got '", text, "'");
  return number;
}

std::size_t read_word(const std::string& text, std::span<const std::string_view> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == text) return i;
  }
  TESSERA_THROW(InvalidArgument, "must be one of ", words, ", got '", text, "'", did_you_mean(text, words));
}

bool is_granular(std::size_t nbytes, const Policy& policy) {
  return nbytes >= policy.granule_nbytes && nbytes % policy.granule_nbytes == 0;
}

// One field: its text, its parser, and its allowed values. `allowed` describes the check of `is_allowed`; fields that
// depend on others are checked together, after all are set.
struct FieldRule {
  const char* name;
  const char* allowed;
  bool (*is_allowed)(const Policy& policy);
  std::string (*get)(const Policy& policy);
  void (*set)(Policy& policy, const std::string& value);
  bool depends_on_others = false;
};

template <bool Policy::*Member>
constexpr FieldRule switch_rule(const char* name) {
  return {name, "true or false", [](const Policy&) { return true; },
          [](const Policy& policy) { return std::string(kSwitch[policy.*Member ? 0 : 1]); },
          [](Policy& policy, const std::string& value) { policy.*Member = read_word(value, kSwitch) == 0; }};
}

template <std::size_t Policy::*Member>
constexpr FieldRule size_rule(const char* name, const char* allowed, bool (*is_allowed)(const Policy&),
                              bool depends_on_others = false) {
  return {name,
          allowed,
          is_allowed,
          [](const Policy& policy) { return size_text(policy.*Member); },
          [](Policy& policy, const std::string& value) { policy.*Member = parse_bytes(value); },
          depends_on_others};
}

template <double Policy::*Member>
constexpr FieldRule share_rule(const char* name) {
  return {name, "at least 0 and below 1",
          [](const Policy& policy) { return policy.*Member >= 0 && policy.*Member < 1; },
          [](const Policy& policy) { return number_text(policy.*Member); },
          [](Policy& policy, const std::string& value) { policy.*Member = read_number<double>(value, "a number"); }};
}

const std::array<FieldRule, 12>& rules() {
  static const std::array<FieldRule, 12> kRules = {
      switch_rule<&Policy::expandable>("expandable"),
      size_rule<&Policy::granule_nbytes>("granule_nbytes", "a power of two from 512 B to 1 EiB",
                                         [](const Policy& policy) {
                                           return std::has_single_bit(policy.granule_nbytes) &&
                                                  policy.granule_nbytes >= kAlignment &&
                                                  policy.granule_nbytes <= kMaxNbytes;
                                         }),
      size_rule<&Policy::max_piece_nbytes>(
          "max_piece_nbytes", "a multiple of granule_nbytes",
          [](const Policy& policy) { return is_granular(policy.max_piece_nbytes, policy); }, true),
      share_rule<&Policy::move_above>("move_above"),
      size_rule<&Policy::shared_segment_nbytes>(
          "shared_segment_nbytes", "a multiple of granule_nbytes",
          [](const Policy& policy) { return is_granular(policy.shared_segment_nbytes, policy); }, true),
      size_rule<&Policy::min_remainder_nbytes>(
          "min_remainder_nbytes", "at least 512 B",
          [](const Policy& policy) { return policy.min_remainder_nbytes >= kAlignment; }),
      {"roundup_divisions", "0 or a power of two up to 1024",
       [](const Policy& policy) {
         return policy.roundup_divisions == 0 ||
                (std::has_single_bit(policy.roundup_divisions) && policy.roundup_divisions <= 1024);
       },
       [](const Policy& policy) { return std::to_string(policy.roundup_divisions); },
       [](Policy& policy, const std::string& value) {
         policy.roundup_divisions = read_number<std::uint32_t>(value, "an integer");
       }},
      {"cross_stream", "wait or grow", [](const Policy& policy) { return policy.cross_stream <= CrossStream::kGrow; },
       [](const Policy& policy) { return std::string(kCrossStream[static_cast<std::size_t>(policy.cross_stream)]); },
       [](Policy& policy, const std::string& value) {
         policy.cross_stream = static_cast<CrossStream>(read_word(value, kCrossStream));
       }},
      share_rule<&Policy::pending_slack>("pending_slack"),
      size_rule<&Policy::limit_nbytes>(
          "limit_nbytes", "0 or at least granule_nbytes",
          [](const Policy& policy) { return policy.limit_nbytes == 0 || policy.limit_nbytes >= policy.granule_nbytes; },
          true),
      share_rule<&Policy::collect_above>("collect_above"),
      switch_rule<&Policy::may_synchronize>("may_synchronize"),
  };
  return kRules;
}

const FieldRule& rule_of(const std::string& field) {
  std::vector<std::string_view> names;
  for (const FieldRule& rule : rules()) {
    if (field == rule.name) return rule;
    names.emplace_back(rule.name);
  }
  TESSERA_THROW(InvalidArgument, "memory policy: unknown field '", field, "'", did_you_mean(field, names),
                "; fields: ", names);
}

void check_rule(const FieldRule& rule, const Policy& policy) {
  TESSERA_CHECK(rule.is_allowed(policy), "memory policy: ", rule.name, "=", rule.get(policy), " must be ", rule.allowed,
                rule.depends_on_others ? " (" : "", rule.depends_on_others ? size_text(policy.granule_nbytes) : "",
                rule.depends_on_others ? ")" : "");
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> Policy::fields() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const FieldRule& rule : rules()) all.emplace_back(rule.name, rule.get(*this));
  return all;
}

void Policy::set(const std::string& field, const std::string& value) {
  const FieldRule& rule = rule_of(field);
  Policy changed = *this;
  try {
    rule.set(changed, value);
  } catch (const InvalidArgument& error) {
    TESSERA_THROW(InvalidArgument, "memory policy: ", field, ": ", error.message(), "; allowed: ", rule.allowed);
  }
  if (!rule.depends_on_others) check_rule(rule, changed);
  *this = changed;
}

Policy Policy::parse(const std::string& text) {
  Policy policy;
  std::vector<std::string> seen;
  for (std::string_view rest = text; !trimmed(rest).empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view setting = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const std::size_t equals = setting.find('=');
    TESSERA_CHECK(equals != std::string_view::npos, "memory policy: '", trimmed(setting), "' in '", text,
                  "' is not a setting; write field=value, separated by commas");
    const std::string field = trimmed(setting.substr(0, equals));
    for (const std::string& other : seen)
      TESSERA_CHECK(other != field, "memory policy: ", field, " is set twice in '", text, "'");
    policy.set(field, trimmed(setting.substr(equals + 1)));
    seen.push_back(field);
  }
  policy.check();
  return policy;
}

void Policy::check() const {
  for (const FieldRule& rule : rules()) check_rule(rule, *this);
}

}  // namespace tessera::memory

#include "tessera/train/data/detail/regex.h"

#include <utility>

#include "tessera/base/error.h"

namespace tessera::train::detail {
namespace {

constexpr std::uint64_t kMaxSteps = std::uint64_t{1} << 26;  // of one match: about a second

}  // namespace

CharSet::CharSet(std::vector<Part> parts, bool is_negated, bool ignores_case)
    : parts_(std::move(parts)), is_negated_(is_negated), ignores_case_(ignores_case) {
  for (unsigned character = 0; character < 128; ++character) ascii_[character] = contains(character);
}

bool CharSet::is_in_a_part(std::uint32_t code_point) const {
  for (const Part& part : parts_) {
    bool is_in = false;
    switch (part.kind) {
      case Kind::kRange: is_in = code_point >= part.first && code_point <= part.last; break;
      case Kind::kCategory: is_in = (category_of(code_point) & part.first) != 0; break;
      case Kind::kSpace: is_in = is_space(code_point); break;
      case Kind::kWord: is_in = is_word(code_point); break;
    }
    if (is_in != part.is_negated) return true;
  }
  return false;
}

bool CharSet::contains(std::uint32_t code_point) const {
  bool is_in = is_in_a_part(code_point);
  if (!is_in && ignores_case_) {
    const std::uint32_t lower = folded(code_point);
    const bool has_upper = lower >= 'a' && lower <= 'z';
    is_in = is_in_a_part(lower) || (has_upper && is_in_a_part(lower - 'a' + 'A'));
  }
  return is_in != is_negated_;
}

bool CharSet::consume(std::string_view text, std::size_t& position) const {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 128) {
    position += ascii_[byte] ? 1 : 0;
    return ascii_[byte];
  }
  const CodePoint point = code_point_at(text, position);
  if (!contains(point.is_valid ? point.value : kNoCodePoint)) return false;
  position += point.nbytes;
  return true;
}

Regex::Regex(std::string_view pattern) : pattern_(pattern), program_(compile(pattern)) {}

std::optional<std::size_t> Regex::match(std::string_view text, std::size_t start, Scratch& scratch) const {
  std::uint64_t steps = 0;
  scratch.clear();
  return run({0, start}, text, scratch, steps);
}

// Takes as many code points as it can, and stores how many it may release again.
bool Regex::take_run(Place& place, std::string_view text, Scratch& scratch) const {
  const Instruction& each = program_.instructions[place.next];
  const CharSet& set = program_.sets[each.argument];
  std::size_t least = place.at;
  std::uint32_t count = 0;
  while (count < each.max && place.at < text.size() && set.consume(text, place.at)) {
    if (++count == each.min) least = place.at;
  }
  if (count < each.min) return false;
  if (place.at != least && !each.is_possessive) scratch.push_back({place.next, 0, place.at, least});
  ++place.next;
  return true;
}

// Takes the first branch that the next byte can begin, and notes the others.
bool Regex::take_branch(Place& place, std::string_view text, Scratch& scratch) const {
  const std::vector<Branch>& branches = program_.forks[program_.instructions[place.next].argument];
  const bool is_end = place.at == text.size();
  const std::size_t byte = is_end ? 0 : static_cast<unsigned char>(text[place.at]);
  const auto next_that_fits = [&](std::uint32_t branch) {
    while (branch < branches.size() && !is_end && !branches[branch].first[byte]) ++branch;
    return branch;
  };
  const std::uint32_t branch = next_that_fits(std::exchange(place.branch, 0));
  if (branch == branches.size()) return false;
  const std::uint32_t other = next_that_fits(branch + 1);
  if (other < branches.size()) scratch.push_back({place.next, other, place.at, 0});
  place.next = branches[branch].instruction;
  return true;
}

// Returns to the last place that left another way; false if no such place exists.
bool Regex::back_up(Place& place, std::string_view text, std::size_t base, Scratch& scratch) const {
  if (scratch.size() == base) return false;
  Frame& frame = scratch.back();
  if (program_.instructions[frame.instruction].op == Op::kFork) {
    place = {frame.instruction, frame.at, frame.branch};
    scratch.pop_back();
    return true;
  }
  frame.at = before(text, frame.at);
  place = {frame.instruction + 1, frame.at};
  if (frame.at <= frame.least) scratch.pop_back();
  return true;
}

std::optional<std::size_t> Regex::run(Place place, std::string_view text, Scratch& scratch,
                                      std::uint64_t& steps) const {
  const std::size_t base = scratch.size();
  while (true) {
    const Instruction& each = program_.instructions[place.next];
    bool holds = true;
    switch (each.op) {
      case Op::kRun: holds = take_run(place, text, scratch); break;
      case Op::kFork: holds = take_branch(place, text, scratch); break;
      case Op::kJump: place.next = each.argument; break;
      case Op::kAhead: {
        const std::size_t size = scratch.size();
        holds = run({place.next + 1, place.at}, text, scratch, steps).has_value() != each.is_negated;
        scratch.resize(size);
        place.next = each.argument;
        break;
      }
      case Op::kDone: return place.at;
    }
    if (holds) continue;
    TESSERA_CHECK_AS(NotSupported, ++steps <= kMaxSteps, "pattern '", pattern_, "' backtracks more than ", kMaxSteps,
                     " times in one match");
    if (!back_up(place, text, base, scratch)) return std::nullopt;
  }
}

}  // namespace tessera::train::detail

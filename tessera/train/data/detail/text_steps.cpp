#include "tessera/train/data/detail/text_steps.h"

namespace tessera::train::detail {
namespace {

std::string lower(std::string_view text, const OnTick& on_tick) {
  Ticks ticks(on_tick);
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    ticks.at(at);
    const CodePoint point = code_point_at(text, at);
    if (point.is_valid) {
      append_lower(out, point.value);
    } else {
      out += text[at];
    }
    at += point.nbytes;
  }
  return out;
}

}  // namespace

std::optional<Pattern::Range> Pattern::find(std::string_view in, std::size_t from, Regex::Scratch& scratch) const {
  if (!regex) {
    const std::size_t begin = in.find(text, from);
    if (begin == std::string_view::npos) return std::nullopt;
    return Range{begin, begin + text.size()};
  }
  for (std::size_t at = from; at < in.size(); at += code_point_at(in, at).nbytes) {
    const std::optional<std::size_t> end = regex->match(in, at, scratch);
    if (end && *end != at) return Range{at, *end};
  }
  return std::nullopt;
}

std::string Replacement::apply(std::string_view text, const OnTick& on_tick) const {
  Ticks ticks(on_tick);
  std::string out;
  Regex::Scratch scratch;
  std::size_t copied = 0;
  while (const auto found = pattern.find(text, copied, scratch)) {
    out.append(text, copied, found->begin - copied);
    out += content;
    copied = found->end;
    ticks.at(copied);
  }
  out.append(text, copied);
  return out;
}

std::string Normalizer::apply(std::string_view text, const OnTick& on_tick) const {
  std::string changed(text);
  for (const NormalizerStep& step : steps) {
    switch (step.kind) {
      case NormalizerStep::Kind::kForm: changed = normalized(changed, step.form, on_tick); break;
      case NormalizerStep::Kind::kLowercase: changed = lower(changed, on_tick); break;
      case NormalizerStep::Kind::kPrepend:
        if (!changed.empty()) changed.insert(0, step.replacement.content);
        break;
      case NormalizerStep::Kind::kReplace: changed = step.replacement.apply(changed, on_tick); break;
    }
  }
  return changed;
}

}  // namespace tessera::train::detail

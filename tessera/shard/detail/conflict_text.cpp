#include "tessera/shard/detail/conflict_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/shard/detail/dispatch_plan.h"

namespace tessera::shard::detail {
namespace {

using layout::Layout;
using tensor::Call;
using tessera::detail::concat;

// An axis and the text of its placement.
struct NamedPlacement {
  std::string axis;
  std::string placement;
};

// Splits "{Shard(0), Replicate()}" at the commas between axes, and drops the axes that replicate.
std::vector<NamedPlacement> placements_of(const Layout& layout) {
  std::vector<NamedPlacement> all;
  const std::string& text = layout.placements_text();
  int depth = 0;
  std::string each;
  std::size_t axis = 0;
  for (const char c : text.substr(1)) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth == 0 && (c == ',' || c == '}')) {
      if (each != "Replicate()" && !each.empty()) all.push_back({layout.mesh().axes()[axis].name, each});
      each.clear();
      ++axis;
    } else if (!each.empty() || c != ' ') {
      each += c;
    }
  }
  return all;
}

// Returns the argument of redistribute(): {{"tp", Shard(0)}}.
std::string code_of(const Layout& layout) {
  std::string code;
  for (const auto& [axis, placement] : placements_of(layout)) {
    const bool is_simple = placement.find_first_of("=:*") == std::string::npos;
    if (!is_simple) return fmt::format("Layout::parse(\"{}\")", layout.text());
    const std::size_t open = placement.find('(');
    const bool is_reduction = placement.starts_with("Partial(") && placement[open + 1] != ')';
    const std::string argument = placement.substr(open + 1, placement.size() - open - 2);
    const std::string value =
        is_reduction
            ? fmt::format("Partial(Reduction::k{}{})",
                          static_cast<char>(std::toupper(static_cast<unsigned char>(argument[0]))), argument.substr(1))
            : placement;
    code += fmt::format("{}{{\"{}\", {}}}", code.empty() ? "" : ", ", axis, value);
  }
  return '{' + code + '}';
}

std::string steps_of(const layout::Plan& plan) {
  if (plan.nbytes == 0) return "no communication";
  std::string text;
  for (const layout::Step& step : plan.steps) {
    if (!layout::communicates(step.kind)) continue;
    text += text.empty() ? "" : ", then ";
    text += to_string(step.kind);
    for (std::size_t i = 0; i < step.axes.size(); ++i) {
      text += i == 0 ? " over " : " and ";
      text += plan.request.to.mesh().axis(step.axes[i].axis).name;
    }
  }
  return fmt::format("{}, {}, {:.1f} us", text, format_bytes(static_cast<std::uint64_t>(plan.nbytes)), plan.us);
}

// Returns rows as lines with aligned columns; the last column is not padded.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    text += "\n";
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += "  " + row[i];
      if (i + 1 < row.size()) text.append(widths[i] - row[i].size(), ' ');
    }
  }
  return text;
}

}  // namespace

std::string argument_text(const Call& call, std::size_t input) {
  const std::size_t lists = call.op->input_lists;
  const std::size_t length = lists == 0 ? 0 : (call.inputs.size() - call.op->input_singles) / lists;
  std::size_t first = 0;
  for (const tensor::OpArgument& argument : call.op->inputs) {
    const std::size_t count = argument.is_list ? length : 1;
    if (input < first + count) {
      return count > 1 ? fmt::format("{}[{}]", argument.name, input - first) : argument.name;
    }
    first += count;
  }
  return fmt::format("input {}", input);
}

void refuse_plain(const Call& call, std::size_t input) {
  TESSERA_THROW(InvalidArgument, call.op->function, ": ", argument_text(call, input),
                " must have a layout, as other operands do, got a plain tensor, ", tensor::describe(call.inputs[input]),
                "; replicate() it on the mesh if all ranks hold the same value, otherwise distribute() it",
                backward_note(), "; called as ", call.text());
}

std::string named_placements(const Layout& layout) {
  std::string text;
  for (const auto& [axis, placement] : placements_of(layout)) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", axis, placement);
  }
  return '{' + text + '}';
}

std::string operands_text(const Call& call) {
  std::vector<std::vector<std::string>> rows;
  constexpr std::size_t kMaxRows = 8;
  for (std::size_t i = 0; i < call.inputs.size() && i < kMaxRows; ++i) {
    const Tensor& input = call.inputs[i];
    if (!input) continue;
    rows.push_back({argument_text(call, i), concat(input.dtype(), input.shape()),
                    input.has_layout() ? named_placements(input.layout()) : "no layout"});
  }
  std::string text = aligned(rows);
  if (call.inputs.size() > kMaxRows) text += fmt::format("\n  and {} more operands", call.inputs.size() - kMaxRows);
  const std::string attributes = call.attributes.text();
  return attributes.empty() ? text : text + "\n  with " + attributes;
}

std::string fixes_text(const Call& call, std::span<const layout::Fix> fixes) {
  std::vector<std::vector<std::string>> rows;
  for (const layout::Fix& fix : fixes) {
    std::string code;
    std::string cost;
    for (std::size_t i = 0; i < fix.moves.size(); ++i) {
      if (fix.moves[i] == nullptr) continue;
      const Tensor& input = call.inputs[i];  // a plain constant is replicated first
      const std::string name = argument_text(call, i);
      code += fmt::format("{}redistribute({}, {})", code.empty() ? "" : " and ",
                          input && !input.has_layout() ? fmt::format("replicate({}, mesh)", name) : name,
                          code_of(fix.inputs[i]));
      cost += (cost.empty() ? "" : "; ") + steps_of(*fix.moves[i]);
    }
    rows.push_back({code, cost});
  }
  return rows.empty() ? "" : "\ncheapest fixes:" + aligned(rows);
}

std::string conflict_with_names(const Call& call, std::string_view conflict, std::span<const std::size_t> places) {
  std::string text;
  std::string_view rest = conflict;
  const auto take = [&](std::string_view word) {
    const bool is_next = rest.starts_with(word);
    if (is_next) rest.remove_prefix(word.size());
    return is_next;
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto has_number = [&](std::size_t at) { return at < rest.size() && is_digit(rest[at]); };
  while (!rest.empty()) {
    const std::string_view before = rest;
    if (!(take("input ") || take("inputs ")) || !has_number(0)) {
      rest = before.substr(1);
      text += before[0];
      continue;
    }
    do {  // "0, 2": a list of operands
      std::size_t operand = 0;
      const char* const end = std::from_chars(rest.data(), rest.data() + rest.size(), operand).ptr;
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      text += operand < places.size() ? argument_text(call, places[operand]) : fmt::format("input {}", operand);
    } while (has_number(2) && take(", ") && (text += ", ", true));
    if (const std::size_t close = rest.find('}'); rest.starts_with(" {") && close != std::string_view::npos) {
      rest.remove_prefix(close + 1);
    }
  }
  return text;
}

}  // namespace tessera::shard::detail

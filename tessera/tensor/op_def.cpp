#include "tessera/tensor/op_def.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>

#include "tessera/base/nearest.h"

namespace tessera::tensor {
namespace {

// All operators, and kernels whose operator is not registered yet: static initializers run in any order. Never
// destroyed, since calls may happen until the process exits.
struct Registry {
  std::mutex mutex;
  std::deque<OperatorState> operators;  // stable addresses
  std::map<std::string, OperatorState*, std::less<>> by_name;
  std::map<std::string, std::vector<std::pair<DeviceKind, KernelFn>>, std::less<>> early_kernels;
};
Registry& registry() {
  static auto* all = new Registry();
  return *all;
}

[[noreturn]] void refuse(std::string_view op, const std::string& why) {
  std::fprintf(stderr, "tessera: operator '%.*s': %s\n", static_cast<int>(op.size()), op.data(), why.c_str());
  std::abort();
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, end);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    names.emplace_back(name);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return names;
}

std::vector<OpArgument> parse_arguments(std::string_view text) {
  std::vector<OpArgument> arguments;
  for (std::string& name : split_names(text)) {
    OpArgument argument;
    argument.is_optional = name.ends_with('?');
    argument.is_list = name.ends_with('*');
    if (argument.is_optional || argument.is_list) name.pop_back();
    argument.name = std::move(name);
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

std::uint64_t place_of(const std::vector<OpArgument>& arguments, const std::string& name) {
  const auto found = std::ranges::find(arguments, name, &OpArgument::name);
  return found == arguments.end() ? 0 : std::uint64_t{1} << (found - arguments.begin());
}

void check_def(const OpDef& def) {
  if (def.name.empty()) refuse(def.name, "has no name");
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  if (!std::ranges::all_of(def.name, is_plain))
    refuse(def.name, "names must consist of letters, digits, underscores and dots");
  if (def.infer == nullptr && def.view == nullptr) refuse(def.name, "has neither infer nor view");
}

void check_unique(const std::string& op, const std::vector<OpArgument>& arguments) {
  for (const OpArgument& argument : arguments) {
    if (std::ranges::count(arguments, argument.name, &OpArgument::name) > 1) {
      refuse(op, "has two arguments '" + argument.name + "'");
    }
  }
}

void add_kernel(OperatorState& state, DeviceKind kind, KernelFn kernel) {
  if (state.kernels[kind] != nullptr) {
    refuse(state.name, "already has a kernel for " + std::string(device_kind_name(kind)));
  }
  state.kernels[kind] = kernel;
}

void append_tensors(std::string& text, const std::vector<OpArgument>& arguments, std::span<const Tensor> tensors) {
  const auto lists = static_cast<std::size_t>(std::ranges::count(arguments, true, &OpArgument::is_list));
  const std::size_t singles = arguments.size() - lists;
  const std::size_t length = lists == 0 || tensors.size() < singles ? 1 : (tensors.size() - singles) / lists;
  std::size_t at = 0;
  for (const OpArgument& argument : arguments) {
    const std::size_t count = argument.is_list ? length : 1;
    for (std::size_t i = 0; i < count && at < tensors.size(); ++i, ++at) {
      if (argument.is_optional && !tensors[at]) continue;
      if (i >= 4) continue;  // show only the first entries of a long list
      if (!text.ends_with('(')) text += ", ";
      text += argument.name;
      if (argument.is_list) text += "[" + std::to_string(i) + " of " + std::to_string(count) + "]";
      text += ": " + describe(tensors[at]);
    }
  }
}

}  // namespace

const std::string& Operator::name() const { return state_->name; }

std::string Call::text() const {
  std::string text = op->function + "(";
  append_tensors(text, op->inputs, inputs);
  const std::string rest = attributes.text();
  if (!rest.empty()) text += (text.ends_with('(') ? "" : "; ") + rest;
  return text + ")";
}

Operator register_op(const OpDef& def) {
  check_def(def);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.by_name.contains(def.name)) refuse(def.name, "is registered twice; names are unique");
  OperatorState& state = all.operators.emplace_back();
  state.name = def.name;
  state.function = def.function.empty() ? def.name : def.function;
  state.def = def;
  state.inputs = parse_arguments(def.inputs);
  state.outputs = parse_arguments(def.outputs);
  for (const OpArgument& argument : state.inputs) ++(argument.is_list ? state.input_lists : state.input_singles);
  check_unique(state.name, state.inputs);
  check_unique(state.name, state.outputs);
  if (state.inputs.size() > 64 || state.outputs.size() > 64) refuse(def.name, "has more than 64 arguments");
  for (const std::string& name : split_names(def.saves)) {
    const std::uint64_t input = place_of(state.inputs, name);
    const std::uint64_t output = place_of(state.outputs, name);
    if ((input | output) == 0) refuse(def.name, "saves '" + name + "', which must be an argument or a result");
    state.saved_inputs |= input;
    if (input == 0) state.saved_outputs |= output;
  }
  state.id = static_cast<std::uint32_t>(all.operators.size());
  if (def.host != nullptr) add_kernel(state, kHostKind, def.host);
  if (const auto early = all.early_kernels.find(def.name); early != all.early_kernels.end()) {
    for (const auto& [kind, kernel] : early->second) add_kernel(state, kind, kernel);
    all.early_kernels.erase(early);
  }
  all.by_name.emplace(state.name, &state);
  return Operator(&state);
}

KernelRegistration::KernelRegistration(std::string_view op, std::string_view kind_name, KernelFn kernel) {
  const DeviceKind kind = device_kind(kind_name);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.by_name.find(op); found != all.by_name.end()) {
    add_kernel(*found->second, kind, kernel);
  } else {
    all.early_kernels[std::string(op)].emplace_back(kind, kernel);
  }
}

Operator find_op(std::string_view name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_name.find(name);
  if (found != all.by_name.end()) return Operator(found->second);
  std::vector<std::string> names;
  for (const auto& entry : all.by_name) names.push_back(entry.first);
  TESSERA_THROW(InvalidArgument, "unknown operator '", name, "'", did_you_mean(name, names),
                "; `tessera ops` lists all operators");
}

std::vector<Operator> all_ops() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<Operator> ops;
  for (const auto& entry : all.by_name) ops.emplace_back(entry.second);
  return ops;
}

}  // namespace tessera::tensor

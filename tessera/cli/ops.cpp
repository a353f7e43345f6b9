// `tessera ops`: lists the operators and their properties. `--markdown` prints docs/operators.md.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/nearest.h"
#include "tessera/cli/ops_example.h"
#include "tessera/cli/table.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

using nlohmann::ordered_json;
using tensor::Operator;

struct Options {
  std::string name;
  std::string match;
  std::vector<std::string> has;
  std::vector<std::string> lacks;
  bool json = false;
  bool markdown = false;
};

bool has_kernel(const Operator& op, std::string_view kind) {
  return op->def.view != nullptr || op->kernels[tensor::device_kind(kind)] != nullptr;
}

// A property of an operator. A view has no kernel and needs none on any device.
struct Trait {
  const char* name;
  bool (*has)(const Operator& op);
};
constexpr Trait kTraits[] = {
    {"host", [](const Operator& op) { return has_kernel(op, "host"); }},
    {"cuda", [](const Operator& op) { return has_kernel(op, "cuda"); }},
    {"grad", [](const Operator& op) { return op->def.gradient != nullptr; }},
    {"rule", [](const Operator& op) { return op->def.rule != nullptr; }},
    {"cost", [](const Operator& op) { return op->def.cost != nullptr; }},
    {"view", [](const Operator& op) { return op->def.view != nullptr; }},
    {"pointwise", [](const Operator& op) { return op->def.traits.is_pointwise; }},
    {"random", [](const Operator& op) { return op->def.traits.is_random; }},
    {"cooperative", [](const Operator& op) { return op->def.cooperation != nullptr; }},
};

const Trait& find_trait(const std::string& name) {
  std::vector<std::string> names;
  for (const Trait& trait : kTraits) {
    if (trait.name == name) return trait;
    names.emplace_back(trait.name);
  }
  TESSERA_THROW(InvalidArgument, "unknown property '", name, "'", did_you_mean(name, names),
                "; properties: ", fmt::format("{}", fmt::join(names, ", ")));
}

std::string arguments_text(const std::vector<tensor::OpArgument>& arguments) {
  std::string text;
  for (const tensor::OpArgument& argument : arguments) {
    if (!text.empty()) text += ", ";
    text += argument.name + (argument.is_optional ? "?" : argument.is_list ? "*" : "");
  }
  return text;
}

std::string saved_text(const Operator& op) {
  std::string text;
  const auto add = [&](const std::vector<tensor::OpArgument>& arguments, std::uint64_t bits) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if ((bits >> i & 1) != 0) text += (text.empty() ? "" : ", ") + arguments[i].name;
    }
  };
  add(op->inputs, op->saved_inputs);
  add(op->outputs, op->saved_outputs);
  return text;
}

// Library functions that are composed of operators, by name.
constexpr std::pair<const char*, std::string_view> kMadeOf[] = {
    {"matmul", "mm bmm contract"}, {"addmm", "mm"}, {"baddbmm", "bmm"}, {"einsum", "contract"}};

bool is_made_of(std::string_view names, std::string_view op) {
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(' ', at), names.size());
    if (names.substr(at, end - at) == op) return true;
    at = end + 1;
  }
  return false;
}

bool matches(const Operator& op, const std::string& match) {
  if (op.name().find(match) != std::string::npos) return true;
  return std::ranges::any_of(kMadeOf, [&](const auto& each) {
    return std::string_view(each.first).find(match) != std::string_view::npos && is_made_of(each.second, op.name());
  });
}

std::vector<Operator> chosen(const Options& options) {
  std::vector<const Trait*> has;
  std::vector<const Trait*> lacks;
  for (const std::string& name : options.has) has.push_back(&find_trait(name));
  for (const std::string& name : options.lacks) lacks.push_back(&find_trait(name));
  std::vector<Operator> ops;
  for (const Operator& op : tensor::all_ops()) {
    const auto has_trait = [&](const Trait* trait) { return trait->has(op); };
    if (!matches(op, options.match)) continue;
    if (std::ranges::all_of(has, has_trait) && std::ranges::none_of(lacks, has_trait)) ops.push_back(op);
  }
  return ops;
}

ordered_json arguments_json(const std::vector<tensor::OpArgument>& arguments) {
  ordered_json list = ordered_json::array();
  for (const tensor::OpArgument& argument : arguments) {
    list.push_back({{"name", argument.name}, {"optional", argument.is_optional}, {"list", argument.is_list}});
  }
  return list;
}

ordered_json to_json(const Operator& op) {
  const OpExample example = find_example(op);
  ordered_json has = ordered_json::object();
  for (const Trait& trait : kTraits) has[trait.name] = trait.has(op);
  return {{"name", op.name()},
          {"inputs", arguments_json(op->inputs)},
          {"outputs", arguments_json(op->outputs)},
          {"attributes", example.attributes},
          {"defaults", example.defaults},
          {"has", has},
          {"saves", saved_text(op)},
          {"example", {{"call", example.call}, {"result", example.result}, {"rule", example.rule}}}};
}

void show_list(const std::vector<Operator>& ops) {
  Table table{{"OPERATOR", "ARGUMENTS", "RESULTS"}, {}};
  for (const Trait& trait : kTraits) {
    std::string heading = trait.name;
    std::ranges::transform(heading, heading.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
    table.headings.push_back(heading);
  }
  for (const Operator& op : ops) {
    std::vector<std::string> row = {op.name(), arguments_text(op->inputs), arguments_text(op->outputs)};
    for (const Trait& trait : kTraits) row.emplace_back(trait.has(op) ? "yes" : "-");
    table.rows.push_back(std::move(row));
  }
  print_tables({table});
}

void show_one(const Operator& op) {
  const OpExample example = find_example(op);
  PrintedSection about{"operator", {{"name", op.name()}}};
  about.entries.emplace_back("arguments", arguments_text(op->inputs));
  about.entries.emplace_back("results", arguments_text(op->outputs));
  about.entries.emplace_back("attributes", fmt::format("{}", fmt::join(example.attributes, ", ")));
  if (!example.defaults.empty()) about.entries.emplace_back("defaults", example.defaults);
  for (const Trait& trait : kTraits) about.entries.emplace_back(trait.name, trait.has(op) ? "yes" : "no");
  if (op->def.gradient != nullptr) about.entries.emplace_back("saves", saved_text(op));
  PrintedSection shown{"example", {}};
  if (!example.call.empty()) {
    shown.entries = {{"call", example.call}, {"result", example.result}};
    if (!example.rule.empty()) shown.entries.emplace_back("rule", example.rule);
  }
  std::vector<PrintedSection> sections = {std::move(about)};
  if (!shown.entries.empty()) sections.push_back(std::move(shown));
  std::fputs(to_text(sections, stdout_style()).c_str(), stdout);
}

constexpr const char* kMarkdownHead =
    "# Operators\n"
    "\n"
    "Written by `tessera ops --markdown`; `tools/check_operators.py` compares and, with `--update`, rewrites it.\n"
    "\n"
    "Arguments: `x?` is optional, `x*` is any number of tensors. Attributes are the other arguments. Kernels: `host`, "
    "`cuda`; a\n"
    "view has none and needs none. `grad`: can be differentiated. `rule`: can be sharded. `cooperative`: runs small "
    "collectives\n"
    "along a sharded dimension. `tessera ops NAME` shows one operator and an example of its rule.\n"
    "\n";

void show_markdown(const std::vector<Operator>& ops) {
  std::string text = kMarkdownHead;
  text += fmt::format("{} operators.\n\n| operator | arguments | attributes |", ops.size());
  std::string line = "\n| --- | --- | --- |";
  for (const Trait& trait : kTraits) {
    text += fmt::format(" {} |", trait.name);
    line += " --- |";
  }
  text += line + "\n";
  for (const Operator& op : ops) {
    const OpExample example = find_example(op);
    const std::string arguments = arguments_text(op->inputs);
    text += fmt::format("| `{}` | {}{}-> {} |", op.name(), arguments, arguments.empty() ? "" : " ",
                        arguments_text(op->outputs));
    if (!example.attributes.empty()) text += fmt::format(" {}", fmt::join(example.attributes, ", "));
    text += " |";
    for (const Trait& trait : kTraits) text += trait.has(op) ? " yes |" : " |";
    text += "\n";
  }
  // Markdown would read the stars of a table as emphasis.
  std::string escaped;
  bool is_table = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n' && i + 1 < text.size()) is_table = text[i + 1] == '|';
    if (is_table && text[i] == '*') escaped += '\\';
    escaped += text[i];
  }
  std::fputs(escaped.c_str(), stdout);
}

int show(const Options& options) {
  TESSERA_CHECK(!options.json || !options.markdown, "ops: --json and --markdown exclude each other");
  if (!options.name.empty()) {
    TESSERA_CHECK(!options.markdown, "ops: --markdown lists all operators; omit NAME");
    for (const auto& [name, ops] : kMadeOf) {
      TESSERA_CHECK(options.name != name, "ops: NAME: ", name, " is a function composed of the operators ", ops,
                    "; name one of them, or use --match ", name);
    }
    const Operator op = tensor::find_op(options.name);
    options.json ? print_json(to_json(op)) : show_one(op);
    return kDone;
  }
  const std::vector<Operator> ops = chosen(options);
  if (options.json) {
    ordered_json list = ordered_json::array();
    for (const Operator& op : ops) list.push_back(to_json(op));
    print_json({{"operators", list}});
  } else {
    options.markdown ? show_markdown(ops) : show_list(ops);
  }
  return kDone;
}

Body declare(Command& command) {
  const auto options = std::make_shared<Options>();
  command.add("NAME", &options->name, "Operator to show in full");
  command.add(
      "--match", &options->match,
      "Show operators whose name contains this, or that a function of this name uses (matmul: mm, bmm, contract)");
  command.add("--has", &options->has, "Show operators with this property: host, cuda, grad, rule, cost, view, ...");
  command.add("--lacks", &options->lacks, "Show operators without this property");
  command.add("--json", &options->json, "Print JSON");
  command.add("--markdown", &options->markdown, "Print the page docs/operators.md");
  command.footer =
      "Arguments: x? is optional, x* is any number of tensors.\n"
      "Without a terminal: a tab-separated table with headings; for one operator, lines of key and value.\n"
      "  tessera ops --has host --lacks cuda\n"
      "  tessera ops softmax";
  return [options]() -> int {
    try {
      return show(*options);
    } catch (const InvalidArgument& error) {  // all input comes from the command line
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kUsage;
    }
  };
}

const VerbRegistration kOps({"ops", "List the operators and their properties", declare});

}  // namespace
}  // namespace tessera::cli

// `tessera layout explain`: the output layouts of an operator for given input layouts; for incompatible layouts, the
// cheapest fixes; and every considered way to run the operator, with the reason if it was rejected.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/bytes.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/cli/layout_verbs.h"
#include "tessera/cli/verb.h"
#include "tessera/layout/propagate.h"

namespace tessera::cli {
namespace {

using layout::Candidate;
using layout::FactorRule;
using layout::Fix;
using layout::Layout;
using layout::Operand;
using layout::Planner;
using layout::Propagation;
using nlohmann::ordered_json;

struct ExplainOptions {
  std::string mesh;
  std::string rule;
  std::string view;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::string dtype = "f32";
  std::string model;
  int fixes = 3;
  std::size_t most = 20;
  bool json = false;
};

struct ExplainedCall {
  FactorRule rule;
  std::vector<Operand> inputs;
  std::vector<Shape> outputs;
};

Operand read_input(const ExplainOptions& options, const std::string& text) {
  const std::size_t colon = text.find(':');
  TESSERA_CHECK(colon != std::string::npos, "layout explain: --input: must be SHAPE:LAYOUT, got '", text,
                "'; write for example 4096x512:S0,R");
  return {read_shape(text.substr(0, colon)), read_layout(options.mesh, text.substr(colon + 1)),
          static_cast<std::int64_t>(itemsize(parse_dtype(options.dtype)))};
}

// Returns the shapes of the results, if the factors of the inputs determine them.
std::vector<Shape> infer_outputs(const FactorRule& rule, const std::vector<Shape>& inputs) {
  FactorRule open = rule;
  open.outputs.clear();
  const std::vector<std::int64_t> sizes = open.sizes(inputs, {});
  std::vector<Shape> shapes;
  for (std::size_t o = 0; o < rule.outputs.size(); ++o) {
    std::vector<std::int64_t> dims;
    for (const layout::DimFactors& dim : rule.outputs[o]) {
      dims.push_back(1);
      for (const std::int32_t f : dim) {
        const auto at = static_cast<std::size_t>(f);
        TESSERA_CHECK(sizes[at] >= 0,
                      "layout explain: --output: required, because the inputs do not determine the size of factor ",
                      rule.factors[at].name, "; give the output shapes with --output");
        dims.back() *= sizes[at];
      }
    }
    shapes.emplace_back(std::span<const std::int64_t>(dims));
  }
  return shapes;
}

ExplainedCall read_call(const ExplainOptions& options) {
  ExplainedCall call;
  std::vector<Shape> shapes;
  for (const std::string& text : options.inputs) {
    call.inputs.push_back(read_input(options, text));
    shapes.push_back(call.inputs.back().shape);
  }
  TESSERA_CHECK(options.rule.empty() != options.view.empty(),
                "layout explain: exactly one of --rule and --view is required");
  if (!options.view.empty()) {
    TESSERA_CHECK(shapes.size() == 1, "layout explain: --view: requires exactly one --input, got ", shapes.size());
    call.outputs = {read_shape(options.view)};
    call.rule = layout::view_rule(shapes[0], call.outputs[0]);
    return call;
  }
  call.rule = FactorRule::parse(options.rule);
  for (const std::string& text : options.outputs) call.outputs.push_back(read_shape(text));
  if (call.outputs.empty()) call.outputs = infer_outputs(call.rule, shapes);
  return call;
}

std::string layouts_text(const std::vector<Layout>& layouts) {
  std::string text;
  for (const Layout& layout : layouts) text += (text.empty() ? "" : " ") + layout.placements_text();
  return text.empty() ? "-" : text;
}

ordered_json to_json(const std::vector<Layout>& layouts) {
  ordered_json out = ordered_json::array();
  for (const Layout& layout : layouts) out.push_back(layout.placements_text());
  return out;
}

void show(const ExplainedCall& call, const Propagation& found, const std::vector<Candidate>& candidates) {
  const Style style = stdout_style();
  const auto size = [&](std::int64_t nbytes) {
    return style.is_terminal ? format_bytes(static_cast<std::uint64_t>(nbytes)) : std::to_string(nbytes);
  };
  PrintedSection head{"call", {{"rule", call.rule.text()}, {"mesh", call.inputs[0].layout.mesh().text()}}};
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Operand& input = call.inputs[i];
    head.entries.emplace_back(fmt::format("input_{}", i),
                              shape_text(input.shape) + " " + input.layout.placements_text());
  }
  PrintedSection result{"result", {{"fits", found.is_match() ? "yes" : "no"}}};
  if (!found.is_match()) result.entries.emplace_back("conflict", found.conflict);
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    const std::string placements = found.is_match() ? " " + found.outputs[o].placements_text() : "";
    result.entries.emplace_back(fmt::format("output_{}", o), shape_text(call.outputs[o]) + placements);
  }
  std::string text = to_text({head, result}, style);
  if (!found.is_match()) {
    Table fixes{{"FIX", "US", "RECEIVED", "OUTPUTS", "HOW"}, {}};
    for (std::size_t f = 0; f < found.fixes.size(); ++f) {
      const Fix& fix = found.fixes[f];
      fixes.rows.push_back({std::to_string(f + 1), fmt::format("{:.2f}", fix.us), size(fix.nbytes),
                            layouts_text(fix.outputs), fix.text()});
    }
    text += "\n" + to_text(fixes, style);
  }
  if (!candidates.empty()) {
    Table table{{"CANDIDATE", "US", "RECEIVED", "INPUTS", "OUTPUTS", "DROPPED"}, {}};
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const Candidate& each = candidates[c];
      table.rows.push_back({std::to_string(c + 1), fmt::format("{:.2f}", each.us), size(each.nbytes),
                            layouts_text(each.inputs), layouts_text(each.outputs),
                            each.dropped.empty() ? "no: it is the cheapest" : each.dropped});
    }
    text += "\n" + to_text(table, style);
  }
  std::fputs(text.c_str(), stdout);
}

void show_json(const ExplainedCall& call, const Propagation& found, const std::vector<Candidate>& candidates) {
  ordered_json inputs = ordered_json::array();
  for (const Operand& input : call.inputs) {
    inputs.push_back({{"shape", shape_text(input.shape)}, {"layout", input.layout.placements_text()}});
  }
  ordered_json outputs = ordered_json::array();
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    ordered_json row = {{"shape", shape_text(call.outputs[o])}};
    if (found.is_match()) row["layout"] = found.outputs[o].placements_text();
    outputs.push_back(row);
  }
  ordered_json fixes = ordered_json::array();
  for (const Fix& fix : found.fixes) {
    fixes.push_back({{"us", fix.us},
                     {"nbytes", fix.nbytes},
                     {"inputs", to_json(fix.inputs)},
                     {"outputs", to_json(fix.outputs)},
                     {"how", fix.text()}});
  }
  ordered_json rows = ordered_json::array();
  for (const Candidate& each : candidates) {
    rows.push_back({{"us", each.us},
                    {"nbytes", each.nbytes},
                    {"inputs", to_json(each.inputs)},
                    {"outputs", to_json(each.outputs)},
                    {"dropped", each.dropped}});
  }
  const ordered_json whole = {{"rule", call.rule.text()},
                              {"mesh", call.inputs[0].layout.mesh().text()},
                              {"inputs", inputs},
                              {"fits", found.is_match()},
                              {"conflict", found.conflict},
                              {"outputs", outputs},
                              {"fixes", fixes},
                              {"candidates", rows}};
  std::puts(whole.dump(2).c_str());
}

int explain(const ExplainOptions& options) {
  const ExplainedCall call = read_call(options);
  Planner planner(options.model.empty() ? layout::CostModel() : layout::CostModel::load(options.model));
  const Propagation found = propagate_or_fix(call.rule, call.inputs, call.outputs, planner, options.fixes);
  std::vector<Candidate> candidates;
  if (options.most > 0) candidates = layout::explain(call.rule, call.inputs, call.outputs, planner, options.most);
  options.json ? show_json(call, found, candidates) : show(call, found, candidates);
  return kDone;
}

}  // namespace

Body declare_layout_explain(Command& command) {
  const auto options = std::make_shared<ExplainOptions>();
  command.add("--mesh", &options->mesh, "Axes of the mesh, as in dp=2@network,tp=4 (default: the mesh in the layouts)");
  command.add("--rule", &options->rule, "Factor rule of the operator");
  command.add("--view", &options->view, "Shape of a view of the input, instead of --rule");
  command.add("--input", &options->inputs, "Shape and layout of an input, as in 4096x512:S0,R; repeat for each input",
              {.is_required = true, .repeat = Repeat::kEach});
  command.add("--output", &options->outputs,
              "Shape of an output if the inputs do not determine it; repeat for each output",
              {.repeat = Repeat::kEach});
  command.add("--dtype", &options->dtype, "Data type of the inputs", {.shows_default = true});
  command.add("--model", &options->model, "File with a measured cost model", {.paths = Paths::kFiles});
  command.add("--fixes", &options->fixes, "Maximum number of fixes to show",
              {.shows_default = true, .range = Range{.min = 0}});
  command.add("--most", &options->most, "Maximum number of candidates to show", {.shows_default = true});
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "A rule lists the factors (independent indices) of each dimension, then the factors that are reduced (k=sum) or "
      "must\n"
      "be replicated (s=replicate), then the algebra of each input (none, joint, multi, +up, +down).\n"
      "Without a terminal: lines \"title.key<tab>value\" and tab-separated tables with headings, separated by empty "
      "lines.\n"
      "  tessera layout explain --mesh dp=2,tp=4 --rule \"mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi\" \\\n"
      "      --input 4096x512:S0,R --input 512x1024:R,S0\n"
      "  tessera layout explain --mesh tp=4 --view 48 --input 6x8:S1";
  return [options] { return explain(*options); };
}

}  // namespace tessera::cli

// `tessera layout plan`: the cheapest plan from one layout to another, the cost of its gradient, the cost of
// alternatives, and the assumptions of these costs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/bytes.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/cli/layout_verbs.h"
#include "tessera/cli/verb.h"
#include "tessera/layout/planner.h"

namespace tessera::cli {
namespace {

using layout::Layout;
using layout::LayoutParts;
using layout::PartialAxis;
using layout::Plan;
using layout::Planner;
using layout::PlanRequest;
using layout::Step;
using nlohmann::ordered_json;

struct PlanOptions {
  std::string mesh;
  std::string shape;
  std::string from;
  std::string to;
  std::string dtype = "f32";
  std::string model;
  std::string budget;
  bool json = false;
};

// An alternative plan: a sequence of layouts, each one step from the previous.
struct Alternative {
  std::string name;
  std::vector<Step> steps = {};
  double us = 0;
  std::int64_t nbytes = 0;
  std::int64_t peak_nbytes = 0;
};

std::string bytes_text(std::int64_t nbytes, Style style) {
  return style.is_terminal ? format_bytes(static_cast<std::uint64_t>(nbytes)) : std::to_string(nbytes);
}

std::string axes_text(const Step& step) {
  std::string text;
  for (const layout::SubAxis& part : step.axes) {
    const layout::Axis& axis = step.before.mesh().axis(part.axis);
    text += (text.empty() ? "" : ",") + axis.name;
    if (part.size != axis.size) text += fmt::format("({}){}", part.before, part.size);
  }
  return text;
}

std::vector<PartialAxis> shared_partials(const Layout& from, const Layout& to) {
  std::vector<PartialAxis> shared;
  for (const PartialAxis& partial : from.partials()) {
    if (std::ranges::count(to.partials(), partial) > 0) shared.push_back(partial);
  }
  return shared;
}

std::optional<Alternative> price_way(const Planner& planner, PlanRequest request, std::string name,
                                     const std::vector<Layout>& way) {
  Alternative alternative{.name = std::move(name)};
  for (std::size_t i = 1; i < way.size(); ++i) {
    if (way[i] == way[i - 1]) continue;
    request.from = way[i - 1];
    request.to = way[i];
    request.budget_nbytes = 0;
    const auto step = planner.step(request);
    if (!step) return std::nullopt;
    alternative.us += step->us;
    alternative.nbytes += step->nbytes;
    alternative.peak_nbytes = std::max(alternative.peak_nbytes, step->peak_nbytes);
    alternative.steps.push_back(*step);
  }
  return alternative;
}

// Returns naive plans: reduce, then redistribute in one step; or gather all that differs and shard it again.
std::vector<Alternative> alternatives(const Planner& planner, const PlanRequest& request) {
  const layout::Mesh& mesh = request.from.mesh();
  LayoutParts settled = request.from.parts();
  settled.partials = shared_partials(request.from, request.to);
  LayoutParts moved = request.to.parts();
  moved.partials = settled.partials;
  const std::vector<Layout> at_once = {request.from, Layout::create(mesh, settled), Layout::create(mesh, moved),
                                       request.to};
  std::vector<Layout> replicated = {request.from, Layout::create(mesh, settled)};
  LayoutParts parts = settled;
  const std::size_t dims = std::max(parts.dims.size(), moved.dims.size());
  parts.dims.resize(dims);
  moved.dims.resize(dims);
  for (std::size_t d = 0; d < dims; ++d) {
    if (parts.dims[d].shardings == moved.dims[d].shardings && parts.dims[d].sizes == moved.dims[d].sizes) continue;
    parts.dims[d] = {};
    replicated.push_back(Layout::create(mesh, parts));
  }
  for (std::size_t d = 0; d < dims; ++d) {
    parts.dims[d] = moved.dims[d];
    replicated.push_back(Layout::create(mesh, parts));
  }
  replicated.push_back(request.to);
  std::vector<Alternative> found;
  if (auto way = price_way(planner, request, "at once", at_once)) found.push_back(std::move(*way));
  if (auto way = price_way(planner, request, "gather, then slice", replicated)) found.push_back(std::move(*way));
  return found;
}

std::string kinds_text(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps)
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", to_string(step.kind), axes_text(step));
  return text.empty() ? "nothing" : text;
}

ordered_json to_json(const std::vector<Step>& steps) {
  ordered_json rows = ordered_json::array();
  for (const Step& step : steps) {
    rows.push_back({{"kind", to_string(step.kind)},
                    {"axes", axes_text(step)},
                    {"before", step.before.placements_text()},
                    {"after", step.after.placements_text()},
                    {"nbytes", step.nbytes},
                    {"copy_nbytes", step.copy_nbytes},
                    {"peak_nbytes", step.peak_nbytes},
                    {"us", step.us}});
  }
  return rows;
}

ordered_json to_json(const Plan& plan) {
  return {{"from", plan.request.from.placements_text()},
          {"to", plan.request.to.placements_text()},
          {"us", plan.us},
          {"nbytes", plan.nbytes},
          {"peak_nbytes", plan.peak_nbytes},
          {"is_exact", plan.is_exact},
          {"steps", to_json(plan.steps)}};
}

Table step_table(const char* heading, const Plan& plan, Style style) {
  Table table{{heading, "OVER", "TO", "RECEIVED", "COPIED", "PEAK", "US"}, {}};
  for (const Step& step : plan.steps) {
    table.rows.push_back({std::string(to_string(step.kind)), axes_text(step), step.after.placements_text(),
                          bytes_text(step.nbytes, style), bytes_text(step.copy_nbytes, style),
                          bytes_text(step.peak_nbytes, style), fmt::format("{:.2f}", step.us)});
  }
  return table;
}

std::vector<std::pair<std::string, std::string>> assumptions(const layout::CostModel& model) {
  std::vector<std::pair<std::string, std::string>> entries;
  const std::string text = model.text();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    const std::size_t colon = line.find(": ");
    entries.emplace_back(line.substr(0, colon), line.substr(colon + 2));
    at = end + 1;
  }
  return entries;
}

void show(const PlanRequest& request, const Planner& planner, const Plan& plan, const Plan& dual) {
  const Style style = stdout_style();
  const auto size = [&](std::int64_t nbytes) { return bytes_text(nbytes, style); };
  std::vector<PrintedSection> head = {{"plan",
                                       {{"mesh", request.from.mesh().text()},
                                        {"shape", shape_text(request.shape)},
                                        {"from", request.from.placements_text()},
                                        {"to", request.to.placements_text()},
                                        {"us", fmt::format("{:.2f}", plan.us)},
                                        {"received", size(plan.nbytes)},
                                        {"min_received", size(min_nbytes(request))},
                                        {"peak", size(plan.peak_nbytes)},
                                        {"exact", plan.is_exact ? "yes" : "no: too many axes"}}}};
  std::string text = to_text(head, style) + "\n" + to_text(step_table("STEP", plan, style), style);
  text += "\n" + to_text({{"gradient",
                           {{"from", dual.request.from.placements_text()},
                            {"to", dual.request.to.placements_text()},
                            {"us", fmt::format("{:.2f}", dual.us)},
                            {"received", size(dual.nbytes)}}}},
                         style);
  text += "\n" + to_text(step_table("GRADIENT STEP", dual, style), style);
  Table others{{"ALTERNATIVE", "STEPS", "RECEIVED", "PEAK", "US"}, {}};
  others.rows.push_back(
      {"the plan", kinds_text(plan.steps), size(plan.nbytes), size(plan.peak_nbytes), fmt::format("{:.2f}", plan.us)});
  for (const Alternative& other : alternatives(planner, request)) {
    others.rows.push_back({other.name, kinds_text(other.steps), size(other.nbytes), size(other.peak_nbytes),
                           fmt::format("{:.2f}", other.us)});
  }
  text += "\n" + to_text(others, style);
  text += "\n" + to_text({{"assumed", assumptions(planner.model())}}, style);
  std::fputs(text.c_str(), stdout);
}

void show_json(const PlanRequest& request, const Planner& planner, const Plan& plan, const Plan& dual) {
  ordered_json others = ordered_json::array();
  for (const Alternative& other : alternatives(planner, request)) {
    others.push_back({{"name", other.name},
                      {"us", other.us},
                      {"nbytes", other.nbytes},
                      {"peak_nbytes", other.peak_nbytes},
                      {"steps", to_json(other.steps)}});
  }
  const ordered_json whole = {{"mesh", request.from.mesh().text()},
                              {"shape", shape_text(request.shape)},
                              {"plan", to_json(plan)},
                              {"min_nbytes", min_nbytes(request)},
                              {"gradient", to_json(dual)},
                              {"alternatives", others},
                              {"model", ordered_json::parse(planner.model().json())}};
  std::puts(whole.dump(2).c_str());
}

int plan(const PlanOptions& options) {
  PlanRequest request{.from = read_layout(options.mesh, options.from),
                      .to = read_layout(options.mesh, options.to),
                      .shape = read_shape(options.shape),
                      .itemsize = static_cast<std::int64_t>(itemsize(parse_dtype(options.dtype)))};
  if (!options.budget.empty()) request.budget_nbytes = static_cast<std::int64_t>(parse_bytes(options.budget));
  Planner planner(options.model.empty() ? layout::CostModel() : layout::CostModel::load(options.model));
  const auto best = planner.plan(request);
  const auto dual = planner.dual(*best);
  options.json ? show_json(request, planner, *best, *dual) : show(request, planner, *best, *dual);
  return kDone;
}

}  // namespace

Body declare_layout_plan(Command& command) {
  const auto options = std::make_shared<PlanOptions>();
  command.add("--mesh", &options->mesh, "Axes of the mesh, as in dp=2@network,tp=4 (default: the mesh in the layouts)");
  command.add("--shape", &options->shape, "Shape of the tensor, as in 4096x512", {.is_required = true});
  command.add("--from", &options->from, "Source layout, as in \"S0,R\"", {.is_required = true});
  command.add("--to", &options->to, "Target layout", {.is_required = true});
  command.add("--dtype", &options->dtype, "Data type of the tensor", {.shows_default = true});
  command.add("--model", &options->model, "File with a measured cost model (default: the values shown as assumed.*)",
              {.paths = Paths::kFiles});
  command.add(
      "--budget", &options->budget,
      "Maximum size of an intermediate shard, as in 64MiB (default: the larger of the source and target shards)");
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "Bytes and times are those of the rank with the largest shard.\n"
      "Without a terminal: lines \"title.key<tab>value\" and tab-separated tables with headings, separated by empty "
      "lines.\n"
      "  tessera layout plan --mesh dp=2,tp=4 --shape 4096x512 --from \"S0,R\" --to \"R,S1\"";
  return [options] { return plan(*options); };
}

}  // namespace tessera::cli

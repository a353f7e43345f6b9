// `tessera info`: the build, the devices, the speed of the processor, the environment and the record files.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tessera/base/bytes.h"
#include "tessera/base/env.h"
#include "tessera/base/probe/orphans.h"
#include "tessera/base/version.h"
#include "tessera/cli/table.h"
#include "tessera/cli/verb.h"
#include "tessera/comm/communicator.h"
#include "tessera/device/device.h"
#include "tessera/ops/host_speed.h"

namespace tessera::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  bool env = false;
  bool json = false;
  bool clean = false;
  bool lost = false;
};

// One line per device, or per kind of device that is absent.
std::vector<std::pair<std::string, std::string>> devices() {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Device& device : Device::all()) {
    const auto& what = device.properties();
    lines.emplace_back(device.name(),
                       fmt::format("{}, {}, {}", what.description, format_bytes(what.memory_nbytes), what.driver));
  }
  for (const device::AbsentKind& kind : Device::absent()) lines.emplace_back(kind.kind, "absent: " + kind.reason);
  return lines;
}

// One line per transport between ranks: whether it could serve this process by itself.
std::vector<std::pair<std::string, std::string>> transports() {
  const comm::ConnectRequest request{.name = "info", .ranks = {Rank(0)}};
  std::vector<std::pair<std::string, std::string>> lines;
  for (const comm::BackendInfo& backend : comm::all_backends()) {
    if (!backend.is_suggested) continue;
    const std::string why_not = backend.why_not(request);
    lines.emplace_back(std::string(backend.name), why_not.empty() ? "ready" : "not available: " + why_not);
  }
  return lines;
}

std::string_view to_text(probe::Liveness liveness) {
  switch (liveness) {
    case probe::Liveness::kAlive: return "running";
    case probe::Liveness::kOrphan: return "gone";
    case probe::Liveness::kUnknown: return "in another container";
  }
  return "";
}

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

std::string described(const probe::FoundRecord& record) {
  return fmt::format("rank {}, {}, process {} {}", record.rank, format_bytes(record.nbytes), record.pid,
                     to_text(record.liveness));
}

ordered_json to_json(const probe::FoundRecord& record) {
  return {{"path", record.path},
          {"pid", record.pid},
          {"rank", record.rank},
          {"nbytes", record.nbytes},
          {"writer", to_text(record.liveness)},
          {"run_path", record.run_path}};
}

ordered_json env_json() {
  ordered_json variables = ordered_json::array();
  for (const env::VariableState& entry : env::table()) {
    variables.push_back({{"name", entry.name},
                         {"value", entry.value},
                         {"default", entry.default_value},
                         {"type", entry.type},
                         {"set", entry.is_set},
                         {"error", entry.error},
                         {"meaning", entry.meaning}});
  }
  ordered_json unknown = ordered_json::array();
  for (const auto& [name, near] : env::unknown_names()) unknown.push_back({{"name", name}, {"nearest", near}});
  return {{"variables", variables}, {"unknown", unknown}};
}

int show_env(const Options& options) {
  if (options.json) {
    print_json(env_json());
    return kDone;
  }
  Table table{{"NAME", "VALUE", "DEFAULT", "SET BY", "TYPE", "MEANING"}, {}};
  for (const env::VariableState& entry : env::table()) {
    const std::string set_by = !entry.error.empty() ? "environment, refused" : entry.is_set ? "environment" : "default";
    table.rows.push_back({entry.name, entry.value, entry.default_value, set_by, entry.type, entry.meaning});
  }
  print(to_text(table, stdout_style()));
  for (const env::VariableState& entry : env::table()) {
    if (!entry.error.empty()) std::fprintf(stderr, "tessera: %s\n", entry.error.c_str());
  }
  return kDone;
}

ordered_json to_json(const std::vector<probe::FoundRecord>& records) {
  ordered_json list = ordered_json::array();
  for (const probe::FoundRecord& record : records) list.push_back(to_json(record));
  return list;
}

int clean(const Options& options) {
  const probe::RemovedOrphans cleaned = probe::remove_orphans({}, options.lost);
  if (options.json) {
    print_json(ordered_json{{"removed", to_json(cleaned.removed)},
                            {"moved", to_json(cleaned.moved)},
                            {"kept", to_json(cleaned.kept)},
                            {"problems", cleaned.problems}});
  } else {
    std::vector<PrintedSection> sections = {{"removed", {}}, {"moved", {}}, {"kept", {}}};
    for (const probe::FoundRecord& record : cleaned.removed)
      sections[0].entries.emplace_back(record.path, described(record));
    for (const probe::FoundRecord& record : cleaned.moved)
      sections[1].entries.emplace_back(record.path, "to " + record.run_path);
    for (const probe::FoundRecord& record : cleaned.kept)
      sections[2].entries.emplace_back(
          record.path, fmt::format("{}; run directory {} was removed or renamed; --lost removes the record",
                                   described(record), record.run_path));
    std::erase_if(sections, [](const PrintedSection& section) { return section.entries.empty(); });
    if (!sections.empty()) print(to_text(sections, stdout_style()));
    if (sections.empty() && stdout_style().is_terminal) print("no records of dead processes\n");
  }
  for (const std::string& problem : cleaned.problems) std::fprintf(stderr, "tessera: %s\n", problem.c_str());
  return cleaned.problems.empty() ? kDone : kFailed;
}

std::string rate_text(double gflops) { return fmt::format("{:.0f} GFLOP/s on one thread", gflops); }

PrintedSection compute_section(const ops::HostSpeed& speed) {
  return {"compute",
          {{"processor", speed.processor},
           {"vector code", speed.vectors},
           {"products", speed.products},
           {"product rate", rate_text(speed.product_gflops) + ", f32"},
           {"bf16 products", speed.bf16_products},
           {"bf16 product rate", rate_text(speed.bf16_product_gflops)},
           {"amx", speed.amx},
           {"peak", rate_text(speed.peak_gflops) + ", f32 multiply-adds, " + speed.widest}}};
}

ordered_json compute_json(const ops::HostSpeed& speed) {
  return {{"processor", speed.processor},
          {"vector_code", speed.vectors},
          {"products", speed.products},
          {"product_gflops", speed.product_gflops},
          {"bf16_products", speed.bf16_products},
          {"bf16_product_gflops", speed.bf16_product_gflops},
          {"amx", speed.amx},
          {"peak_gflops", speed.peak_gflops},
          {"peak_instructions", speed.widest},
          {"warning", speed.warning()}};
}

int show_json() {
  const BuildInfo build = build_info();
  ordered_json found = ordered_json::array();
  for (const probe::FoundRecord& record : probe::list_records()) found.push_back(to_json(record));
  ordered_json device_list = ordered_json::array();
  for (const auto& [name, description] : devices()) {
    device_list.push_back({{"name", name}, {"description", description}});
  }
  ordered_json transport_list = ordered_json::array();
  for (const auto& [name, state] : transports()) transport_list.push_back({{"name", name}, {"state", state}});
  print_json(ordered_json{{"version", build.version},
                          {"build",
                           {{"compiler", build.compiler},
                            {"type", build.build_type},
                            {"sanitizers", build.sanitizers},
                            {"cuda", build.has_cuda}}},
                          {"compute", compute_json(ops::host_speed())},
                          {"devices", device_list},
                          {"transports", transport_list},
                          {"environment", env_json()},
                          {"records", found}});
  return kDone;
}

int show() {
  const BuildInfo build = build_info();
  std::vector<PrintedSection> sections = {
      {"tessera", {{"version", std::string(build.version)}}},
      {"build",
       {{"compiler", std::string(build.compiler)},
        {"type", std::string(build.build_type)},
        {"sanitizers", build.sanitizers.empty() ? "none" : std::string(build.sanitizers)},
        {"cuda", build.has_cuda ? "built" : "not built"}}}};
  sections.push_back(compute_section(ops::host_speed()));
  sections.push_back({"devices", devices()});
  sections.push_back({"transports", transports()});
  PrintedSection environment{"environment", {}};
  for (const env::VariableState& entry : env::table()) {
    const std::string refused = entry.error.empty() ? "" : " (rejected: " + entry.error + ")";
    if (entry.is_set) environment.entries.emplace_back(entry.name, entry.value + refused);
  }
  sections.push_back(environment);
  PrintedSection found{"records", {}};
  for (const probe::FoundRecord& record : probe::list_records())
    found.entries.emplace_back(record.path, described(record));
  sections.push_back(found);
  std::erase_if(sections, [](const PrintedSection& section) { return section.entries.empty(); });
  print(to_text(sections, stdout_style()));
  if (const std::string warning = ops::host_speed().warning(); !warning.empty())
    std::fprintf(stderr, "tessera: %s\n", warning.c_str());
  return kDone;
}

Body declare(Command& command) {
  const auto options = std::make_shared<Options>();
  command.add("--env", &options->env, "Show all environment variables with value, default and meaning");
  command.add("--json", &options->json, "Print JSON");
  command.add("--clean", &options->clean,
              "Remove the record files of dead processes; move those that a run directory links to into that directory",
              {.excludes = "--env"});
  command.add("--lost", &options->lost, "With --clean: also remove records whose run directory does not exist",
              {.needs = "--clean"});
  command.footer = "Without a terminal, lines are KEY<tab>VALUE; --env prints a tab-separated table with headings.";
  return [options] {
    if (options->clean) return clean(*options);
    if (options->env) return show_env(*options);
    return options->json ? show_json() : show();
  };
}

const VerbRegistration kInfo({"info", "Show the version, build, processor speed, devices, environment and record files",
                              declare});

}  // namespace
}  // namespace tessera::cli

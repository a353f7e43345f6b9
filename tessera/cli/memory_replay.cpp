// `tessera memory replay`: runs a log of allocations with one or more policies, without real memory, and compares the
// memory that each policy would have reserved.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/analysis/memory/trace_replay.h"
#include "tessera/base/bytes.h"
#include "tessera/cli/memory_verbs.h"
#include "tessera/cli/table.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

using analysis::ReplayResult;
using analysis::Trace;
using memory::Policy;
using nlohmann::ordered_json;

struct ReplayOptions {
  std::string file;
  std::vector<std::string> policies;
  std::string capacity = "80GiB";
  std::string device;
  bool json = false;
};

struct Row {
  std::string policy;  // as typed
  ReplayResult result;
};

ordered_json fields_of(const std::string& policy) {
  ordered_json fields = ordered_json::object();
  for (const auto& [name, value] : Policy::parse(policy).fields()) fields[name] = value;
  return fields;
}

void print_json(const ReplayOptions& options, const Trace& trace, const std::vector<Row>& rows) {
  ordered_json replays = ordered_json::array();
  for (const Row& row : rows) {
    ordered_json json = {{"policy", row.policy}, {"fields", fields_of(row.policy)}};
    json.update(ordered_json::parse(row.result.to_json()));
    replays.push_back(std::move(json));
  }
  const ordered_json json = {{"file", options.file},
                             {"capacity_nbytes", parse_bytes(options.capacity)},
                             {"allocations", trace.keys},
                             {"streams", trace.streams},
                             {"logged_failures", trace.logged_failures},
                             {"unknown_frees", trace.unknown_frees},
                             {"replays", replays}};
  std::fputs((json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n").c_str(), stdout);
}

void print_table(const Trace& trace, const std::vector<Row>& rows) {
  Table table{{"POLICY", "OPS", "FAILED", "PEAK LIVE", "PEAK RESERVED", "RATIO", "FREE AT PEAK", "LARGEST FREE", "MAPS",
               "UNMAPS", "MOVES", "NS/OP"},
              {}};
  for (const auto& [policy, result] : rows) {
    table.rows.push_back({policy.empty() ? "default" : policy, std::to_string(result.ops),
                          std::to_string(result.failures), format_bytes(result.peak_live_nbytes),
                          format_bytes(result.peak_reserved_nbytes), fmt::format("{:.3f}", result.ratio()),
                          format_bytes(result.free_nbytes_at_peak), format_bytes(result.largest_free_nbytes_at_peak),
                          std::to_string(result.maps), std::to_string(result.unmaps), std::to_string(result.moves),
                          fmt::format("{:.0f}", result.ns_per_op)});
  }
  std::fputs(to_text(table, stdout_style()).c_str(), stdout);
  if (trace.unknown_frees > 0) {
    std::fprintf(stderr, "tessera: %s frees of unknown allocations were skipped\n",
                 std::to_string(trace.unknown_frees).c_str());
  }
  if (trace.logged_failures > 0) {
    std::fprintf(stderr, "tessera: %s allocations that failed in the log were skipped\n",
                 std::to_string(trace.logged_failures).c_str());
  }
}

int run(const ReplayOptions& options) {
  const std::uint64_t capacity = parse_bytes(options.capacity);
  std::vector<std::string> texts = options.policies;
  if (texts.empty()) texts.emplace_back();
  std::vector<Policy> policies;  // all are parsed before the log is read, so that a typo costs no time
  for (const std::string& text : texts) policies.push_back(Policy::parse(text));
  const Trace trace = analysis::read_trace(options.file, options.device);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    rows.push_back({texts[i], analysis::replay(trace, policies[i], capacity)});
  }
  if (options.json) {
    print_json(options, trace, rows);
  } else {
    print_table(trace, rows);
  }
  return kDone;
}

}  // namespace

Body declare_memory_replay(Command& command) {
  const auto options = std::make_shared<ReplayOptions>();
  command.add("FILE", &options->file, "Record file, or CSV log of RMM", {.is_required = true, .paths = Paths::kFiles});
  command.add(
      "--policy", &options->policies,
      "Policy as in TESSERA_MEMORY_POLICY, for example granule_nbytes=4MiB,cross_stream=grow; repeat to compare",
      {.repeat = Repeat::kEach});
  command.add("--capacity", &options->capacity, "Memory available to the allocator", {.shows_default = true});
  command.add("--device", &options->device, "Device to replay, if the record file has several");
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "Replays the log with a real allocator, without memory. RATIO is peak reserved over peak live. FREE AT PEAK is "
      "the\n"
      "reserved memory that is not live at the peak; LARGEST FREE is its largest contiguous range.";
  return [options] { return run(*options); };
}

}  // namespace tessera::cli

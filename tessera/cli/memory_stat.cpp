// `tessera memory stat`: the memory of each allocator, pool and label.
#include <memory>

#include "tessera/cli/memory_verbs.h"
#include "tessera/cli/verb.h"
#include "tessera/memory/label_use.h"

namespace tessera::cli {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const memory::LabelUse& use) {
  return {{"label", use.label},
          {"live_nbytes", use.live_nbytes},
          {"live_blocks", use.live_blocks},
          {"peak_nbytes", use.peak_nbytes},
          {"allocations", use.allocations}};
}

void show_json(const AllocatorRecords& file) {
  ordered_json allocators = ordered_json::array();
  for (const memory::Snapshot& snapshot : file.snapshots) {
    ordered_json each = {{"device", snapshot.device}};
    each.update(cli::to_json(snapshot.totals()));
    each["events"] = snapshot.trace.size();
    each["trace_is_cut"] = snapshot.trace_is_cut;
    each["pools"] = ordered_json::array();
    for (const memory::PoolView& pool : snapshot.pools) {
      ordered_json row = {{"pool", {pool.id.graph, pool.id.user}}, {"name", pool.name}, {"owner", pool.owner}};
      row.update(cli::to_json(snapshot.totals(pool.id)));
      each["pools"].push_back(row);
    }
    each["labels"] = ordered_json::array();
    for (const memory::LabelUse& use : memory::label_uses(snapshot)) each["labels"].push_back(to_json(use));
    allocators.push_back(each);
  }
  print_json({{"file", file.path}, {"allocators", allocators}, {"notes", file.notes}});
}

std::vector<std::string> identity(const std::string& device, const memory::Totals& totals, const std::string& pool,
                                  Style style) {
  return {device,
          size_text(totals.reserved_nbytes, style),
          size_text(totals.live_nbytes, style),
          size_text(totals.rounding_nbytes, style),
          size_text(totals.pending_nbytes, style),
          size_text(totals.cached_nbytes, style),
          std::to_string(totals.live_blocks),
          pool};
}

void show(const AllocatorRecords& file) {
  const Style style = stdout_style();
  Table state{{"DEVICE", "RESERVED", "= LIVE", "+ ROUNDING", "+ PENDING", "+ CACHED", "BLOCKS", "POOL"}, {}};
  Table labels{{"DEVICE", "LIVE", "BLOCKS", "PEAK", "ALLOCATIONS", "LABEL"}, {}};
  if (!style.is_terminal)
    state.headings = {"DEVICE", "RESERVED", "LIVE", "ROUNDING", "PENDING", "CACHED", "BLOCKS", "POOL"};
  for (const memory::Snapshot& snapshot : file.snapshots) {
    state.rows.push_back(identity(snapshot.device, snapshot.totals(), "(all)", style));
    for (const memory::PoolView& pool : snapshot.pools) {
      const std::string owner = pool.owner.empty() ? "" : " (" + pool.owner + ")";
      state.rows.push_back(
          identity(snapshot.device, snapshot.totals(pool.id), pool_text(snapshot, pool.id) + owner, style));
    }
    for (const memory::LabelUse& use : memory::label_uses(snapshot)) {
      labels.rows.push_back({snapshot.device, size_text(use.live_nbytes, style), std::to_string(use.live_blocks),
                             size_text(use.peak_nbytes, style), std::to_string(use.allocations),
                             use.label.empty() ? "(no label)" : use.label});
    }
  }
  print_tables({state, labels});
}

}  // namespace

Body declare_memory_stat(Command& command) {
  struct Options {
    std::string file;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  command.add("FILE", &options->file, "Record file of a rank, or a run directory with one",
              {.is_required = true, .paths = Paths::kFiles});
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "reserved = live (requested and in use) + rounding + pending (freed, still used by a stream) + cached.\n"
      "Peaks and allocation counts cover only the events that the file still contains.\n"
      "Without a terminal: two tab-separated tables with headings, separated by an empty line, sizes in bytes.\n"
      "  tessera memory stat run/rank-0.node7.4242.a1";
  return [options] {
    const AllocatorRecords file = load_memory(options->file);
    options->json ? show_json(file) : show(file);
    return static_cast<int>(kDone);
  };
}

}  // namespace tessera::cli

// `tessera memory top`: the largest labels, call sites and blocks.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "tessera/cli/memory_verbs.h"
#include "tessera/cli/verb.h"
#include "tessera/memory/label_use.h"

namespace tessera::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string file;
  std::size_t count = 10;
  bool symbolize = false;
  bool json = false;
};

struct Site {
  std::string stack;
  std::uint64_t nbytes = 0;
  std::uint64_t blocks = 0;
};

struct Held {
  const memory::SegmentView* segment;
  const memory::BlockView* block;
};

template <class Row>
void keep_largest(std::vector<Row>& rows, std::size_t count, std::uint64_t (*size)(const Row&)) {
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return size(a) > size(b); });
  if (rows.size() > count) rows.resize(count);
}

std::vector<Site> largest_sites(const memory::Snapshot& snapshot, std::size_t count) {
  std::map<std::string, Site> sites;
  for (const memory::SegmentView& segment : snapshot.segments) {
    for (const memory::BlockView& block : segment.blocks) {
      if (block.state != memory::BlockState::kLive || block.stack.empty()) continue;
      Site& site = sites[block.stack];
      site.stack = block.stack;
      site.nbytes += block.requested_nbytes;
      ++site.blocks;
    }
  }
  std::vector<Site> rows;
  for (auto& [stack, site] : sites) rows.push_back(std::move(site));
  keep_largest<Site>(rows, count, [](const Site& site) { return site.nbytes; });
  return rows;
}

std::vector<Held> largest_blocks(const memory::Snapshot& snapshot, std::size_t count) {
  std::vector<Held> rows;
  for (const memory::SegmentView& segment : snapshot.segments) {
    for (const memory::BlockView& block : segment.blocks) {
      if (block.state != memory::BlockState::kCached) rows.push_back({&segment, &block});
    }
  }
  keep_largest<Held>(rows, count, [](const Held& held) { return held.block->nbytes; });
  return rows;
}

std::vector<memory::LabelUse> largest_labels(const memory::Snapshot& snapshot, std::size_t count) {
  auto uses = memory::label_uses(snapshot);
  if (uses.size() > count) uses.resize(count);
  return uses;
}

// Innermost first: "forward() model.cpp:42 < main() main.cpp:7".
std::string shown_stack(const std::string& stack, const analysis::Symbols& symbols) {
  std::string text;
  for (const std::string& frame : analysis::split_stack(stack)) {
    const auto found = symbols.find(frame);
    const std::string shown = found == symbols.end()    ? frame
                              : found->second.line == 0 ? found->second.name
                                                        : fmt::format("{} {}:{}", found->second.name,
                                                                      found->second.filename, found->second.line);
    text += (text.empty() ? "" : " < ") + shown;
  }
  return text;
}

void show_json(const AllocatorRecords& file, const Options& options, const analysis::Symbols& symbols) {
  ordered_json allocators = ordered_json::array();
  for (const memory::Snapshot& snapshot : file.snapshots) {
    ordered_json labels = ordered_json::array();
    for (const memory::LabelUse& use : largest_labels(snapshot, options.count)) {
      labels.push_back({{"label", use.label},
                        {"live_nbytes", use.live_nbytes},
                        {"live_blocks", use.live_blocks},
                        {"peak_nbytes", use.peak_nbytes}});
    }
    ordered_json sites = ordered_json::array();
    for (const Site& site : largest_sites(snapshot, options.count)) {
      ordered_json frames = ordered_json::array();
      for (const std::string& frame : analysis::split_stack(site.stack)) frames.push_back(shown_stack(frame, symbols));
      sites.push_back({{"live_nbytes", site.nbytes}, {"live_blocks", site.blocks}, {"frames", frames}});
    }
    ordered_json blocks = ordered_json::array();
    for (const auto& [segment, block] : largest_blocks(snapshot, options.count)) {
      blocks.push_back({{"address", block->address},
                        {"nbytes", block->nbytes},
                        {"requested_nbytes", block->requested_nbytes},
                        {"state", to_string(block->state)},
                        {"stream", block->stream.value()},
                        {"pool", pool_text(snapshot, segment->pool)},
                        {"label", block->label}});
    }
    allocators.push_back({{"device", snapshot.device}, {"labels", labels}, {"call_sites", sites}, {"blocks", blocks}});
  }
  print_json({{"file", file.path}, {"allocators", allocators}, {"notes", file.notes}});
}

void show(const AllocatorRecords& file, const Options& options, const analysis::Symbols& symbols) {
  const Style style = stdout_style();
  Table labels{{"DEVICE", "LIVE", "BLOCKS", "PEAK", "LABEL"}, {}};
  Table sites{{"DEVICE", "LIVE", "BLOCKS", "CALL SITE"}, {}};
  Table blocks{{"DEVICE", "SIZE", "ASKED FOR", "STATE", "STREAM", "POOL", "ADDRESS", "LABEL"}, {}};
  for (const memory::Snapshot& snapshot : file.snapshots) {
    const std::string& device = snapshot.device;
    for (const memory::LabelUse& use : largest_labels(snapshot, options.count)) {
      labels.rows.push_back({device, size_text(use.live_nbytes, style), std::to_string(use.live_blocks),
                             size_text(use.peak_nbytes, style), use.label.empty() ? "(no label)" : use.label});
    }
    for (const Site& site : largest_sites(snapshot, options.count)) {
      sites.rows.push_back(
          {device, size_text(site.nbytes, style), std::to_string(site.blocks), shown_stack(site.stack, symbols)});
    }
    for (const auto& [segment, block] : largest_blocks(snapshot, options.count)) {
      blocks.rows.push_back({device, size_text(block->nbytes, style), size_text(block->requested_nbytes, style),
                             std::string(to_string(block->state)), to_string(block->stream),
                             pool_text(snapshot, segment->pool), fmt::format("{:#x}", block->address),
                             block->label.empty() ? "(no label)" : block->label});
    }
  }
  print_tables({labels, sites, blocks});
}

int top(const Options& options) {
  const AllocatorRecords file = load_memory(options.file);
  const analysis::Symbols symbols = symbols_of(file, options.symbolize);
  options.json ? show_json(file, options, symbols) : show(file, options, symbols);
  return kDone;
}

}  // namespace

Body declare_memory_top(Command& command) {
  const auto options = std::make_shared<Options>();
  command.add("FILE", &options->file, "Record file of a rank, or a run directory with one",
              {.is_required = true, .paths = Paths::kFiles});
  command.add("-n,--count", &options->count, "Number of rows per table", {.shows_default = true});
  command.add("--symbolize", &options->symbolize, "Look up functions and lines of call stacks with addr2line");
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "Call sites require Allocator::record_stacks(true) in the run.\n"
      "Without a terminal: three tab-separated tables with headings, separated by empty lines, sizes in bytes.\n"
      "  tessera memory top run/rank-0.node7.4242.a1 -n 3";
  return [options] { return top(*options); };
}

}  // namespace tessera::cli

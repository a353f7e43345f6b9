// `tessera memory dump`: writes a snapshot for the memory viewer of PyTorch.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/cli/memory_verbs.h"
#include "tessera/cli/outputs.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

struct Options {
  std::string file;
  std::string format = "pickle";
  std::string output;
  bool symbolize = false;
  bool json = false;
};

int dump(const Options& options) {
  const AllocatorRecords file = load_memory(options.file);
  const analysis::Symbols symbols = symbols_of(file, options.symbolize);
  const auto format = options.format == "json" ? analysis::TorchFormat::kJson : analysis::TorchFormat::kPickle;
  if (options.output == "-") {
    analysis::write_torch_snapshot(std::cout, file.snapshots, format, symbols);
    return kDone;
  }
  const std::string path = !options.output.empty()
                               ? options.output
                               : std::filesystem::path(file.path).filename().string() + "." + options.format;
  check_output("memory dump: --output", path, {file.path});
  analysis::write_torch_snapshot_file(path, file.snapshots, format, symbols);
  std::size_t segments = 0;
  std::size_t blocks = 0;
  std::size_t events = 0;
  bool is_cut = false;
  for (const memory::Snapshot& snapshot : file.snapshots) {
    segments += snapshot.segments.size();
    events += snapshot.trace.size();
    is_cut = is_cut || snapshot.trace_is_cut;
    for (const memory::SegmentView& segment : snapshot.segments) blocks += segment.blocks.size();
  }
  if (options.json) {
    print_json({{"path", path},
                {"format", options.format},
                {"devices", file.snapshots.size()},
                {"segments", segments},
                {"blocks", blocks},
                {"events", events},
                {"trace_is_cut", is_cut},
                {"frames_symbolized", symbols.size()},
                {"notes", file.notes}});
  } else {
    const auto counted = [](std::size_t count, const char* what) {
      return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
    };
    const std::string line = fmt::format("wrote {}: {}, {}, {}, {}{}\n", path, counted(file.snapshots.size(), "device"),
                                         counted(segments, "segment"), counted(blocks, "block"),
                                         counted(events, "event"), is_cut ? " (older ones were overwritten)" : "");
    std::fputs(line.c_str(), stdout);
  }
  return kDone;
}

}  // namespace

Body declare_memory_dump(Command& command) {
  const auto options = std::make_shared<Options>();
  command.add("FILE", &options->file, "Record file of a rank, or a run directory with one",
              {.is_required = true, .paths = Paths::kFiles});
  command.add("--format", &options->format, "Format: pickle (protocol 4) or json",
              {.shows_default = true, .choices = {"pickle", "json"}});
  command.add("-o,--output", &options->output,
              "Output file; - is stdout (default: the name of FILE plus the format, in the current directory)",
              {.paths = Paths::kFiles});
  command.add("--symbolize", &options->symbolize, "Look up functions and lines of call stacks with addr2line");
  command.add("--json", &options->json, "Print the written file as JSON");
  command.footer =
      "Open the result at pytorch.org/memory_viz, or with `python -m torch.cuda._memory_viz`.\n"
      "  tessera memory dump run/rank-0.node7.4242.a1 --symbolize -o snapshot.pickle";
  return [options]() -> int {
    try {
      return dump(*options);
    } catch (const InvalidArgument& error) {
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kUsage;
    }
  };
}

}  // namespace tessera::cli

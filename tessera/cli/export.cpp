// `tessera export`: writes the records of a run in the formats of other tools, one file per rank.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "tessera/analysis/chrome_trace.h"
#include "tessera/analysis/evidence_json.h"
#include "tessera/analysis/memory/history_reader.h"
#include "tessera/analysis/memory/torch_snapshot.h"
#include "tessera/analysis/read_run.h"
#include "tessera/analysis/torch_pickles.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/run_directory.h"
#include "tessera/cli/outputs.h"
#include "tessera/cli/table.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

struct Options {
  std::string run;
  std::string to;
  std::string out;
  std::string max_size;
  bool json = false;
};

// A written file.
struct Written {
  std::string path;
  std::string note;  // note for readers of the file
};

void warn(const std::string& text) { std::fprintf(stderr, "tessera: %s\n", text.c_str()); }

analysis::Evidence read(const Options& options) {
  if (analysis::has_torch_pickles(options.run)) {
    TESSERA_CHECK_AS(IoError, options.to != "torch-memory", "run directory ", options.run,
                     ": PyTorch flight recorder pickles contain no memory records");
    return analysis::read_torch_pickles(options.run);
  }
  // The export of memory reads the record files; evidence contains only a summary.
  return analysis::read_run(options.run, {.last_launches = std::numeric_limits<std::size_t>::max()});
}

// Creates and returns the output directory, so that an unwritable path is reported before the work.
std::string directory_of(const Options& options) {
  namespace fs = std::filesystem;
  if (options.out.empty()) {
    const fs::path all = fs::path(options.run) / "export";
    make_run_subdirectory(all);
    make_run_subdirectory(all / options.to);
    return (all / options.to).string();
  }
  const fs::path directory = options.out;
  std::error_code error;
  fs::create_directories(directory, error);
  TESSERA_CHECK_AS(IoError, !error && fs::is_directory(directory, error), "directory ", directory.string(),
                   ": cannot be created: ", error.message(), "; use another --out");
  return directory.string();
}

FileKind kind_of(const Options& options) { return options.out.empty() ? FileKind::kRun : FileKind::kUser; }

std::vector<Written> write_chrome(const analysis::Evidence& evidence, const Options& options) {
  analysis::ChromeOptions limits{.file_kind = kind_of(options)};
  if (!options.max_size.empty()) limits.max_nbytes = parse_bytes(options.max_size);
  std::vector<Written> files;
  for (const analysis::ChromeTrace& trace : analysis::write_chrome_traces(evidence, directory_of(options), limits)) {
    files.push_back({trace.path, {}});
    if (trace.left_out == 0) continue;
    files.back().note = fmt::format("omitted the {} oldest of {} launches, kernels and annotations to stay within {}",
                                    trace.left_out, trace.left_out + trace.events, format_bytes(limits.max_nbytes));
  }
  return files;
}

std::vector<Written> write_flight_recorder(const analysis::Evidence& evidence, const Options& options) {
  std::vector<Written> files;
  const std::string directory = directory_of(options);
  for (const std::string& path :
       analysis::write_torch_pickles(evidence, directory, "comm_lib_trace_rank_", kind_of(options)))
    files.push_back({path, {}});
  return files;
}

std::vector<Written> write_json(const analysis::Evidence& evidence, const Options& options) {
  const std::string path = directory_of(options) + "/evidence.json";
  analysis::write_evidence_json_file(path, evidence, kind_of(options));
  return {{path, {}}};
}

std::vector<Written> write_memory(const analysis::Evidence& evidence, const Options& options) {
  const std::string directory = directory_of(options);
  std::vector<Written> files;
  for (const analysis::Rank& rank : evidence.ranks) {
    if (rank.state == analysis::RankState::kMissing || rank.file.empty()) continue;
    try {
      const auto file = probe::RecordFile::open(rank.file);
      std::vector<std::string> notes;
      const auto snapshots = analysis::read_history(file, &notes);
      for (const std::string& note : notes) warn(rank.file + ": " + note);
      if (snapshots.empty()) {
        warn(fmt::format("rank {}: no file written: {} contains no memory records; the process created no allocator",
                         rank.rank, rank.file));
        continue;
      }
      const std::string path = fmt::format("{}/memory_rank_{}.pickle", directory, rank.rank);
      analysis::write_torch_snapshot_file(path, snapshots, analysis::TorchFormat::kPickle, {}, kind_of(options));
      files.push_back({path, {}});
    } catch (const IoError& error) {  // a corrupt file of one rank does not stop the others
      warn(fmt::format("rank {}: no file written: {}", rank.rank, error.message()));
    }
  }
  return files;
}

// Returns the file name of a rank.
std::string name_of(const std::string& format, int rank) {
  if (format == "chrome") return fmt::format("trace_rank_{}.json", rank);
  if (format == "torch-fr") return fmt::format("comm_lib_trace_rank_{}", rank);
  if (format == "torch-memory") return fmt::format("memory_rank_{}.pickle", rank);
  return "evidence.json";
}

void check_outputs(const Options& options, const analysis::Evidence& evidence) {
  const std::string directory = directory_of(options);
  std::vector<std::string> inputs = files_of_run(options.run);
  for (const analysis::Rank& rank : evidence.ranks) {
    if (!rank.file.empty()) inputs.push_back(rank.file);
  }
  for (const analysis::Rank& rank : evidence.ranks) {
    const std::string output = directory + "/" + name_of(options.to, rank.rank);
    if (std::filesystem::exists(output)) check_output("export: --out", output, inputs);
  }
}

int run(const Options& options) {
  const analysis::Evidence evidence = read(options);
  for (const std::string& problem : evidence.problems) warn(problem);
  check_outputs(options, evidence);
  std::vector<Written> files;
  if (options.to == "chrome") files = write_chrome(evidence, options);
  if (options.to == "torch-fr") files = write_flight_recorder(evidence, options);
  if (options.to == "torch-memory") files = write_memory(evidence, options);
  if (options.to == "json") files = write_json(evidence, options);
  for (const analysis::Rank& rank : evidence.ranks) {
    if (rank.state == analysis::RankState::kMissing && options.to != "json") {
      warn(fmt::format("rank {}: no file written: the rank has no record file", rank.rank));
    }
  }
  TESSERA_CHECK_AS(IoError, !files.empty(), "run directory ", options.run, ": contains no data for --to ", options.to);
  if (options.json) {
    nlohmann::ordered_json paths = nlohmann::ordered_json::array();
    for (const Written& file : files) paths.push_back({{"path", file.path}, {"note", file.note}});
    print_json({{"to", options.to}, {"files", paths}, {"problems", evidence.problems}});
    return kDone;
  }
  for (const Written& file : files) {
    std::printf("%s%s%s\n", file.path.c_str(), file.note.empty() ? "" : "\t", file.note.c_str());
  }
  return kDone;
}

Body declare(Command& command) {
  const auto options = std::make_shared<Options>();
  command.add("RUN_DIR", &options->run, "Run directory of an active or ended run",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("--to", &options->to, "Format: torch-fr, chrome, torch-memory or json",
              {.type = "FORMAT", .is_required = true, .choices = {"torch-fr", "chrome", "torch-memory", "json"}});
  command.add("--out", &options->out, "Output directory (default: RUN_DIR/export/FORMAT)",
              {.type = "DIR", .paths = Paths::kDirectories});
  command.add(
      "--max-size", &options->max_size,
      "Maximum size of a Chrome trace; the oldest launches, kernels and annotations are omitted (default: 64MiB)",
      {.type = "SIZE"});
  command.add("--json", &options->json, "Print the written files as JSON");
  command.footer =
      "Prints the written files, one per line.\n"
      "  torch-fr      comm_lib_trace_rank_N, for torchfrtrace (PyTorch flight recorder, version 2.10)\n"
      "  chrome        trace_rank_N.json, for ui.perfetto.dev, chrome://tracing and trace analyzers\n"
      "  torch-memory  memory_rank_N.pickle, for pytorch.org/memory_viz\n"
      "  json          evidence.json: all facts about the run, machine-readable\n"
      "  tessera export runs/night --to chrome --out traces --max-size 16MiB";
  return [options]() -> int {
    if (!options->max_size.empty() && options->to != "chrome") {
      warn("export: --max-size: requires --to chrome, got --to " + options->to);
      return kUsage;
    }
    try {
      return run(*options);
    } catch (const IoError& error) {  // a missing or invalid file: the source location does not matter
      warn(error.message());
      return kFailed;
    } catch (const InvalidArgument& error) {  // a size that is invalid or too small
      warn(error.message());
      return kUsage;
    }
  };
}

const VerbRegistration kExport({"export", "Export the records of a run for PyTorch tools and trace viewers", declare});

}  // namespace
}  // namespace tessera::cli

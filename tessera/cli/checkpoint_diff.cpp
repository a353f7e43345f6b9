// `tessera checkpoint diff`: the differences between the tensors of two checkpoints.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/cli/verb.h"
#include "tessera/train/checkpoint/diff.h"

namespace tessera::cli {
namespace {

using train::CheckpointDifference;
using Kind = CheckpointDifference::Kind;

const char* word_of(Kind kind) {
  switch (kind) {
    case Kind::kEqual: return "equal";
    case Kind::kValues: return "values";
    case Kind::kShape: return "shape";
    case Kind::kDType: return "dtype";
    case Kind::kOnlyFirst: return "only in A";
    case Kind::kOnlySecond: return "only in B";
    case Kind::kText: return "text";
  }
  return "";
}

// Returns the value in A and, if it differs, the value in B.
std::string pair_text(const std::string& a, const std::string& b) { return a == b ? a : a + " / " + b; }

nlohmann::ordered_json to_json(const CheckpointDifference& each) {
  nlohmann::ordered_json row = {{"name", each.name}, {"is_text", each.is_text}, {"difference", word_of(each.kind)}};
  if (each.is_text) return row;
  row["shapes"] = {to_string(each.shape[0]), to_string(each.shape[1])};
  row["dtypes"] = {to_string(each.dtype[0]), to_string(each.dtype[1])};
  row["differing"] = each.differing;
  // JSON has no NaN and no infinity.
  row["largest"] = std::isfinite(each.largest) ? nlohmann::ordered_json(each.largest)
                                               : nlohmann::ordered_json(fmt::format("{}", each.largest));
  return row;
}

std::vector<std::string> row_of(const CheckpointDifference& each) {
  if (each.is_text) return {shown(each.name), "text", "-", word_of(each.kind), "-", "-"};
  const bool has_values = each.kind == Kind::kValues;
  return {shown(each.name),
          pair_text(std::string(to_string(each.dtype[0])), std::string(to_string(each.dtype[1]))),
          pair_text(to_string(each.shape[0]), to_string(each.shape[1])),
          word_of(each.kind),
          has_values ? std::to_string(each.differing) : "-",
          has_values ? fmt::format("{:.6g}", each.largest) : "-"};
}

}  // namespace

Body declare_checkpoint_diff(Command& command) {
  struct Options {
    std::string a;
    std::string b;
    bool all = false;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  command.add("A", &options->a, "First checkpoint, or a run directory for its newest checkpoint",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("B", &options->b, "Second checkpoint, or a run directory for its newest checkpoint",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("--all", &options->all, "Show equal tensors too");
  command.add("--json", &options->json, "Print all tensors as JSON");
  command.footer =
      "Compares global tensors bit for bit; the checkpoints may have different meshes. DIFFERING is the number of "
      "elements with different bits, LARGEST is their largest absolute difference. Exits 1 if a tensor differs, or if "
      "a checkpoint is corrupt; a corrupt checkpoint is not compared, and stderr names the fault. Metadata (step, "
      "position in the data, configuration) is shown if it differs, and does not change the exit code.\n"
      "  tessera checkpoint diff run/checkpoints/step-000000100 run/checkpoints/step-000000120";
  return [options] {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    Table table{{"NAME", "DTYPE", "SHAPE", "DIFFERS IN", "DIFFERING", "LARGEST"}, {}};
    std::int64_t tensors = 0;
    const auto tell = [&](const CheckpointDifference& each) {
      tensors += each.is_text ? 0 : 1;
      if (options->json) rows.push_back(to_json(each));
      if (options->all || each.kind != Kind::kEqual) table.rows.push_back(row_of(each));
    };
    const bool is_equal = train::diff_checkpoints(one_checkpoint(options->a), one_checkpoint(options->b), tell);
    if (options->json) {
      print_json({{"is_equal", is_equal}, {"tensors", rows}});
    } else {
      if (!table.rows.empty()) print_tables({table});
      if (is_equal) fmt::print("equal: {} tensors, bit for bit\n", tensors);
    }
    return static_cast<int>(is_equal ? kDone : kFailed);
  };
}

}  // namespace tessera::cli

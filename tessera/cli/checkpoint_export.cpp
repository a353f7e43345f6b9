// `tessera checkpoint export`: a checkpoint as a model of Hugging Face's transformers.
#include <fmt/format.h>

#include <memory>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/cli/outputs.h"
#include "tessera/cli/verb.h"
#include "tessera/train/checkpoint/hugging_face.h"

namespace tessera::cli {
namespace {

// Returns the fault in the text of a size, or "".
std::string fault_of_size(const std::string& text) {
  try {
    return parse_bytes(text) > 0 ? "" : "must be at least 1 byte";
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace

Body declare_checkpoint_export(Command& command) {
  struct Options {
    std::string path;
    std::string out;
    std::string dtype = "keep";
    std::string max_file = "5GB";
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  command.add("PATH", &options->path, "Checkpoint, or a run directory for its newest checkpoint",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("-o,--out", &options->out, "Directory to create", {.is_required = true, .paths = Paths::kDirectories});
  command.add("--dtype", &options->dtype, "Data type of the parameters; keep: that of each tensor",
              {.shows_default = true, .choices = {"keep", "f32", "bf16", "f16"}});
  command.add("--max-file", &options->max_file, "Maximum size of a file of weights; a larger tensor has a file alone",
              {.type = "SIZE", .shows_default = true, .fault = fault_of_size});
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "Writes config.json, model.safetensors and, if the checkpoint has them, generation_config.json and the files of "
      "the tokenizer. Several files of weights have an index. Optimizer state is left out. A corrupt checkpoint is "
      "rejected.\n"
      "  tessera checkpoint export run -o exported\n"
      "  tessera checkpoint export run --dtype bf16 --max-file 2GB -o exported";
  return [options] {
    const train::CheckpointInfo from = one_checkpoint(options->path);
    check_output("checkpoint export: --out", options->out, {from.path.string()});
    const train::HuggingFaceModel made = train::export_hugging_face(
        from, options->out, {.dtype = chosen_dtype(options->dtype), .max_file_nbytes = parse_bytes(options->max_file)});
    if (options->json) {
      print_json({{"from", to_json(from)},
                  {"to",
                   {{"path", made.path.string()},
                    {"tensors", made.tensors},
                    {"files", made.files},
                    {"nbytes", made.nbytes}}}});
    } else {
      fmt::print("{}: {} tensors in {} {}, {}\n", made.path.string(), made.tensors, made.files,
                 made.files == 1 ? "file" : "files", size_text(made.nbytes, {.is_terminal = true}));
    }
    return static_cast<int>(kDone);
  };
}

}  // namespace tessera::cli

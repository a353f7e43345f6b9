// `tessera checkpoint import`: a model of Hugging Face's transformers as a checkpoint.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/cli/outputs.h"
#include "tessera/cli/verb.h"
#include "tessera/train/checkpoint/hugging_face.h"

namespace tessera::cli {

std::optional<DType> chosen_dtype(const std::string& text) {
  if (text == "keep") return {};
  return parse_dtype(text);
}

Body declare_checkpoint_import(Command& command) {
  struct Options {
    std::string from;
    std::string out;
    std::string dtype = "keep";
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  command.add("DIR", &options->from, "Directory with config.json and *.safetensors",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("-o,--out", &options->out, "Directory of checkpoints to write to; created if missing",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("--dtype", &options->dtype, "Data type of the parameters; keep: that of each tensor",
              {.shows_default = true, .choices = {"keep", "f32", "bf16", "f16"}});
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "Imports Llama 2 and 3, Mistral, Qwen2, Qwen3 and GPT-2 as versions 4 and 5 of transformers write them, with "
      "config.json and the files of the tokenizer. The checkpoint is that of step 0. Tensors that are unknown, missing "
      "or have another shape are listed, and nothing is written. docs/hugging_face.md has the details.\n"
      "  tessera checkpoint import Llama-3.2-1B -o imported\n"
      "  tessera checkpoint import gpt2 -o imported --dtype bf16";
  return [options] {
    check_output("checkpoint import: --out", options->out, {options->from});
    const train::CheckpointInfo made =
        train::import_hugging_face(options->from, options->out, chosen_dtype(options->dtype));
    if (options->json) {
      print_json({{"from", options->from}, {"to", to_json(made)}});
    } else {
      fmt::print("{}: {} tensors, {}\n", made.path.string(), made.tensors,
                 size_text(made.nbytes, {.is_terminal = true}));
    }
    return static_cast<int>(kDone);
  };
}

}  // namespace tessera::cli

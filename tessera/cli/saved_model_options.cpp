#include "tessera/cli/saved_model_options.h"

#include <charconv>
#include <cstdio>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/comm/launch_environment.h"
#include "tessera/comm/world.h"
#include "tessera/train/checkpoint/hugging_face.h"

namespace tessera::cli {

void add_saved_model_options(Command& command, SavedModelWords& words) {
  command.add("CHECKPOINT", &words.checkpoint,
              "Run directory (its newest checkpoint), a checkpoint, or a model of transformers",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("--mesh", &words.mesh, "Ranks of this machine to compute on, such as tp=2 (default: one rank)",
              {.type = "AXES", .examples = {"tp=2", "fsdp=2"}});
  command.add("--device", &words.device, "Device to compute on: host, or the name of another device (default: auto)",
              {.type = "TEXT"});
  command.add("--dtype", &words.dtype, "Dtype to compute in (default: that of the run)", {.choices = {"f32", "bf16"}});
  command.add("--tokenizer", &words.tokenizer, "bytes, or the path of a tokenizer.json (default: that of the run)",
              {.paths = Paths::kFiles});
}

train::CheckpointInfo saved_model_at(const std::string& path) {
  if (train::is_hugging_face(path)) {
    train::CheckpointInfo model;
    model.path = path;
    return model;
  }
  return one_checkpoint(path);
}

train::MeshConfig mesh_of(const std::string& text) {
  train::MeshConfig mesh{.dp = 1};
  std::istringstream stream(text);
  for (std::string axis; std::getline(stream, axis, ',');) {
    const std::size_t equals = axis.find('=');
    const std::string name = axis.substr(0, equals);
    int* const size = name == "dp" ? &mesh.dp : name == "fsdp" ? &mesh.fsdp : name == "tp" ? &mesh.tp : nullptr;
    const std::string number = equals == std::string::npos ? std::string() : axis.substr(equals + 1);
    int value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    TESSERA_CHECK(
        size != nullptr && error == std::errc() && end == number.data() + number.size() && value >= 1 && value <= 1024,
        "--mesh: must have the form AXIS=SIZE[,AXIS=SIZE] with axes dp, fsdp and tp and sizes in [1, 1024], "
        "got '",
        text, "'");
    *size = value;
  }
  return mesh;
}

train::SavedModelOptions model_options(const SavedModelWords& words) {
  return {.mesh = mesh_of(words.mesh), .dtype = words.dtype, .tokenizer = words.tokenizer, .device = words.device};
}

void on_ranks(const train::MeshConfig& mesh, const std::function<void()>& body) {
  const int ranks = mesh.dp * mesh.fsdp * mesh.tp;
  const int world_size = comm::read_launch_environment().place.world_size;
  TESSERA_CHECK(world_size == 1 || world_size == ranks, "--mesh: must have ", world_size, " ranks, as started, got ",
                ranks, "; use --mesh tp=", world_size);
  if (world_size == 1 && ranks > 1) return simulate(ranks, body);
  tessera::init();
  body();
}

int reported(const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
    return error.kind() == ErrorKind::kInvalidArgument ? kUsage : kFailed;
  }
}

}  // namespace tessera::cli

// Options of commands that compute with the model of a checkpoint, and the ranks that compute.
#pragma once

#include <functional>
#include <string>

#include "tessera/cli/command.h"
#include "tessera/train/saved_model.h"

namespace tessera::cli {

/// Values of the options of add_saved_model_options().
struct SavedModelWords {
  std::string checkpoint;
  std::string mesh;
  std::string device;
  std::string dtype;
  std::string tokenizer;
};

/// Adds CHECKPOINT, --mesh, --device, --dtype and --tokenizer.
void add_saved_model_options(Command& command, SavedModelWords& words);
/// Returns the checkpoint that a path means. For the directory of a model of `transformers`, sets only the path of the
/// result. Throws IoError if the path is neither.
train::CheckpointInfo saved_model_at(const std::string& path);
/// Returns the mesh of "tp=2,fsdp=2"; one rank if the text is empty. Throws InvalidArgument for other axes.
train::MeshConfig mesh_of(const std::string& text);
/// Returns the values as options of a model.
train::SavedModelOptions model_options(const SavedModelWords& words);
/// Calls `body` on each rank of the mesh: as threads of this process, or, if a launcher started this process as one of
/// several ranks, on this rank.
void on_ranks(const train::MeshConfig& mesh, const std::function<void()>& body);
/// Runs the body of a command. Prints errors that concern files or options without their source location. Returns an
/// ExitCode.
int reported(const std::function<int()>& body);

}  // namespace tessera::cli

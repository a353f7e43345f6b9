// A model from a checkpoint of a training run, without optimizer and data: for generation and evaluation.
//
//   const SavedModel saved = open_saved_model(open_checkpoint("run/checkpoints/step-000000200"));
//   saved.model->hidden(tokens, &cache);
//   const SavedModel other = open_saved_model({.path = "Llama-3.2-1B"});      // files of `transformers`
//
// The checkpoint holds the configuration of its run, or config.json that of the model. All ranks of a mesh open the
// same checkpoint; each reads its shard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/nn/language_model.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/config.h"
#include "tessera/train/data/tokenizer.h"
#include "tessera/train/plan.h"

namespace tessera::train {

/// Options of open_saved_model().
struct SavedModelOptions {
  MeshConfig mesh = {};        ///< Mesh to compute on; its product must be the world size.
  std::string dtype = {};      ///< f32 or bf16. Empty: train.dtype of the run.
  std::string tokenizer = {};  ///< bytes, or the path of a tokenizer.json. Empty: that of the run.
  std::string device = {};     ///< Device to compute on, as for run.device. Empty: auto.
};

/// Work that a device must be able to do with a model.
enum class ModelUse : std::uint8_t {
  kTraining,    ///< Steps.
  kLoss,        ///< Losses without gradients.
  kGeneration,  ///< Text.
};
/// Returns the device of this rank for the model of a checkpoint, by options.device. With auto, it is the best one of
/// the machine that can do the work. Throws InvalidArgument if a named device does not exist or cannot do it.
TESSERA_API device::Device saved_model_device(const CheckpointInfo& from, const SavedModelOptions& options,
                                              ModelUse use);

/// A model with its weights, in evaluation mode.
struct SavedModel {
  Config config;                             ///< Of the run, with the mesh and dtype of this process.
  ParallelPlan plan;                         ///< Mesh and sharding table.
  std::shared_ptr<nn::LanguageModel> model;  ///< The model.
};

/// Returns the configuration in the metadata of a checkpoint. Throws MismatchError if it has none, or has an unknown
/// option of the model.
TESSERA_API Config saved_config(const CheckpointInfo& from);
/// Returns a line that names the options of the model that differ between a run and the weights that it starts from,
/// and that no shape of a weight shows, such as the base of rotary angles. Empty if none differs, or if the weights
/// have no configuration.
TESSERA_API std::string unseen_differences(const Config& config, const std::filesystem::path& weights);
/// Creates the model of a checkpoint on the mesh of the options and the default device, and reads its weights. Throws
/// InvalidArgument if the model does not fit the mesh, and what load_checkpoint() throws.
TESSERA_API SavedModel open_saved_model(const CheckpointInfo& from, const SavedModelOptions& options = {});

/// Returns the directory of the run that wrote a checkpoint: the first directory above it with a config.toml. Empty if
/// none of the two directories above it has one.
TESSERA_API std::filesystem::path run_of(const CheckpointInfo& from);
/// Returns the path of the tokenizer of a checkpoint, or "bytes": `given`, tokenizer.json in the checkpoint or in the
/// directory of its run, or data.tokenizer of the run, in this order. Throws IoError if that file is missing.
TESSERA_API std::string saved_tokenizer(const CheckpointInfo& from, const Config& config,
                                        const std::string& given = {});
/// Reads a tokenizer: bytes, or a tokenizer.json.
TESSERA_API Tokenizer open_tokenizer(const std::string& path);

}  // namespace tessera::train

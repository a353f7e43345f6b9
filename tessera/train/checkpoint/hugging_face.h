// Models of `transformers` in and out: a directory with config.json and *.safetensors becomes a checkpoint of this
// library, and a checkpoint becomes such a directory. Architectures are registered in nn/hugging_face.h.
//
//   CheckpointInfo made = import_hugging_face("Llama-3.2-1B", "imported");      // imported/step-000000000
//   export_hugging_face(made, "exported");
//   load_hugging_face("Llama-3.2-1B", model.module());                           // no checkpoint between
//
// Tensors are read from mapped files. An import writes them in chunks of 1 MiB. Nothing is written if a tensor is
// unknown, missing or misshapen. Output appears by one rename when it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "tessera/base/dtype.h"
#include "tessera/base/export.h"
#include "tessera/nn/model_config.h"
#include "tessera/nn/module.h"
#include "tessera/train/checkpoint/checkpoint.h"

namespace tessera::train {

/// Imports a model as the checkpoint of step 0 in `directory`. The checkpoint has the parameters, the configuration of
/// the model, config.json and the files of the tokenizer, and no optimizer state. All tensors get `dtype`; by default,
/// each keeps its own. Throws InvalidArgument, which lists all fields or tensors that do not fit, and IoError for files
/// that cannot be read.
TESSERA_API CheckpointInfo import_hugging_face(const std::filesystem::path& from,
                                               const std::filesystem::path& directory, std::optional<DType> dtype = {});

/// Returns true if a directory holds a model of `transformers` and not a checkpoint: config.json without index.json.
TESSERA_API bool is_hugging_face(const std::filesystem::path& directory);
/// Returns the configuration of the model in the directory. Throws what import_hugging_face() throws.
TESSERA_API nn::ModelConfig hugging_face_config(const std::filesystem::path& directory);
/// Fills the tensors of `into`, "parameters/" and the paths of parameters, in place and converted to their dtypes. Each
/// rank copies only its shards from the mapped files. Waits for the devices of the tensors; metadata is ignored. Throws
/// InvalidArgument, before anything is written, which lists all tensors of the files or of `into` that do not fit.
TESSERA_API void load_hugging_face(const std::filesystem::path& from, const CheckpointState& into);
/// Fills all parameters of a module, sharded or not.
TESSERA_API void load_hugging_face(const std::filesystem::path& from, const nn::Module& module);
/// Fills tensors from a model of `transformers`, or from the checkpoint in this directory.
TESSERA_API void load_weights(const std::filesystem::path& from, CheckpointState& into);

/// Options of export_hugging_face().
struct HuggingFaceExport {
  std::optional<DType> dtype = {};                ///< Dtype of all tensors. Unset: each keeps its own.
  std::uint64_t max_file_nbytes = 5'000'000'000;  ///< Bytes of elements per file; a larger tensor has a file alone.
};

/// An exported model.
struct HuggingFaceModel {
  std::filesystem::path path;  ///< Directory of the model.
  std::int64_t tensors = 0;    ///< Number of tensors.
  std::int64_t files = 0;      ///< Number of files of weights.
  std::uint64_t nbytes = 0;    ///< Bytes of all elements.
};

/// Exports the parameters of a checkpoint to the new directory `directory`, with config.json and, if the checkpoint has
/// them, the files of the tokenizer. Verifies the checkpoint first. Throws InvalidArgument if the directory exists, or
/// tensors do not fit the configuration, which it lists.
TESSERA_API HuggingFaceModel export_hugging_face(const CheckpointInfo& from, const std::filesystem::path& directory,
                                                 const HuggingFaceExport& options = {});

/// Returns the configuration of the model in a checkpoint. Throws MismatchError if the checkpoint has none.
TESSERA_API nn::ModelConfig checkpoint_model_config(const CheckpointInfo& from);

}  // namespace tessera::train

// Model families in the form that Hugging Face's `transformers` reads and writes: the names and shapes of its tensors,
// and its config.json. A family registers a HuggingFaceFormat, and `tessera checkpoint import` and `export` use it:
//
//   const nn::HuggingFaceFormat& format = nn::hugging_face_format("mistral");      // by model_type
//   const nn::ModelConfig config = format.read_config(text);
//   for (const nn::HuggingFaceTensor& each : format.tensors(config)) ...
//
// A tensor holds one or more parameters of the model, one after another along its last dimension.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/nn/model_config.h"

namespace tessera::nn {

/// A tensor of a Hugging Face model, and the parameters that it holds.
struct HuggingFaceTensor {
  std::string name;                ///< "model.layers.0.mlp.up_proj.weight"
  Shape shape;                     ///< Its shape in the file.
  std::vector<std::string> paths;  ///< Parameters with equal shares of the last dimension; usually one.
  bool is_transposed = false;      ///< The parameters are transposed, [in, out] in the file.

  /// Returns the shape of each parameter.
  [[nodiscard]] TESSERA_API Shape parameter_shape() const;
};

/// How `transformers` stores the models of a family.
struct HuggingFaceFormat {
  std::string family;                    ///< Model family: "llama".
  std::vector<std::string> model_types;  ///< Values of model_type in config.json: "llama", "mistral".
  std::string prefix;                    ///< Prefix that some files leave out: "model.".
  /// Returns the configuration in the text of a config.json. Throws InvalidArgument, which lists all fields that are
  /// missing, malformed or not supported.
  std::function<ModelConfig(const std::string& text)> read_config;
  /// Returns the text of a config.json. Other fields are taken from `before`, an earlier config.json, if it is not
  /// empty. Throws InvalidArgument if no architecture has this configuration.
  std::function<std::string(const ModelConfig& config, const std::string& before)> write_config;
  /// Returns all tensors, in the order of the model.
  std::function<std::vector<HuggingFaceTensor>(const ModelConfig& config)> tensors;
  /// Returns true for a tensor that files may hold and the model does not need, such as a table of angles.
  std::function<bool(const ModelConfig& config, std::string_view name)> is_ignored;
};

/// Registers a format, usually while the program starts. Throws InvalidArgument if a model_type is taken.
TESSERA_API bool register_hugging_face_format(HuggingFaceFormat format);
/// Returns all values of model_type, sorted.
TESSERA_API std::vector<std::string> hugging_face_model_types();
/// Returns the format of a model_type. Throws InvalidArgument, which lists the known ones.
TESSERA_API const HuggingFaceFormat& hugging_face_format(std::string_view model_type);
/// Returns the format of a model family. Throws InvalidArgument if it has none.
TESSERA_API const HuggingFaceFormat& hugging_face_format_of_family(std::string_view family);

}  // namespace tessera::nn

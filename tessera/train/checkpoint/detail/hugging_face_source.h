// A directory that `transformers` wrote, open for reading: config.json and the tensors of all *.safetensors files.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/nn/hugging_face.h"
#include "tessera/tensor/safetensors.h"

namespace tessera::train::detail {

/// Problems of an input, to list all of them in one error.
class Problems {
 public:
  /// Adds a line.
  void add(const std::string& line);
  /// Throws InvalidArgument with `heading` and all lines, if there are any.
  void check(const std::string& heading) const;

 private:
  std::vector<std::string> lines_;
};

/// An open model. Its files stay mapped.
class HuggingFaceSource {
 public:
  /// Opens config.json and all files of weights, by their index if there is one. Throws IoError and InvalidArgument,
  /// which list all missing files, and tensors that the index and the files do not both have.
  explicit HuggingFaceSource(const std::filesystem::path& directory);

  /// A tensor in a file.
  struct Place {
    const tensor::SafetensorsFile* file;
    const tensor::SafetensorsEntry* entry;
  };

  /// Returns the format of the model.
  [[nodiscard]] const nn::HuggingFaceFormat& format() const { return *format_; }
  /// Returns the configuration in config.json.
  [[nodiscard]] const nn::ModelConfig& config() const { return config_; }
  /// Returns the place of each tensor, in their order. Throws InvalidArgument, which lists unknown and missing tensors
  /// and those of another shape or a dtype that is not floating.
  [[nodiscard]] std::vector<Place> places_of(const std::vector<nn::HuggingFaceTensor>& tensors) const;

 private:
  void open_files(const std::filesystem::path& directory);
  void open(const std::filesystem::path& path, Problems& problems);

  const nn::HuggingFaceFormat* format_ = nullptr;
  nn::ModelConfig config_;
  std::vector<tensor::SafetensorsFile> files_;
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace tessera::train::detail

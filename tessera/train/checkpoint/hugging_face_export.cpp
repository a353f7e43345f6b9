#include <algorithm>
#include <map>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/regular_file.h"
#include "tessera/base/run_directory.h"
#include "tessera/base/sync_directory.h"
#include "tessera/nn/hugging_face.h"
#include "tessera/tensor/safetensors_header.h"
#include "tessera/train/checkpoint/detail/directory.h"
#include "tessera/train/checkpoint/detail/elements.h"
#include "tessera/train/checkpoint/detail/good_checkpoint.h"
#include "tessera/train/checkpoint/detail/hugging_face_source.h"
#include "tessera/train/checkpoint/detail/model_files.h"
#include "tessera/train/checkpoint/detail/shard_file.h"
#include "tessera/train/checkpoint/detail/whole_tensors.h"
#include "tessera/train/checkpoint/hugging_face.h"
#include "tessera/train/detail/resume.h"

namespace tessera::train {
namespace {

using detail::WholeTensors;
using nn::HuggingFaceTensor;
using tensor::SafetensorsEntry;

constexpr std::string_view kParameters = "parameters/";

// A tensor of the model and the parameters of the checkpoint that it holds.
struct Output {
  HuggingFaceTensor tensor;
  DType dtype;                       // in the file
  std::vector<std::size_t> sources;  // numbers of the parameters in the checkpoint

  [[nodiscard]] std::uint64_t nbytes() const { return tessera::nbytes(tensor.shape, dtype); }
};

// Returns the outputs. Lists all parameters that are missing, unknown, misshapen or of a dtype without conversion.
std::vector<Output> outputs_of(const std::vector<detail::SavedTensor>& saved, std::vector<HuggingFaceTensor> tensors,
                               std::optional<DType> dtype) {
  std::map<std::string, std::size_t> left;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (saved[i].name.starts_with(kParameters)) left.emplace(saved[i].name.substr(kParameters.size()), i);
  }
  detail::Problems problems;
  std::vector<Output> outputs;
  for (HuggingFaceTensor& each : tensors) {
    Output output{.tensor = std::move(each), .dtype = dtype.value_or(DType::kF32), .sources = {}};
    const Shape shape = output.tensor.parameter_shape();
    for (const std::string& path : output.tensor.paths) {
      const auto found = left.find(path);
      if (found == left.end()) {
        problems.add("missing: " + path + " " + to_string(shape));
        continue;
      }
      const detail::SavedTensor& parameter = saved[found->second];
      if (parameter.shape != shape)
        problems.add("shape of " + path + ": must be " + to_string(shape) + ", got " + to_string(parameter.shape));
      if (!detail::is_convertible(parameter.dtype))
        problems.add("dtype of " + path + ": must be f64, f32, f16 or bf16, got " +
                     std::string(to_string(parameter.dtype)));
      if (!dtype && output.sources.empty()) output.dtype = parameter.dtype;
      output.sources.push_back(found->second);
      left.erase(found);
    }
    outputs.push_back(std::move(output));
  }
  for (const auto& [path, i] : left) problems.add("unknown: " + path + " " + to_string(saved[i].shape));
  problems.check("export: parameters of the checkpoint must be those of its configuration:");
  return outputs;
}

// Splits the outputs into files, in their order.
std::vector<std::vector<Output>> files_of(std::vector<Output> outputs, std::uint64_t max_nbytes) {
  std::vector<std::vector<Output>> files;
  std::uint64_t used = 0;
  for (Output& each : outputs) {
    const std::uint64_t nbytes = each.nbytes();
    if (files.empty() || (used > 0 && nbytes > max_nbytes - std::min(used, max_nbytes))) {
      files.emplace_back();
      used = 0;
    }
    used += nbytes;
    files.back().push_back(std::move(each));
  }
  return files;
}

std::string file_name(std::size_t file, std::size_t count) {
  return count == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", file + 1, count);
}

// Returns the elements of a tensor of the model.
std::vector<std::byte> elements_of(WholeTensors& from, const Output& output) {
  std::vector<std::byte> elements(output.nbytes());
  std::vector<std::byte> converted;
  const auto count = static_cast<std::int64_t>(output.sources.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t source = output.sources[static_cast<std::size_t>(i)];
    const detail::SavedTensor& saved = from.index().tensors[source];
    const std::span<const std::byte> read = from.read(source);
    converted.resize(static_cast<std::size_t>(saved.shape.numel()) * itemsize(output.dtype));
    detail::convert(converted.data(), output.dtype, read.data(), saved.dtype, saved.shape.numel());
    detail::put_share(
        {.shape = output.tensor.shape, .index = i, .count = count, .is_transposed = output.tensor.is_transposed},
        elements.data(), converted.data(), itemsize(output.dtype));
  }
  return elements;
}

void write_weights(WholeTensors& from, std::vector<Output> outputs, const std::filesystem::path& path) {
  std::ranges::stable_sort(outputs, std::greater<>(), [](const Output& each) { return itemsize(each.dtype); });
  std::vector<SafetensorsEntry> entries;
  std::uint64_t end = 0;
  for (const Output& each : outputs) {
    entries.push_back({each.tensor.name, each.dtype, each.tensor.shape, end, end + each.nbytes()});
    end += each.nbytes();
  }
  const std::string header = tensor::detail::make_safetensors_header(entries, {{"format", "pt"}}, path.string());
  detail::OutputFile file(path.string());
  file.reserve(header.size() + end);
  file.write(std::as_bytes(std::span(header)), 0);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    file.write(elements_of(from, outputs[i]), header.size() + entries[i].begin_nbytes);
  file.sync();
}

std::string index_text(const std::vector<std::vector<Output>>& files, std::uint64_t nbytes) {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const Output& each : files[i]) map[each.tensor.name] = file_name(i, files.size());
  }
  return nlohmann::ordered_json({{"metadata", {{"total_size", nbytes}}}, {"weight_map", map}}).dump(2) + "\n";
}

// Name of a dtype in config.json.
std::string torch_name(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "float64";
    case DType::kF16: return "float16";
    case DType::kBF16: return "bfloat16";
    default: return "float32";
  }
}

std::string config_text(const nn::HuggingFaceFormat& format, const nn::ModelConfig& config, const std::string& before,
                        DType dtype) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(format.write_config(config, before));
  json["torch_dtype"] = torch_name(dtype);
  return json.dump(2) + "\n";
}

// The tokenizer of a run, if it is a file.
void copy_tokenizer_of_run(const std::string& tokenizer, const std::filesystem::path& to) {
  const std::filesystem::path path = tokenizer;
  if (path.extension() != ".json" || std::filesystem::exists(to / "tokenizer.json")) return;
  if (!std::filesystem::exists(path)) return;
  write_file((to / "tokenizer.json").string(), read_regular_file(tokenizer, std::uint64_t{1} << 30), FileKind::kRun);
}

}  // namespace

nn::ModelConfig checkpoint_model_config(const CheckpointInfo& from) {
  return detail::configuration_of(checkpoint_texts(from)).model;
}

HuggingFaceModel export_hugging_face(const CheckpointInfo& from, const std::filesystem::path& directory,
                                     const HuggingFaceExport& options) {
  TESSERA_CHECK(!options.dtype || detail::is_convertible(*options.dtype),
                "export: dtype must be f64, f32, f16 or bf16, got ", *options.dtype);
  TESSERA_CHECK(options.max_file_nbytes > 0, "export: files must have at least 1 byte");
  const std::filesystem::path place = std::filesystem::absolute(directory).lexically_normal();
  const std::filesystem::path aside = place.string() + ".partial";
  for (const std::filesystem::path& each : {place, aside})
    TESSERA_CHECK(!std::filesystem::exists(std::filesystem::symlink_status(each)), "export: '", each.string(),
                  "' already exists; use another --out, or remove it");
  WholeTensors tensors(detail::good_checkpoint(from.path));
  const Config run = detail::configuration_of(tensors.index().texts);
  const nn::HuggingFaceFormat& format = nn::hugging_face_format_of_family(run.model.family);
  std::vector<Output> outputs = outputs_of(tensors.index().tensors, format.tensors(run.model), options.dtype);
  HuggingFaceModel made{.path = directory, .tensors = static_cast<std::int64_t>(outputs.size())};
  for (const Output& each : outputs) made.nbytes += each.nbytes();
  const std::string config =
      config_text(format, run.model, detail::model_config_text(from.path), outputs.front().dtype);
  const std::vector<std::vector<Output>> files = files_of(std::move(outputs), options.max_file_nbytes);
  made.files = static_cast<std::int64_t>(files.size());
  detail::make_directory(place.parent_path());
  make_run_subdirectory(aside);
  try {
    detail::copy_model_files(from.path, aside);
    copy_tokenizer_of_run(run.data.tokenizer, aside);
    for (std::size_t i = 0; i < files.size(); ++i) write_weights(tensors, files[i], aside / file_name(i, files.size()));
    if (files.size() > 1)
      write_file((aside / "model.safetensors.index.json").string(), index_text(files, made.nbytes), FileKind::kRun);
    write_file((aside / detail::kConfigName).string(), config, FileKind::kRun);
    std::filesystem::rename(aside, place);
    sync_directory(place.parent_path().string());
  } catch (...) {
    std::error_code none;
    std::filesystem::remove_all(aside, none);
    throw;
  }
  return made;
}

}  // namespace tessera::train

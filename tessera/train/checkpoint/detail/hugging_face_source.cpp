#include "tessera/train/checkpoint/detail/hugging_face_source.h"

#include <algorithm>
#include <set>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/json_depth.h"
#include "tessera/base/regular_file.h"
#include "tessera/train/checkpoint/detail/elements.h"
#include "tessera/train/checkpoint/detail/model_files.h"
#include "tessera/train/run.h"

namespace tessera::train::detail {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxLines = 10'000;  // of one error
constexpr std::uint64_t kMaxIndexFileNbytes = std::uint64_t{1} << 28;
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kOnlyFile = "model.safetensors";

Json object_of(const std::string& text, const std::string& path) {
  TESSERA_CHECK(tessera::detail::json_depth(text) <= kMaxDepth, path, ": must be nested at most ", kMaxDepth,
                " levels deep");
  Json root = Json::parse(text, nullptr, false);
  TESSERA_CHECK(root.is_object(), path, ": must be a JSON object");
  return root;
}

std::string model_type_of(const std::string& text, const std::string& path) {
  const Json root = object_of(text, path);
  const auto type = root.find("model_type");
  TESSERA_CHECK(type != root.end() && type->is_string(), path, ": model_type must be a text, as in \"llama\"");
  return type->get<std::string>();
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

std::vector<std::string> weight_files(const std::filesystem::path& directory) {
  if (is_there(directory / kOnlyFile)) return {kOnlyFile};
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  TESSERA_CHECK_AS(IoError, !names.empty(), directory.string(),
                   ": must contain *.safetensors files; other files of weights are not supported");
  return names;
}

// Returns file names by tensor name.
std::map<std::string, std::string> weight_map(const std::filesystem::path& path) {
  const Json root = object_of(read_regular_file(path.string(), kMaxIndexFileNbytes), path.string());
  const auto map = root.find("weight_map");
  TESSERA_CHECK(map != root.end() && map->is_object(), path.string(), ": weight_map must be an object");
  std::map<std::string, std::string> out;
  Problems problems;
  for (const auto& [name, file] : map->items()) {
    const std::string text = file.is_string() ? file.get<std::string>() : "";
    const bool is_plain = text.find('/') == std::string::npos && text.ends_with(".safetensors");
    if (!is_plain) problems.add("the file of " + name + " must be a name *.safetensors in this directory");
    out.emplace(name, text);
  }
  problems.check(path.string() + ": files must be in this directory:");
  return out;
}

}  // namespace

// Names come from untrusted files.
void Problems::add(const std::string& line) {
  lines_.push_back(printable(line));
  std::ranges::replace(lines_.back(), '\n', ' ');
}

void Problems::check(const std::string& heading) const {
  if (lines_.empty()) return;
  std::string text = heading;
  for (std::size_t i = 0; i < std::min(lines_.size(), kMaxLines); ++i) text += "\n  " + lines_[i];
  if (lines_.size() > kMaxLines) text += "\n  and " + std::to_string(lines_.size() - kMaxLines) + " more";
  TESSERA_THROW(InvalidArgument, text);
}

HuggingFaceSource::HuggingFaceSource(const std::filesystem::path& directory) {
  TESSERA_CHECK_AS(IoError, std::filesystem::is_directory(directory), directory.string(), ": must be a directory");
  const std::string path = (directory / kConfigName).string();
  const std::string text = model_config_text(directory);
  TESSERA_CHECK_AS(IoError, !text.empty(), path, ": is missing or empty; it describes the model");
  const std::string type = model_type_of(text, path);
  try {
    format_ = &nn::hugging_face_format(type);
    config_ = format_->read_config(text);
  } catch (const InvalidArgument& error) {
    TESSERA_THROW(InvalidArgument, directory.string(), ": ", error.message());
  }
  open_files(directory);
}

void HuggingFaceSource::open(const std::filesystem::path& path, Problems& problems) {
  files_.emplace_back(path.string());
  const tensor::SafetensorsFile& file = files_.back();
  for (const tensor::SafetensorsEntry& entry : file.entries()) {
    const auto [found, is_new] = places_.try_emplace(entry.name, Place{&file, &entry});
    if (!is_new) problems.add("twice: " + entry.name + " in " + found->second.file->path() + " and " + file.path());
  }
}

void HuggingFaceSource::open_files(const std::filesystem::path& directory) {
  Problems problems;
  std::map<std::string, std::string> indexed;
  std::set<std::string> names;
  if (is_there(directory / kIndexFile)) {
    indexed = weight_map(directory / kIndexFile);
    for (const auto& [name, file] : indexed) names.insert(file);
  } else {
    for (const std::string& name : weight_files(directory)) names.insert(name);
  }
  for (const std::string& name : names) {
    if (!is_there(directory / name)) problems.add("missing file: " + name);
  }
  problems.check(directory.string() + ": all files of " + kIndexFile + " must exist:");
  files_.reserve(names.size());  // places refer to them
  for (const std::string& name : names) open(directory / name, problems);
  for (const auto& [name, file] : indexed) {
    const auto found = places_.find(name);
    const bool is_indexed = found != places_.end() && found->second.file->path() == (directory / file).string();
    if (!is_indexed) problems.add("not in " + file + ": " + name);
  }
  for (const auto& [name, place] : places_) {
    if (!indexed.empty() && !indexed.contains(name))
      problems.add("not in the index: " + name + " of " + place.file->path());
  }
  problems.check(directory.string() + ": each tensor must be in one file, that of the index:");
}

std::vector<HuggingFaceSource::Place> HuggingFaceSource::places_of(
    const std::vector<nn::HuggingFaceTensor>& tensors) const {
  Problems problems;
  std::vector<Place> out;
  std::set<std::string_view> used;
  for (const nn::HuggingFaceTensor& each : tensors) {
    auto found = places_.find(each.name);
    if (found == places_.end() && each.name.starts_with(format_->prefix))
      found = places_.find(std::string_view(each.name).substr(format_->prefix.size()));
    if (found == places_.end()) {
      problems.add("missing: " + each.name + " " + to_string(each.shape));
      continue;
    }
    used.insert(found->first);
    const tensor::SafetensorsEntry& entry = *found->second.entry;
    if (entry.shape != each.shape)
      problems.add("shape of " + found->first + ": must be " + to_string(each.shape) + ", got " +
                   to_string(entry.shape));
    if (!is_convertible(entry.dtype))
      problems.add("dtype of " + found->first + ": must be f64, f32, f16 or bf16, got " +
                   std::string(to_string(entry.dtype)));
    out.push_back(found->second);
  }
  for (const auto& [name, place] : places_) {
    if (used.contains(name) || format_->is_ignored(config_, name)) continue;
    problems.add("unknown: " + name + " " + to_string(place.entry->shape));
  }
  problems.check("tensors must be those of the model in config.json:");
  return out;
}

}  // namespace tessera::train::detail

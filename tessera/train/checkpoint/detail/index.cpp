#include "tessera/train/checkpoint/detail/index.h"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <unordered_map>
#include <nlohmann/json.hpp>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"
#include "tessera/base/json_depth.h"
#include "tessera/base/regular_file.h"
#include "tessera/train/checkpoint/detail/hash.h"

namespace tessera::train::detail {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFormat = "tessera checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMaxDims = 64;
constexpr std::size_t kMaxDepth = 16;  // maximum nesting of lists and objects; an index has 5
constexpr std::uint64_t kMaxHeaderNbytes = 100'000'000 + (1 << 16);

// Reads fields of one index and reports faults.
class IndexReader {
 public:
  explicit IndexReader(const std::string& path) : path_(path) {}

  CheckpointIndex read(const ordered_json& root) {
    check(root.is_object(), "must be a JSON object");
    check(field(root, "format").is_string() && root["format"] == kFormat, "field 'format' must be '", kFormat, "'");
    const std::int64_t version = number(root, "version", 0, 1 << 30);
    check(version == kVersion, "version must be ", kVersion, ", got ", version, "; use the Tessera that wrote it");
    CheckpointIndex index;
    index.step = number(root, "step", 0, std::int64_t{1} << 62);
    index.world_size = static_cast<int>(number(root, "world_size", 1, kMaxRanks));
    index.written_at_seconds = number(root, "written_at_seconds", 0, std::int64_t{1} << 40);
    std::vector<layout::Layout> layouts;
    for (const ordered_json& each : list(root, "layouts")) layouts.push_back(layout_of(each));
    for (const ordered_json& each : list(root, "tensors")) index.tensors.push_back(tensor_of(each, layouts));
    for (const ordered_json& each : list(root, "files")) index.files.push_back(file_of(each));
    check(index.files.size() == static_cast<std::size_t>(index.world_size), "must list one file per rank, got ",
          index.files.size(), " files of ", index.world_size, " ranks");
    const ordered_json& texts = field(root, "texts");
    check(texts.is_object(), "field 'texts' must be an object");
    for (const auto& [name, value] : texts.items()) {
      check(value.is_string(), "text '", name, "' must be a string");
      index.texts.emplace(name, value.get<std::string>());
    }
    check_tensors(index.tensors, index.world_size);
    return index;
  }

  template <class... Parts>
  void check(bool holds, const Parts&... parts) const {
    TESSERA_CHECK_AS(IoError, holds, path_, ": ", parts...);
  }

 private:
  [[nodiscard]] const ordered_json& field(const ordered_json& in, const char* name) const {
    check(in.is_object() && in.contains(name), "field '", name, "' is missing");
    return in[name];
  }
  [[nodiscard]] const ordered_json& list(const ordered_json& in, const char* name) const {
    const ordered_json& found = field(in, name);
    check(found.is_array(), "field '", name, "' must be a list");
    return found;
  }
  [[nodiscard]] std::int64_t number(const ordered_json& in, const char* name, std::int64_t least,
                                    std::int64_t most) const {
    return number_of(field(in, name), name, least, most);
  }
  [[nodiscard]] std::int64_t number_of(const ordered_json& value, const char* name, std::int64_t least,
                                       std::int64_t most) const {
    check(value.is_number_integer(), "field '", name, "' must be an integer");
    const bool is_huge = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
    check(!is_huge && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most, "field '", name,
          "' must be in [", least, ", ", most, "]");
    return value.get<std::int64_t>();
  }
  [[nodiscard]] std::string text(const ordered_json& in, const char* name) const {
    const ordered_json& found = field(in, name);
    check(found.is_string(), "field '", name, "' must be a string");
    return found.get<std::string>();
  }
  [[nodiscard]] layout::Layout layout_of(const ordered_json& value) const {
    check(value.is_string(), "a layout must be a string");
    return layout::Layout::parse(value.get_ref<const std::string&>());
  }
  [[nodiscard]] SavedTensor tensor_of(const ordered_json& value, const std::vector<layout::Layout>& layouts) const {
    SavedTensor tensor;
    tensor.name = text(value, "name");
    tensor.dtype = parse_dtype(text(value, "dtype"));
    std::vector<std::int64_t> dims;
    for (const ordered_json& each : list(value, "shape")) {
      dims.push_back(number_of(each, "shape", 0, std::int64_t{1} << 62));
    }
    check(dims.size() <= kMaxDims, "tensor '", tensor.name, "' must have at most ", kMaxDims, " dimensions, got ",
          dims.size());
    tensor.shape = Shape(std::span<const std::int64_t>(dims));
    if (!value.contains("layout")) return tensor;
    const std::int64_t place = number(value, "layout", 0, static_cast<std::int64_t>(layouts.size()) - 1);
    tensor.layout = layouts[static_cast<std::size_t>(place)];
    return tensor;
  }
  [[nodiscard]] SavedFile file_of(const ordered_json& value) const {
    SavedFile file;
    file.nbytes = static_cast<std::uint64_t>(number(value, "nbytes", 1, std::int64_t{1} << 62));
    file.header_nbytes =
        static_cast<std::uint64_t>(number(value, "header_nbytes", 1, static_cast<std::int64_t>(kMaxHeaderNbytes)));
    file.header_hash = text(value, "header_xxh3");
    check(file.header_nbytes <= file.nbytes, "the header of a file must have at most ", file.nbytes, " bytes, got ",
          file.header_nbytes);
    check(file.header_hash.size() == kHashLetters, "a checksum must have ", kHashLetters, " digits, got ",
          file.header_hash.size());
    return file;
  }

  const std::string& path_;
};

std::string mesh_of(const CheckpointIndex& index) {
  std::set<std::string> meshes;
  for (const SavedTensor& tensor : index.tensors) {
    if (tensor.layout) meshes.insert(tensor.layout.mesh().text());
  }
  std::string text;
  for (const std::string& mesh : meshes) text += (text.empty() ? "" : "; ") + mesh;
  return text;
}

}  // namespace

std::string file_name(int rank) { return fmt::format("rank-{:06}.safetensors", rank); }
std::string step_name(std::int64_t step) { return fmt::format("step-{:09}", step); }

std::optional<std::int64_t> step_of_name(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::int64_t step = 0;
  const auto [stop, problem] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (problem != std::errc() || stop != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

std::string write_index(const CheckpointIndex& index) {
  ordered_json root = {{"format", kFormat},
                       {"version", kVersion},
                       {"step", index.step},
                       {"world_size", index.world_size},
                       {"mesh", mesh_of(index)},
                       {"written_at_seconds", index.written_at_seconds},
                       {"layouts", ordered_json::array()},
                       {"tensors", ordered_json::array()},
                       {"files", ordered_json::array()},
                       {"texts", index.texts}};
  std::unordered_map<layout::Layout, std::size_t> places;
  for (const SavedTensor& tensor : index.tensors) {
    ordered_json row = {{"name", tensor.name},
                        {"dtype", to_string(tensor.dtype)},
                        {"shape", std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end())}};
    if (tensor.layout) {
      const auto [found, is_new] = places.try_emplace(tensor.layout, places.size());
      if (is_new) root["layouts"].push_back(tensor.layout.text());
      row["layout"] = found->second;
    }
    root["tensors"].push_back(std::move(row));
  }
  for (const SavedFile& file : index.files) {
    root["files"].push_back(
        {{"nbytes", file.nbytes}, {"header_nbytes", file.header_nbytes}, {"header_xxh3", file.header_hash}});
  }
  try {
    const std::string checked = root.dump();
    return ordered_json{{"xxh3", hash_of(checked)}, {"checkpoint", std::move(root)}}.dump(1) + "\n";
  } catch (const nlohmann::json::exception&) {
    TESSERA_THROW(InvalidArgument,
                  "names and metadata must be UTF-8; encode bytes (base64, hexadecimal) before saving them");
  }
}

CheckpointIndex read_index(std::string_view text, const std::string& path) {
  IndexReader reader(path);
  // The checksum needs the text again, which recursion produces.
  reader.check(tessera::detail::json_depth(text) <= kMaxDepth, "not an index of a checkpoint: nested deeper than ",
               kMaxDepth);
  const ordered_json root = ordered_json::parse(text, nullptr, false);
  reader.check(root.is_object() && root.contains("xxh3") && root.contains("checkpoint") && root.size() == 2,
               "not an index of a checkpoint, or corrupt");
  reader.check(root["xxh3"].is_string() && root["xxh3"] == hash_of(root["checkpoint"].dump(
                                                               -1, ' ', false, ordered_json::error_handler_t::replace)),
               "its checksum is wrong: the file is corrupt or was edited");
  try {
    return reader.read(root["checkpoint"]);
  } catch (const IoError&) {
    throw;
  } catch (const Error& error) {  // a layout, a dtype, a shape
    TESSERA_THROW(IoError, path, ": ", error.message());
  }
}

CheckpointIndex load_index(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kIndexName;
  CheckpointIndex index = read_index(read_regular_file(path.string(), kMaxIndexNbytes), path.string());
  std::filesystem::path own = std::filesystem::absolute(directory).lexically_normal();
  if (!own.has_filename()) own = own.parent_path();
  const std::optional<std::int64_t> named = step_of_name(own.filename().string());
  TESSERA_CHECK_AS(IoError, !named || *named == index.step, path.string(), ": must be of step ", named.value_or(0),
                   ", the name of its directory, got step ", index.step, "; rename the directory to ",
                   step_name(index.step));
  return index;
}

CheckpointInfo info_of(const CheckpointIndex& index, const std::filesystem::path& directory) {
  CheckpointInfo info;
  info.path = directory;
  info.step = index.step;
  info.world_size = index.world_size;
  // Sums of sizes from a file may overflow.
  for (const SavedFile& file : index.files)
    info.nbytes = checked_add(info.nbytes, file.nbytes, "bytes of a checkpoint");
  info.mesh = mesh_of(index);
  info.tensors = static_cast<std::int64_t>(index.tensors.size());
  info.written_at_seconds = index.written_at_seconds;
  return info;
}

}  // namespace tessera::train::detail

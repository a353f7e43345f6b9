// Files in the safetensors format: a length, a JSON header, the elements.
//
//   | 8 bytes: N, little-endian | N bytes of JSON, then spaces | elements of all tensors, with no gap between them |
//
//   SafetensorsFile file("model.safetensors");
//   Tensor w = file.map("layers.0.weight");             // the pages of the file: no copy
//   Tensor v = file.copy("layers.0.weight", gpu);       // new memory
//   write_safetensors("out.safetensors", {{"w", w}}, {{"format", "tessera"}});
//
// The complete header is checked when a file is opened, before any tensor is created. Each error names the file, the
// tensor and the values. No content of a file can cause reads outside it. If another process truncates a mapped file,
// the process is killed: replace files by renaming, as write_safetensors() does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor {

namespace detail {
struct MappedFile;
}  // namespace detail

/// Header entry of a tensor.
struct SafetensorsEntry {
  std::string name;                ///< Unique in the file.
  DType dtype = DType::kF32;       ///< Element type.
  Shape shape = {};                ///< Dimensions.
  std::uint64_t begin_nbytes = 0;  ///< Start of the elements, from the end of the header.
  std::uint64_t end_nbytes = 0;    ///< End of the elements, from the end of the header.
};

/// A tensor and its name.
struct NamedTensor {
  std::string name;  ///< Any UTF-8 except "__metadata__".
  Tensor tensor;     ///< A plain tensor.
};

/// An open file. A cheap, shared, thread-safe handle.
class TESSERA_API SafetensorsFile {
 public:
  /// Opens and maps the file and checks its header. Throws IoError if the file is unreadable or malformed, and
  /// NotSupported if Tessera has no dtype for its elements.
  explicit SafetensorsFile(const std::string& path);

  /// Returns the path as given to the constructor.
  [[nodiscard]] const std::string& path() const;
  /// Returns the tensors, in the order of their elements in the file.
  [[nodiscard]] const std::vector<SafetensorsEntry>& entries() const;
  /// Returns the entry with this name. Throws InvalidArgument, which suggests the nearest name.
  [[nodiscard]] const SafetensorsEntry& entry(std::string_view name) const;
  /// Returns true if the file has a tensor with this name.
  [[nodiscard]] bool contains(std::string_view name) const;
  /// Returns the metadata strings of the file.
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const;

  /// Returns the tensor on the host of this rank, over the pages of the file, which stay mapped until
  /// the last tensor is released. Writes are allowed; they change neither the file nor tensors of
  /// another SafetensorsFile, but they do change other tensors mapped from this one. Elements that
  /// are not aligned to their size (other writers only) are copied.
  [[nodiscard]] Tensor map(std::string_view name) const;
  /// Returns the tensor in new memory on `device`, copied on the current stream of the device.
  [[nodiscard]] Tensor copy(std::string_view name, const device::Device& device) const;
  /// Returns map() of all tensors, in the order of entries().
  [[nodiscard]] std::vector<NamedTensor> map_all() const;
  /// Returns copy() of all tensors, in the order of entries().
  [[nodiscard]] std::vector<NamedTensor> copy_all(const device::Device& device) const;

 private:
  [[nodiscard]] Tensor map(const SafetensorsEntry& entry) const;
  [[nodiscard]] Tensor copy(const SafetensorsEntry& entry, const device::Device& device) const;
  std::shared_ptr<const detail::MappedFile> file_;
};

/// Writes tensors to a new file that replaces `path` only once it is complete and on disk. Waits for the devices of the
/// tensors. Larger elements come first, for alignment; otherwise the order is kept. Throws for duplicate names, names
/// that are not UTF-8, tensors with a layout, and c128, which the format lacks.
TESSERA_API void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                                   const std::map<std::string, std::string>& metadata = {},
                                   FileKind kind = FileKind::kUser);

}  // namespace tessera::tensor

// Files of tensors in the safetensors format: a length, a JSON header, the elements.
//
//   | 8 bytes: N, little-endian | N bytes of JSON, then spaces | elements of all tensors, with no gap between them |
//
//   SafetensorsFile file("model.safetensors");
//   Tensor w = file.map("layers.0.weight");             // the file's own pages: no copy
//   Tensor v = file.copy("layers.0.weight", gpu);       // new memory
//   write_safetensors("out.safetensors", {{"w", w}}, {{"format", "tessera"}});
//
// A file is checked as a whole when it is opened, before any tensor is made: every error names the file, the tensor and
// the numbers. Nothing in a file can make it read elsewhere. What can still go wrong is a file that is cut short by
// somebody else while it is mapped, which ends the process: replace files by renaming, as write_safetensors does.
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

/// A tensor of a file, as the header tells.
struct SafetensorsEntry {
  std::string name;                ///< unique in the file
  DType dtype = DType::kF32;       ///< of its elements
  Shape shape = {};                ///< its dimensions
  std::uint64_t begin_nbytes = 0;  ///< where its elements begin, from the end of the header
  std::uint64_t end_nbytes = 0;    ///< where they end
};

/// A tensor and its name.
struct NamedTensor {
  std::string name;  ///< any UTF-8 but "__metadata__"
  Tensor tensor;     ///< a plain one
};

/// An open file. A cheap shared handle; safe to use from several threads.
class TESSERA_API SafetensorsFile {
 public:
  /// Opens and maps the file and checks its header. IoError when it cannot be read or is no sound safetensors file,
  /// NotSupported when it holds elements that Tessera has no dtype for.
  explicit SafetensorsFile(const std::string& path);

  /// As given.
  [[nodiscard]] const std::string& path() const;
  /// The tensors, in the order of their elements in the file.
  [[nodiscard]] const std::vector<SafetensorsEntry>& entries() const;
  /// The entry of this name; InvalidArgument names the nearest.
  [[nodiscard]] const SafetensorsEntry& entry(std::string_view name) const;
  /// Whether there is a tensor of this name.
  [[nodiscard]] bool contains(std::string_view name) const;
  /// Texts that go with the tensors.
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const;

  /// The tensor on this rank's host, over the pages of the file, which stay mapped until the last tensor is gone. It
  /// may be written: this changes neither the file nor what another SafetensorsFile maps, but other tensors mapped from
  /// this one. Elements that do not lie aligned to their size (files of other writers only) are copied instead.
  [[nodiscard]] Tensor map(std::string_view name) const;
  /// The tensor in new memory on `device`, copied on its current stream.
  [[nodiscard]] Tensor copy(std::string_view name, const device::Device& device) const;
  /// map() of all tensors, in the order of entries().
  [[nodiscard]] std::vector<NamedTensor> map_all() const;
  /// copy() of all tensors, in the order of entries().
  [[nodiscard]] std::vector<NamedTensor> copy_all(const device::Device& device) const;

 private:
  [[nodiscard]] Tensor map(const SafetensorsEntry& entry) const;
  [[nodiscard]] Tensor copy(const SafetensorsEntry& entry, const device::Device& device) const;
  std::shared_ptr<const detail::MappedFile> file_;
};

/// Writes tensors to a new file that takes the place of what stands at `path` only once it is whole and on the disk.
/// Waits for the devices of the tensors. Larger elements go first, so that all lie aligned; otherwise the order is
/// kept. Refuses names that are given twice or are not UTF-8, tensors with a layout, and c128, which the format does
/// not have.
TESSERA_API void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                                   const std::map<std::string, std::string>& metadata = {},
                                   FileKind kind = FileKind::kUser);

}  // namespace tessera::tensor

#include "tessera/tensor/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <unordered_map>

#include "tessera/base/atomic_file.h"
#include "tessera/base/nearest.h"
#include "tessera/base/streaming_copy.h"
#include "tessera/tensor/detail/host_elements.h"
#include "tessera/tensor/safetensors_header.h"

namespace tessera::tensor {
namespace detail {

// The complete file in memory, as writable private pages: a mapped tensor can
// be changed in place without changing the file.
struct MappedFile {
  explicit MappedFile(const std::string& given) : path(given) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block
    const int open_error = errno;
    TESSERA_CHECK_AS(IoError, descriptor >= 0, path, ": ", std::generic_category().message(open_error));
    struct ::stat status = {};
    const bool is_regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    nbytes = is_regular ? static_cast<std::size_t>(status.st_size) : 0;
    // Reserves no memory: pages that are not written stay those of the file.
    void* at = nbytes == 0
                   ? MAP_FAILED
                   : ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
    const int map_error = errno;
    ::close(descriptor);
    TESSERA_CHECK_AS(IoError, is_regular, path, ": not a regular file");
    TESSERA_CHECK_AS(IoError, nbytes != 0, path, ": file is empty");
    TESSERA_CHECK_AS(IoError, at != MAP_FAILED, path, ": cannot map ", nbytes,
                     " bytes: ", std::generic_category().message(map_error));
    data = static_cast<std::byte*>(at);
  }
  ~MappedFile() {
    if (data != nullptr) ::munmap(data, nbytes);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  void read_header() {
    header = read_safetensors_header({reinterpret_cast<const char*>(data), nbytes}, path);
    by_name.reserve(header.entries.size());
    for (const SafetensorsEntry& entry : header.entries) by_name.emplace(entry.name, &entry);
  }
  [[nodiscard]] std::byte* elements_of(const SafetensorsEntry& entry) const {
    return data + header.data_offset + entry.begin_nbytes;
  }

  std::string path;
  std::byte* data = nullptr;
  std::size_t nbytes = 0;
  SafetensorsHeader header;
  std::unordered_map<std::string_view, const SafetensorsEntry*> by_name;
};

}  // namespace detail

namespace {

// Returns the tensors in file order: larger elements first, which aligns all of them without gaps.
std::vector<NamedTensor> in_file_order(const std::vector<NamedTensor>& tensors, const std::string& path) {
  std::vector<NamedTensor> sorted = tensors;
  std::vector<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    const std::string shown = detail::quoted_name(name);
    TESSERA_CHECK(name != detail::kMetadataName, path, ": a tensor must not have the name ", shown);
    TESSERA_CHECK(tensor, path, ": ", shown, " must be a tensor");
    TESSERA_CHECK(!tensor.has_layout(), path, ": ", shown, " must be a plain tensor, got ", describe(tensor),
                  "; write its local() shard");
    names.push_back(name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) {
    TESSERA_THROW(InvalidArgument, path, ": names must be distinct, got ", detail::quoted_name(*twice), " twice");
  }
  std::ranges::stable_sort(sorted, std::greater<>(),
                           [](const NamedTensor& named) { return itemsize(named.tensor.dtype()); });
  return sorted;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) {
  auto file = std::make_shared<detail::MappedFile>(path);
  file->read_header();
  file_ = std::move(file);
}

const std::string& SafetensorsFile::path() const { return file_->path; }
const std::vector<SafetensorsEntry>& SafetensorsFile::entries() const { return file_->header.entries; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return file_->header.metadata; }
bool SafetensorsFile::contains(std::string_view name) const { return file_->by_name.contains(name); }

const SafetensorsEntry& SafetensorsFile::entry(std::string_view name) const {
  const auto found = file_->by_name.find(name);
  if (found != file_->by_name.end()) return *found->second;
  std::vector<std::string> names;
  for (const SafetensorsEntry& each : entries()) names.push_back(each.name);
  TESSERA_THROW(InvalidArgument, path(), ": no tensor ", detail::quoted_name(name), did_you_mean(name, names),
                " among ", names.size(), " tensors");
}

Tensor SafetensorsFile::map(const SafetensorsEntry& entry) const {
  const device::Device host = device::Device::get("host");
  std::byte* elements = file_->elements_of(entry);
  const std::size_t alignment = itemsize(real_of(entry.dtype));
  if (reinterpret_cast<std::uintptr_t>(elements) % alignment != 0) return copy(entry, host);
  // Tensors hold the file by a const handle, but may write its pages.
  return Tensor::wrap(elements, entry.shape, entry.dtype, host, std::const_pointer_cast<detail::MappedFile>(file_));
}

Tensor SafetensorsFile::copy(const SafetensorsEntry& entry, const device::Device& device) const {
  const CurrentDevice where = current_device(device);
  Tensor tensor = Tensor::allocate(entry.shape, entry.dtype, where);
  if (tensor.nbytes() == 0) return tensor;
  std::byte* to = tensor.data();
  const std::byte* from = file_->elements_of(entry);
  const std::size_t nbytes = tensor.nbytes();
  const device::Access accesses[] = {device::writes(to, nbytes)};
  if (where.context->kind == kHostKind) {
    where.stream->run([file = file_, to, from, nbytes] { tessera::detail::streaming_copy(to, from, nbytes); },
                      {.label = "safetensors", .accesses = accesses});
    return tensor;
  }
  where.stream->copy(to, from, nbytes, "safetensors");
  // The pages must stay mapped until the copy is done.
  where.stream->run([file = file_] {}, {.label = "release", .accesses = std::span<const device::Access>()});
  return tensor;
}

Tensor SafetensorsFile::map(std::string_view name) const { return map(entry(name)); }
Tensor SafetensorsFile::copy(std::string_view name, const device::Device& device) const {
  return copy(entry(name), device);
}

std::vector<NamedTensor> SafetensorsFile::map_all() const {
  std::vector<NamedTensor> tensors;
  for (const SafetensorsEntry& each : entries()) tensors.push_back({each.name, map(each)});
  return tensors;
}

std::vector<NamedTensor> SafetensorsFile::copy_all(const device::Device& device) const {
  std::vector<NamedTensor> tensors;
  for (const SafetensorsEntry& each : entries()) tensors.push_back({each.name, copy(each, device)});
  return tensors;
}

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata, FileKind kind) {
  const std::vector<NamedTensor> sorted = in_file_order(tensors, path);
  std::vector<SafetensorsEntry> entries;
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : sorted) {
    entries.push_back({name, tensor.dtype(), tensor.shape(), end, end + tensor.nbytes()});
    end += tensor.nbytes();
  }
  const std::string header = detail::make_safetensors_header(entries, metadata, path);
  AtomicFile file(path, kind);
  file.stream().write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const auto& [name, tensor] : sorted) {
    const detail::HostElements elements(tensor, "writing");
    const auto nbytes = static_cast<std::streamsize>(tensor.nbytes());
    if (nbytes == 0) continue;
    if (tensor.is_contiguous()) {
      file.stream().write(reinterpret_cast<const char*>(elements.first()), nbytes);
      continue;
    }
    const auto dense = std::make_unique_for_overwrite<std::byte[]>(tensor.nbytes());
    elements.gather(dense.get());
    file.stream().write(reinterpret_cast<const char*>(dense.get()), nbytes);
  }
  file.commit();
}

}  // namespace tessera::tensor

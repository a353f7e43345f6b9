#include "tessera/device/host/detail/host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tessera/base/cores.h"
#include "tessera/base/error.h"

namespace tessera::device::host::detail {
namespace {

int flags_of(Protection protection) {
  switch (protection) {
    case Protection::kNone: return PROT_NONE;
    case Protection::kRead: return PROT_READ;
    case Protection::kReadWrite: break;
  }
  return PROT_READ | PROT_WRITE;
}

std::string reason() { return std::strerror(errno); }

std::uint64_t aligned_up(std::uint64_t offset, std::uint64_t unit) { return (offset + unit - 1) / unit * unit; }

// Extents of complete large pages start on a large page, in the file and in addresses.
std::uint64_t unit_of(std::size_t nbytes) {
  return nbytes % kLargePage == 0 ? std::uint64_t{kLargePage} : std::uint64_t{kGranularity};
}

// Returns true if all cores of the process have the same nearest memory. Otherwise large pages, which the mapping
// thread requests, would all come from the memory of its core, and not from that of the thread that writes a page
// first.
bool has_one_node() {
  static const bool kHasOneNode = !span_nodes(usable_cores());
  return kHasOneNode;
}

// Backs the mapping with large pages, if the kernel has them. Linux gives large pages to shared memory only by explicit
// request, unless the administrator changed its settings, and only where a page is present already. Kernels older than
// 6.1 refuse; a kernel without a free large page keeps small ones. Neither changes any result.
void use_large_pages(std::byte* address, std::size_t nbytes) {
#ifndef MADV_COLLAPSE
  constexpr int MADV_COLLAPSE = 25;
#endif
  for (std::size_t at = 0; at < nbytes; at += kLargePage) {
    (void)*const_cast<const volatile std::byte*>(address + at);
  }
  (void)madvise(address, nbytes, MADV_COLLAPSE);
}

}  // namespace

MemoryFile::MemoryFile(std::string device, std::size_t capacity)
    : device_(std::move(device)), capacity_(capacity), fd_(memfd_create("tessera-host", MFD_CLOEXEC)) {
  TESSERA_CHECK_AS(DeviceError, fd_ >= 0, device_, ": cannot create a memory file: ", reason());
}

MemoryFile::~MemoryFile() { close(fd_); }

std::uint64_t MemoryFile::take(std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  free_lingering();
  TESSERA_CHECK_AS(OutOfMemory, nbytes <= capacity_ && used_ <= capacity_ - nbytes, device_, ": ", nbytes,
                   " more bytes do not fit: ", used_, " of ", capacity_, " are in use");
  const std::uint64_t unit = unit_of(nbytes);
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const auto [offset, size] = *hole;
    const std::uint64_t start = aligned_up(offset, unit);
    const std::uint64_t end = offset + size;
    if (start + nbytes > end) continue;
    free_.erase(hole);
    if (start > offset) free_.emplace(offset, start - offset);
    if (end > start + nbytes) free_.emplace(start + nbytes, end - start - nbytes);
    used_ += nbytes;
    return start;
  }
  const std::uint64_t start = aligned_up(end_, unit);
  TESSERA_CHECK_AS(OutOfMemory, ftruncate(fd_, static_cast<off_t>(start + nbytes)) == 0, device_,
                   ": the memory file cannot grow by ", nbytes, " bytes to ", start + nbytes, ": ", reason());
  used_ += nbytes;
  if (start > end_) add_hole(end_, start - end_);
  end_ = start + nbytes;
  return start;
}

int MemoryFile::export_stretch(std::uint64_t offset, std::size_t nbytes) const {
  // Opened again: a lock belongs to an open file, and a duplicate would share ours.
  const std::string path = "/proc/self/fd/" + std::to_string(fd_);
  const int exported = open(path.c_str(), O_RDWR | O_CLOEXEC);
  TESSERA_CHECK_AS(DeviceError, exported >= 0, device_, ": export: cannot open the memory file: ", reason());
  struct flock lock {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(offset);
  lock.l_len = static_cast<off_t>(nbytes);
  if (fcntl(exported, F_OFD_SETLK, &lock) != 0) {
    const std::string why = reason();
    close(exported);
    TESSERA_THROW(DeviceError, device_, ": export: cannot lock the memory: ", why);
  }
  return exported;
}

bool MemoryFile::is_held_elsewhere(std::uint64_t offset, std::size_t nbytes) const {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(offset);
  lock.l_len = static_cast<off_t>(nbytes);
  return fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void MemoryFile::give_back(std::uint64_t offset, std::size_t nbytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_held_elsewhere(offset, nbytes)) {
    lingering_.emplace(offset, nbytes);
  } else {
    free_stretch(offset, nbytes);
  }
}

void MemoryFile::free_lingering() {
  for (auto stretch = lingering_.begin(); stretch != lingering_.end();) {
    const auto [offset, nbytes] = *stretch;
    if (is_held_elsewhere(offset, nbytes)) {
      ++stretch;
      continue;
    }
    stretch = lingering_.erase(stretch);
    free_stretch(offset, nbytes);
  }
}

void MemoryFile::free_stretch(std::uint64_t offset, std::uint64_t nbytes) {
  used_ -= nbytes;
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(nbytes));
  add_hole(offset, nbytes);
}

void MemoryFile::add_hole(std::uint64_t offset, std::uint64_t nbytes) {
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + nbytes) {
    nbytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += nbytes;
      return;
    }
  }
  free_.emplace(offset, nbytes);
}

std::size_t MemoryFile::used() {
  const std::lock_guard lock(mutex_);
  free_lingering();
  return used_;
}

HostMemory::HostMemory(std::shared_ptr<MemoryFile> file, std::size_t nbytes)
    : file_(std::move(file)), offset_(file_->take(nbytes)), nbytes_(nbytes) {}

HostMemory::HostMemory(const ExportedMemory& exported) : offset_(exported.offset()), nbytes_(exported.nbytes()) {
  struct stat file {};
  TESSERA_CHECK_AS(InvalidArgument, fstat(exported.fd(), &file) == 0, "import: descriptor ", exported.fd(),
                   " is not open: ", reason());
  const auto size = static_cast<std::uint64_t>(std::max<off_t>(file.st_size, 0));
  TESSERA_CHECK(S_ISREG(file.st_mode) && nbytes_ > 0 && nbytes_ <= size && offset_ <= size - nbytes_,
                "import: descriptor ", exported.fd(), " holds no memory at [", offset_, ", ", offset_, " + ", nbytes_,
                "); it is ", S_ISREG(file.st_mode) ? "a file" : "not a file", " of ", size, " bytes");
  TESSERA_CHECK(offset_ % kGranularity == 0 && nbytes_ % kGranularity == 0, "import: offset ", offset_, " and size ",
                nbytes_, " must be multiples of ", kGranularity);
  imported_fd_ = fcntl(exported.fd(), F_DUPFD_CLOEXEC, 0);
  TESSERA_CHECK_AS(DeviceError, imported_fd_ >= 0, "import: cannot duplicate the descriptor: ", reason());
}

HostMemory::~HostMemory() {
  if (file_ != nullptr) {
    file_->give_back(offset_, nbytes_);
  } else {
    close(imported_fd_);
  }
}

ExportedMemory HostMemory::export_handle() {
  // A duplicate of an imported descriptor carries the lock of its exporter.
  const int own = file_ ? file_->export_stretch(offset_, nbytes_) : fcntl(imported_fd_, F_DUPFD_CLOEXEC, 0);
  TESSERA_CHECK_AS(DeviceError, own >= 0, "export: cannot duplicate the descriptor: ", reason());
  return {own, offset_, nbytes_};
}

std::byte* AddressSpace::reserve(std::size_t nbytes, std::size_t alignment) {
  const std::size_t unit = std::max({alignment, kGranularity, nbytes < kLargePage ? 0 : kLargePage});
  const std::size_t whole = nbytes + unit;
  void* raw = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TESSERA_CHECK_AS(OutOfMemory, whole > nbytes && raw != MAP_FAILED, "reserve: cannot reserve ", nbytes,
                   " contiguous addresses: ", reason());
  const auto start = reinterpret_cast<std::uintptr_t>(raw);
  const std::uintptr_t aligned = (start + unit - 1) / unit * unit;
  if (aligned > start) munmap(raw, aligned - start);
  auto* address = reinterpret_cast<std::byte*>(aligned);
  if (start + whole > aligned + nbytes) munmap(address + nbytes, start + whole - aligned - nbytes);
  return address;
}

void AddressSpace::release(std::byte* address, std::size_t nbytes) {
  TESSERA_CHECK_AS(DeviceError, munmap(address, nbytes) == 0, "release: ", static_cast<void*>(address), ": ", reason());
}

void AddressSpace::map(std::byte* address, HostMemory& memory, std::size_t nbytes) {
  TESSERA_CHECK(nbytes == memory.nbytes(), "map: nbytes must be the size of the memory, ", memory.nbytes(), ", got ",
                nbytes);
  std::unique_lock lock(mutex_);
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  void* got = mmap(address, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory.fd(),
                   static_cast<off_t>(memory.offset()));
  TESSERA_CHECK_AS(DeviceError, got != MAP_FAILED, "map: ", static_cast<void*>(address), ": ", reason());
  // A forked child must not share it, since both would allocate the same bytes. An access there is a fault.
  TESSERA_CHECK_AS(DeviceError, madvise(got, nbytes, MADV_DONTFORK) == 0, "map: ", static_cast<void*>(address),
                   " cannot be hidden from forked children: ", reason());
  mappings_[address] = {nbytes, memory.file(), memory.offset(), {{nullptr, Protection::kReadWrite}}};
  lock.unlock();
  const bool is_aligned = (reinterpret_cast<std::uintptr_t>(address) | memory.offset() | nbytes) % kLargePage == 0;
  if (is_aligned && memory.file() != nullptr && has_one_node()) use_large_pages(address, nbytes);
}

void AddressSpace::unmap(std::byte* address, std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  mappings_.erase(address);
  void* got = mmap(address, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  TESSERA_CHECK_AS(DeviceError, got != MAP_FAILED, "unmap: ", static_cast<void*>(address), ": ", reason());
}

void AddressSpace::set_rights(std::byte* address, std::size_t nbytes, const void* owner, Protection protection) {
  const std::lock_guard lock(mutex_);
  for (auto mapping = mappings_.lower_bound(address); mapping != mappings_.end() && mapping->first < address + nbytes;
       ++mapping) {
    auto& [start, held] = *mapping;
    auto rights = held.rights;
    rights[owner] = protection;
    Protection strongest = Protection::kNone;
    for (const auto& [who, right] : rights) strongest = std::max(strongest, right);
    TESSERA_CHECK_AS(DeviceError, mprotect(const_cast<std::byte*>(start), held.nbytes, flags_of(strongest)) == 0,
                     "protect: ", static_cast<const void*>(start), ": ", reason());
    held.rights = std::move(rights);
  }
}

std::optional<std::uint64_t> AddressSpace::find(const MemoryFile& file, const std::byte* address,
                                                std::size_t nbytes) const {
  const std::lock_guard lock(mutex_);
  auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin() || nbytes == 0) return std::nullopt;
  --mapping;
  const auto inside = static_cast<std::uint64_t>(address - mapping->first);
  const std::uint64_t offset = mapping->second.offset + inside;
  const std::byte* const end = address + nbytes;
  // Each mapping must continue the previous one, in addresses and in the file.
  const std::byte* reached = mapping->first;
  std::uint64_t expected = mapping->second.offset;
  for (; mapping != mappings_.end() && reached < end; ++mapping) {
    const auto& [start, held] = *mapping;
    if (held.file != &file || start != reached || held.offset != expected) return std::nullopt;
    reached = start + held.nbytes;
    expected = held.offset + held.nbytes;
  }
  if (reached < end) return std::nullopt;
  return offset;
}

}  // namespace tessera::device::host::detail

#include "tessera/base/probe/detail/record_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/run_directory.h"
#include "tessera/base/sync_directory.h"

namespace tessera::probe::detail {
namespace {

bool write_all(int fd, const std::byte* data, std::size_t nbytes, std::uint64_t offset) {
  while (nbytes > 0) {
    const ssize_t n = ::pwrite(fd, data, nbytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    nbytes -= static_cast<std::size_t>(n);
    offset += static_cast<std::uint64_t>(n);
  }
  return true;
}

bool is_zero(const std::byte* data, std::size_t nbytes) {
  return data[0] == std::byte{} && std::memcmp(data, data + 1, nbytes - 1) == 0;
}

// Rings that never wrapped are mostly zero: those pages stay holes. Reads through the descriptor, not the mapping,
// since others may be writing.
int copy_sparse(int from, int to, std::uint64_t nbytes) {
  if (::ftruncate(to, static_cast<off_t>(nbytes)) != 0) return errno;
  std::byte page[4096];
  for (std::uint64_t at = 0; at < nbytes;) {
    const ssize_t n = ::pread(from, page, sizeof page, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    const auto got = static_cast<std::size_t>(n);
    if (!is_zero(page, got) && !write_all(to, page, got, at)) return errno;
    at += got;
  }
  return 0;
}

}  // namespace

int copy_record(int from, std::uint64_t nbytes, const std::string& path) {
  static std::atomic<unsigned> count = 0;  // distinct names for two copies of one record in one process
  const std::string temporary = tessera::detail::concat(path, ".", ::getpid(), ".", count.fetch_add(1), ".part");
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  const int to = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (to < 0) return errno;
  int error = copy_sparse(from, to, nbytes);
  if (error == 0 && (::fchmod(to, run_file_mode(directory)) != 0 || ::fsync(to) != 0)) error = errno;
  if (::close(to) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return error;
  }
  return try_sync_directory(directory.string());
}

}  // namespace tessera::probe::detail

#include "tessera/train/data/detail/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tessera/base/error.h"

namespace tessera::train::detail {

MappedFile::MappedFile(const std::string& path) {
  // Non-blocking: opening a pipe without a writer would wait forever.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const int open_error = errno;
  TESSERA_CHECK_AS(IoError, descriptor >= 0, "'", path, "': ", std::generic_category().message(open_error));
  struct ::stat status = {};
  const bool is_regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const std::size_t nbytes = is_regular ? static_cast<std::size_t>(status.st_size) : 0;
  void* at = nbytes == 0 ? nullptr : ::mmap(nullptr, nbytes, PROT_READ, MAP_SHARED, descriptor, 0);
  const int map_error = errno;
  ::close(descriptor);
  TESSERA_CHECK_AS(IoError, is_regular, "'", path, "' is not a regular file");
  TESSERA_CHECK_AS(IoError, at != MAP_FAILED, "'", path, "': cannot map ", nbytes,
                   " bytes: ", std::generic_category().message(map_error));
  data_ = static_cast<const char*>(at);
  nbytes_ = nbytes;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), nbytes_);
}

}  // namespace tessera::train::detail

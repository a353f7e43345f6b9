#include "tessera/base/sync_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tessera/base/error.h"

namespace tessera {

int try_sync_directory(const std::string& path) {
  const int descriptor = ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = descriptor < 0 ? errno : 0;
  if (error == 0 && ::fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP) error = errno;
  if (descriptor >= 0) ::close(descriptor);
  return error;
}

void sync_directory(const std::string& path) {
  const int error = try_sync_directory(path);
  TESSERA_CHECK_AS(IoError, error == 0, "cannot sync directory '", path, "': ", std::generic_category().message(error));
}

}  // namespace tessera

#include "tessera/train/checkpoint/detail/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tessera/base/error.h"
#include "tessera/train/checkpoint/detail/hash.h"

namespace tessera::train::detail {

InputFile::InputFile(const std::filesystem::path& directory, const CheckpointIndex& index, int rank)
    : path_((directory / file_name(rank)).string()),
      expected_(index.files[static_cast<std::size_t>(rank)]),
      descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe would block
  const int error = errno;
  TESSERA_CHECK_AS(IoError, descriptor_ >= 0, path_, ": ", std::generic_category().message(error));
  struct ::stat status = {};
  const bool is_regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (is_regular && static_cast<std::uint64_t>(status.st_size) == expected_.nbytes) return;
  ::close(descriptor_);
  TESSERA_CHECK_AS(IoError, is_regular, path_, ": not a regular file");
  TESSERA_THROW(IoError, path_, ": must have ", expected_.nbytes, " bytes as in the index, got ", status.st_size,
                "; the file is truncated or belongs to another checkpoint");
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::span<std::byte> to, std::uint64_t offset) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    const int error = errno;
    if (count < 0 && error == EINTR) continue;
    TESSERA_CHECK_AS(IoError, count >= 0, path_, ": reading ", to.size(), " bytes at ", offset, ": ",
                     std::generic_category().message(error));
    TESSERA_CHECK_AS(IoError, count > 0, path_, ": truncated at byte ", offset);
    to = to.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void InputFile::check_header() const {
  std::string header(expected_.header_nbytes, '\0');
  read(std::as_writable_bytes(std::span(header)), 0);
  TESSERA_CHECK_AS(IoError, hash_of(header) == expected_.header_hash, path_,
                   ": the checksum of its header is wrong: the file is corrupt or belongs to another checkpoint");
}

}  // namespace tessera::train::detail

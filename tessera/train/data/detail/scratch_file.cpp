#include "tessera/train/data/detail/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::train::detail {
namespace {

constexpr std::size_t kChunkNbytes = std::size_t{1} << 20;

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

ScratchFile::ScratchFile(const std::filesystem::path& directory)
    : directory_(directory.empty() ? "." : directory.string()) {
  std::string name = directory_ + "/.tessera_scratch_XXXXXX";
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  const int error = errno;
  TESSERA_CHECK_AS(IoError, descriptor_ >= 0, "cannot write to directory '", directory_, "': ", reason(error));
  ::unlink(name.c_str());
}

ScratchFile::~ScratchFile() { ::close(descriptor_); }

void ScratchFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    const int error = errno;
    if (written < 0 && error == EINTR) continue;
    TESSERA_CHECK_AS(IoError, written >= 0, "cannot write to directory '", directory_, "': ", reason(error));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void ScratchFile::copy_to(std::ostream& stream) const {
  std::vector<char> chunk(kChunkNbytes);
  for (off_t at = 0;;) {
    const ssize_t count = ::pread(descriptor_, chunk.data(), chunk.size(), at);
    const int error = errno;
    if (count < 0 && error == EINTR) continue;
    TESSERA_CHECK_AS(IoError, count >= 0, "cannot read back from directory '", directory_, "': ", reason(error));
    if (count == 0) return;
    stream.write(chunk.data(), count);
    at += count;
  }
}

}  // namespace tessera::train::detail

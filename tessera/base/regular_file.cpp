#include "tessera/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{1} << 20;

std::string reason(int error) { return std::generic_category().message(error); }

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "a file of another kind";
}

}  // namespace

RegularFile::RegularFile(const std::string& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  const int open_error = errno;
  TESSERA_CHECK_AS(IoError, descriptor_ >= 0, "'", path, "': ", reason(open_error));
  struct ::stat status = {};
  const bool is_known = ::fstat(descriptor_, &status) == 0;
  const int stat_error = errno;
  if (is_known && S_ISREG(status.st_mode)) {
    nbytes_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  ::close(descriptor_);
  TESSERA_CHECK_AS(IoError, is_known, "'", path, "': ", reason(stat_error));
  TESSERA_THROW(IoError, "'", path, "': must be a regular file, got ", kind_of(status.st_mode));
}

RegularFile::~RegularFile() { ::close(descriptor_); }

std::string RegularFile::read(std::uint64_t offset, std::uint64_t count) const {
  const std::uint64_t left = nbytes_ > offset ? nbytes_ - offset : 0;
  std::string bytes(std::min(count, left), '\0');
  std::uint64_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    const int error = errno;
    if (got < 0 && error == EINTR) continue;
    TESSERA_CHECK_AS(IoError, got >= 0, "'", path_, "': cannot read at byte ", offset + done, ": ", reason(error));
    if (got == 0) break;  // truncated since it was opened
    done += static_cast<std::uint64_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

std::string read_regular_file(const std::string& path, std::uint64_t most) {
  const RegularFile file(path);
  TESSERA_CHECK_AS(IoError, file.nbytes() <= most, "'", path, "': must have at most ", most, " bytes, got ",
                   file.nbytes());
  return file.read(0, file.nbytes());
}

void each_line(const RegularFile& file, std::uint64_t longest, const std::function<void(const FileLine&)>& take) {
  std::string line;  // start of a line that spans chunks
  bool is_long = false;
  const auto add = [&](std::string_view text) {
    is_long = is_long || line.size() + text.size() > longest;
    if (is_long) {
      line.clear();
    } else {
      line += text;
    }
  };
  const auto end = [&](bool is_ended) {
    take({.text = line, .is_ended = is_ended, .is_long = is_long});
    line.clear();
    is_long = false;
  };
  for (std::uint64_t at = 0; at < file.nbytes();) {
    const std::string chunk = file.read(at, kChunk);
    if (chunk.empty()) break;
    at += chunk.size();
    std::string_view left = chunk;
    for (std::size_t stop = left.find('\n'); stop != std::string_view::npos; stop = left.find('\n')) {
      add(left.substr(0, stop));
      end(true);
      left.remove_prefix(stop + 1);
    }
    add(left);
  }
  if (!line.empty() || is_long) end(false);
}

}  // namespace tessera

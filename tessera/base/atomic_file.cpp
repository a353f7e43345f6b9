#include "tessera/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <streambuf>
#include <system_error>

#include "tessera/base/error.h"
#include "tessera/base/run_directory.h"
#include "tessera/base/sync_directory.h"

namespace tessera {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// Writes to a descriptor and keeps the first error, which a stream does not store.
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor) : descriptor_(descriptor) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
  }
  [[nodiscard]] int error() const { return error_; }

 protected:
  int sync() override {
    const bool written = write_all(pbase(), static_cast<std::size_t>(pptr() - pbase()));
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return written ? 0 : -1;
  }
  int_type overflow(int_type letter) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(letter, traits_type::eof())) sputc(traits_type::to_char_type(letter));
    return traits_type::not_eof(letter);
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    if (count <= epptr() - pptr()) {
      std::memcpy(pptr(), bytes, static_cast<std::size_t>(count));
      pbump(static_cast<int>(count));
      return count;
    }
    return sync() == 0 && write_all(bytes, static_cast<std::size_t>(count)) ? count : 0;
  }

 private:
  bool write_all(const char* bytes, std::size_t count) {
    while (count > 0 && error_ == 0) {
      const ssize_t written = ::write(descriptor_, bytes, count);
      if (written < 0) {
        if (errno != EINTR) error_ = errno;
        continue;
      }
      bytes += written;
      count -= static_cast<std::size_t>(written);
    }
    return error_ == 0;
  }

  int descriptor_;
  int error_ = 0;
  std::array<char, 1 << 16> buffer_;
};

// Returns the target of the rename. For a user path, a symbolic link stays and its target is replaced; in a run
// directory, the link itself is replaced.
std::string resolved(const std::string& path, FileKind kind) {
  std::error_code none;
  if (kind == FileKind::kRun || !std::filesystem::is_symlink(path, none)) return path;
  const auto target = std::filesystem::weakly_canonical(path, none);
  return none ? path : target.string();
}

std::string name_aside(const std::string& path) {
  static std::atomic<unsigned> count = 0;  // distinct names for two writers of one path in one process
  return detail::concat(path, ".", ::getpid(), ".", count.fetch_add(1), ".part");
}

int open_aside(const std::string& path, const std::string& aside, FileKind kind) {
  const ::mode_t mode = kind == FileKind::kRun ? 0600 : 0666;
  const int descriptor = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  const int error = errno;
  TESSERA_CHECK_AS(IoError, descriptor >= 0, "cannot write '", path, "': cannot open temporary file '", aside,
                   "': ", reason(error));
  return descriptor;
}

}  // namespace

struct AtomicFile::State {
  State(const std::string& to, FileKind kind)
      : path(resolved(to, kind)),
        aside(name_aside(path)),
        descriptor(open_aside(path, aside, kind)),
        buffer(descriptor),
        stream(&buffer) {}
  ~State() {
    if (descriptor >= 0) ::close(descriptor);
    if (!aside.empty()) ::unlink(aside.c_str());
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::string path;
  std::string aside;  // empty once renamed
  int descriptor;
  DescriptorBuffer buffer;
  std::ostream stream;
};

AtomicFile::AtomicFile(const std::string& path, FileKind kind) : state_(std::make_unique<State>(path, kind)) {
  if (kind == FileKind::kRun) {
    ::fchmod(state_->descriptor, run_file_mode(std::filesystem::path(path).parent_path()));
    return;
  }
  struct ::stat old = {};
  if (::stat(state_->path.c_str(), &old) == 0) ::fchmod(state_->descriptor, old.st_mode & 07777);
}

AtomicFile::~AtomicFile() = default;

std::ostream& AtomicFile::stream() { return state_->stream; }

void AtomicFile::commit() {
  State& file = *state_;
  TESSERA_CHECK(!file.aside.empty(), "file '", file.path, "' is already committed");
  file.stream.flush();
  TESSERA_CHECK_AS(IoError, file.buffer.error() == 0, "cannot write '", file.path, "': ", reason(file.buffer.error()));
  TESSERA_CHECK_AS(IoError, file.stream.good(), "cannot write '", file.path, "': the stream is in a failed state");
  const int synced = ::fsync(file.descriptor);
  const int sync_error = errno;
  TESSERA_CHECK_AS(IoError, synced == 0, "cannot sync '", file.path, "': ", reason(sync_error));
  const int closed = ::close(std::exchange(file.descriptor, -1));
  const int close_error = errno;
  TESSERA_CHECK_AS(IoError, closed == 0, "cannot close '", file.path, "': ", reason(close_error));
  const int renamed = ::rename(file.aside.c_str(), file.path.c_str());
  const int rename_error = errno;
  TESSERA_CHECK_AS(IoError, renamed == 0, "cannot rename the temporary file to '", file.path,
                   "': ", reason(rename_error));
  file.aside.clear();
  sync_directory(std::filesystem::path(file.path).parent_path().string());
}

void write_file(const std::string& path, std::string_view bytes, FileKind kind) {
  AtomicFile file(path, kind);
  file.stream().write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.commit();
}

}  // namespace tessera

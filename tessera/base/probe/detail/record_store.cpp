#include "tessera/base/probe/detail/record_store.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/detail/record_copy.h"
#include "tessera/base/probe/orphans.h"
#include "tessera/base/probe/process_identity.h"
#include "tessera/base/run_directory.h"

namespace tessera::probe::detail {
namespace {

constexpr char kDefaultDirectory[] = "/dev/shm";

using tessera::detail::concat;

// Returns a number that is unique among all files of this process, including those of ended ranks.
std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> serial{0};
  return serial.fetch_add(1);
}

std::string file_name(const ProcessIdentity& self, int rank, std::uint64_t serial) {
  return concat("tessera-n", self.pid_namespace, "-p", self.pid, "-t", self.start, "-r", rank, "-", serial, ".record");
}

// Returns the reason why the directory is unsuitable; empty if it is suitable.
std::string directory_problem(const std::string& directory, bool must_be_tmpfs) {
  struct statfs info {};
  if (statfs(directory.c_str(), &info) != 0) return concat(directory, ": ", std::strerror(errno));
  const auto type = static_cast<unsigned long>(info.f_type);
  if (must_be_tmpfs && type != TMPFS_MAGIC && type != RAMFS_MAGIC) {
    return concat(directory, " is not a tmpfs; specify one with TESSERA_RECORD_DIR=PATH");
  }
  return {};
}

struct Attempt {
  int error = 0;        // of the last attempt
  int first_error = 0;  // of the full size
  std::uint64_t nbytes = 0;
};

// Halves the size until the file fits, if the policy allows it.
Attempt allocate_what_fits(int fd, const RecordOptions& options, const Allocate& allocate) {
  Attempt attempt{0, 0, options.nbytes & ~std::uint64_t{4095}};
  while (true) {
    attempt.error = allocate(fd, attempt.nbytes);
    if (attempt.first_error == 0) attempt.first_error = attempt.error;
    const bool may_shrink = options.on_no_space == NoSpace::kSmaller && attempt.nbytes / 2 >= RecordOptions::kMinBytes;
    const bool no_room =
        attempt.error == ENOSPC || attempt.error == EFBIG || attempt.error == EDQUOT || attempt.error == ENOMEM;
    if (attempt.error == 0 || !no_room || !may_shrink) return attempt;
    attempt.nbytes = attempt.nbytes / 2 & ~std::uint64_t{4095};
    if (ftruncate(fd, 0) != 0) return attempt;  // releases the space of the failed attempt
  }
}

}  // namespace

int allocate_file(int fd, std::uint64_t nbytes) {
  // The kernel would send SIGXFSZ.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && nbytes > limit.rlim_cur) return EFBIG;
  return posix_fallocate(fd, 0, static_cast<off_t>(nbytes));
}

std::unique_ptr<RecordStore> RecordStore::create(const RecordOptions& options, const RankPlace& place,
                                                 std::string& status, const Allocate& allocate) {
  const auto give_up = [&](const std::string& why) -> std::unique_ptr<RecordStore> {
    if (options.on_no_space == NoSpace::kFail) TESSERA_THROW(IoError, "record file: ", why);
    status = concat("recording is off: ", why);
    return nullptr;
  };
  TESSERA_CHECK(options.nbytes >= RecordOptions::kMinBytes && options.nbytes <= RecordOptions::kMaxBytes,
                "record file: size must be in [256 KiB, 64 GiB], got ", options.nbytes, " bytes");
  const std::string directory = options.directory.empty() ? kDefaultDirectory : options.directory;
  if (const auto problem = directory_problem(directory, options.directory.empty()); !problem.empty()) {
    return give_up(problem);
  }
  std::unique_ptr<RecordStore> store(new RecordStore);
  store->path_ = directory + "/" + file_name(this_process(), place.rank.value(), next_serial());
  store->fd_ = open(store->path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (store->fd_ < 0) return give_up(concat(store->path_, ": ", std::strerror(errno)));

  const Attempt got = allocate_what_fits(store->fd_, options, allocate);
  if (got.error != 0) {
    store->remove();
    return give_up(concat(directory, " has no room for ", got.nbytes, " bytes: ", std::strerror(got.error)));
  }
  void* base = mmap(nullptr, got.nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, store->fd_, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    store->remove();
    return give_up(concat("cannot map ", got.nbytes, " bytes of ", store->path_, ": ", std::strerror(error)));
  }
  store->base_ = static_cast<std::byte*>(base);
  store->nbytes_ = got.nbytes;
  status = concat("recording ", got.nbytes / 1024, " KiB in ", store->path_);
  if (got.nbytes < (options.nbytes & ~std::uint64_t{4095})) {
    status += concat(" (no room for ", options.nbytes / 1024, " KiB: ", std::strerror(got.first_error), ")");
  }
  const FilePlan plan = plan_file(got.nbytes);
  FileHeader& header = store->header();
  header.file_bytes = got.nbytes;
  header.section_count = plan.section_count;
  std::copy(std::begin(plan.sections), std::end(plan.sections), std::begin(header.sections));
  return store;
}

RecordStore::~RecordStore() {
  if (base_ != nullptr) munmap(base_, nbytes_);
  if (fd_ >= 0) ::close(fd_);
}

std::byte* RecordStore::section(SectionType type, std::uint32_t number, std::uint64_t* nbytes) const {
  for (const Section& section : header().sections) {
    if (section.type == type && section.number == number) {
      *nbytes = section.nbytes;
      return base_ + section.offset;
    }
  }
  *nbytes = 0;
  return nullptr;
}

void RecordStore::publish() {
  std::uint64_t magic = 0;
  std::memcpy(&magic, kMagic, sizeof magic);
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(base_)).store(magic, std::memory_order_release);
}

// The header names the link before it exists: a record with a link always names it (orphans.h).
bool RecordStore::link_from(const std::string& run_dir, std::string& status) {
  const auto give_up = [&](const std::string& why) {
    status += concat("; not linked from the run directory ", run_dir, ": ", why);
    return false;
  };
  try {
    // If the launcher's directory no longer exists, the run must fail instead of writing to another.
    const bool is_of_launcher = !env::run_dir_lock().empty() && run_dir == env::run_dir();
    if (!is_of_launcher) make_run_directory(run_dir);
  } catch (const IoError& error) {
    return give_up(error.message());
  }
  for (const std::string& problem : adopt_links(run_dir).problems) status += "; " + problem;
  const std::string own_directory = std::filesystem::path(path_).parent_path().string();
  for (const std::string& problem : adopt_orphans(own_directory).problems) status += "; " + problem;
  FileHeader& own = header();
  const std::string name = concat("rank-", own.rank, ".", static_cast<const char*>(own.hostname), ".", own.pid, ".",
                                  path_.substr(path_.rfind('-') + 1));
  const std::string link = run_dir + "/" + name;
  std::error_code error;
  const std::string absolute_link = std::filesystem::absolute(link, error).string();
  if (error || absolute_link.size() >= kRunPathBytes) return give_up("the path exceeds 2047 bytes");
  put_text(own.run_path, absolute_link);
  const std::string target = std::filesystem::absolute(path_, error).string();
  ::unlink(link.c_str());  // from an ended process with the same pid
  if (symlink(target.c_str(), link.c_str()) != 0) {
    const int reason = errno;
    put_text(own.run_path, "");
    return give_up(std::strerror(reason));
  }
  run_path_ = link;
  ::stat(run_dir.c_str(), &run_dir_);
  return true;
}

void RecordStore::copy_to_run_dir() {
  const std::string run_dir = std::filesystem::path(run_path_).parent_path().string();
  struct ::stat now = {};
  const bool is_there = ::stat(run_dir.c_str(), &now) == 0;
  TESSERA_CHECK_AS(IoError, !is_there || (now.st_dev == run_dir_.st_dev && now.st_ino == run_dir_.st_ino),
                   "record file: run directory '", run_dir, "' was replaced; the record remains in ", path_);
  const int error = copy_record(fd_, nbytes_, run_path_);
  TESSERA_CHECK_AS(IoError, error == 0, "record file: cannot copy ", path_, " to ", run_path_, ": ",
                   std::strerror(error), "; the original remains");
}

void RecordStore::remove() { ::unlink(path_.c_str()); }

}  // namespace tessera::probe::detail

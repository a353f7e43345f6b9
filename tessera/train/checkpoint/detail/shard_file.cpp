#include "tessera/train/checkpoint/detail/shard_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/run_directory.h"
#include "tessera/tensor/safetensors_header.h"

namespace tessera::train::detail {
namespace {

// Elements begin at a page, so that page-aligned writes stay page-aligned in the file.
constexpr std::uint64_t kPage = 4096;
// Hashed and then written while still in the cache.
constexpr std::uint64_t kChunk = std::uint64_t{1} << 20;

// Appends spaces to the JSON, which readers skip, so that the elements begin at a page.
std::string padded(std::string header) {
  const std::uint64_t nbytes = (header.size() + kPage - 1) / kPage * kPage;
  header.resize(nbytes, ' ');
  const std::uint64_t length = nbytes - tensor::detail::kLengthNbytes;
  for (std::size_t i = 0; i < tensor::detail::kLengthNbytes; ++i) {
    header[i] = static_cast<char>(static_cast<unsigned char>(length >> (8 * i)));
  }
  return header;
}

// Hashes the shards of a byte stream that arrives in chunks.
class PieceHashes {
 public:
  explicit PieceHashes(const std::vector<FileShard>& pieces) : pieces_(pieces) { hashes.reserve(pieces.size()); }
  void add(std::span<const std::byte> bytes, std::uint64_t offset) {
    while (!bytes.empty() && hashes.size() < pieces_.size()) {
      const FileShard& piece = pieces_[hashes.size()];
      const std::uint64_t end = piece.offset + piece.nbytes;
      const std::size_t count = std::min<std::uint64_t>(bytes.size(), end - offset);
      hasher_.add(bytes.first(count));
      bytes = bytes.subspan(count);
      offset += count;
      if (offset < end) continue;
      hashes.push_back(hasher_.hex());
      hasher_.reset();
    }
  }
  std::vector<std::string> hashes;

 private:
  const std::vector<FileShard>& pieces_;
  Hasher hasher_;
};

}  // namespace

ShardPlan plan_shard(const std::vector<SavedTensor>& tensors, const Ownership& ownership, std::int64_t step, int rank) {
  ShardPlan plan;
  plan.pieces = ownership.pieces_of(Rank(rank));
  const std::vector<std::string> hashes(plan.pieces.size(), std::string(kHashLetters, '0'));
  plan.header_nbytes = shard_header(tensors, plan, step, rank, hashes).size();
  plan.nbytes = plan.header_nbytes + (plan.pieces.empty() ? 0 : plan.pieces.back().offset + plan.pieces.back().nbytes);
  return plan;
}

std::string shard_header(const std::vector<SavedTensor>& tensors, const ShardPlan& plan, std::int64_t step, int rank,
                         const std::vector<std::string>& hashes) {
  std::vector<tensor::SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata = {
      {"format", "tessera checkpoint"}, {"step", std::to_string(step)}, {"rank", std::to_string(rank)}};
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    const FileShard& piece = plan.pieces[i];
    const SavedTensor& saved = tensors[piece.tensor];
    const OwnedShard part = part_of(saved.layout, saved.shape, Rank(rank));
    entries.push_back({saved.name, saved.dtype, part.shape, piece.offset, piece.offset + piece.nbytes});
    metadata["box of " + saved.name] = part.text() + " of " + to_string(saved.shape);
    metadata["xxh3 of " + saved.name] = hashes[i];
  }
  return padded(tensor::detail::make_safetensors_header(entries, metadata, file_name(rank)));
}

std::string way_out(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT: return "; free space there, or keep fewer checkpoints";
    case EFBIG: return "; raise the limit on file sizes (ulimit -f), or shard the state over more ranks";
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOTDIR:
    case EEXIST: return "; make the directory writable, or use another";
    case EIO: return "; the disk or its connection fails";
    default: return "";
  }
}

OutputFile::OutputFile(std::string path, bool is_new) : path_(std::move(path)) {
  const ::mode_t mode = run_file_mode(std::filesystem::path(path_).parent_path());
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (is_new ? O_CREAT | O_EXCL : 0), mode);
  check(descriptor_ >= 0, "opening", errno);
  if (is_new) ::fchmod(descriptor_, mode);  // overrides the umask
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::check(bool holds, const char* doing, int error) const {
  TESSERA_CHECK_AS(IoError, holds, doing, " '", path_, "': ", std::generic_category().message(error), way_out(error));
}

void OutputFile::reserve(std::uint64_t nbytes) {
  const bool done = ::fallocate(descriptor_, 0, 0, static_cast<off_t>(nbytes)) == 0;
  // Not every file system supports it; then the writes detect a full disk.
  if (!done && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) check(false, "reserving room for", errno);
}

void OutputFile::write(std::span<const std::byte> bytes, std::uint64_t offset) {
  const WriteFaults* faults = current_rank()->find_part<WriteFaults>();
  const std::uint64_t begin = offset;
  while (!bytes.empty()) {
    const int fault = faults != nullptr && faults->before_write ? faults->before_write(path_, written_) : 0;
    check(fault == 0, "writing", fault);
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    check(count > 0, "writing", count < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
    written_ += static_cast<std::uint64_t>(count);
  }
  // The disk works while the next bytes are hashed; if unsupported, the sync does all of it.
  (void)::sync_file_range(descriptor_, static_cast<off_t>(begin), static_cast<off_t>(offset - begin),
                          SYNC_FILE_RANGE_WRITE);
}

void OutputFile::sync() {
  const bool is_synced = ::fsync(descriptor_) == 0;
  check(is_synced, "syncing", errno);
  const bool is_closed = ::close(std::exchange(descriptor_, -1)) == 0;
  check(is_closed, "closing", errno);
}

SavedFile write_shard(const std::string& path, const std::vector<SavedTensor>& tensors, const ShardPlan& plan,
                      std::int64_t step, int rank, std::span<const std::byte> elements) {
  OutputFile file(path);
  file.reserve(plan.nbytes);
  PieceHashes pieces(plan.pieces);
  for (std::uint64_t at = 0; at < elements.size(); at += kChunk) {
    const auto chunk = elements.subspan(at, std::min<std::uint64_t>(kChunk, elements.size() - at));
    pieces.add(chunk, at);
    file.write(chunk, plan.header_nbytes + at);
  }
  const std::string header = shard_header(tensors, plan, step, rank, pieces.hashes);
  file.write(std::as_bytes(std::span(header)), 0);
  file.sync();
  return {plan.nbytes, plan.header_nbytes, hash_of(header)};
}

}  // namespace tessera::train::detail

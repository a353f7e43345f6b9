#include "tessera/train/checkpoint/detail/new_checkpoint.h"

#include <algorithm>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/train/checkpoint/detail/directory.h"

namespace tessera::train::detail {
namespace {

// Assembles the shard of a global tensor in its file. Short runs are joined in a buffer.
class PartWriter {
 public:
  PartWriter(const std::string& path, std::uint64_t offset) : file_(path, false), offset_(offset) {}

  // Returns the checksum of the written bytes.
  std::string write(const OwnedShard& part, const Shape& whole, std::size_t item, std::span<const std::byte> elements) {
    steps_.assign(whole.size() + 1, static_cast<std::int64_t>(item));
    for (std::size_t d = whole.size(); d-- > 0;) steps_[d] = steps_[d + 1] * whole[d];
    walk(part, 0, elements.data());
    return finish();
  }
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (buffer_.empty() && bytes.size() >= kChunkNbytes) {
        put(bytes.first(kChunkNbytes));
        bytes = bytes.subspan(kChunkNbytes);
        continue;
      }
      const std::size_t count = std::min(bytes.size(), kChunkNbytes - buffer_.size());
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      if (buffer_.size() == kChunkNbytes) flush();
    }
  }
  std::string finish() {
    flush();
    return hasher_.hex();
  }

 private:
  void walk(const OwnedShard& part, std::size_t d, const std::byte* from) {
    if (d == part.dims.size()) return add({from, static_cast<std::size_t>(steps_[d])});
    for (const IndexRun& run : part.dims[d]) {
      const std::byte* begin = from + run.global * steps_[d + 1];
      if (is_whole_below(part, d + 1)) {
        add({begin, static_cast<std::size_t>(run.size * steps_[d + 1])});
        continue;
      }
      for (std::int64_t i = 0; i < run.size; ++i) walk(part, d + 1, begin + i * steps_[d + 1]);
    }
  }
  // Returns true if the shard has all indices of the dimensions from d on, so that its runs of dimension d - 1 are
  // dense.
  [[nodiscard]] bool is_whole_below(const OwnedShard& part, std::size_t d) const {
    for (; d < part.dims.size(); ++d) {
      if (part.dims[d].size() != 1 || part.dims[d].front().size * steps_[d + 1] != steps_[d]) return false;
    }
    return true;
  }
  void put(std::span<const std::byte> bytes) {
    hasher_.add(bytes);
    file_.write(bytes, offset_);
    offset_ += bytes.size();
  }
  void flush() {
    put(buffer_);
    buffer_.clear();
  }

  OutputFile file_;
  std::uint64_t offset_;
  std::vector<std::byte> buffer_;
  Hasher hasher_;
  std::vector<std::int64_t> steps_;  // bytes of a step of the previous dimension
};

}  // namespace

NewCheckpoint::NewCheckpoint(const CheckpointIndex& index, std::filesystem::path aside)
    : index_(index), aside_(std::move(aside)), ownership_(index.tensors, index.world_size) {
  writers_.resize(index.tensors.size());
  for (int rank = 0; rank < index.world_size; ++rank) {
    plans_.push_back(plan_shard(index.tensors, ownership_, index.step, rank));
    OutputFile(path_of(rank)).reserve(plans_.back().nbytes);
    hashes_.emplace_back(plans_.back().pieces.size());
    for (std::size_t i = 0; i < plans_.back().pieces.size(); ++i) {
      writers_[plans_.back().pieces[i].tensor].emplace_back(rank, i);
    }
  }
}

void NewCheckpoint::write(std::size_t tensor, std::span<const std::byte> elements) {
  const SavedTensor& saved = index_.tensors[tensor];
  for (const auto& [rank, i] : writers_[tensor]) {
    const auto r = static_cast<std::size_t>(rank);
    PartWriter writer(path_of(rank), plans_[r].header_nbytes + plans_[r].pieces[i].offset);
    hashes_[r][i] =
        writer.write(part_of(saved.layout, saved.shape, Rank(rank)), saved.shape, itemsize(saved.dtype), elements);
  }
}

void NewCheckpoint::write_chunks(std::size_t tensor, const Chunks& chunk) {
  for (const auto& [rank, i] : writers_[tensor]) {
    const FileShard& piece = plans_.front().pieces[i];
    PartWriter writer(path_of(rank), plans_.front().header_nbytes + piece.offset);
    for (std::uint64_t at = 0; at < piece.nbytes; at += kChunkNbytes)
      writer.add(chunk(at, std::min<std::uint64_t>(kChunkNbytes, piece.nbytes - at)));
    hashes_.front()[i] = writer.finish();
  }
}

std::vector<SavedFile> NewCheckpoint::finish() {
  std::vector<SavedFile> files;
  for (int rank = 0; rank < index_.world_size; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const std::string header = shard_header(index_.tensors, plans_[r], index_.step, rank, hashes_[r]);
    OutputFile file(path_of(rank), false);
    file.write(std::as_bytes(std::span(header)), 0);
    file.sync();
    files.push_back({plans_[r].nbytes, plans_[r].header_nbytes, hash_of(header)});
  }
  return files;
}

std::string NewCheckpoint::path_of(int rank) const { return (aside_ / file_name(rank)).string(); }

CheckpointInfo write_new_checkpoint(const std::string& what, const std::filesystem::path& directory,
                                    CheckpointIndex index, const std::function<void(NewCheckpoint&)>& fill) {
  const std::filesystem::path place = directory / step_name(index.step);
  TESSERA_CHECK(!std::filesystem::exists(std::filesystem::symlink_status(place)), what, ": '", place.string(),
                "' already exists; use another --out, or remove it");
  const std::filesystem::path aside = partial_of(directory, index.step);
  TESSERA_CHECK(!std::filesystem::exists(std::filesystem::symlink_status(aside)), what, ": '", aside.string(),
                "' is being written, or is a leftover of a dead writer; if so, remove it");
  make_directory(directory);
  make_partial(directory, index.step);
  try {
    NewCheckpoint made(index, aside);
    fill(made);
    index.files = made.finish();
    write_file((aside / kIndexName).string(), write_index(index), FileKind::kRun);
    put_in_place(directory, index.step);
  } catch (...) {
    std::error_code none;
    std::filesystem::remove_all(aside, none);
    throw;
  }
  return info_of(index, place);
}

}  // namespace tessera::train::detail

#include "tessera/train/checkpoint/reshard.h"

#include <algorithm>
#include <ctime>
#include <numeric>
#include <optional>
#include <span>

#include "tessera/base/atomic_file.h"
#include "tessera/base/checked.h"
#include "tessera/base/error.h"
#include "tessera/train/checkpoint/detail/directory.h"
#include "tessera/train/checkpoint/detail/good_checkpoint.h"
#include "tessera/train/checkpoint/detail/shard_file.h"
#include "tessera/train/checkpoint/detail/whole_tensors.h"

namespace tessera::train {
namespace {

using detail::CheckpointIndex;
using detail::IndexRun;
using detail::OwnedShard;
using detail::SavedTensor;
using layout::Layout;
using layout::Mesh;

constexpr std::size_t kChunk = std::size_t{1} << 20;

// Returns the axis of the same name, if it exists.
std::optional<int> axis_of(const Mesh& mesh, const std::string& name) {
  for (int i = 0; i < mesh.ndim(); ++i) {
    if (mesh.axis(i).name == name) return i;
  }
  return {};
}

Layout layout_on(const Mesh& mesh, const Layout& old, const std::string& name) {
  layout::LayoutParts parts;
  parts.dims.resize(static_cast<std::size_t>(old.ndim()));
  for (int d = 0; d < old.ndim(); ++d) {
    for (const layout::Sharding& sharding : old.shardings(d)) {
      const layout::Axis& axis = old.mesh().axis(sharding.by.axis);
      TESSERA_CHECK_AS(NotSupported, sharding.by.size == axis.size, "reshard: tensor '", name,
                       "': only complete axes may shard, got ", old.text(), ", where a sub-axis of '", axis.name,
                       "' shards");
      const auto at = axis_of(mesh, axis.name);
      if (!at) continue;
      parts.dims[static_cast<std::size_t>(d)].shardings.push_back({{*at, 1, mesh.axis(*at).size}, sharding.blocks});
    }
  }
  return Layout::create(mesh, std::move(parts));
}

// Each rank is a file: with more ranks than elements, some files would be empty.
void check_ranks(const CheckpointIndex& index, const Mesh& mesh) {
  std::uint64_t elements = 0;
  for (const SavedTensor& tensor : index.tensors) {
    elements = checked_add(elements, static_cast<std::uint64_t>(tensor.shape.numel()), "elements of a checkpoint");
  }
  const auto ranks = static_cast<std::uint64_t>(mesh.size());
  TESSERA_CHECK(ranks <= std::max<std::uint64_t>(elements, 1) && mesh.size() <= detail::kMaxRanks, "reshard: mesh ",
                mesh.text(), " must have at most one rank per element (", elements, " elements) and at most ",
                detail::kMaxRanks, " ranks, got ", ranks);
}

// Assembles the shard of a global tensor in its file, one buffer at a time.
class PartWriter {
 public:
  PartWriter(const std::string& path, std::uint64_t offset, std::vector<std::byte>& buffer)
      : file_(path, false), offset_(offset), buffer_(buffer) {
    buffer_.clear();
  }

  // Returns the checksum of the written bytes.
  std::string write(const OwnedShard& part, const Shape& whole, std::size_t item, std::span<const std::byte> elements) {
    steps_.assign(whole.size() + 1, static_cast<std::int64_t>(item));
    for (std::size_t d = whole.size(); d-- > 0;) steps_[d] = steps_[d + 1] * whole[d];
    walk(part, 0, elements.data());
    flush();
    return hasher_.hex();
  }

 private:
  void walk(const OwnedShard& part, std::size_t d, const std::byte* from) {
    if (d == part.dims.size()) return add({from, static_cast<std::size_t>(steps_[d])});
    for (const IndexRun& run : part.dims[d]) {
      const std::byte* begin = from + run.global * steps_[d + 1];
      if (d + 1 == part.dims.size()) {
        add({begin, static_cast<std::size_t>(run.size * steps_[d + 1])});
        continue;
      }
      for (std::int64_t i = 0; i < run.size; ++i) walk(part, d + 1, begin + i * steps_[d + 1]);
    }
  }
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kChunk - buffer_.size());
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      if (buffer_.size() == kChunk) flush();
    }
  }
  void flush() {
    hasher_.add(buffer_);
    file_.write(buffer_, offset_);
    offset_ += buffer_.size();
    buffer_.clear();
  }

  detail::OutputFile file_;
  std::uint64_t offset_;
  std::vector<std::byte>& buffer_;
  detail::Hasher hasher_;
  std::vector<std::int64_t> steps_;  // bytes of a step of the previous dimension
};

// The files of a checkpoint that is written tensor by tensor.
class NewCheckpoint {
 public:
  NewCheckpoint(const CheckpointIndex& index, std::filesystem::path aside)
      : index_(index), aside_(std::move(aside)), ownership_(index.tensors, index.world_size) {
    writers_.resize(index.tensors.size());
    for (int rank = 0; rank < index.world_size; ++rank) {
      plans_.push_back(detail::plan_shard(index.tensors, ownership_, index.step, rank));
      detail::OutputFile(path_of(rank)).reserve(plans_.back().nbytes);
      hashes_.emplace_back(plans_.back().pieces.size());
      for (std::size_t i = 0; i < plans_.back().pieces.size(); ++i) {
        writers_[plans_.back().pieces[i].tensor].emplace_back(rank, i);
      }
    }
  }

  void write(std::size_t tensor, std::span<const std::byte> elements) {
    const SavedTensor& saved = index_.tensors[tensor];
    for (const auto& [rank, i] : writers_[tensor]) {
      const auto r = static_cast<std::size_t>(rank);
      PartWriter writer(path_of(rank), plans_[r].header_nbytes + plans_[r].pieces[i].offset, buffer_);
      hashes_[r][i] = writer.write(detail::part_of(saved.layout, saved.shape, Rank(rank)), saved.shape,
                                   itemsize(saved.dtype), elements);
    }
  }

  // Writes headers and syncs everything.
  std::vector<detail::SavedFile> finish() {
    std::vector<detail::SavedFile> files;
    for (int rank = 0; rank < index_.world_size; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const std::string header = detail::shard_header(index_.tensors, plans_[r], index_.step, rank, hashes_[r]);
      detail::OutputFile file(path_of(rank), false);
      file.write(std::as_bytes(std::span(header)), 0);
      file.sync();
      files.push_back({plans_[r].nbytes, plans_[r].header_nbytes, detail::hash_of(header)});
    }
    return files;
  }

 private:
  [[nodiscard]] std::string path_of(int rank) const { return (aside_ / detail::file_name(rank)).string(); }

  const CheckpointIndex& index_;
  std::filesystem::path aside_;
  detail::Ownership ownership_;
  std::vector<detail::ShardPlan> plans_;                           // by rank
  std::vector<std::vector<std::string>> hashes_;                   // by rank, then shard
  std::vector<std::vector<std::pair<int, std::size_t>>> writers_;  // by tensor: rank and shard
  std::vector<std::byte> buffer_;
};

}  // namespace

CheckpointInfo reshard_checkpoint(const CheckpointInfo& from, const Mesh& mesh,
                                  const std::filesystem::path& directory) {
  // The output gets new checksums, which would hide corruption.
  detail::WholeTensors tensors(detail::good_checkpoint(from.path));
  TESSERA_CHECK(mesh.ranks().first == 0 && mesh == Mesh::parse(mesh.text()), "reshard: mesh ", mesh.text(),
                " must begin at rank 0");
  CheckpointIndex index = tensors.index();
  check_ranks(index, mesh);
  index.world_size = static_cast<int>(mesh.size());
  index.written_at_seconds = std::time(nullptr);
  for (SavedTensor& tensor : index.tensors) {
    if (tensor.layout) tensor.layout = layout_on(mesh, tensor.layout, tensor.name);
  }
  detail::check_tensors(index.tensors, index.world_size);
  const std::filesystem::path place = directory / detail::step_name(index.step);
  TESSERA_CHECK(!std::filesystem::exists(place), "reshard: '", place.string(),
                "' already exists; use another --out, or remove it");
  const std::filesystem::path aside = detail::partial_of(directory, index.step);
  TESSERA_CHECK(!std::filesystem::exists(aside), "reshard: '", aside.string(),
                "' is being written, or is a leftover of a dead writer; if so, remove it");
  detail::make_directory(directory);
  detail::make_partial(directory, index.step);
  try {
    NewCheckpoint made(index, aside);
    for (std::size_t t = 0; t < index.tensors.size(); ++t) made.write(t, tensors.read(t));
    index.files = made.finish();
    write_file((aside / detail::kIndexName).string(), detail::write_index(index), FileKind::kRun);
    detail::put_in_place(directory, index.step);
  } catch (...) {
    std::error_code none;
    std::filesystem::remove_all(aside, none);
    throw;
  }
  return detail::info_of(index, place);
}

Mesh mesh_with_ranks(const CheckpointInfo& from, int ranks) {
  TESSERA_CHECK(ranks >= 1, "reshard: ranks must be at least 1, got ", ranks);
  if (from.mesh.empty()) return Mesh::create({{.name = "fsdp", .size = ranks}});
  TESSERA_CHECK(from.mesh.find(';') == std::string::npos, "reshard: tensors must share one mesh, got ", from.mesh,
                "; use --mesh");
  const Mesh old = Mesh::parse(from.mesh);
  if (old.ndim() == 0) return Mesh::create({{.name = "fsdp", .size = ranks}});
  const int free = axis_of(old, "fsdp").value_or(0);
  std::vector<layout::AxisSpec> axes;
  for (const layout::Axis& axis : old.axes()) axes.push_back({axis.name, axis.size, axis.link, axis.options});
  std::int64_t left = ranks;
  for (int i = old.ndim(); i-- > 0;) {
    if (i == free) continue;
    std::int64_t& size = axes[static_cast<std::size_t>(i)].size;
    size = std::gcd(size, left);
    left /= size;
  }
  axes[static_cast<std::size_t>(free)].size = left;
  return Mesh::create(std::move(axes));
}

}  // namespace tessera::train

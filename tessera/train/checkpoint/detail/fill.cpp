#include "tessera/train/checkpoint/detail/fill.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "tessera/train/checkpoint/detail/input_file.h"

namespace tessera::train::detail {
namespace {

// Rows of at least this many bytes are read directly to their destination.
constexpr std::uint64_t kDirect = std::uint64_t{256} << 10;
// Shorter rows are read together, with small gaps between them.
constexpr std::uint64_t kWindow = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxBetween = std::uint64_t{16} << 10;

// Reads rows in ascending order.
class RowReader {
 public:
  RowReader(const InputFile& file, std::vector<std::byte>& buffer) : file_(file), buffer_(buffer) {}

  // `ahead`: bytes from `offset` on that may be read together, because they contain more rows.
  void read(std::byte* to, std::uint64_t offset, std::uint64_t nbytes, std::uint64_t ahead) {
    if (nbytes >= kDirect) return file_.read({to, nbytes}, offset);
    if (offset < begin_ || offset + nbytes > end_) {
      const std::uint64_t count = std::max(nbytes, std::min(ahead, kWindow));
      buffer_.resize(std::max<std::size_t>(buffer_.size(), count));
      file_.read(std::span(buffer_).first(count), offset);
      begin_ = offset;
      end_ = offset + count;
    }
    std::memcpy(to, buffer_.data() + (offset - begin_), nbytes);
  }

 private:
  const InputFile& file_;
  std::vector<std::byte>& buffer_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

// One region: rows of the shard of a file go to rows of the target.
class RegionFill {
 public:
  RegionFill(const std::vector<const DimSource*>& sources, const Shape& filled, const ShardTarget& target,
             std::uint64_t offset, RowReader& rows)
      : sources_(sources), target_(target), offset_(offset), rows_(rows) {
    const std::size_t ndim = sources.size();
    from_steps_.assign(ndim + 1, 1);
    to_steps_.assign(ndim + 1, 1);
    for (std::size_t d = ndim; d-- > 0;) {
      from_steps_[d] = from_steps_[d + 1] * sources[d]->size;
      to_steps_[d] = to_steps_[d + 1] * filled[d];
    }
    // Dimensions that are complete on both sides are merged into one row with the dimension before.
    inner_ = ndim;
    while (inner_ > 0 && is_whole(inner_ - 1, filled)) --inner_;
    if (inner_ > 0) --inner_;
    part_end_ = offset + static_cast<std::uint64_t>(from_steps_[0]) * target.item;
  }

  void run() { walk(0, 0, 0); }

 private:
  [[nodiscard]] bool is_whole(std::size_t d, const Shape& filled) const {
    const std::vector<Stretch>& all = sources_[d]->stretches;
    return all.size() == 1 && all[0].size == sources_[d]->size && all[0].size == filled[d];
  }

  // Rows of dimension `inner_` and all later ones are contiguous on both sides.
  void walk(std::size_t d, std::int64_t from, std::int64_t to) {
    if (d == sources_.size()) return row(from, to, 1, d);
    for (const Stretch& stretch : sources_[d]->stretches) {
      if (d == inner_) {
        row(from + stretch.from * from_steps_[d + 1], to + stretch.to * to_steps_[d + 1],
            stretch.size * from_steps_[d + 1], d);
        continue;
      }
      for (std::int64_t i = 0; i < stretch.size; ++i) {
        walk(d + 1, from + (stretch.from + i) * from_steps_[d + 1], to + (stretch.to + i) * to_steps_[d + 1]);
      }
    }
  }

  void row(std::int64_t from, std::int64_t to, std::int64_t numel, std::size_t d) {
    const std::uint64_t nbytes = static_cast<std::uint64_t>(numel) * target_.item;
    const std::uint64_t offset = offset_ + static_cast<std::uint64_t>(from) * target_.item;
    // The next row is one step of this dimension away: a small gap is read too.
    const std::uint64_t step = d < sources_.size() ? static_cast<std::uint64_t>(from_steps_[d]) * target_.item : nbytes;
    const std::uint64_t ahead = step - nbytes <= kMaxBetween ? part_end_ - offset : nbytes;
    rows_.read(target_.data + static_cast<std::size_t>(to) * target_.item, offset, nbytes, ahead);
  }

  const std::vector<const DimSource*>& sources_;
  const ShardTarget& target_;
  std::uint64_t offset_;
  RowReader& rows_;
  std::vector<std::int64_t> from_steps_;  // elements of a step of the previous dimension
  std::vector<std::int64_t> to_steps_;
  std::size_t inner_ = 0;
  std::uint64_t part_end_ = 0;
};

}  // namespace

void fill(const std::filesystem::path& directory, const CheckpointIndex& index, const ReadPlan& plan,
          const std::vector<ShardTarget>& targets) {
  std::optional<InputFile> file;
  std::int32_t open = -1;
  std::vector<std::byte> buffer;
  std::vector<const DimSource*> sources;
  for (const PlannedRead& read : plan.reads) {
    if (read.file != open) {
      file.emplace(directory, index, read.file);
      file->check_header();
      open = read.file;
    }
    const RegionSet& set = *plan.sets[static_cast<std::size_t>(read.set)];
    set.region(read.region, sources);
    RowReader rows(*file, buffer);
    RegionFill(sources, set.filled, targets[static_cast<std::size_t>(read.tensor)], read.offset, rows).run();
  }
}

}  // namespace tessera::train::detail

#include "tessera/train/checkpoint/detail/read_plan.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::train::detail {
namespace {

using Index = SmallVector<std::int64_t, 8>;

// End of the run of `map` that holds `global`, and its local index.
struct Holding {
  std::int64_t local = 0;
  std::int64_t end = 0;
};
Holding holding_of(const layout::IndexMap& map, std::int64_t global, std::int64_t size) {
  if (map.is_contiguous()) return {global - map.offset, std::min(size, map.offset + map.block)};
  const std::int64_t local = map.local(global).value();
  return {local, global + map.block - local % map.block};
}

// Walks the wanted runs of one dimension over the ranks that hold them.
class DimWalk {
 public:
  DimWalk(const SavedTensor& tensor, int dim, std::int64_t first_rank)
      : tensor_(tensor), dim_(dim), first_rank_(first_rank), size_(tensor.shape[static_cast<std::size_t>(dim)]) {
    for (int d = 0; d < tensor.shape.ndim(); ++d) index_.push_back(0);
  }

  std::vector<DimSource> walk(const std::vector<IndexRun>& wanted) {
    for (const IndexRun& run : wanted) {
      for (std::int64_t at = run.global; at < run.global + run.size;) at = take(run, at);
    }
    return std::move(sources_);
  }

 private:
  // Adds the part of the run that the holder of index `at` has, and returns its end.
  std::int64_t take(const IndexRun& run, std::int64_t at) {
    std::int64_t step = 0;
    layout::IndexMap map{0, size_, {}};
    if (tensor_.layout) {
      index_[static_cast<std::size_t>(dim_)] = at;
      const std::int64_t rank = layout::owners(tensor_.layout, tensor_.shape, index_).first;
      step = rank - first_rank_;
      map = layout::index_map(tensor_.layout, tensor_.shape, dim_, Rank(static_cast<int>(rank)));
    }
    const Holding holding = holding_of(map, at, size_);
    const std::int64_t end = std::min(holding.end, run.global + run.size);
    const auto [found, is_new] = places_.try_emplace(step, sources_.size());
    if (is_new) sources_.push_back({step, map.size(), {}});
    sources_[found->second].stretches.push_back({holding.local, run.local + (at - run.global), end - at});
    return end;
  }

  const SavedTensor& tensor_;
  int dim_;
  std::int64_t first_rank_;
  std::int64_t size_;
  Index index_;
  std::vector<DimSource> sources_;
  std::unordered_map<std::int64_t, std::size_t> places_;  // index of a source, by rank step
};

}  // namespace

std::int64_t RegionSet::region(std::int64_t number, std::vector<const DimSource*>& sources) const {
  sources.resize(dims.size());
  std::int64_t rank = first_rank;
  for (std::size_t d = dims.size(); d-- > 0;) {
    const auto size = static_cast<std::int64_t>(dims[d].size());
    sources[d] = &dims[d][static_cast<std::size_t>(number % size)];
    rank += sources[d]->rank_step;
    number /= size;
  }
  return rank;
}

void check_file_size(const CheckpointIndex& index, std::int64_t rank, const std::vector<FileShard>& pieces) {
  const SavedFile& file = index.files[static_cast<std::size_t>(rank)];
  const std::uint64_t elements = pieces.empty() ? 0 : pieces.back().offset + pieces.back().nbytes;
  TESSERA_CHECK_AS(IoError, file.nbytes - file.header_nbytes == elements, "checkpoint of step ", index.step, ": ",
                   file_name(static_cast<int>(rank)), " must have ", elements,
                   " bytes of elements by its layouts, but the index has ", file.nbytes - file.header_nbytes);
}

ReadPlanner::ReadPlanner(const CheckpointIndex& index) : index_(index), ownership_(index.tensors, index.world_size) {}

const std::vector<std::uint64_t>& ReadPlanner::offsets_in(std::int64_t file) {
  const auto [found, is_new] = offsets_.try_emplace(file);
  if (!is_new) return found->second;
  const std::vector<FileShard> pieces = ownership_.pieces_of(Rank(static_cast<int>(file)));
  check_file_size(index_, file, pieces);
  found->second.resize(index_.tensors.size());
  const std::uint64_t begin = index_.files[static_cast<std::size_t>(file)].header_nbytes;
  for (const FileShard& piece : pieces) found->second[piece.tensor] = begin + piece.offset;
  return found->second;
}

std::shared_ptr<const RegionSet> ReadPlanner::regions_of(const Wanted& wanted, Rank rank) const {
  const SavedTensor& tensor = index_.tensors[wanted.tensor];
  auto set = std::make_shared<RegionSet>();
  const OwnedShard part = part_of(wanted.layout, tensor.shape, rank);
  set->filled = part.shape;
  const bool is_off_mesh = wanted.layout && !wanted.layout.mesh().contains(rank);
  if (part.shape.numel() == 0 || is_off_mesh) {
    set->count = 0;
    return set;
  }
  Index first;
  for (int d = 0; d < tensor.shape.ndim(); ++d) first.push_back(0);
  set->first_rank = holders(tensor, first, index_.world_size).first;
  for (int d = 0; d < tensor.shape.ndim(); ++d) {
    set->dims.push_back(DimWalk(tensor, d, set->first_rank).walk(part.dims[static_cast<std::size_t>(d)]));
    set->count *= static_cast<std::int64_t>(set->dims.back().size());
  }
  return set;
}

ReadPlan ReadPlanner::plan(const std::vector<Wanted>& wanted, Rank rank) {
  ReadPlan plan;
  // Tensors with equal sources and targets share one walk.
  std::map<std::pair<std::size_t, std::uint64_t>, std::size_t> sets;
  std::vector<std::vector<std::int64_t>> ranks;  // per set, the rank at index 0 of each region
  std::vector<const DimSource*> sources;
  for (std::size_t w = 0; w < wanted.size(); ++w) {
    const std::size_t t = wanted[w].tensor;
    const auto [found, is_new] = sets.try_emplace(
        {ownership_.kind_of(t), wanted[w].layout ? wanted[w].layout.id().value() : 0}, plan.sets.size());
    if (is_new) {
      plan.sets.push_back(regions_of(wanted[w], rank));
      ranks.emplace_back();
      for (std::int64_t i = 0; i < plan.sets.back()->count; ++i) {
        ranks.back().push_back(plan.sets.back()->region(i, sources));
      }
    }
    const RegionSet& set = *plan.sets[found->second];
    if (set.count == 0) continue;
    Index zero;
    for (int d = 0; d < index_.tensors[t].shape.ndim(); ++d) zero.push_back(0);
    const layout::RankSet same = holders(index_.tensors[t], zero, index_.world_size);
    const std::int64_t replica = same.at(ownership_.place_of(t)).value() - same.first;
    for (std::int64_t i = 0; i < set.count; ++i) {
      const std::int64_t file = ranks[found->second][static_cast<std::size_t>(i)] + replica;
      plan.reads.push_back({static_cast<std::int32_t>(file), static_cast<std::int32_t>(w),
                            static_cast<std::int32_t>(found->second), static_cast<std::int32_t>(i),
                            offsets_in(file)[t]});
    }
  }
  std::ranges::sort(plan.reads, [](const PlannedRead& a, const PlannedRead& b) {
    return a.file != b.file ? a.file < b.file : a.offset < b.offset;
  });
  return plan;
}

}  // namespace tessera::train::detail

#include "tessera/shard/detail/exchange.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::shard::detail {
namespace {

using layout::IndexMap;

// A contiguous run of a map.
struct Stretch {
  std::int64_t global = 0;
  std::int64_t local = 0;
  std::int64_t length = 0;
};

// Returns the runs in order: local indices grow with global ones.
std::vector<Stretch> stretches_of(const IndexMap& map) {
  std::vector<Stretch> out;
  const std::int64_t size = map.size();
  for (std::int64_t local = 0; local < size; local += map.block) out.push_back({map.global(local), local, map.block});
  return out;
}

// Returns the same indices reversed, in a dimension of `size`.
std::vector<Stretch> mirrored(const std::vector<Stretch>& stretches, std::int64_t held, std::int64_t size) {
  std::vector<Stretch> out;
  for (auto each = stretches.rbegin(); each != stretches.rend(); ++each) {
    out.push_back({size - each->global - each->length, held - each->local - each->length, each->length});
  }
  return out;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// Appends a run, merged with the last one if it continues that.
void add_run(std::vector<CommonRun>& runs, std::int64_t from, std::int64_t to, std::int64_t length) {
  if (!runs.empty()) {
    CommonRun& last = runs.back();
    const std::int64_t from_step = from - last.from - (last.count - 1) * last.from_stride;
    const std::int64_t to_step = to - last.to - (last.count - 1) * last.to_stride;
    if (last.count == 1 && from_step == last.length && to_step == last.length) {
      last.length += length;
      return;
    }
    const bool goes_on = last.count == 1 || (from_step == last.from_stride && to_step == last.to_stride);
    if (length == last.length && goes_on && from_step > 0 && to_step > 0) {
      ++last.count;
      last.from_stride = from_step;
      last.to_stride = to_step;
      return;
    }
  }
  runs.push_back({from, to, length});
}

bool is_empty(const ShardMaps& part) {
  return std::ranges::any_of(part, [](const IndexMap& map) { return map.size() == 0; });
}

}  // namespace

std::vector<CommonRun> common_runs(const IndexMap& from, const IndexMap& to) {
  std::vector<CommonRun> runs;
  const std::vector<Stretch> a = stretches_of(from);
  const std::vector<Stretch> b = stretches_of(to);
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::int64_t begin = std::max(a[i].global, b[j].global);
    const std::int64_t end = std::min(a[i].global + a[i].length, b[j].global + b[j].length);
    if (begin < end) {
      add_run(runs, a[i].local + begin - a[i].global, b[j].local + begin - b[j].global, end - begin);
    }
    if (a[i].global + a[i].length < b[j].global + b[j].length) {
      ++i;
    } else {
      ++j;
    }
  }
  return runs;
}

std::vector<CommonRun> moved_runs(const IndexMap& from, const IndexMap& to, std::span<const tensor::MovedRun> runs,
                                  std::int64_t reversed_size) {
  std::vector<CommonRun> out;
  const std::vector<Stretch> sources = stretches_of(from);
  std::vector<Stretch> targets = stretches_of(to);
  if (reversed_size >= 0) targets = mirrored(targets, to.size(), reversed_size);
  for (const tensor::MovedRun& run : runs) {
    for (const Stretch& a : sources) {
      for (const Stretch& b : targets) {
        const std::int64_t begin = std::max(
            {std::int64_t{0}, ceil_div(a.global - run.from, run.from_step), ceil_div(b.global - run.to, run.to_step)});
        const std::int64_t end = std::min({run.length, ceil_div(a.global + a.length - run.from, run.from_step),
                                           ceil_div(b.global + b.length - run.to, run.to_step)});
        if (begin >= end) continue;
        const std::int64_t at = a.local + run.from + begin * run.from_step - a.global;
        const std::int64_t goes_to = b.local + run.to + begin * run.to_step - b.global;
        if ((run.from_step == 1 && run.to_step == 1) || end - begin == 1) {
          add_run(out, at, goes_to, end - begin);
        } else {
          out.push_back({at, goes_to, 1, end - begin, run.from_step, run.to_step});
        }
      }
    }
  }
  return out;
}

std::int64_t Chunk::numel() const {
  std::int64_t numel = 1;
  for (const CommonRun& run : dims) numel *= run.count * run.length;
  return numel;
}

std::int64_t numel_of(std::span<const Chunk> chunks) {
  std::int64_t numel = 0;
  for (const Chunk& chunk : chunks) numel += chunk.numel();
  return numel;
}

ShardMaps shard_maps(const layout::Layout& layout, const Shape& shape, Rank rank) {
  ShardMaps maps;
  for (int d = 0; d < shape.ndim(); ++d) maps.push_back(index_map(layout, shape, d, rank));
  return maps;
}

Shape shape_of(const ShardMaps& part) {
  SmallVector<std::int64_t, 8> sizes;
  for (const IndexMap& map : part) sizes.push_back(map.size());
  return Shape(std::span<const std::int64_t>(sizes));
}

std::vector<Chunk> common_chunks(const ShardMaps& from, const ShardMaps& to) {
  std::vector<std::vector<CommonRun>> dims;
  for (std::size_t d = 0; d < from.size(); ++d) dims.push_back(common_runs(from[d], to[d]));
  return chunks_of_runs(dims);
}

std::vector<Chunk> chunks_of_runs(std::span<const std::vector<CommonRun>> dims) {
  std::vector<Chunk> chunks(1);
  for (const std::vector<CommonRun>& runs : dims) {
    std::vector<Chunk> longer;
    longer.reserve(chunks.size() * runs.size());
    for (const Chunk& chunk : chunks) {
      for (const CommonRun& run : runs) {
        longer.push_back(chunk);
        longer.back().dims.push_back(run);
      }
    }
    chunks = std::move(longer);
  }
  return chunks;
}

GroupShards group_shards(const layout::Step& step, const Shape& shape, std::span<const Rank> group) {
  GroupShards parts;
  for (const Rank rank : group) {
    parts.before.push_back(shard_maps(step.before, shape, rank));
    parts.after.push_back(shard_maps(step.after, shape, rank));
  }
  return parts;
}

std::vector<std::vector<int>> choose_holders(const GroupShards& parts, const ChunksFn& chunks) {
  // Group ranks by shard. Two shards are equal or disjoint, except for empty ones.
  std::vector<std::vector<int>> holders;
  for (std::size_t place = 0; place < parts.before.size(); ++place) {
    if (is_empty(parts.before[place])) continue;
    const auto same = std::ranges::find_if(holders, [&](const std::vector<int>& places) {
      return parts.before[static_cast<std::size_t>(places[0])] == parts.before[place];
    });
    if (same == holders.end()) {
      holders.push_back({static_cast<int>(place)});
    } else {
      same->push_back(static_cast<int>(place));
    }
  }
  std::vector<std::vector<int>> chosen(parts.after.size());
  for (const std::vector<int>& places : holders) {
    const ShardMaps& held = parts.before[static_cast<std::size_t>(places[0])];
    std::vector<int> takers;
    for (std::size_t taker = 0; taker < parts.after.size(); ++taker) {
      if (!is_empty(parts.after[taker]) && !chunks(held, parts.after[taker]).empty())
        takers.push_back(static_cast<int>(taker));
    }
    // Holders that take it from themselves come last in the distribution.
    std::vector<int> deal;
    for (const bool keeps : {false, true}) {
      for (const int place : places) {
        if ((std::ranges::find(takers, place) != takers.end()) == keeps) deal.push_back(place);
      }
    }
    std::size_t next = 0;
    for (const int taker : takers) {
      const bool is_holder = std::ranges::find(places, taker) != places.end();
      chosen[static_cast<std::size_t>(taker)].push_back(is_holder ? taker : deal[next++ % deal.size()]);
    }
  }
  return chosen;
}

Exchange exchange_of(const GroupShards& parts, int place, const ChunksFn& chunks) {
  const auto self = static_cast<std::size_t>(place);
  Exchange out;
  out.sends.resize(parts.after.size());
  out.receives.resize(parts.before.size());
  const std::vector<std::vector<int>> chosen = choose_holders(parts, chunks);
  for (std::size_t taker = 0; taker < chosen.size(); ++taker) {
    for (const int holder : chosen[taker]) {
      const auto from = static_cast<std::size_t>(holder);
      if (from != self && taker != self) continue;
      std::vector<Chunk> message = chunks(parts.before[from], parts.after[taker]);
      if (from == self) out.sends[taker] = message;
      if (taker == self) out.receives[from] = std::move(message);
    }
  }
  return out;
}

}  // namespace tessera::shard::detail

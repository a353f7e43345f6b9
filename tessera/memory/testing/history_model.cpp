#include "tessera/memory/testing/history_model.h"

#include <fmt/format.h>

#include "tessera/memory/policy.h"

namespace tessera::memory::testing {

HistoryModel::HistoryModel(probe::Recorder& recorder, std::uint32_t number, std::uint64_t seed)
    : recorder_(recorder), number_(number), random_(seed) {
  auto table = recorder.table<MemoryPoolRow>();
  const probe::StringId device = recorder.intern(this->device());
  labels_.emplace_back("", probe::StringId{});
  for (const char* label : {"weights", "optimizer", "activations"}) labels_.emplace_back(label, recorder.intern(label));
  stack_ = recorder.intern("libmodel.so+0x10f0 model+0x20a4");
  const PoolId ids[] = {{0, 0}, {0, 1}, {5, 0}};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint32_t pool = number * 10 + i;
    pools_[pool] = ids[i];
    rows_.push_back(
        table.claim({pool, number, ids[i].graph, ids[i].user, device, recorder.intern(fmt::format("pool {}", i))}));
    for (std::uint32_t stream = 0; stream < 2; ++stream) {
      const std::uint64_t base = (std::uint64_t{number} * 16 + i * 4 + stream + 1) << 36;
      heaps_.push_back({pool, stream, i != 1, base, {}, {}});
    }
  }
}

bool HistoryModel::is_free(const ModelHeap& heap, std::uint64_t address, std::uint64_t nbytes) {
  auto it = heap.blocks.upper_bound(address);
  if (it != heap.blocks.end() && it->first < address + nbytes) return false;
  return it == heap.blocks.begin() || std::prev(it)->first + std::prev(it)->second.nbytes <= address;
}

// First fit; blocks cross adjacent chunks of expandable heaps, never fixed segments.
std::uint64_t HistoryModel::find_gap(const ModelHeap& heap, std::uint64_t nbytes) {
  for (auto piece = heap.pieces.begin(); piece != heap.pieces.end(); ++piece) {
    std::uint64_t end = piece->first + piece->second;
    for (auto next = std::next(piece); heap.is_expandable && next != heap.pieces.end() && next->first == end; ++next)
      end += next->second;
    for (std::uint64_t at = piece->first; at + nbytes <= end; at += kGranule / 8) {
      if (is_free(heap, at, nbytes)) return at;
    }
  }
  return 0;
}

void HistoryModel::map(ModelHeap& heap) {
  const std::uint64_t address = heap.base + pick(8) * 2 * kGranule;
  const std::uint64_t nbytes = (1 + pick(2)) * kGranule;
  if (heap.pieces.contains(address)) return;
  heap.pieces[address] = nbytes;
  write(MapRecord{address, nbytes, heap.stream, heap.pool, true, heap.is_expandable});
}

void HistoryModel::unmap(ModelHeap& heap) {
  if (heap.pieces.empty()) return;
  const auto piece = std::next(heap.pieces.begin(), static_cast<std::ptrdiff_t>(pick(heap.pieces.size())));
  if (!is_free(heap, piece->first, piece->second)) return;
  write(MapRecord{piece->first, piece->second, heap.stream, heap.pool, false, heap.is_expandable});
  heap.pieces.erase(piece);
}

void HistoryModel::allocate(ModelHeap& heap) {
  const std::uint64_t requested = 1 + pick(pick(4) == 0 ? 3 * kGranule : kGranule / 4);
  const std::uint64_t nbytes = (requested + kAlignment - 1) / kAlignment * kAlignment;
  const std::uint64_t address = find_gap(heap, nbytes);
  if (address == 0) {
    write(OutOfMemoryRecord{requested, 17, heap.stream, heap.pool, labels_[1].second});
    return;
  }
  const auto label = static_cast<std::uint32_t>(pick(labels_.size()));
  heap.blocks[address] = {nbytes, requested, false, label};
  write(AllocRecord{address, requested, nbytes, heap.stream, heap.pool, labels_[label].second, stack_});
}

void HistoryModel::free(ModelHeap& heap) {
  if (heap.blocks.empty()) return;
  const auto it = std::next(heap.blocks.begin(), static_cast<std::ptrdiff_t>(pick(heap.blocks.size())));
  if (it->second.is_pending) return;
  const bool is_pending = pick(3) == 0;
  write(FreeRecord{it->first, it->second.requested, heap.stream, heap.pool, labels_[1].second, {}, is_pending});
  if (is_pending) {
    it->second.is_pending = true;
  } else {
    heap.blocks.erase(it);
  }
}

void HistoryModel::complete(ModelHeap& heap) {
  for (auto it = heap.blocks.begin(); it != heap.blocks.end(); ++it) {
    if (!it->second.is_pending || pick(2) == 0) continue;
    write(ReusableRecord{it->first, it->second.requested, heap.stream, heap.pool, false});
    heap.blocks.erase(it);
    return;
  }
}

void HistoryModel::step() {
  ModelHeap& heap = heaps_[pick(heaps_.size())];
  switch (pick(16)) {
    case 0: return map(heap);
    case 1: return unmap(heap);
    case 2:
    case 3: return complete(heap);
    default: break;
  }
  // About eight blocks per heap, so that a keyframe is much smaller than the smallest ring.
  pick(16) >= heap.blocks.size() ? allocate(heap) : free(heap);
}

std::uint32_t HistoryModel::write_rows(const ModelHeap& heap) {
  std::uint32_t rows = 0;
  for (auto piece = heap.pieces.begin(); piece != heap.pieces.end(); ++rows) {
    const std::uint64_t begin = piece->first;
    std::uint64_t end = begin + piece->second;
    for (++piece; heap.is_expandable && piece != heap.pieces.end() && piece->first == end; ++piece)
      end += piece->second;
    write(RunRecord{begin, end - begin, heap.stream, heap.pool, heap.is_expandable});
  }
  for (const auto& [address, block] : heap.blocks) {
    write(BlockRecord{address, block.requested, block.nbytes, heap.stream, static_cast<std::uint16_t>(heap.pool),
                      block.is_pending, labels_[block.label].second, stack_});
    ++rows;
  }
  return rows;
}

void HistoryModel::keyframe(const std::function<void()>& between, std::size_t heaps) {
  const std::uint64_t number = keyframes_++;
  write(KeyframeRecord{number, number_, 0, false});
  std::uint32_t rows = 0;
  for (std::size_t i = 0; i < heaps_.size(); ++i) {
    if (i == heaps) return;
    if (between) between();
    rows += write_rows(heaps_[i]);
  }
  if (between) between();
  write(KeyframeRecord{number, number_, rows, true});
}

std::map<std::string, std::uint64_t> HistoryModel::live_by_label() const {
  std::map<std::string, std::uint64_t> live;
  for (const ModelHeap& heap : heaps_) {
    for (const auto& [address, block] : heap.blocks) {
      if (!block.is_pending) live[labels_[block.label].first] += block.requested;
    }
  }
  return live;
}

std::string HistoryModel::difference(const Snapshot& snapshot) const {
  if (snapshot.device != device()) return "device " + snapshot.device;
  if (std::string problem = snapshot.inconsistency(); !problem.empty()) return problem;
  const auto line = [](std::uint64_t address, std::uint64_t nbytes, std::uint64_t requested, bool is_pending,
                       std::uint32_t stream, PoolId pool, const std::string& label) {
    return fmt::format("{:#x}: {} of {} bytes, pending {}, stream {}, pool {}.{}, '{}'", address, requested, nbytes,
                       is_pending, stream, pool.graph, pool.user, label);
  };
  std::map<std::uint64_t, std::string> wanted;
  std::uint64_t mapped = 0;
  for (const ModelHeap& heap : heaps_) {
    for (const auto& [address, nbytes] : heap.pieces) mapped += nbytes;
    for (const auto& [address, block] : heap.blocks) {
      wanted[address] = line(address, block.nbytes, block.requested, block.is_pending, heap.stream,
                             pools_.at(heap.pool), labels_[block.label].first);
    }
  }
  for (const SegmentView& segment : snapshot.segments) {
    for (const BlockView& block : segment.blocks) {
      if (block.state == BlockState::kCached) continue;
      const std::string found =
          line(block.address, block.nbytes, block.requested_nbytes, block.state == BlockState::kPending,
               block.stream.value(), segment.pool, block.label);
      const auto it = wanted.find(block.address);
      if (it == wanted.end()) return found + " is shown and is not there";
      if (it->second != found) return found + " is shown, and it is " + it->second;
      wanted.erase(it);
    }
  }
  if (!wanted.empty()) return wanted.begin()->second + " is not shown";
  const std::uint64_t reserved = snapshot.totals().reserved_nbytes;
  return reserved == mapped ? "" : fmt::format("{} bytes are mapped, and {} are shown", mapped, reserved);
}

}  // namespace tessera::memory::testing

#include "tessera/analysis/memory/detail/rebuilt_heap.h"

namespace tessera::analysis::detail {

// Removes [begin, end) from the runs.
void RebuiltHeap::cut(Runs& runs, std::uint64_t begin, std::uint64_t end) {
  auto it = runs.upper_bound(begin);
  if (it != runs.begin()) --it;
  while (it != runs.end() && it->first < end) {
    const auto [first, run] = *it;
    if (run.end <= begin) {
      ++it;
      continue;
    }
    it = runs.erase(it);
    if (first < begin) runs[first] = {begin, run.owner};
    if (run.end > end) runs[end] = {run.end, run.owner};
  }
}

// Adjacent chunks of a reservation are one run; fixed segments stay separate. The owner is a copy: it may come from a
// run that is about to be split.
void RebuiltHeap::insert(Runs& runs, std::uint64_t begin, std::uint64_t end, RunOwner owner) {
  cut(runs, begin, end);
  auto it = runs.insert_or_assign(begin, HeapRun{end, owner}).first;
  if (!owner.is_expandable) return;
  if (const auto next = std::next(it); next != runs.end() && next->first == end && next->second.owner == owner) {
    it->second.end = next->second.end;
    runs.erase(next);
  }
  if (it == runs.begin()) return;
  if (const auto before = std::prev(it); before->second.end == begin && before->second.owner == owner) {
    before->second.end = it->second.end;
    runs.erase(it);
  }
}

RebuiltHeap::Runs::const_iterator RebuiltHeap::run_at(const Runs& runs, std::uint64_t address) {
  auto it = runs.upper_bound(address);
  if (it == runs.begin()) return runs.end();
  --it;
  return it->second.end > address ? it : runs.end();
}

void RebuiltHeap::erase_overlapping(std::uint64_t begin, std::uint64_t end) {
  auto it = blocks_.lower_bound(begin);
  if (it != blocks_.begin()) {
    const auto before = std::prev(it);
    if (before->first + before->second.nbytes > begin) it = before;
  }
  while (it != blocks_.end() && it->first < end) it = blocks_.erase(it);
}

void RebuiltHeap::map(std::uint64_t address, std::uint64_t nbytes, const RunOwner& owner) {
  insert(runs_, address, address + nbytes, owner);
}

void RebuiltHeap::unmap(std::uint64_t address, std::uint64_t nbytes) {
  cut(runs_, address, address + nbytes);
  erase_overlapping(address, address + nbytes);
}

void RebuiltHeap::put(std::uint64_t address, const RebuiltBlock& block) {
  erase_overlapping(address, address + block.nbytes);
  blocks_[address] = block;
}

RebuiltBlock* RebuiltHeap::find(std::uint64_t address) {
  const auto found = blocks_.find(address);
  return found != blocks_.end() ? &found->second : nullptr;
}

std::vector<RebuiltRun> RebuiltHeap::runs(std::uint64_t* unmapped) const {
  Runs covered = runs_;
  for (const auto& [address, block] : blocks_) {
    const std::uint64_t end = address + block.nbytes;
    const auto at = run_at(covered, address);
    if (at != covered.end() && at->second.end >= end) continue;
    ++*unmapped;
    const RunOwner own{block.stream, block.pool, true};
    insert(covered, address, end, at != covered.end() ? at->second.owner : own);
  }
  std::vector<RebuiltRun> result;
  for (const auto& [first, run] : covered) {
    RebuiltRun& made = result.emplace_back(RebuiltRun{first, run.end - first, run.owner, {}});
    for (auto it = blocks_.lower_bound(first); it != blocks_.end() && it->first < run.end; ++it)
      made.blocks.emplace_back(*it);
  }
  return result;
}

}  // namespace tessera::analysis::detail

#include "tessera/device/detail/access_checker.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/device/detail/state.h"

namespace tessera::device::detail {
namespace {

// Launches per stream that are stored until they are known to be complete; the order before older ones is unknown.
constexpr std::size_t kMaxRunning = 4096;

std::uintptr_t begin_of(const Access& access) { return reinterpret_cast<std::uintptr_t>(access.address); }
std::uintptr_t end_of(const Access& access) { return begin_of(access) + access.nbytes; }
bool is_write(const Access& access) { return access.mode != AccessMode::kRead; }

std::string_view verb(AccessMode mode) {
  switch (mode) {
    case AccessMode::kRead: return "reads";
    case AccessMode::kWrite: return "writes";
    case AccessMode::kReadWrite: return "updates";
  }
  return "touches";
}

std::string shown(const Access& access) {
  return tessera::detail::concat(verb(access.mode), " ", access.nbytes, " bytes at ", access.address);
}

// Removes [begin, end) from a map of disjoint intervals, and truncates those that overlap it partly.
template <class Map>
void erase_interval(Map& map, std::uintptr_t begin, std::uintptr_t end) {
  auto it = map.upper_bound(begin);
  if (it != map.begin()) --it;
  while (it != map.end() && it->first < end) {
    if (it->second.end <= begin) {
      ++it;
      continue;
    }
    const std::uintptr_t first = it->first;
    auto value = std::move(it->second);
    it = map.erase(it);
    if (first < begin) {
      auto left = value;
      left.end = begin;
      map.emplace(first, std::move(left));
    }
    if (value.end > end) it = map.emplace(end, std::move(value)).first;
  }
}

}  // namespace

void AccessChecker::launch(StreamState& stream, std::string_view label, std::span<const Access> accesses) {
  const std::string who = tessera::detail::concat("launch '", label, "' on ", stream.name);
  const std::lock_guard lock(mutex_);
  note_completed(*stream.device);
  for (const Access& access : accesses) {
    check_given_out(who, access);
    check_order(stream, who, access);
  }
  const TensorUse use{stream.id(), stream.take_tick(), std::make_shared<const std::string>(who)};
  for (const Access& access : accesses) note(use, access);
  std::deque<CheckedLaunch>& running = running_[use.stream];
  if (running.size() == kMaxRunning) running.pop_front();
  running.push_back({use.tick, stream.clock});
}

void AccessChecker::note_completed(DeviceState& device) {
  const std::lock_guard lock(device.mutex);
  for (auto& [stream, running] : running_) {
    const Tick completed = device.slots[stream.value()].completed();
    over_.raise(stream, completed);
    for (; !running.empty() && running.front().tick <= completed; running.pop_front()) {
      over_.merge(running.front().clock);
    }
  }
}

void AccessChecker::touch(std::string_view label, std::span<const Access> accesses) const {
  const std::lock_guard lock(mutex_);
  for (const Access& access : accesses) check_given_out(label, access);
}

void AccessChecker::check_given_out(std::string_view who, const Access& access) const {
  if (access.nbytes == 0) return;
  auto it = forbidden_.upper_bound(begin_of(access));
  if (it != forbidden_.begin()) --it;
  for (; it != forbidden_.end() && it->first < end_of(access); ++it) {
    TESSERA_CHECK(it->second.end <= begin_of(access), who, " ", shown(access),
                  ", which is not allocated: ", it->second.by);
  }
}

void AccessChecker::check_order(StreamState& stream, std::string_view who, const Access& access) const {
  if (access.nbytes == 0) return;
  auto is_before = [&](const TensorUse& use) {
    return stream.covers(use.stream, use.tick) || over_.covers(use.stream, use.tick);
  };
  auto demand = [&](const TensorUse& use, std::string_view did) {
    TESSERA_CHECK(is_before(use), who, " ", shown(access), " while ", *use.who, " ", did,
                  " it and is not ordered before; record an event after '", *use.who, "' and make ", stream.name,
                  " wait on it");
  };
  auto it = spans_.upper_bound(begin_of(access));
  if (it != spans_.begin()) --it;
  for (; it != spans_.end() && it->first < end_of(access); ++it) {
    if (it->second.end <= begin_of(access)) continue;
    for (const TensorUse& use : it->second.writers) demand(use, "writes");
    if (!is_write(access)) continue;
    for (const TensorUse& use : it->second.readers) demand(use, "reads");
  }
}

AccessChecker::Spans::iterator AccessChecker::split(std::uintptr_t at) {
  auto it = spans_.upper_bound(at);
  if (it == spans_.begin()) return it;
  --it;
  if (it->first == at) return it;
  if (it->second.end <= at) return std::next(it);
  AccessSpan right = it->second;
  it->second.end = at;
  return spans_.emplace(at, std::move(right)).first;
}

void AccessChecker::note(const TensorUse& use, const Access& access) {
  if (access.nbytes == 0) return;
  const std::uintptr_t begin = begin_of(access);
  const std::uintptr_t end = end_of(access);
  auto it = split(begin);
  split(end);
  if (is_write(access)) {
    while (it != spans_.end() && it->first < end) it = spans_.erase(it);
    spans_.emplace(begin, AccessSpan{end, {use}, {}});
    return;
  }
  std::uintptr_t at = begin;
  while (at < end) {
    if (it == spans_.end() || it->first > at) {  // bytes never used before
      const std::uintptr_t until = it == spans_.end() ? end : std::min(end, it->first);
      it = spans_.emplace(at, AccessSpan{until, {}, {}}).first;
    }
    auto& readers = it->second.readers;
    std::erase_if(readers, [&](const TensorUse& old) { return old.stream == use.stream; });
    readers.push_back(use);
    at = it->second.end;
    ++it;
  }
}

void AccessChecker::forbid(const void* address, std::size_t nbytes, std::string_view by) {
  const std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  erase_interval(forbidden_, begin, begin + nbytes);
  forbidden_.emplace(begin, Forbidden{begin + nbytes, std::string(by)});
}

void AccessChecker::allow(const void* address, std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  erase_interval(forbidden_, begin, begin + nbytes);
}

void AccessChecker::forget(const void* address, std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  erase_interval(spans_, begin, begin + nbytes);
}

void AccessChecker::check_graph(const std::vector<NodeInfo>& nodes) {
  // after[i] holds the nodes that have completed when node i starts. A full edge adds the earlier node and all before
  // it; a weak edge adds only the nodes that had completed when the earlier node started.
  const std::size_t n = nodes.size();
  std::map<NodeId, std::size_t> index;
  for (std::size_t i = 0; i < n; ++i) index[nodes[i].id] = i;
  std::vector<std::vector<bool>> after(n, std::vector<bool>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (const Dependency& dependency : nodes[i].dependencies) {
      const std::size_t from = index.at(dependency.node);
      for (std::size_t k = 0; k < n; ++k) after[i][k] = after[i][k] || after[from][k];
      if (dependency.kind == EdgeKind::kFull) after[i][from] = true;
    }
  }
  struct Item {
    const Access* access;
    std::size_t node;
  };
  std::vector<Item> items;
  for (std::size_t i = 0; i < n; ++i) {
    for (const Access& access : nodes[i].accesses) {
      if (access.nbytes > 0) items.push_back({&access, i});
    }
  }
  std::ranges::sort(items, {}, [](const Item& item) { return begin_of(*item.access); });
  for (std::size_t a = 0; a < items.size(); ++a) {
    for (std::size_t b = a + 1; b < items.size() && begin_of(*items[b].access) < end_of(*items[a].access); ++b) {
      const Item& one = items[a];
      const Item& two = items[b];
      if (one.node == two.node || (!is_write(*one.access) && !is_write(*two.access))) continue;
      TESSERA_CHECK(
          after[one.node][two.node] || after[two.node][one.node], "graph: node '", nodes[one.node].label, "' ",
          shown(*one.access), " and node '", nodes[two.node].label, "' ", shown(*two.access),
          " with no full edge between them; record an event after one of them and wait on it before the other");
    }
  }
}

}  // namespace tessera::device::detail

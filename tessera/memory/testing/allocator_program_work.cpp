// The work of a random program: launches, and actions on streams, pools and layouts.
#include <algorithm>
#include <array>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/memory/testing/allocator_program_state.h"
#include "tessera/memory/testing/buffer_value.h"

namespace tessera::memory::testing {

namespace {

std::uint32_t repeated(std::uint32_t byte) { return (byte & 0xFF) * 0x01010101U; }

}  // namespace

void AllocatorProgram::launch(const Stream& stream, const ProgramBuffer& to, const ProgramBuffer* from,
                              std::uint32_t value, bool is_whole) {
  if (is_whole && from == nullptr) {
    stream.fill(to.data, value, 1, to.usable);
  } else if (is_whole) {
    stream.copy(to.data, from->data, to.usable);
  } else if (from == nullptr) {
    const std::array accesses{device::writes(to.data, to.usable)};
    stream.run([data = to.data, nbytes = to.nbytes, value] { write_value(data, nbytes, value); },
               {.label = "write", .accesses = accesses});
  } else {
    const std::array accesses{device::writes(to.data, to.usable), device::reads(from->data, from->usable)};
    stream.run([data = to.data, nbytes = to.nbytes, source = from->data,
                count = from->nbytes] { write_value(data, nbytes, read_value(source, count)); },
               {.label = "copy", .accesses = accesses});
  }
}

// Records a new value of a buffer. Buffers that share its memory, in capture heaps, lose theirs.
void AllocatorProgram::wrote(ProgramBuffer& to, std::optional<std::uint32_t> value, bool is_solid, bool by_graph) {
  to.state = value.has_value() ? Value::kKnown : Value::kUnknown;
  to.value = value.value_or(0);
  to.is_solid = is_solid;
  if (!to.is_captured) return;
  for (const auto& other : items_) {
    if (other.get() == &to || !other->is_captured || !other->overlaps(to)) continue;
    if (by_graph) other->overwritten = replays_made_;
    if (other->state == Value::kUnwritten) continue;
    if (by_graph) {
      other->state = Value::kOverwritten;
    } else if (other->state == Value::kKnown) {
      other->state = Value::kUnknown;
    }
  }
}

// Fills `to`, or copies to it; false if earlier work cannot be waited for now.
bool AllocatorProgram::eager_work(int index, ProgramBuffer& to, ProgramBuffer* from) {
  std::vector<Moment> before = needed(to, true);
  if (from != nullptr) {
    const std::vector<Moment> more = needed(*from, false);
    before.insert(before.end(), more.begin(), more.end());
  }
  if (!demand(index, before)) return false;
  const Stream& stream = lane(index).stream;
  if (to.lane != index) to.buffer.use_on(stream);
  if (from != nullptr && from->lane != index) from->buffer.use_on(stream);
  bool is_whole = to.usable <= 4096 && random_.one_in(3);
  if (from != nullptr)
    is_whole = is_whole && from->is_solid && to.usable <= from->usable && from->state == Value::kKnown;
  std::optional<std::uint32_t> value;
  if (from == nullptr) {
    value = is_whole ? repeated(++last_value_) : ++last_value_;
  } else if (from->state == Value::kKnown) {
    value = from->value;
  }
  launch(stream, to, from, value.value_or(0), is_whole);
  const Moment moment = clocks_.step(index);
  wrote(to, value, is_whole, false);
  to.writer = moment;
  to.readers.clear();
  if (from != nullptr) from->readers.push_back(moment);
  return true;
}

void AllocatorProgram::work_step() {
  const int index = random_lane(false);
  ProgramBuffer* to = random_item(true);
  if (index < 0 || to == nullptr) return;
  ProgramBuffer* from = random_.one_in(2) ? random_item(true) : nullptr;
  if (from == to || (from != nullptr && from->overlaps(*to))) from = nullptr;
  const bool is_done = eager_work(index, *to, from);
  const int home = to->lane;
  if (is_done && home != index && random_.one_in(4) && lane(home).is_alive() && lane(home).capture < 0) {
    // Freed with work of another stream in flight, and requested again immediately.
    free(*to);
    ProgramBuffer* again = allocate(home, to->nbytes);
    if (again != nullptr) eager_work(home, *again, nullptr);
  }
  if (random_.one_in(4)) {
    const int other = random_lane(false);
    if (other >= 0 && other != index) join(other, index);
  }
}

// Overlapping launches, each on a separate buffer: none may share memory with an earlier one.
void AllocatorProgram::overlap_step() {
  const int index = random_lane(false);
  if (index < 0) return;
  const Stream stream = lane(index).stream;
  std::vector<int> mine;
  {
    const Stream::OverlapScope scope(stream);
    for (int i = 0; i < 4; ++i) {
      ProgramBuffer* made = allocate(index, random_size());
      if (made == nullptr) continue;
      launch(stream, *made, nullptr, ++last_value_, false);
      made->writer = clocks_.step(index);
      wrote(*made, last_value_, false, false);
      mine.push_back(made->id);
      if (random_.one_in(2)) {
        const auto which = static_cast<std::size_t>(random_.below(static_cast<int>(mine.size())));
        free(item(mine[which]));
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
  }
}

void AllocatorProgram::stream_step() {
  const int alive = static_cast<int>(
      std::count_if(lanes_.begin(), lanes_.end(), [](const ProgramLane& one) { return one.is_alive(); }));
  if (alive < 5 && random_.one_in(2)) {
    lanes_.push_back({device_.create_stream({.may_spin = random_.one_in(6)})});
    clocks_.add();
    return;
  }
  const int index = random_lane(false);
  if (alive > 2 && index > 0) lane(index).stream = {};
}

void AllocatorProgram::pool_step() {
  const int choice = random_.below(8);
  if (choice < 3) {
    allocator_.trim();
  } else if (choice == 3) {
    allocator_.set_limit(random_.one_in(2) ? 0 : std::size_t{8} << 20);
  } else if (choice == 4 && pools_.size() < 6) {
    pools_.push_back({allocator_.create_pool({.no_split = random_.one_in(3), .borrow_on_oom = random_.one_in(2)}), {}});
  } else if (choice == 5 && pools_.size() > 2) {
    PoolModel& gone = pools_[1 + static_cast<std::size_t>(random_.below(static_cast<int>(pools_.size()) - 1))];
    gone.pool = {};
  } else {
    const PoolModel& one = pools_[static_cast<std::size_t>(random_.below(static_cast<int>(pools_.size())))];
    if (one.pool) one.pool.trim();
  }
}

// Saves the layout of a pool, or restores it.
void AllocatorProgram::layout_step() {
  if (captures_under_way() > 0) return;
  if (!layout_.has_value()) {
    const int pool = random_.below(static_cast<int>(pools_.size()));
    if (pools_[static_cast<std::size_t>(pool)].pool)
      layout_.emplace(pool, pools_[static_cast<std::size_t>(pool)].pool.checkpoint());
    return;
  }
  const auto [number, layout] = *std::exchange(layout_, std::nullopt);
  const Pool pool = pools_[static_cast<std::size_t>(number)].pool;
  if (!pool) return;
  std::set<std::pair<std::byte*, std::size_t>> live;
  std::set<std::byte*> captured;
  for (const PoolLayout::PoolLane& one : layout.lanes) {
    for (const PoolLayout::PoolPiece& piece : one.pieces) {
      if (piece.is_live) live.emplace(piece.address, piece.nbytes);
      if (one.is_captured) captured.insert(piece.address);
    }
  }
  std::vector<Buffer> give_up;
  for (const auto& one : items_) {
    if (!one->buffer || one->home != number || live.contains({one->data, one->usable})) continue;
    give_up.push_back(std::move(one->buffer));
    one->freed = now_;
    std::erase(held_, one->id);
  }
  if (random_.one_in(2)) synchronize();
  std::vector<Buffer> restored;
  try {
    restored = pool.restore(layout, std::move(give_up));
  } catch (const InvalidArgument&) {
    return;  // still in use, or released since
  }
  ++counts_.restores;
  for (Buffer& buffer : restored) {
    const auto same = [&](const ProgramLane& one) { return one.is_alive() && one.stream.id() == buffer.stream(); };
    const auto found = std::find_if(lanes_.begin(), lanes_.end(), same);
    if (found == lanes_.end()) continue;
    const bool is_captured = captured.contains(buffer.data());
    const int index = static_cast<int>(found - lanes_.begin());
    ProgramBuffer& made = add_item(std::move(buffer), index, number);
    made.is_captured = is_captured;
    made.state = Value::kUnknown;
    made.writer = clocks_.step(index);
    eager_work(index, made, nullptr);
  }
}

// A value reaches a buffer through host memory, which is overwritten as soon as it is allocated again.
void AllocatorProgram::pinned_step() {
  const int index = random_lane(false);
  ProgramBuffer* to = random_item(true);
  if (index < 0 || to == nullptr || !demand(index, needed(*to, true))) return;
  const Stream& stream = lane(index).stream;
  const Buffer staging = pinned_.allocate(4 + random_.bits() % 2000, stream);
  staging.use_on(stream);  // the host overwrites it as soon as it is allocated again
  const std::uint32_t value = ++last_value_;
  write_value(staging.data(), staging.nbytes(), value);
  if (to->lane != index) to->buffer.use_on(stream);
  const std::array accesses{device::writes(to->data, to->usable)};
  stream.run([data = to->data, nbytes = to->nbytes, source = staging.data(),
              count = staging.nbytes()] { write_value(data, nbytes, read_value(source, count)); },
             {.label = "upload", .accesses = accesses});
  to->writer = clocks_.step(index);
  to->readers.clear();
  wrote(*to, value, false, false);
}

}  // namespace tessera::memory::testing

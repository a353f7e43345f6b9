// Captures and replays of a random allocator program.
#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/memory/testing/allocator_program_state.h"

namespace tessera::memory::testing {

namespace {

// Returns true for messages of a checked device about unordered work, which are never the fault of the program here.
bool is_disorder(const std::string& text) {
  for (const char* words : {"is not ordered before", "no full edge", "which is not allocated"}) {
    if (text.find(words) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

// Begins a capture, or continues one: a stream joins it, or it ends.
void AllocatorProgram::capture_step() {
  if (captures_under_way() == 0 || (captures_under_way() == 1 && random_.one_in(6))) {
    const int index = random_lane(false);
    const int pool = random_.below(static_cast<int>(pools_.size()));
    if (index < 0 || !pools_[static_cast<std::size_t>(pool)].pool) return;
    auto made = std::make_unique<CaptureModel>();
    made->number = ++captures_made_;
    made->model.pool = pool;
    made->model.pools.insert(pool);
    made->capture = std::make_unique<GraphCapture>(pools_[static_cast<std::size_t>(pool)].pool, lane(index).stream,
                                                   "g" + std::to_string(made->number));
    device_.faults().count_calls(true);  // from 0
    captures_.push_back(std::move(made));
    join_capture(static_cast<int>(captures_.size()) - 1, index);
    ++counts_.captures;
    return;
  }
  for (std::size_t i = 0; i < captures_.size(); ++i) {
    if (captures_[i] == nullptr) continue;
    const int choice = random_.below(8);
    if (choice < 4) {
      const int index = random_lane(false);
      if (index < 0) continue;
      const Event event = device_.create_event();
      lane(captures_[i]->lanes[0]).stream.record(event);
      lane(index).stream.wait(event);
      join_capture(static_cast<int>(i), index);
      captures_[i]->clocks.join(lane(index).inner, lane(captures_[i]->lanes[0]).inner);
    } else if (choice < 7) {
      end_capture(static_cast<int>(i), random_.one_in(8));
    }
  }
}

void AllocatorProgram::join_capture(int index, int outer) {
  CaptureModel& capture = *captures_[static_cast<std::size_t>(index)];
  lane(outer).capture = index;
  lane(outer).inner = capture.clocks.add();
  capture.lanes.push_back(outer);
}

void AllocatorProgram::captured_join(CaptureModel& capture, int inner, int other) {
  const Event event = device_.create_event();
  lane(capture.lanes[static_cast<std::size_t>(other)]).stream.record(event);
  lane(capture.lanes[static_cast<std::size_t>(inner)]).stream.wait(event);
  capture.clocks.join(inner, other);
}

bool AllocatorProgram::is_current(const CaptureModel& capture, int inner) {
  return lane(capture.lanes[static_cast<std::size_t>(inner)]).inner == inner;
}

void AllocatorProgram::captured_step(CaptureModel& capture) {
  const int inner = random_.below(static_cast<int>(capture.lanes.size()));
  if (!is_current(capture, inner)) return;
  const int choice = random_.below(20);
  if (choice < 6) {
    captured_allocate(capture, inner, random_size());
  } else if (choice < 14) {
    captured_work(capture, inner);
  } else if (choice < 17) {
    std::vector<int> mine;
    for (const int id : held_) {
      if (item(id).capture == capture.number) mine.push_back(id);
    }
    if (mine.empty()) return;
    ProgramBuffer& gone = item(mine[static_cast<std::size_t>(random_.below(static_cast<int>(mine.size())))]);
    free(gone);
    if (random_.one_in(2)) captured_allocate(capture, inner, gone.nbytes);  // requested again, maybe on another stream
  } else if (choice < 19) {
    const int other = random_.below(static_cast<int>(capture.lanes.size()));
    if (other != inner && is_current(capture, other)) captured_join(capture, inner, other);
  } else {
    captured_dependencies(capture, inner);
  }
}

void AllocatorProgram::captured_allocate(CaptureModel& capture, int inner, std::size_t nbytes) {
  const int outer = capture.lanes[static_cast<std::size_t>(inner)];
  int home = capture.model.pool;
  std::unique_ptr<PoolScope> scope;
  if (random_.one_in(16)) {
    const int pool = random_.below(static_cast<int>(pools_.size()));
    const Pool& inner_pool = pools_[static_cast<std::size_t>(pool)].pool;
    if (inner_pool) {
      scope = std::make_unique<PoolScope>(inner_pool);
      home = pool;
    }
  }
  Buffer buffer;
  try {
    buffer = allocator_.allocate(nbytes, lane(outer).stream);
  } catch (const OutOfMemory&) {
    ++counts_.out_of_memory;
    return;
  }
  ++counts_.allocations;
  capture.model.pools.insert(home);
  ProgramBuffer& made = add_item(std::move(buffer), outer, home);
  made.is_captured = true;
  made.capture = capture.number;
  capture.touched[made.id].writer = capture.clocks.step(inner);
  capture.model.made.insert(made.id);
  capture.model.operations.push_back({CapturedOperation::kHandOut, made.id, -1, 0});
  captured_work(capture, inner, made, nullptr);
}

// Orders a lane of the capture after captured work on the item; false if that is impossible.
bool AllocatorProgram::captured_demand(CaptureModel& capture, int inner, int id, bool is_write) {
  const CaptureModel::Touch& touch = capture.touched[id];
  std::vector<Moment> before{touch.writer};
  if (is_write) before.insert(before.end(), touch.readers.begin(), touch.readers.end());
  // If dependencies were replaced, no lane may come after a moment any more.
  const auto witness = [&](Moment moment) {
    for (int other = 0; other < static_cast<int>(capture.lanes.size()); ++other) {
      if (is_current(capture, other) && capture.clocks.covers(other, moment)) return other;
    }
    return -1;
  };
  for (const Moment moment : before) {
    if (!capture.clocks.covers(inner, moment) && witness(moment) < 0) return false;
  }
  for (const Moment moment : before) {
    if (!capture.clocks.covers(inner, moment)) captured_join(capture, inner, witness(moment));
  }
  return true;
}

void AllocatorProgram::captured_work(CaptureModel& capture, int inner) {
  std::vector<int> writable;
  std::vector<int> readable;
  for (const int id : held_) {
    const ProgramBuffer& one = item(id);
    const bool is_own = one.capture == capture.number;
    if (is_own || !one.is_captured) writable.push_back(id);
    readable.push_back(id);
  }
  if (writable.empty()) return;
  const auto pick = [&](const std::vector<int>& ids) -> ProgramBuffer& {
    return item(ids[static_cast<std::size_t>(random_.below(static_cast<int>(ids.size())))]);
  };
  ProgramBuffer& to = pick(writable);
  ProgramBuffer* from = random_.one_in(2) ? &pick(readable) : nullptr;
  if (from != nullptr && (from == &to || from->overlaps(to))) from = nullptr;
  captured_work(capture, inner, to, from);
}

void AllocatorProgram::captured_work(CaptureModel& capture, int inner, ProgramBuffer& to, ProgramBuffer* from) {
  const int outer = capture.lanes[static_cast<std::size_t>(inner)];
  const Stream& stream = lane(outer).stream;
  if (!captured_demand(capture, inner, to.id, true)) return;
  if (from != nullptr && !captured_demand(capture, inner, from->id, false)) return;
  for (ProgramBuffer* one : {&to, from}) {
    if (one == nullptr) continue;
    const bool is_own = one->capture == capture.number;
    if (!is_own || one->lane != outer) one->buffer.use_on(stream);
    if (!is_own) (one == &to ? capture.model.written : capture.model.read).insert(one->id);
  }
  const std::uint32_t value = ++last_value_;
  launch(stream, to, from, value, false);
  const Moment moment = capture.clocks.step(inner);
  capture.touched[to.id] = {moment, {}};
  if (from != nullptr) capture.touched[from->id].readers.push_back(moment);
  capture.model.operations.push_back({from == nullptr ? CapturedOperation::kWrite : CapturedOperation::kCopy, to.id,
                                      from == nullptr ? -1 : from->id, value});
}

// Saves the dependencies of a stream, or restores saved ones: it forgets all work captured since.
void AllocatorProgram::captured_dependencies(CaptureModel& capture, int inner) {
  const Stream& stream = lane(capture.lanes[static_cast<std::size_t>(inner)]).stream;
  if (!capture.saved.has_value()) {
    CaptureModel::Saved saved{{}, capture.clocks.clock(inner)};
    for (const device::Dependency& dependency : stream.capture_info().dependencies) {
      if (dependency.kind != device::EdgeKind::kFull) return;
      saved.nodes.push_back(dependency.node);
    }
    capture.saved = std::move(saved);
    return;
  }
  const CaptureModel::Saved saved = *std::exchange(capture.saved, std::nullopt);
  stream.set_capture_dependencies(saved.nodes);
  // From here on it is another lane, with an empty clock.
  const int outer = capture.lanes[static_cast<std::size_t>(inner)];
  const int fresh = capture.clocks.add();
  capture.lanes.push_back(outer);
  capture.clocks.merge(fresh, saved.clock);
  lane(outer).inner = fresh;
}

void AllocatorProgram::close_capture(int index) {
  CaptureModel& capture = *captures_[static_cast<std::size_t>(index)];
  for (const int outer : capture.lanes) lane(outer).capture = -1;
  // As for any allocation, other streams come after that of the allocation.
  for (const int id : capture.model.made) {
    if (item(id).freed == 0) item(id).writer = clocks_.step(item(id).lane);
  }
  captures_[static_cast<std::size_t>(index)].reset();
}

void AllocatorProgram::end_capture(int index, bool is_dropped) {
  CaptureModel& capture = *captures_[static_cast<std::size_t>(index)];
  const std::uint64_t given = device_.faults().calls(device::DriverCall::kUnmap);
  if (given > 0) throw ProgramFailure(std::to_string(given) + " chunks were released during a capture");
  if (is_dropped) {
    capture.capture.reset();
    for (const int id : capture.model.made) {
      item(id).capture = -1;
      item(id).is_dropped = true;
    }
    close_capture(index);
    return;
  }
  if (capture.lanes.size() > 1 && random_.one_in(4)) {
    try {  // the end of a capture with an unjoined stream may throw; then the capture continues
      capture.model.graph = capture.capture->end();
    } catch (const InvalidArgument& error) {
      if (is_disorder(error.what())) throw;
    }
  }
  if (!capture.model.graph) {
    const int origin = lane(capture.lanes[0]).inner;
    for (int other = 0; other < static_cast<int>(capture.lanes.size()); ++other) {
      if (other != origin && is_current(capture, other)) captured_join(capture, origin, other);
    }
    capture.model.graph = capture.capture->end();
  }
  capture.model.captured = replays_made_;
  graphs_.push_back(std::make_unique<GraphModel>(capture.model));
  close_capture(index);
}

// Orders a replay after the own work of the program. The allocator orders work on buffers of the pool that were freed
// before the graph received their memory and, unless `with_replays`, the replays of other graphs.
bool AllocatorProgram::order_replay(const GraphModel& graph, int index, bool with_replays) {
  std::vector<Moment> before{graph.last};
  const auto add = [&](const std::vector<Moment>& more) { before.insert(before.end(), more.begin(), more.end()); };
  for (const int id : graph.read) {
    before.push_back(item(id).writer);
    if (item(id).is_captured && item(id).home != graph.pool)
      add(pools_[static_cast<std::size_t>(item(id).home)].replays);
  }
  for (const int id : graph.written) {
    before.push_back(item(id).writer);
    add(item(id).readers);
  }
  for (const auto& one : items_) {
    if (!one->is_captured) continue;
    const bool is_shared = std::any_of(graph.made.begin(), graph.made.end(), [&](int id) {
      const bool is_handed_over = one->freed != 0 && one->freed <= item(id).born;
      return one->overlaps(item(id)) && !is_handed_over;
    });
    // Its input may have been freed and reused by a buffer of a later capture.
    const bool is_under = std::any_of(graph.read.begin(), graph.read.end(),
                                      [&](int id) { return item(id).is_captured && one->overlaps(item(id)); });
    if (!is_shared && !is_under) continue;
    before.push_back(one->writer);
    add(one->readers);
  }
  if (with_replays) {
    for (const int pool : graph.pools) add(pools_[static_cast<std::size_t>(pool)].replays);
  }
  return demand(index, before);
}

void AllocatorProgram::replay_step() {
  const int index = random_lane(false);
  if (index < 0 || graphs_.empty()) return;
  GraphModel& graph = *graphs_[static_cast<std::size_t>(random_.below(static_cast<int>(graphs_.size())))];
  if (!order_replay(graph, index, random_.one_in(2))) return;
  try {
    graph.graph.replay(lane(index).stream);
  } catch (const InvalidArgument& error) {
    if (is_disorder(error.what())) throw;
    ++counts_.refused_replays;
    return;
  }
  replayed(graph, index);
}

void AllocatorProgram::replayed(GraphModel& graph, int index) {
  ++counts_.replays;
  const Moment moment = clocks_.step(index);
  graph.last = moment;
  for (const int pool : graph.pools) pools_[static_cast<std::size_t>(pool)].replays.push_back(moment);
  for (const int id : graph.read) {
    const ProgramBuffer& one = item(id);
    if (one.is_captured && one.capture >= 0 && one.home == graph.pool &&
        (one.state == Value::kUnwritten || one.state == Value::kOverwritten))
      throw ProgramFailure("step " + std::to_string(now_) + ": replay of '" + graph.graph.name() +
                           "' was let through though its input item " + std::to_string(id) +
                           (one.state == Value::kUnwritten ? " was never written" : " was overwritten"));
    if (one.is_dropped && one.home == graph.pool && one.overwritten > graph.captured)
      throw ProgramFailure("step " + std::to_string(now_) + ": replay of '" + graph.graph.name() +
                           "' was let through though its input item " + std::to_string(id) +
                           ", of a capture that was dropped, was overwritten since it was captured");
  }
  ++replays_made_;
  for (const CapturedOperation& operation : graph.operations) {
    ProgramBuffer& to = item(operation.to);
    if (operation.kind == CapturedOperation::kHandOut) {
      wrote(to, std::nullopt, false, true);
    } else if (operation.kind == CapturedOperation::kWrite) {
      wrote(to, operation.value, false, true);
    } else {
      const ProgramBuffer& from = item(operation.from);
      wrote(to, from.state == Value::kKnown ? std::optional(from.value) : std::nullopt, false, true);
    }
  }
  // The replay order knows the readers of memory shared in the pool; elsewhere the holder must know them.
  for (const int id : graph.read) {
    if (!item(id).is_captured || item(id).home != graph.pool) item(id).readers.push_back(moment);
  }
  for (const int id : graph.written) {
    item(id).writer = moment;
    item(id).readers.clear();
  }
}

// Removes a graph, or a stream during its replays.
void AllocatorProgram::graph_step() {
  if (graphs_.size() < 4 && !random_.one_in(4)) return;
  if (!graphs_.empty()) graphs_.erase(graphs_.begin() + random_.below(static_cast<int>(graphs_.size())));
}

void AllocatorProgram::estimate_step() {
  const int index = random_lane(false);
  const PoolModel& pool = pools_[static_cast<std::size_t>(random_.below(static_cast<int>(pools_.size())))];
  if (index < 0 || !pool.pool || captures_under_way() > 0) return;
  try {
    static_cast<void>(estimate(pool.pool, lane(index).stream, [&] {
      std::vector<Buffer> all;
      for (int i = random_.below(6); i > 0; --i) {
        all.push_back(allocator_.allocate(random_size(), lane(index).stream));
        if (random_.one_in(2)) all.erase(all.begin());
      }
    }));
  } catch (const OutOfMemory&) {
    ++counts_.out_of_memory;
  }
}

}  // namespace tessera::memory::testing

#include "tessera/memory/testing/allocator_program.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/device/host/seeded_scheduler.h"
#include "tessera/memory/device_upstream.h"
#include "tessera/memory/testing/allocator_program_state.h"
#include "tessera/memory/testing/buffer_value.h"

namespace tessera::memory::testing {

using device::host::Mode;
using device::host::SeededScheduler;

namespace {

Policy random_policy(RandomNumbers& random) {
  Policy policy;
  policy.expandable = !random.one_in(3);
  policy.granule_nbytes = random.one_in(2) ? std::size_t{64} << 10 : std::size_t{2} << 20;
  policy.shared_segment_nbytes = std::size_t{4} << 20;
  if (random.one_in(4)) policy.min_remainder_nbytes = std::size_t{4} << 10;
  if (random.one_in(4)) policy.roundup_divisions = 4;
  if (random.one_in(4)) policy.cross_stream = CrossStream::kGrow;
  if (random.one_in(4)) policy.limit_nbytes = std::size_t{12} << 20;
  if (policy.limit_nbytes != 0 && random.one_in(2)) policy.collect_above = 0.5;
  policy.may_synchronize = !random.one_in(4);
  return policy;
}

}  // namespace

AllocatorProgram::AllocatorProgram(device::Device device, std::uint64_t seed, AllocatorProgramCounts& counts)
    : device_(std::move(device)), random_(seed), counts_(counts) {
  allocator_ = Allocator(device_, {.policy = random_policy(random_)});
  pinned_ = Allocator(device_, {.upstream = pinned_upstream(device_), .host_writes = true});
  pools_.push_back({allocator_.default_pool(), {}});
  const int count = 2 + random_.below(3);
  for (int i = 0; i < count; ++i) {
    lanes_.push_back({i == 0 ? device_.default_stream() : device_.create_stream({.may_spin = random_.one_in(6)})});
    clocks_.add();
  }
  for (int i = 0; i < 2; ++i) pools_.push_back({allocator_.create_pool({.borrow_on_oom = random_.one_in(2)}), {}});
}

void AllocatorProgram::run() {
  const int steps = 200 + random_.below(200);
  for (int i = 0; i < steps; ++i) {
    ++now_;
    step();
  }
  finish();
}

void AllocatorProgram::step() {
  const int choice = random_.below(100);
  if (choice < 24) {
    allocate_step();
  } else if (choice < 42) {
    free_step();
  } else if (choice < 68) {
    work_step();
  } else if (choice < 72) {
    overlap_step();
  } else if (choice < 75) {
    stream_step();
  } else if (choice < 79) {
    pool_step();
  } else if (choice < 81) {
    layout_step();
  } else if (choice < 83) {
    pinned_step();
  } else if (choice < 90) {
    capture_step();
  } else if (choice < 96) {
    replay_step();
  } else if (choice < 98) {
    graph_step();
  } else if (choice < 99) {
    verify();
  } else {
    estimate_step();
  }
  for (std::size_t i = 0; i < captures_.size(); ++i) {
    if (captures_[i] != nullptr && random_.one_in(2)) captured_step(*captures_[i]);
  }
}

// ---- choices

std::size_t AllocatorProgram::random_size() {
  const std::size_t most = std::size_t{4} << random_.below(20);  // log-uniform up to 4 MiB
  return 4 + random_.bits() % most;
}

int AllocatorProgram::captures_under_way() const {
  return static_cast<int>(
      std::count_if(captures_.begin(), captures_.end(), [](const auto& one) { return one != nullptr; }));
}

int AllocatorProgram::random_lane(bool may_capture) {
  for (int tries = 0; tries < 8; ++tries) {
    const int index = random_.below(static_cast<int>(lanes_.size()));
    if (lane(index).is_alive() && (may_capture || lane(index).capture < 0)) return index;
  }
  return -1;
}

bool AllocatorProgram::is_open(const ProgramBuffer& one) const {
  return std::any_of(captures_.begin(), captures_.end(),
                     [&](const auto& capture) { return capture != nullptr && capture->number == one.capture; });
}

ProgramBuffer* AllocatorProgram::random_item(bool may_be_captured) {
  for (int tries = 0; tries < 4 && !held_.empty(); ++tries) {
    ProgramBuffer& one = item(held_[static_cast<std::size_t>(random_.below(static_cast<int>(held_.size())))]);
    if (!one.is_captured || (may_be_captured && !is_open(one))) return &one;
  }
  return nullptr;
}

// ---- order

// Returns the work that must be over before the item is accessed. Replays count for all buffers of their pool.
std::vector<Moment> AllocatorProgram::needed(const ProgramBuffer& one, bool is_write) const {
  std::vector<Moment> moments{one.writer};
  if (is_write) moments.insert(moments.end(), one.readers.begin(), one.readers.end());
  if (one.is_captured) {
    const auto& replays = pools_[static_cast<std::size_t>(one.home)].replays;
    moments.insert(moments.end(), replays.begin(), replays.end());
  }
  return moments;
}

void AllocatorProgram::join(int index, int other) {
  const Event event = device_.create_event();
  lane(other).stream.record(event);
  lane(index).stream.wait(event);
  clocks_.join(index, other);
}

// Orders the lane after the moments; false if that is impossible now.
bool AllocatorProgram::demand(int index, const std::vector<Moment>& moments) {
  for (const Moment moment : moments) {
    if (clocks_.covers(index, moment)) continue;
    if (lane(moment.lane).is_alive() && lane(moment.lane).capture >= 0) return false;
    if (!lane(moment.lane).is_alive() && captures_under_way() > 0) return false;
  }
  for (const Moment moment : moments) {
    if (clocks_.covers(index, moment)) continue;
    if (lane(moment.lane).is_alive()) {
      join(index, moment.lane);
    } else {
      synchronize();
    }
  }
  return true;
}

void AllocatorProgram::synchronize() {
  device_.synchronize(std::chrono::seconds(60));
  clocks_.complete();
}

// ---- buffers

ProgramBuffer& AllocatorProgram::add_item(Buffer buffer, int index, int home) {
  auto one = std::make_unique<ProgramBuffer>();
  one->id = static_cast<int>(items_.size());
  one->data = buffer.data();
  one->nbytes = buffer.nbytes();
  one->usable = buffer.usable_nbytes();
  one->buffer = std::move(buffer);
  one->lane = index;
  one->home = home;
  one->born = now_;
  if (one->nbytes > one->usable) throw ProgramFailure("a block is smaller than what was asked for");
  for (const int other : held_) {
    if (item(other).overlaps(*one)) throw ProgramFailure("two buffers that are held overlap");
  }
  held_.push_back(one->id);
  items_.push_back(std::move(one));
  return *items_.back();
}

// Returns null if there is no memory.
ProgramBuffer* AllocatorProgram::allocate(int index, std::size_t nbytes) {
  std::vector<std::unique_ptr<PoolScope>> scopes;
  int home = 0;
  for (int depth = random_.below(3); depth > 0 && random_.one_in(2); --depth) {
    const int pool = random_.below(static_cast<int>(pools_.size()));
    if (!pools_[static_cast<std::size_t>(pool)].pool) continue;
    scopes.push_back(std::make_unique<PoolScope>(pools_[static_cast<std::size_t>(pool)].pool));
    home = pool;
  }
  try {
    Buffer buffer = allocator_.allocate(nbytes, lane(index).stream);
    while (!scopes.empty()) scopes.pop_back();
    ++counts_.allocations;
    ProgramBuffer& made = add_item(std::move(buffer), index, home);
    made.writer = clocks_.step(index);
    return &made;
  } catch (const OutOfMemory&) {
    while (!scopes.empty()) scopes.pop_back();
    ++counts_.out_of_memory;
    return nullptr;
  }
}

void AllocatorProgram::free(ProgramBuffer& one) {
  one.freed = now_;
  std::erase(held_, one.id);
  one.buffer.reset();
}

void AllocatorProgram::allocate_step() {
  const int index = random_lane(false);
  if (index < 0) return;
  ProgramBuffer* made = allocate(index, random_size());
  // Always, and all of it: for finished work the checker knows the order only after a launch.
  if (made != nullptr) eager_work(index, *made, nullptr);
}

void AllocatorProgram::free_step() {
  if (held_.empty()) return;
  // Without frequent frees a program would only grow.
  for (int n = held_.size() > 24 ? 6 : 1; n > 0 && !held_.empty(); --n) {
    ProgramBuffer& one = item(held_[static_cast<std::size_t>(random_.below(static_cast<int>(held_.size())))]);
    if (!is_open(one)) free(one);
  }
}

// ---- checks

void AllocatorProgram::verify() {
  if (captures_under_way() > 0) return;
  synchronize();
  for (const int id : held_) {
    const ProgramBuffer& one = item(id);
    if (one.state != Value::kKnown) continue;
    ++counts_.values_compared;
    const std::uint32_t found = read_value(one.data, one.nbytes);
    if (found != one.value)
      throw ProgramFailure("step " + std::to_string(now_) + ": item " + std::to_string(id) + " of " +
                           std::to_string(one.nbytes) + " bytes, born at step " + std::to_string(one.born) +
                           ", holds " + std::to_string(found) + ", not " + std::to_string(one.value));
  }
  check_identity("while the program runs");
}

void AllocatorProgram::check_identity(const char* when) {
  const Snapshot snapshot = allocator_.snapshot();
  const Totals walked = snapshot.totals();
  const std::string problem = snapshot.inconsistency();
  if (!problem.empty()) throw ProgramFailure(std::string(when) + ": " + problem);
  if (!walked.closes()) throw ProgramFailure(std::string(when) + ": the identity does not close");
  if (!(walked == allocator_.statistics().now))
    throw ProgramFailure(std::string(when) + ": counted and walked sums differ");
  if (walked.live_blocks != held_.size()) throw ProgramFailure(std::string(when) + ": live blocks are not those held");
}

void AllocatorProgram::finish() {
  for (std::size_t i = 0; i < captures_.size(); ++i) {
    if (captures_[i] != nullptr) end_capture(static_cast<int>(i), random_.one_in(3));
  }
  verify();
  const Statistics statistics = allocator_.statistics();
  counts_.device_waits += statistics.device_waits;
  counts_.covered_reuses += statistics.covered_reuses;
  counts_.capture_reuses += statistics.capture_reuses;
  counts_.moves += statistics.moves;
  const bool has_handles = random_.one_in(2);
  if (!has_handles) {
    pools_.clear();
    allocator_ = {};
  }
  while (!graphs_.empty() || !held_.empty()) {
    if (!held_.empty() && (graphs_.empty() || random_.one_in(2))) {
      free(item(held_[static_cast<std::size_t>(random_.below(static_cast<int>(held_.size())))]));
    } else {
      graphs_.erase(graphs_.begin() + random_.below(static_cast<int>(graphs_.size())));
    }
  }
  synchronize();
  if (has_handles) {
    check_identity("with all freed");
    allocator_.trim();
    const std::uint64_t left = allocator_.statistics().now.reserved_nbytes;
    if (left != 0) throw ProgramFailure("with all freed and trimmed " + std::to_string(left) + " bytes are left");
    pools_.clear();
    allocator_.trim();
    if (allocator_.snapshot().pools.size() != 1) throw ProgramFailure("a pool that nobody holds is still there");
    allocator_ = {};
  }
  pinned_ = {};
  const std::size_t left = device_.memory_use().own_nbytes;
  if (left != 0) throw ProgramFailure("with all gone " + std::to_string(left) + " bytes of the device are left");
}

namespace {

std::string run_on(const device::Device& device, std::uint64_t seed, AllocatorProgramCounts& counts) {
  try {
    AllocatorProgram(device, seed, counts).run();
  } catch (const ProgramFailure& failure) {
    return failure.what();
  } catch (const std::exception& error) {
    return std::string("an error that the program did not earn: ") + error.what();
  }
  return {};
}

}  // namespace

std::string check_allocator_program(std::uint64_t seed, AllocatorProgramCounts* counts) {
  AllocatorProgramCounts unused;
  if (counts == nullptr) counts = &unused;
  device::host::HostOptions options;
  constexpr std::array kModes{Mode::kSeeded, Mode::kInline, Mode::kThreaded, Mode::kSeeded};
  options.mode = kModes[seed % 4];
  options.checked = seed / 4 % 2 == 0;
  options.capacity_nbytes = std::size_t{seed / 8 % 2 == 0 ? 16U : 256U} << 20;
  if (options.mode != Mode::kSeeded) return run_on(device::host::make_host_device(options), seed, *counts);
  options.scheduler = SeededScheduler::create(seed);
  const SeededScheduler::Participant main(options.scheduler, "program");
  return run_on(device::host::make_host_device(options), seed, *counts);
}

}  // namespace tessera::memory::testing

#include "tessera/comm/backends/cuda/cuda_communicator.h"

#include <algorithm>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/backends/cuda/plan.h"
#include "tessera/comm/backends/cuda/signals.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm::cuda {
namespace {

std::uint64_t load(const std::uint64_t& word) {
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}
void store(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
}

// Returns the maximum number of blocks per rank. The ranks of the world share half of the device's capacity, so that a
// second stream or group of each still has room.
std::uint32_t max_blocks(const device::Device& device) {
  const int room = device.properties().multiprocessors * kBlocksEach / 2;
  return static_cast<std::uint32_t>(std::max(1, room / current_place().world_size));
}

}  // namespace

CudaCommunicator::CudaCommunicator(std::shared_ptr<SharedGroup> shared, const ConnectRequest& request)
    : shared_(std::move(shared)),
      rank_(request.rank),
      size_(static_cast<int>(request.ranks.size())),
      max_blocks_(max_blocks(shared_->device())),
      cells_(std::make_shared<device::PinnedMemory>(shared_->device().allocate_pinned(kCells * sizeof(Cell)))),
      slots_(kCells) {
  std::fill_n(cells_->data(), cells_->nbytes(), std::byte{0});
  for (std::size_t i = 0; i < kCells; ++i) slots_[i].cell = reinterpret_cast<Cell*>(cells_->data()) + i;
  shared_->join(rank_, request);
}

CudaCommunicator::~CudaCommunicator() { leave(); }

void CudaCommunicator::leave() noexcept {
  try {
    const std::lock_guard lock(launch_mutex_);
    // Pending work still takes part, and writes to memory that is kept alive meanwhile.
    if (last_stream_ && !last_stream_.is_capturing() && !last_stream_.query()) {
      last_stream_.run([shared = shared_, rank = rank_, cells = cells_] { shared->leave(rank); });
      return;
    }
  } catch (const std::exception&) {
    // The stream has failed, and it is unknown which work still runs.
    shared_->keep();
  }
  shared_->leave(rank_);
}

const Capabilities& cuda_capabilities() {
  static const Capabilities kCan = {.kinds = kAllOpKinds & ~bit_of(OpKind::kSend) & ~bit_of(OpKind::kRecv),
                                    .device_kinds = {"cuda"},
                                    .has_fixed_order = true,
                                    .has_abort = true,
                                    .has_shrink = true,
                                    .has_capture = true,
                                    .has_symmetric = true,
                                    .has_checked_mode = true};
  return kCan;
}

std::vector<int> CudaCommunicator::gone() const {
  std::vector<int> ranks;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && shared_->has_left(peer)) ranks.push_back(peer);
  }
  return ranks;
}

std::uint64_t CudaCommunicator::sequence() const { return load(shared_->control()->ranks[rank_].begun); }

void CudaCommunicator::extend_deadline(std::chrono::nanoseconds by) {
  const std::lock_guard lock(look_mutex_);
  Control::OfRank& own = shared_->control()->ranks[rank_];
  const std::uint64_t running = sequence();
  const auto more = static_cast<std::uint64_t>(by.count());
  store(own.extended_all, load(own.extended_all) + more);
  if (load(own.extended_task) == running) {
    store(own.extended_ns, load(own.extended_ns) + more);
  } else {
    store(own.extended_task, 0);
    store(own.extended_ns, more);
    store(own.extended_task, running);
  }
}

// Ranks share one address space, so remapped memory has the same addresses for all of them.
std::optional<PeerPlace> CudaCommunicator::place_of(const void* address, std::size_t nbytes) {
  const auto* last = static_cast<const std::byte*>(address) + nbytes - 1;
  const device::Device& on = shared_->device();
  if (!on.is_capturable(address) || !on.is_capturable(last)) return std::nullopt;
  return PeerPlace{reinterpret_cast<std::uintptr_t>(address)};
}

std::byte* CudaCommunicator::reach(int /*peer*/, const PeerPlace& place) {
  return reinterpret_cast<std::byte*>(place.where);
}

std::shared_ptr<SignalBackend> CudaCommunicator::connect_signals(SignalPads pads) {
  return std::make_shared<CudaSignals>(shared_, rank_, std::move(pads));
}

void CudaCommunicator::note_passed(std::uint64_t registration) {
  store(shared_->control()->ranks[rank_].passed, registration);
}

void CudaCommunicator::check_buffers(const Operation& operation, const device::Stream& stream) const {
  const Extents extents = definition(operation.kind).extents(operation, rank_, size_);
  const auto check = [&](const void* address, const char* what) {
    // A kernel that accessed such memory would make the device unusable.
    const bool can_touch = address == nullptr || stream.device().is_capturable(address);
    TESSERA_CHECK(can_touch, text_of(operation), ": ", what, " must be memory that ", stream.device().name(),
                  " can access, got address ", address, "; allocate it there, or pin it");
  };
  if (extents.in > 0) check(operation.in, "input");
  if (extents.out > 0) check(operation.out, "output");
  check(operation.rows.in_offsets, "in_offsets");
  check(operation.rows.in_sizes, "in_sizes");
  check(operation.rows.out_offsets, "out_offsets");
  check(operation.rows.out_sizes, "out_sizes");
}

// Operations of the groups that share this communicator run in the order they were enqueued, even on different streams.
void CudaCommunicator::order_behind_last(const device::Stream& stream) {
  const device::Stream last = std::exchange(last_stream_, stream);
  if (!last || last.id() == stream.id() || last.is_capturing() || stream.is_capturing()) return;
  const device::Event event = stream.device().create_event();
  last.record(event);
  stream.wait(event);
}

void CudaCommunicator::enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) {
  TESSERA_CHECK(stream.device() == shared_->device(), "group ", *task->group, ": the stream must be on ",
                shared_->device().name(), ", got stream ", stream.name(), " on ", stream.device().name());
  for (const Operation& operation : task->operations) check_buffers(operation, stream);
  const bool is_captured = stream.is_capturing();
  const std::lock_guard lock(launch_mutex_);
  if (!is_captured) {
    if (const std::exception_ptr error = shared_->error(*task->group)) {
      task->error = error;
      task->is_done.store(1, std::memory_order_release);
      return;
    }
  }
  shared_->note_stream(rank_, stream);
  if (std::exchange(last_group_, task->group_digest) != task->group_digest) {
    shared_->note_group(task->group_digest, *task->group);
  }
  order_behind_last(stream);
  if (is_captured) {
    shared_->keep();
    launch(*task, nullptr, stream);
    return;
  }
  Cell* const cell = take_cell(task);
  task->look = [self = shared_from_this(), cell](Task& asked, bool has_ended) { self->look(asked, *cell, has_ended); };
  launch(*task, cell, stream);
  ++launched_;
  note_launched(*task, *cell);
}

void CudaCommunicator::note_launched(const Task& task, const Cell& cell) {
  {
    const std::lock_guard lock(look_mutex_);
    pending_.push_back(
        {.cell = &cell, .launched = detail::Launched::of(task, rank_), .record = task.record, .group = task.group});
    if (std::exchange(is_watched_, true)) return;
  }
  detail::watch(shared_from_this());
}

bool CudaCommunicator::look() {
  record_progress();
  const std::lock_guard lock(look_mutex_);
  is_watched_ = !pending_.empty();
  return is_watched_;
}

void CudaCommunicator::record_progress() {
  std::vector<std::shared_ptr<const std::string>> groups;  // destroyed after the lock is released
  const std::lock_guard lock(look_mutex_);
  for (; !pending_.empty(); pending_.pop_front()) {
    PendingLaunch& first = pending_.front();
    const std::uint64_t sequence = load(first.cell->sequence);
    if (sequence == 0) return;
    const std::uint64_t result = load(first.cell->result);
    if (first.has_begun && result == Cell::kRuns) return;
    groups.push_back(first.group.lock());
    const bool is_there = groups.back() != nullptr;
    if (is_there && !std::exchange(first.has_begun, true)) first.record->began(first.launched, sequence);
    if (result == Cell::kRuns) return;
    const bool has_failed = result == Cell::kFailed;
    if (is_there) {
      first.record->ended(first.launched, sequence, has_failed ? shared_->error(*groups.back()) : nullptr);
    }
  }
}

void CudaCommunicator::launch(const Task& task, Cell* cell, const device::Stream& stream) {
  const std::size_t total = task.operations.size();
  bool has_begun = false;
  try {
    const auto launch_next = [&](const Operation& operation, bool is_ahead, bool is_last) {
      launch_part(task, operation, {.is_ahead = is_ahead, .is_first = !has_begun, .is_last = is_last}, cell, stream);
      has_begun = true;
    };
    if (shared_->is_checked()) {
      for (const Operation& operation : task.operations) launch_next(operation, true, false);
      // A fault that one rank found reaches the others here.
      launch_next({.kind = OpKind::kBarrier}, true, false);
    }
    for (std::size_t i = 0; i < total; ++i) launch_next(task.operations[i], false, i + 1 == total);
  } catch (const std::exception& error) {
    // Peers wait for the rest of the started launch.
    if (has_begun) shared_->abort(rank_, error.what());
    throw;
  }
}

void CudaCommunicator::launch_part(const Task& task, const Operation& operation, KernelPosition part, Cell* cell,
                                   const device::Stream& stream) {
  CudaLaunch planned = plan(operation, task.group_digest, rank_, size_);
  planned.group = shared_->memory();
  planned.control = shared_->control();
  planned.deadline_ns =
      task.deadline == device::kForever ? ~std::uint64_t{0} : static_cast<std::uint64_t>(task.deadline.count());
  planned.extended_base = cell == nullptr ? ~std::uint64_t{0} : load(shared_->control()->ranks[rank_].extended_all);
  planned.notice.registrations = task.registrations;
  planned.registration = operation.registration;
  planned.cell = cell;
  planned.is_first = part.is_first;
  planned.is_last = part.is_last;
  planned.is_ahead = part.is_ahead;
  if (part.is_ahead) planned.parts = false;
  const std::uint32_t blocks = part.is_ahead ? 1 : std::min(blocks_for(operation, planned), max_blocks_);
  const bool is_barrier = operation.kind == OpKind::kBarrier;
  const device::LaunchConfig config{
      .grid = {blocks, 1, 1}, .block = {is_barrier ? 32U : static_cast<std::uint32_t>(kThreads), 1, 1}, .spins = true};
  stream.launch(shared_->kernels().for_transfers(operation), config, device::KernelArgs(planned),
                {.label = to_string(operation.kind)});
}

Cell* CudaCommunicator::take_cell(const std::shared_ptr<Task>& task) {
  Slot& slot = slots_[launched_ % kCells];
  if (launched_ >= kCells) {
    // An operation has visibly ended once the next one has started.
    const Cell& next = *slots_[(launched_ + 1) % kCells].cell;
    const auto until =
        std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(task->deadline, std::chrono::hours(24));
    while (load(next.sequence) == 0) {
      TESSERA_CHECK_AS(TimeoutError, std::chrono::steady_clock::now() < until, "group ", *task->group, ": ", kCells,
                       " operations of rank ", rank_, " are enqueued and none started within ", task->deadline);
      std::this_thread::yield();
    }
    if (const std::shared_ptr<Task> before = slot.task.lock()) look(*before, *slot.cell, true);
    record_progress();
  }
  slot.task = task;
  for (std::uint64_t* word : {&slot.cell->sequence, &slot.cell->began_ns, &slot.cell->ended_ns, &slot.cell->result}) {
    store(*word, 0);
  }
  return slot.cell;
}

void CudaCommunicator::look(Task& task, const Cell& cell, bool has_ended) {
  if (has_ended) record_progress();
  const std::lock_guard lock(look_mutex_);
  if (task.is_done.load(std::memory_order_acquire) != 0) return;
  task.sequence.store(load(cell.sequence), std::memory_order_relaxed);
  const std::uint64_t result = load(cell.result);
  if (result == Cell::kRuns || !has_ended) return;
  task.ran_ns.store(static_cast<std::int64_t>(load(cell.ended_ns) - load(cell.began_ns)), std::memory_order_relaxed);
  if (result == Cell::kFailed) task.error = shared_->error(*task.group);
  task.is_done.store(1, std::memory_order_release);
}

}  // namespace tessera::comm::cuda

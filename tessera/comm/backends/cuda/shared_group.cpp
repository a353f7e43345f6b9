#include "tessera/comm/backends/cuda/shared_group.h"

#include <algorithm>
#include <utility>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/deadline_text.h"
#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/comm/store/wait_notice.h"
#include "tessera/comm/symmetric_backend.h"

extern "C" const std::byte tessera_kernels_comm_transfers_floats[];
extern "C" const std::byte tessera_kernels_comm_transfers_floats_end[];
extern "C" const std::byte tessera_kernels_comm_transfers_integers[];
extern "C" const std::byte tessera_kernels_comm_transfers_integers_end[];

extern "C" const std::byte tessera_kernels_comm_signals[];
extern "C" const std::byte tessera_kernels_comm_signals_end[];

namespace tessera::comm::cuda {
namespace {

constexpr const char* kSignal = "signal";
constexpr const char* kFloatFolds[] = {"sum", "avg", "min", "max", "prod", "premultiply"};
constexpr const char* kOrderedFolds[] = {"avg", "min", "max"};
constexpr const char* kWrappingFolds[] = {"sum", "prod", "band", "bor", "bxor"};

// Returns the name in kernel names, which is a single word.
std::string_view name_of(Reduction kind) { return kind == Reduction::kPremultiply ? "premultiply" : to_string(kind); }

// Returns the type of the reduction: complex numbers by their parts, unsigned if the sign makes no difference.
std::string folded_type(DType dtype, Reduction kind) {
  if (dtype == DType::kC64) return "f32";
  if (dtype == DType::kC128) return "f64";
  if (dtype == DType::kBool) return "u8";
  std::string name(to_string(dtype));
  const bool is_ordered = kind == Reduction::kAvg || kind == Reduction::kMin || kind == Reduction::kMax;
  if (name[0] == 'i' && !is_ordered) name[0] = 'u';
  return name;
}

detail::Notice notice_of(const CudaNotice& notice) {
  detail::Notice seen;
  seen.fingerprint = {notice.fingerprint_low, notice.fingerprint_high};
  seen.task = notice.task;
  seen.registrations = notice.registrations;
  seen.group = notice.group;
  seen.kind = static_cast<OpKind>(notice.kind);
  seen.dtype = static_cast<DType>(notice.dtype);
  seen.reduction = static_cast<Reduction>(notice.reduction);
  seen.root = notice.root;
  seen.count = notice.count;
  seen.counts_digest = notice.counts_digest;
  seen.factor = notice.factor;
  seen.parts = static_cast<std::uint16_t>(notice.part_total);
  std::copy_n(notice.parts, std::min<std::size_t>(notice.part_total, kMaxRanks), seen.first_parts);
  seen.layouts = notice.layouts;
  seen.dims = notice.dims;
  seen.split = notice.split;
  seen.concat = notice.concat;
  std::copy_n(notice.sizes, std::size(seen.first_sizes), seen.first_sizes);
  return seen;
}

std::string text_of_member(std::span<const Rank> world, int rank) {
  return detail::text_of_members(std::span(&rank, 1), world);
}

std::string text_of_offer(const CudaVerdict& verdict, std::span<const Rank> world) {
  const auto& [sent, taken, first, room] = verdict.numbers;
  const std::string text = tessera::detail::concat(text_of_member(world, verdict.peer), " sends ", sent, " elements");
  return taken == -1 ? tessera::detail::concat(text, " to offset ", first, " of ", room)
                     : tessera::detail::concat(text, ", ", text_of_member(world, verdict.by), " expects ", taken);
}

Failure difference_of_logs(const CudaVerdict& verdict, std::span<const Rank> world) {
  const int size = static_cast<int>(world.size());
  std::map<std::uint64_t, std::vector<int>> by_log;
  for (int rank = 0; rank < size; ++rank) by_log[verdict.tasks[rank]].push_back(rank);
  const auto most = std::ranges::max_element(by_log, {}, [](const auto& entry) { return entry.second.size(); });
  Failure failure{.kind = Failure::Kind::kMismatch};
  for (const auto& [log, ranks] : by_log) {
    if (log != most->first) failure.missing.insert(failure.missing.end(), ranks.begin(), ranks.end());
  }
  failure.text = "ranks differ: " + detail::text_of_members(failure.missing, world) +
                 " made other pool requests than " + detail::text_of_members(most->second, world) +
                 "; call rendezvous() to see the difference";
  return failure;
}

// `groups` holds names by digest.
Failure failure_of(const CudaVerdict& verdict, std::span<const Rank> world,
                   const std::map<std::uint64_t, std::string>& groups) {
  const int size = static_cast<int>(world.size());
  std::vector<detail::Notice> notices;
  std::vector<std::string> names;
  std::vector<int> missing;
  std::vector<std::uint64_t> tasks;  // tasks of the missing ranks
  for (int rank = 0; rank < size; ++rank) {
    notices.push_back(notice_of(verdict.notices[rank]));
    const auto name = groups.find(notices.back().group);
    names.push_back(name == groups.end() ? "" : name->second);
    if ((verdict.missing >> rank & 1) == 0) continue;
    missing.push_back(rank);
    tasks.push_back(verdict.tasks[rank]);
  }
  switch (verdict.ending) {
    case Ending::kDeadline:
      return {.kind = Failure::Kind::kDeadline,
              .text = detail::text_of_late({.ranks = missing,
                                            .world = world,
                                            .deadline = std::chrono::nanoseconds(verdict.deadline_ns),
                                            .extra = std::chrono::nanoseconds(verdict.extended_ns),
                                            .tasks = std::move(tasks)})};
    case Ending::kLeft:
      return {.kind = Failure::Kind::kDeadRank,
              .text = detail::text_of_members(missing, world) + " has left the group"};
    case Ending::kMismatch: return detail::difference_of(notices, world, names);
    case Ending::kOffer: return {.kind = Failure::Kind::kMismatch, .text = text_of_offer(verdict, world)};
    case Ending::kRows: {
      const auto& [first, rows, room, unused] = verdict.numbers;
      return {.kind = Failure::Kind::kLost,
              .text = tessera::detail::concat(text_of_member(world, verdict.by), " failed: rows for ",
                                              text_of_member(world, verdict.peer), " must be in [0, ", room, "), got [",
                                              first, ", ", first, " + ", rows, ")")};
    }
    case Ending::kPassed:
      return {.kind = Failure::Kind::kMismatch,
              .text = detail::text_of_passed(text_of_member(world, verdict.by), text_of_member(world, verdict.peer))};
    case Ending::kLogs: return difference_of_logs(verdict, world);
    case Ending::kAborted: break;
  }
  return {.kind = Failure::Kind::kAborted, .text = "aborted"};
}

// "pool 1, wait_signal(rank 0, channel 3) of rank 1: signal 3 of rank 0 did not arrive within 0.05 s (2 arrived)"
Failure failure_of_signal(const CudaVerdict& verdict, const std::string& pool, std::span<const Rank> world) {
  constexpr const char* kNames[] = {"put_signal", "wait_signal", "barrier"};
  Failure failure = failure_of(verdict, world, {});
  if (verdict.ending == Ending::kDeadline) {
    failure.text = tessera::detail::concat("signal ", verdict.numbers[0], " of ", text_of_member(world, verdict.peer),
                                           " did not arrive within ",
                                           detail::text_of_deadline(std::chrono::nanoseconds(verdict.deadline_ns),
                                                                    std::chrono::nanoseconds(verdict.extended_ns)),
                                           " (", verdict.numbers[1], " arrived)");
  }
  std::string what = pool + ", " + kNames[verdict.signal] + "(";
  if (verdict.signal == static_cast<std::int32_t>(Signal::Kind::kWait)) {
    what += "rank " + std::to_string(verdict.peer) + ", ";
  }
  failure.text = tessera::detail::concat(what, "channel ", verdict.channel, ") of ", text_of_member(world, verdict.by),
                                         ": ", failure.text);
  return failure;
}

std::size_t up_to(std::size_t nbytes, std::size_t unit) { return (nbytes + unit - 1) / unit * unit; }

}  // namespace

const Kernels& Kernels::on(const device::Device& device) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<const device::DeviceState*, std::unique_ptr<const Kernels>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<const Kernels>& kernels = loaded[device.state().get()];
  if (kernels == nullptr) kernels.reset(new Kernels(device));
  return *kernels;
}

Kernels::Kernels(const device::Device& device) {
  const device::Module floats =
      device.load_module({tessera_kernels_comm_transfers_floats, tessera_kernels_comm_transfers_floats_end});
  const device::Module integers =
      device.load_module({tessera_kernels_comm_transfers_integers, tessera_kernels_comm_transfers_integers_end});
  const auto add = [&](const device::Module& module, const std::string& name) {
    kernels_.emplace(name, module.kernel("tessera_comm_" + name));
  };
  add(device.load_module({tessera_kernels_comm_signals, tessera_kernels_comm_signals_end}), kSignal);
  add(floats, "copy");
  for (const std::string type : {"f64", "f32", "f16", "bf16"}) {
    for (const std::string fold : kFloatFolds) add(floats, type + "_" + fold);
  }
  for (const std::string bits : {"64", "32", "16", "8"}) {
    for (const std::string fold : kOrderedFolds) {
      add(integers, "i" + bits + "_" + fold);
      add(integers, "u" + bits + "_" + fold);
    }
    for (const std::string fold : kWrappingFolds) add(integers, "u" + bits + "_" + fold);
  }
  warm_up(device);
}

// Uses a separate group that has ended: the kernels notice that and return.
void Kernels::warm_up(const device::Device& device) const {
  const std::size_t nbytes = up_to(sizeof(CudaGroupMemory), device.properties().granularity);
  device::AddressRange range = device.reserve(nbytes);
  range.map(0, device.create_memory(nbytes));
  const device::PinnedMemory control = device.allocate_pinned(sizeof(Control));
  auto* const group = reinterpret_cast<CudaGroupMemory*>(range.data());
  const device::Stream stream = device.create_stream({.name = "comm warm-up"});
  stream.fill(group, 0, 4, sizeof(CudaGroupMemory) / 4);
  stream.fill(&group->verdict, kWritten, 4, 1);
  CudaLaunch launch{};
  launch.group = group;
  launch.control = reinterpret_cast<Control*>(control.data());
  launch.size = 1;
  for (const auto& [name, kernel] : kernels_) {
    if (name != kSignal) {
      stream.launch(kernel, {.block = {kThreads, 1, 1}}, device::KernelArgs(launch), {.label = name});
    }
  }
  SignalLaunch signal{};
  signal.group = launch.group;
  signal.control = launch.control;
  signal.size = 1;
  stream.launch(named(kSignal), {.block = {32, 1, 1}}, device::KernelArgs(signal), {.label = kSignal});
  stream.synchronize();
}

const device::Kernel& Kernels::named(const std::string& name) const {
  const auto found = kernels_.find(name);
  TESSERA_CHECK_AS(NotSupported, found != kernels_.end(), "unknown kernel ", name);
  return found->second;
}

const device::Kernel& Kernels::for_transfers(const Operation& operation) const {
  if (!reduces(operation.kind)) return named("copy");
  const Reduction kind = operation.reduction.kind;
  return named(folded_type(operation.dtype, kind) + "_" + std::string(name_of(kind)));
}

SharedGroup::SharedGroup(const device::Device& device, int size)
    : device_(device),
      kernels_(Kernels::on(device)),
      size_(size),
      is_checked_(env::comm_check()),
      has_joined_(static_cast<std::size_t>(size)) {
  const std::size_t nbytes = up_to(sizeof(CudaGroupMemory), device_.properties().granularity);
  range_ = device_.reserve(nbytes);
  range_.map(0, device_.create_memory(nbytes));
  control_ = device_.allocate_pinned(sizeof(Control));
  std::fill_n(control_.data(), sizeof(Control), std::byte{0});
  const device::Stream stream = device_.create_stream({.name = "comm group"});
  stream.fill(range_.data(), 0, 4, sizeof(CudaGroupMemory) / 4);
  stream.synchronize();
}

void SharedGroup::join(int rank, const ConnectRequest& request) {
  using Clock = detail::WaitNotice::Clock;
  std::unique_lock lock(mutex_);
  world_ = request.ranks;
  has_joined_[static_cast<std::size_t>(rank)] = true;
  joined_.notify_all();
  const auto are_there = [&] { return std::ranges::all_of(has_joined_, [](bool joined) { return joined; }); };
  const auto until = Clock::now() + std::min<std::chrono::nanoseconds>(request.timeout, std::chrono::hours(24));
  detail::WaitNotice notice(Clock::now());
  while (!joined_.wait_until(lock, std::min(until, notice.next()), are_there)) {
    std::vector<int> missing;
    for (int each = 0; each < size_; ++each) {
      if (!has_joined_[static_cast<std::size_t>(each)]) missing.push_back(each);
    }
    const std::string who = detail::text_of_members(missing, world_);
    TESSERA_CHECK_AS(TimeoutError, Clock::now() < until, "group of ranks ", request.name, ": ", who,
                     " did not join within ", request.timeout);
    const auto waited = notice.due(Clock::now());
    const bool is_first = std::ranges::find(has_joined_, true) - has_joined_.begin() == rank;
    if (waited && is_first)
      log::info("group of ranks ", request.name, ": waiting ", waited->count(), " s for ", who, " to join");
  }
}

void SharedGroup::leave(int rank) noexcept {
  std::atomic_ref<std::uint64_t>(control()->left).fetch_or(std::uint64_t{1} << rank);
}

bool SharedGroup::has_left(int rank) const {
  return (std::atomic_ref<std::uint64_t>(control()->left).load() >> rank & 1) != 0;
}

void SharedGroup::abort(int rank, std::string_view reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!ended_ && std::atomic_ref<std::uint32_t>(control()->verdict.state).load() != kWritten) {
      ended_ = EndedLaunch{Failure::Kind::kAborted,
                           "aborted by " + text_of_member(world_, rank) + ": " + std::string(reason)};
      has_ended_.store(true);
    }
  } catch (const std::exception&) {
    // No memory for the words: the kernels still end, and say that somebody aborted.
  }
  std::atomic_ref<std::uint64_t>(control()->aborted).store(1);
}

std::exception_ptr SharedGroup::error(std::string_view group) {
  if (!has_ended_.load()) {
    if (std::atomic_ref<std::uint32_t>(control()->verdict.state).load() != kWritten) return nullptr;
    const std::lock_guard lock(mutex_);
    if (!ended_) ended_ = verdict_of_kernel();
    has_ended_.store(true);
  }
  try {
    detail::throw_failure(ended_->kind, ended_->text, group);
  } catch (...) {
    return std::current_exception();
  }
}

SharedGroup::EndedLaunch SharedGroup::verdict_of_kernel() const {
  const CudaVerdict& verdict = control()->verdict;
  if (verdict.pool != 0) {
    const Failure failure = failure_of_signal(verdict, pools_[verdict.pool - 1], world_);
    return {failure.kind, failure.text};
  }
  const Failure failure = failure_of(verdict, world_, groups_);
  const detail::Notice seen = notice_of(verdict.notices[verdict.by]);
  Operation operation{.kind = seen.kind, .dtype = seen.dtype, .root = seen.root, .count = seen.count};
  operation.reduction = {seen.reduction, seen.factor};
  return {failure.kind, detail::seen_in(operation, verdict.task, verdict.by, failure).text};
}

void SharedGroup::note_stream(int rank, const device::Stream& stream) {
  const std::lock_guard lock(mutex_);
  for (int peer = 0; peer < size_; ++peer) {
    TESSERA_CHECK(peer == rank || streams_[static_cast<std::size_t>(peer)].lock() != stream.state(), "stream ",
                  stream.name(), " must belong to one rank, got ranks ", peer, " and ", rank,
                  ", which would deadlock; use a separate stream per rank");
  }
  streams_[static_cast<std::size_t>(rank)] = stream.state();
}

void SharedGroup::note_group(std::uint64_t digest, const std::string& name) {
  const std::lock_guard lock(mutex_);
  groups_.emplace(digest, name);
}

std::uint32_t SharedGroup::add_pool(const std::string& name, std::shared_ptr<const void> pad) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(pads_, pad) == pads_.end()) pads_.push_back(std::move(pad));
  pools_.push_back(name);
  return static_cast<std::uint32_t>(pools_.size());
}

void SharedGroup::keep() {
  if (is_kept_.exchange(true)) return;
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<SharedGroup>>;
  const std::lock_guard lock(mutex);
  kept.push_back(shared_from_this());
}

}  // namespace tessera::comm::cuda

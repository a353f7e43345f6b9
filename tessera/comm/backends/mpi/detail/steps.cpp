#include "tessera/comm/backends/mpi/detail/steps.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/comm/collectives/detail/offers.h"
#include "tessera/comm/detail/group_record.h"
#include "tessera/comm/detail/peer_memory/failures.h"

namespace tessera::comm::mpi {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// Up to this size an input is sent with the letter: MPI sends both together without a handshake.
constexpr std::int64_t kSmallBytes = 2048;
// Bytes that one rank stores of all inputs of a reduction, and the minimum per input.
constexpr std::int64_t kStageBytes = std::int64_t{8} << 20;
constexpr std::int64_t kMinWindow = std::int64_t{64} << 10;
// MPI counts in int.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

std::int64_t item_of(const Operation& operation) { return static_cast<std::int64_t>(itemsize(operation.dtype)); }

}  // namespace

MpiSteps::MpiSteps(Endpoint& endpoint, const detail::TaskRunner& tasks, bool crowded, bool checked)
    : endpoint_(endpoint),
      tasks_(tasks),
      rank_(endpoint.rank()),
      size_(endpoint.size()),
      crowded_(crowded),
      checked_(checked),
      letters_(static_cast<std::size_t>(size_) * (sizeof(Letter) + kSmallBytes) / sizeof(Line)),
      offers_(static_cast<std::size_t>(size_)),
      sent_(static_cast<std::size_t>(size_)),
      received_(static_cast<std::size_t>(size_)) {
  static_assert(sizeof(Letter) % sizeof(Line) == 0 && kSmallBytes % sizeof(Line) == 0);
}

MpiSteps::Letter& MpiSteps::letter(int rank) {
  const std::size_t lines = (sizeof(Letter) + kSmallBytes) / sizeof(Line);
  return *reinterpret_cast<Letter*>(&letters_[static_cast<std::size_t>(rank) * lines]);
}

void MpiSteps::run(const Task& task) {
  name_ = *task.group;
  sequence_ = task.sequence.load(std::memory_order_relaxed);
  deadline_ = std::min<nanoseconds>(task.deadline, std::chrono::hours(24 * 365));
  until_ = steady_clock::now() + deadline_;
  try {
    run_operations(task);
  } catch (const std::exception& error) {
    // A rank that fails during an operation cannot take part in later ones, so the group ends.
    endpoint_.end({.kind = Failure::Kind::kLost,
                   .by = rank_,
                   .text = "operation " + std::to_string(sequence_) + ": rank " + std::to_string(rank_) +
                           " failed: " + error.what()});
    let_go_of_buffers();
    throw;
  }
}

void MpiSteps::run_operations(const Task& task) {
  endpoint_.look();
  if (endpoint_.has_ended()) endpoint_.throw_end(name_);
  group_digest_ = task.group_digest;
  std::vector<Operation> messages;
  std::ranges::copy_if(task.operations, std::back_inserter(messages), is_message, &Operation::kind);
  if (messages.size() < task.operations.size()) ++collectives_;
  to_meet_ = messages.empty() ? &task : nullptr;
  if (checked_) check_ahead(task, messages);
  for (const Operation& operation : task.operations) {
    if (!is_message(operation.kind)) run_collective(operation);
  }
  if (!messages.empty()) run_messages(messages, /*is_ahead=*/false);
}

void MpiSteps::check_ahead(const Task& task, std::span<const Operation> messages) {
  for (const Operation& operation : task.operations) {
    if (is_message(operation.kind)) continue;
    meet(operation, /*is_small=*/false);
    if (definition(operation.kind).offer == nullptr) continue;
    for (const Transfer& transfer : definition(operation.kind).transfers(operation, rank_, size_))
      (void)settle(operation, transfer);
  }
  if (!messages.empty()) run_messages(messages, /*is_ahead=*/true);
  if (messages.size() == task.operations.size()) return;
  // The other ranks learn here what one rank found wrong.
  meet({.kind = OpKind::kBarrier}, /*is_small=*/false);
}

void MpiSteps::run_collective(const Operation& operation) {
  const std::int64_t most = max_input_of(operation, size_);
  const bool is_small = most >= 0 && most * item_of(operation) <= kSmallBytes;
  meet(operation, is_small);
  if (operation.kind == OpKind::kBarrier) return;
  if (is_small) {
    move_from_letters(operation);
  } else {
    transfer_by_messages(operation);
  }
}

void MpiSteps::note_met() {
  to_meet_->record->met(*to_meet_);
  to_meet_ = nullptr;
}

void MpiSteps::meet(const Operation& operation, bool is_small) {
  const CollectiveDef& def = definition(operation.kind);
  // All ranks know the sizes of small operations, so there is nothing to offer.
  const bool has_offers = def.offer != nullptr && !is_small;
  Letter& own = letter(rank_);
  own.notice = detail::notice_of(operation, collectives_, group_digest_);
  own.group[name_.copy(own.group, kNameBytes - 1)] = 0;
  std::uint64_t nbytes = sizeof(Letter);
  if (is_small) {
    const auto given = static_cast<std::uint64_t>(def.extents(operation, rank_, size_).in * item_of(operation));
    if (given > 0) std::memcpy(bytes_of(own), operation.in, given);
    nbytes += given;
  }
  // One peer after the other, starting with the next rank, so that not all ranks send to the same one first.
  for (int step = 1; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    receive(peer, tag::kLetter, reinterpret_cast<std::byte*>(&letter(peer)), sizeof(Letter) + kSmallBytes,
            {.is_ours = true});
    const Letter* mine = &own;
    if (has_offers) {
      Letter& to_peer = offers_[static_cast<std::size_t>(peer)];
      to_peer = own;
      to_peer.offer = def.offer(operation, rank_, peer);
      mine = &to_peer;
    }
    send(peer, tag::kLetter, reinterpret_cast<const std::byte*>(mine), nbytes, {.is_ours = true});
  }
  if (has_offers) own.offer = def.offer(operation, rank_, rank_);
  finish(operation);
  if (to_meet_ != nullptr) note_met();
  std::vector<detail::Notice> notices;
  std::vector<std::string> groups;
  bool agree = true;
  for (int peer = 0; peer < size_; ++peer) {
    notices.push_back(letter(peer).notice);
    groups.emplace_back(letter(peer).group);
    agree &= notices.back().fingerprint == own.notice.fingerprint && notices.back().task == collectives_;
  }
  if (!agree) fail(detail::difference_of(notices, endpoint_.world(), groups), operation);
}

// Makes all transfers to this rank, including those of other makers: all inputs are here.
void MpiSteps::move_from_letters(const Operation& operation) {
  const std::int64_t item = item_of(operation);
  for (int maker = 0; maker < size_; ++maker) {
    for (const Transfer& transfer : definition(operation.kind).transfers(operation, maker, size_)) {
      if (transfer.to != rank_ && transfer.to != kEveryone) continue;
      std::byte* to = operation.out + transfer.to_offset * item;
      if (transfer.from != kEveryone) {
        std::memcpy(to, bytes_of(letter(transfer.from)) + transfer.from_offset * item,
                    static_cast<std::size_t>(transfer.count * item));
        continue;
      }
      SmallVector<const std::byte*, 16> from;
      for (int peer = 0; peer < size_; ++peer) from.push_back(bytes_of(letter(peer)) + transfer.from_offset * item);
      fold(operation.dtype, operation.reduction, from, std::span(&to, 1), transfer.count);
    }
  }
}

void MpiSteps::transfer_by_messages(const Operation& operation) {
  Transfers copies;
  std::vector<PendingFold> folds;
  for (int maker = 0; maker < size_; ++maker) {
    for (const Transfer& transfer : definition(operation.kind).transfers(operation, maker, size_)) {
      if (transfer.from == kEveryone) {
        folds.push_back({.maker = maker, .transfer = transfer});
        continue;
      }
      for (int target = 0; target < size_; ++target) {
        const bool is_target = transfer.to == target || transfer.to == kEveryone;
        if (!is_target || (target != rank_ && transfer.from != rank_)) continue;
        Transfer copy = transfer;
        copy.to = target;
        copies.push_back(settle(operation, copy));
      }
    }
  }
  if (!copies.empty()) make_copies(operation, copies);
  if (!folds.empty()) make_folds(operation, folds);
}

// Only the source, and the rank that takes the offer from the letter, know the offered values.
Transfer MpiSteps::settle(const Operation& operation, Transfer transfer) {
  if (transfer.from_offset != kOffered) return transfer;
  if (transfer.to != rank_) {
    const Offer offer = definition(operation.kind).offer(operation, rank_, transfer.to);
    transfer.from_offset = offer.from_offset;
    transfer.count = offer.count;
    return transfer;
  }
  detail::Accepted accepted = detail::accept(operation, transfer, letter(transfer.from).offer, rank_, size_);
  if (!accepted.wrong.empty()) {
    fail({.kind = Failure::Kind::kMismatch, .missing = {}, .text = std::move(accepted.wrong)}, operation);
  }
  return accepted.transfer;
}

void MpiSteps::make_copies(const Operation& operation, std::span<const Transfer> copies) {
  const std::int64_t item = item_of(operation);
  for (const Transfer& copy : copies) {
    const auto nbytes = static_cast<std::uint64_t>(copy.count * item);
    if (copy.to != rank_) {
      send(copy.to, tag::kData, operation.in + copy.from_offset * item, nbytes, {});
    } else if (copy.from != rank_) {
      receive(copy.from, tag::kData, operation.out + copy.to_offset * item, nbytes, {});
    }
  }
  for (const Transfer& copy : copies) {
    if (copy.to != rank_ || copy.from != rank_ || copy.count == 0) continue;
    std::byte* to = operation.out + copy.to_offset * item;
    const std::byte* from = operation.in + copy.from_offset * item;
    if (to != from) std::memcpy(to, from, static_cast<std::size_t>(copy.count * item));
  }
  finish(operation);
}

void MpiSteps::make_folds(const Operation& operation, std::span<const PendingFold> folds) {
  const std::int64_t window = std::max(kMinWindow, kStageBytes / size_) / item_of(operation);
  std::int64_t most = 0;
  for (const PendingFold& each : folds) most = std::max(most, each.transfer.count);
  for (std::int64_t first = 0; first < most; first += window) fold_window(operation, folds, first, window);
}

// Sends inputs to the makers, then receives results from them. All inputs are sent before the results arrive, so that
// results may use the same memory.
void MpiSteps::fold_window(const Operation& operation, std::span<const PendingFold> folds, std::int64_t first,
                           std::int64_t window) {
  const std::int64_t item = item_of(operation);
  const auto nbytes_of = [&](const PendingFold& each) {
    return static_cast<std::uint64_t>(std::clamp<std::int64_t>(each.transfer.count - first, 0, window) * item);
  };
  for (const PendingFold& each : folds) {
    const std::uint64_t nbytes = nbytes_of(each);
    if (each.maker != rank_) {
      send(each.maker, tag::kData, operation.in + (each.transfer.from_offset + first) * item, nbytes, {});
      continue;
    }
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) receive(peer, tag::kData, stage(peer, window * item), nbytes, {.is_ours = true});
    }
  }
  finish(operation);
  for (const PendingFold& each : folds) {
    const std::uint64_t nbytes = nbytes_of(each);
    if (nbytes == 0) continue;
    const bool is_mine = each.transfer.to == rank_ || each.transfer.to == kEveryone;
    std::byte* out = is_mine ? operation.out + (each.transfer.to_offset + first) * item : stage(rank_, window * item);
    if (each.maker != rank_) {
      if (is_mine) receive(each.maker, tag::kData, out, nbytes, {});
      continue;
    }
    SmallVector<const std::byte*, 16> in;
    for (int peer = 0; peer < size_; ++peer) {
      in.push_back(peer == rank_ ? operation.in + (each.transfer.from_offset + first) * item
                                 : stage(peer, window * item));
    }
    fold(operation.dtype, operation.reduction, in, std::span(&out, 1), static_cast<std::int64_t>(nbytes) / item);
    for (int peer = 0; peer < size_; ++peer) {
      const bool is_target = each.transfer.to == peer || each.transfer.to == kEveryone;
      if (is_target && peer != rank_) send(peer, tag::kData, out, nbytes, {.is_ours = !is_mine});
    }
  }
  finish(operation);
}

std::byte* MpiSteps::stage(int rank, std::int64_t nbytes) {
  const std::size_t lines = (static_cast<std::size_t>(nbytes) + sizeof(Line) - 1) / sizeof(Line);
  const std::size_t all = lines * static_cast<std::size_t>(size_);
  if (stage_.size() < all) stage_.resize(all);
  return stage_[static_cast<std::size_t>(rank) * lines].bytes;
}

void MpiSteps::send(int to, int tag, const std::byte* from, std::uint64_t nbytes, OpenRequest open) {
  open.peer = to;
  for (std::uint64_t at = 0; at < nbytes; at += kMaxBytes) {
    requests_.push_back(endpoint_.send(to, tag, from + at, std::min(kMaxBytes, nbytes - at)));
    open_.push_back(open);
  }
}

void MpiSteps::receive(int from, int tag, std::byte* to, std::uint64_t nbytes, OpenRequest open) {
  open.peer = from;
  open.is_receive = true;
  for (std::uint64_t at = 0; at < nbytes; at += kMaxBytes) {
    requests_.push_back(endpoint_.receive(from, tag, to + at, std::min(kMaxBytes, nbytes - at)));
    open_.push_back(open);
  }
}

}  // namespace tessera::comm::mpi

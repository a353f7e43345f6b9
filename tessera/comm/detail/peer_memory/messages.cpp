// Sends and receives over peer memory. Each pair of ranks has a mail slot per direction: the sender posts the location
// of the bytes, the receiver copies them and acknowledges; then the send is done. Bytes that the receiver cannot access
// go through the sender's third stage, a window at a time. All messages of a task are in flight at once, so their order
// on different ranks does not matter; messages between the same two ranks are ordered.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/comm/detail/peer_memory/step.h"
#include "tessera/comm/detail/streaming.h"

namespace tessera::comm::detail {

// A send or receive in flight.
struct PeerSteps::Message {
  const Operation& operation;
  Mail& mail;
  std::uint64_t nbytes;
  BufferLocation place = {};  // location of a send
  std::uint64_t offset = 0;   // bytes posted, or received, so far
  bool is_posted = false;     // a window of a send is with the receiver
  bool is_met = false;        // its peer has arrived
  bool is_done = false;

  [[nodiscard]] bool is_send() const { return operation.kind == OpKind::kSend; }
};

void PeerSteps::note_peer(Message& message) {
  if (std::exchange(message.is_met, true) || to_come_ == 0) return;
  if (--to_come_ == 0 && !has_met_) note_met();
}

// Posts the next window, or notices that the last was received. Returns true if anything changed.
bool PeerSteps::advance_send(Message& message, const Message*& stage_owner) {
  Mail& mail = message.mail;
  const std::uint64_t posted = mail.posted.load(std::memory_order_relaxed);
  if (message.is_posted) {
    if (mail.taken.load(std::memory_order_acquire) != posted) return false;
    note_peer(message);
    message.is_posted = false;
    message.is_done = message.offset == message.nbytes;
    if (message.is_done && stage_owner == &message) stage_owner = nullptr;
    return true;
  }
  const bool is_reachable = message.place.is_reachable != 0;
  if (!is_reachable) {
    if (stage_owner != nullptr && stage_owner != &message) return false;
    stage_owner = &message;
  }
  const std::uint64_t window =
      is_reachable ? message.nbytes : std::min<std::uint64_t>(kStageBytes, message.nbytes - message.offset);
  if (!is_reachable) std::memcpy(group_.message_stage(rank_), message.operation.in + message.offset, window);
  mail.dtype = message.operation.dtype;
  mail.count = message.operation.count;
  mail.group = group_digest_;
  mail.place = message.place;
  mail.offset = message.offset;
  mail.nbytes = window;
  message.offset += window;
  message.is_posted = true;
  memory_.waiting().raise(mail.posted, posted + 1, group_.board(rank_).sleepers);
  return true;
}

bool PeerSteps::advance_receive(Message& message) {
  Mail& mail = message.mail;
  const std::uint64_t taken = mail.taken.load(std::memory_order_relaxed);
  if (mail.posted.load(std::memory_order_acquire) == taken) return false;
  note_peer(message);
  const Operation& operation = message.operation;
  const bool has_other_dtype = mail.dtype != operation.dtype;
  const bool has_other_group = mail.group != group_digest_;
  if (has_other_dtype || mail.count != operation.count || has_other_group) {
    std::string text =
        tessera::detail::concat(text_of_members(memory_, operation.peer), " sends ", mail.dtype, "[", mail.count, "]");
    if (has_other_group) text += std::string(" for group ") + group_.board(operation.peer).group;
    fail({.kind = Failure::Kind::kMismatch, .text = std::move(text)}, operation);
  }
  if (mail.nbytes > 0 && mail.place.is_reachable != 0) {
    const Reaching reaching(memory_, rank_, name_);
    copy_bytes(operation.out + mail.offset, memory_.reach(operation.peer, mail.place) + mail.offset, mail.nbytes);
  } else if (mail.nbytes > 0) {
    std::memcpy(operation.out + mail.offset, group_.message_stage(operation.peer), mail.nbytes);
  }
  message.offset = mail.offset + mail.nbytes;
  message.is_done = message.offset == message.nbytes;
  memory_.waiting().raise(mail.taken, taken + 1, group_.board(rank_).sleepers);
  return true;
}

// If `is_ahead`, only exchanges and compares the descriptions, as messages without bytes.
void PeerSteps::run_messages(std::span<const Operation> operations, bool is_ahead) {
  std::vector<Message> messages;
  for (const Operation& operation : operations) {
    const bool is_send = operation.kind == OpKind::kSend;
    const std::uint64_t nbytes = is_ahead ? 0 : static_cast<std::uint64_t>(operation.count) * itemsize(operation.dtype);
    Mail& mail = is_send ? group_.mail(rank_, operation.peer) : group_.mail(operation.peer, rank_);
    messages.push_back({.operation = operation, .mail = mail, .nbytes = nbytes});
    if (is_send && nbytes > 0) messages.back().place = memory_.place_of(operation.in, nbytes);
  }
  const Message* stage_owner = nullptr;
  // One pass over all messages that may advance: the first of each mail slot. Returns true if anything changed.
  const auto advance = [&] {
    bool moved = false;
    std::vector<const Mail*> busy;
    for (Message& message : messages) {
      if (message.is_done || std::ranges::find(busy, &message.mail) != busy.end()) continue;
      moved |= message.is_send() ? advance_send(message, stage_owner) : advance_receive(message);
      if (!message.is_done) busy.push_back(&message.mail);
    }
    return moved;
  };
  while (true) {
    while (advance()) {
    }
    const auto open = std::ranges::find(messages, false, &Message::is_done);
    if (open == messages.end()) return;
    wait_for_mail(messages, *open);
  }
}

// Sleeps on the first open message, and polls the others periodically.
void PeerSteps::wait_for_mail(std::span<const Message> messages, const Message& open) {
  const std::function<bool()> is_there = [&] {
    return std::ranges::any_of(messages, [](const Message& message) {
      const std::uint64_t posted = message.mail.posted.load(std::memory_order_acquire);
      const std::uint64_t taken = message.mail.taken.load(std::memory_order_acquire);
      return !message.is_done && (message.is_send() ? message.is_posted && posted == taken : posted != taken);
    });
  };
  const int peer = open.operation.peer;
  const std::function<bool()> is_over = [&] {
    return has_verdict(group_) || std::ranges::any_of(messages, [&](const Message& message) {
             return !message.is_done && detail::is_gone(memory_, message.operation.peer);
           });
  };
  const bool came = memory_.waiting().wait({.is_there = is_there,
                                            .word = open.is_send() ? open.mail.taken : open.mail.posted,
                                            .sleepers = group_.board(peer).sleepers,
                                            .is_over = is_over,
                                            .timeout = time_left(),
                                            .what = to_string(open.operation.kind).data()});
  if (came || (!is_over() && time_left() > std::chrono::nanoseconds(0))) return;
  if (has_verdict(group_)) throw_verdict(group_, name_);
  for (const Message& message : messages) {
    if (!message.is_done && detail::is_gone(memory_, message.operation.peer))
      fail_waiting(message.operation, message.operation.peer);
  }
  const int late[] = {peer};
  fail({.kind = Failure::Kind::kDeadline,
        .missing = {peer},
        .text =
            text_of_late({.ranks = late, .world = world_of(memory_), .deadline = deadline_, .extra = tasks_.extra()})},
       open.operation);
}

}  // namespace tessera::comm::detail

// Sends and receives. All messages of a task are in flight at once, each with a separate state, so their order on
// different ranks does not matter:
//
//   send   heading ->          <- answer   body ->
//   recv   -> heading, fits?   answer ->   -> body
#include <algorithm>
#include <cstring>

#include "tessera/comm/backends/mpi/detail/steps.h"

namespace tessera::comm::mpi {
namespace {

// A message up to this size is sent with its heading.
constexpr std::uint64_t kSmallBytes = 1024;

}  // namespace

struct MpiSteps::Message {
  const Operation& operation;
  std::uint64_t nbytes;
  std::uint64_t number;  // number between these two ranks, in this direction
  Heading* heading;      // its bytes follow
  int pending = 1;       // requests that must end before it advances
  enum State : std::uint8_t { kHeading, kAnswer, kBody, kDone } state = kHeading;

  [[nodiscard]] bool is_send() const { return operation.kind == OpKind::kSend; }
  [[nodiscard]] std::byte* few() const { return reinterpret_cast<std::byte*>(heading + 1); }
  [[nodiscard]] bool has_few() const { return nbytes <= kSmallBytes; }
};

// If `is_ahead`, only exchanges and compares the descriptions, as messages without bytes.
void MpiSteps::run_messages(std::span<const Operation> operations, bool is_ahead) {
  constexpr std::size_t kLines = 1 + kSmallBytes / sizeof(Line);
  headings_.resize(kLines * operations.size());
  std::vector<Message> messages;
  messages.reserve(operations.size());
  for (const Operation& operation : operations) {
    const bool is_send = operation.kind == OpKind::kSend;
    const int index = static_cast<int>(messages.size());
    auto* const heading = reinterpret_cast<Heading*>(&headings_[kLines * messages.size()]);
    auto& counter = (is_send ? sent_ : received_)[static_cast<std::size_t>(operation.peer)];
    messages.push_back(
        {.operation = operation,
         .nbytes = is_ahead ? 0 : static_cast<std::uint64_t>(operation.count) * itemsize(operation.dtype),
         .number = counter++,
         .heading = heading});
    auto* const bytes = reinterpret_cast<std::byte*>(heading);
    if (is_send) {
      const Message& message = messages.back();
      *heading = {.count = operation.count, .dtype = operation.dtype, .group = group_digest_};
      heading->name[name_.copy(heading->name, kNameBytes - 1)] = 0;
      const std::uint64_t few = message.has_few() ? message.nbytes : 0;
      if (few > 0) std::memcpy(message.few(), operation.in, few);
      send(operation.peer, tag::kHeading, bytes, sizeof(Heading) + few, {.is_ours = true, .owner = index});
    } else {
      receive(operation.peer, tag::kHeading, bytes, sizeof(Heading) + kSmallBytes, {.is_ours = true, .owner = index});
    }
  }
  while (true) {
    const auto open = std::ranges::find_if(messages, [](const Message& each) { return each.state != Message::kDone; });
    if (open == messages.end()) return;
    const std::vector<int> owners = wait_some(open->operation);
    for (const int owner : owners) {
      Message& message = messages[static_cast<std::size_t>(owner)];
      if (--message.pending == 0) advance(message, owner);
    }
  }
}

// Advances a message whose last requests have ended.
void MpiSteps::advance(Message& message, int index) {
  const Operation& operation = message.operation;
  const std::size_t before = requests_.size();
  const int peer = operation.peer;
  auto* const answer = reinterpret_cast<std::byte*>(message.heading);
  if (message.is_send() && message.state == Message::kHeading) {
    receive(peer, tag::answer(message.number), answer, 1, {.is_ours = true, .owner = index});
    message.state = Message::kAnswer;
  } else if (message.is_send() && message.state == Message::kAnswer) {
    if (!message.has_few()) send(peer, tag::body(message.number), operation.in, message.nbytes, {.owner = index});
    message.state = Message::kBody;
  } else if (!message.is_send() && message.state == Message::kHeading) {
    const Heading& heading = *message.heading;
    const bool is_of_group = heading.group == group_digest_;
    const bool fits = heading.dtype == operation.dtype && heading.count == operation.count && is_of_group;
    if (!fits) {
      std::string text = "rank " + std::to_string(peer) + " sends " + std::string(to_string(heading.dtype)) + "[" +
                         std::to_string(heading.count) + "]";
      if (!is_of_group) text += std::string(" for group ") + heading.name;
      fail({.kind = Failure::Kind::kMismatch, .text = text}, operation);
    }
    if (message.has_few()) {
      if (message.nbytes > 0) std::memcpy(operation.out, message.few(), message.nbytes);
    } else {
      receive(peer, tag::body(message.number), operation.out, message.nbytes, {.owner = index});
    }
    send(peer, tag::answer(message.number), answer, 1, {.is_ours = true, .owner = index});
    message.state = Message::kBody;
  }
  message.pending = static_cast<int>(requests_.size() - before);
  if (message.pending == 0) message.state = Message::kDone;
}

}  // namespace tessera::comm::mpi

#include "tessera/comm/store/detail/store_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera::comm::detail {
namespace {

using Clock = StoreConnection::Clock;

constexpr std::size_t kReadBytes = 65536;
constexpr std::chrono::seconds kGreetAgain(10);  // retries if a store hangs up during the handshake

// Returns milliseconds for poll, rounded up, so that the deadline has passed when poll returns.
int poll_time(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

// Tries one address. Returns the error number; 0: connected.
int try_address(const addrinfo& address, Clock::time_point deadline, Descriptor& into) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
  if (!socket) return errno;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    pollfd ready = {socket.get(), POLLOUT, 0};
    if (::poll(&ready, 1, poll_time(deadline)) <= 0) return ETIMEDOUT;
    int problem = 0;
    socklen_t size = sizeof problem;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
    if (problem != 0) return problem;
  }
  // Connecting to a free port of this machine can, by chance, connect to itself.
  sockaddr_storage ours = {};
  sockaddr_storage theirs = {};
  socklen_t ours_size = sizeof ours;
  socklen_t theirs_size = sizeof theirs;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&ours), &ours_size) == 0 &&
      ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&theirs), &theirs_size) == 0 &&
      ours_size == theirs_size && std::memcmp(&ours, &theirs, ours_size) == 0)
    return ECONNREFUSED;
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  into = std::move(socket);
  return 0;
}

// Retries refused connections, since the server may start later.
Descriptor connect_until(const std::string& name, const std::string& host, std::uint16_t port,
                         std::chrono::nanoseconds timeout, Clock::time_point deadline, WaitNotice notice) {
  std::string last = "no address";
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, std::chrono::milliseconds(100))) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int problem = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(problem == 0 ? found : nullptr, [](addrinfo* all) {
      if (all != nullptr) ::freeaddrinfo(all);
    });
    TESSERA_CHECK_AS(IoError, problem == 0 || problem == EAI_AGAIN, name, ": unknown host '", host,
                     "': ", ::gai_strerror(problem));
    if (problem != 0) last = ::gai_strerror(problem);
    for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
      Descriptor socket;
      const int error = try_address(*each, deadline, socket);
      if (error == 0) return socket;
      last = std::strerror(error);
    }
    TESSERA_CHECK_AS(TimeoutError, Clock::now() + pause < deadline, name, ": no connection within ", timeout, ": ",
                     last, "; check the address, and that its host (tessera run, or rank 0) is running");
    if (const auto waited = notice.due(Clock::now())) {
      log::info("waiting ", waited->count(), " s for the host of the ", name, " (tessera run, or rank 0): ", last);
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

StoreConnection::StoreConnection(std::string name, const std::string& host, std::uint16_t port,
                                 const std::string& secret, std::chrono::nanoseconds timeout, const std::string& label,
                                 NoticeDelays delays)
    : name_(std::move(name)) {
  check_secret(name_, secret, /*may_be_empty=*/true);
  const auto deadline = Clock::now() + std::clamp(timeout, std::chrono::nanoseconds(0),
                                                  std::chrono::nanoseconds(std::chrono::hours(8760)));
  const WaitNotice notice(Clock::now(), delays);
  socket_ = connect_until(name_, host, port, timeout, deadline, notice);
  // A server that accepts and then sends nothing gets less time than one that has not started yet.
  const auto now = Clock::now();
  const std::string shown = (label.empty() ? "process " + std::to_string(::getpid()) : label).substr(0, kMaxLabelBytes);
  const auto answer_by = std::clamp(deadline, now + std::chrono::seconds(1), now + std::chrono::seconds(30));
  const auto again_by = std::min(deadline, now + kGreetAgain);
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, std::chrono::milliseconds(100))) {
    try {
      greet(secret, shown, answer_by);
      return;
    } catch (const IoError&) {
      if (!is_hung_up_ || Clock::now() + pause >= again_by) throw;
    }
    std::this_thread::sleep_for(pause);
    forget_connection();
    socket_ = connect_until(name_, host, port, timeout, deadline, notice);
  }
}

void StoreConnection::forget_connection() {
  reader_ = FrameReader(kMaxFrameBytes);
  next_number_ = 1;
  out_.clear();
  lost_.clear();
  is_hung_up_ = false;
}

void StoreConnection::greet(const std::string& secret, const std::string& label, Clock::time_point deadline) {
  const std::string client_nonce = random_nonce();
  const Answer challenge =
      ask_greeting({.verb = StoreRequestKind::kHello, .key = client_nonce, .version = kProtocolVersion}, deadline);
  const std::string server_nonce(BodyReader(challenge.body).text());
  TESSERA_CHECK_AS(IoError, server_nonce.size() == kNonceBytes, name_,
                   ": the program that listens there is not a store of Tessera");
  const std::string own_proof = client_proof(secret, client_nonce, server_nonce, label);
  const Answer answer = ask_greeting({.verb = StoreRequestKind::kProof, .key = own_proof, .value = label}, deadline);
  const std::string expected = server_proof(secret, client_nonce, server_nonce, label);
  TESSERA_CHECK_AS(MismatchError, is_same_proof(BodyReader(answer.body).text(), expected), name_,
                   ": the server must prove that it knows the secret of this run, and it did not; another program may "
                   "listen at this port: choose another port");
}

Answer StoreConnection::ask_greeting(const StoreRequest& request, Clock::time_point deadline) {
  std::optional<Answer> answer;
  try {
    answer = receive(send(request), deadline);
  } catch (const IoError& error) {
    TESSERA_THROW(IoError, error.message(), "; the program that listens there may not be a store of Tessera");
  }
  TESSERA_CHECK_AS(
      TimeoutError, answer.has_value(), name_,
      ": the program that listens there accepted the connection but did not answer; it may not be a store of Tessera");
  TESSERA_CHECK_AS(MismatchError, answer->status != Status::kRefused, name_,
                   " rejected this process: ", BodyReader(answer->body).text(),
                   "; set the same TESSERA_STORE_SECRET on all ranks of the run; the port may be that of another run");
  TESSERA_CHECK_AS(IoError, answer->status == Status::kOk, name_,
                   ": the program that listens there is not a store of Tessera");
  return *std::move(answer);
}

std::uint64_t StoreConnection::send(StoreRequest request) {
  const Lock lock(mutex_);
  if (!lost_.empty()) throw_lost();
  request.number = next_number_++;
  write_request(out_, request);
  pending_.emplace(request.number, std::make_shared<Pending>());
  return request.number;
}

std::optional<Answer> StoreConnection::receive(std::uint64_t number, Clock::time_point deadline) {
  Lock lock(mutex_);
  const auto found = pending_.find(number);
  TESSERA_CHECK(found != pending_.end(), name_, ": request ", number, " is not in flight");
  const std::shared_ptr<Pending> own = found->second;
  if (!own->is_done) flush(lock, deadline);
  while (!own->is_done && lost_.empty() && Clock::now() < deadline) {
    if (!is_reading_) {
      read_once(lock, POLLIN, deadline);
    } else {
      own->is_waited = true;
      own->changed.wait_until(lock, deadline);
      own->is_waited = false;
    }
  }
  pending_.erase(number);
  if (!is_reading_) hand_over();
  if (own->is_done) return std::move(own->answer);
  if (!lost_.empty()) throw_lost();
  return std::nullopt;
}

// Also writes what other threads add while this thread writes.
void StoreConnection::flush(Lock& lock, Clock::time_point deadline) {
  if (is_writing_) return;
  is_writing_ = true;
  while (!out_.empty() && lost_.empty()) {
    const std::string taken = std::exchange(out_, {});
    std::string_view rest = taken;
    while (!rest.empty() && lost_.empty()) {
      if (write_some(lock, rest, deadline)) continue;
      // Part of a frame is sent; the connection cannot continue.
      lose("the server accepted no bytes before the deadline");
    }
  }
  is_writing_ = false;
}

// Writes what fits. If nothing fits, makes sure that replies are read meanwhile, since the store does not read from
// clients that do not take its replies. Returns false if the deadline passed.
bool StoreConnection::write_some(Lock& lock, std::string_view& bytes, Clock::time_point deadline) {
  lock.unlock();
  const ssize_t put = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  const int error = errno;
  lock.lock();
  if (put >= 0) {
    bytes.remove_prefix(static_cast<std::size_t>(put));
    return true;
  }
  if (error == EINTR) return true;
  if (error != EAGAIN && error != EWOULDBLOCK) {
    is_hung_up_ = error == EPIPE || error == ECONNRESET;
    lose(std::strerror(error));
    return true;
  }
  if (Clock::now() >= deadline) return false;
  if (!is_reading_) {
    read_once(lock, POLLIN | POLLOUT, deadline);
    return true;
  }
  lock.unlock();
  // Not until the deadline: the reader may get its reply and leave before there is room.
  pollfd ready = {socket_.get(), POLLOUT, 0};
  ::poll(&ready, 1, std::min(poll_time(deadline), 10));
  lock.lock();
  return true;
}

// Waits for the socket and reads for all threads.
void StoreConnection::read_once(Lock& lock, short events, Clock::time_point deadline) {
  is_reading_ = true;
  lock.unlock();
  // Replies are often there already, and a read costs less than a wait.
  char* room = reader_.room(kReadBytes);
  ssize_t got = ::recv(socket_.get(), room, kReadBytes, 0);
  int error = errno;
  if (got < 0 && error == EAGAIN) {
    pollfd ready = {socket_.get(), events, 0};
    ::poll(&ready, 1, poll_time(deadline));
    got = ::recv(socket_.get(), room, kReadBytes, 0);
    error = errno;
  }
  lock.lock();
  is_reading_ = false;
  if (got > 0) {
    reader_.filled(static_cast<std::size_t>(got));
    dispatch();
  } else if (got == 0) {
    is_hung_up_ = true;
    lose("the server closed the connection");
  } else if (error != EAGAIN && error != EINTR) {
    is_hung_up_ = error == ECONNRESET;
    lose(std::strerror(error));
  }
}

void StoreConnection::dispatch() {
  while (const std::optional<std::string_view> frame = reader_.next()) {
    const std::optional<Reply> reply = parse_reply(*frame);
    if (!reply) return lose("the server sent an invalid reply");
    const auto found = pending_.find(reply->number);
    if (found == pending_.end()) continue;  // its wait ended at the deadline
    Pending& pending = *found->second;
    pending.answer = {reply->status, std::string(reply->body)};
    pending.is_done = true;
    if (pending.is_waited) pending.changed.notify_one();
  }
  if (reader_.is_bad()) lose("the server sent an invalid reply");
}

// Makes one of the sleeping threads the reader.
void StoreConnection::hand_over() {
  for (const auto& [number, pending] : pending_) {
    if (pending->is_waited && !pending->is_done) {
      pending->changed.notify_one();
      return;
    }
  }
}

void StoreConnection::lose(std::string why) {
  if (lost_.empty()) lost_ = std::move(why);
  for (const auto& [number, pending] : pending_) pending->changed.notify_one();
}

void StoreConnection::throw_lost() const {
  TESSERA_THROW(IoError, name_, ": the connection is lost: ", lost_,
                "; the process that hosts the store may have ended");
}

}  // namespace tessera::comm::detail

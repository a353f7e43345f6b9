#include "tessera/comm/detail/descriptor_server.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/comm/store/detail/proof.h"

namespace tessera::comm::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kMagic = "tsd3";
constexpr std::size_t kRequestHead = kMagic.size() + kNonceBytes + kProofBytes;  // bytes of a request before the name
constexpr std::size_t kMaxName = 256;
constexpr std::size_t kMaxClients = 256;  // the client that has been silent for longest is closed for a new one
constexpr auto kPatience = std::chrono::seconds(5);  // limit for a connected peer that sends nothing

std::string reason() { return std::strerror(errno); }

// The random values of both sides.
struct Nonces {
  std::string server;
  std::string peer;
};

std::string request_proof(std::string_view key, const Nonces& nonces, std::string_view name) {
  return prove(key, "tessera descriptor peer", {nonces.server, nonces.peer, name});
}
std::string answer_proof(std::string_view key, const Nonces& nonces, std::string_view name, char said) {
  return prove(key, "tessera descriptor server", {nonces.server, nonces.peer, name, {&said, 1}});
}

// Fills an abstract address, which disappears with its socket and needs no file system.
socklen_t fill(sockaddr_un& address, std::string_view name) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

// A packet of a few bytes with room for one descriptor.
struct Packet {
  Packet(void* bytes, std::size_t nbytes) : part{bytes, nbytes} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
  }
  void attach(int fd) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = SCM_RIGHTS;
    message->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(message), &fd, sizeof fd);
  }
  void make_room() {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  [[nodiscard]] int attached() const {
    int fd = -1;
    const cmsghdr* message = CMSG_FIRSTHDR(&header);
    if (message != nullptr && message->cmsg_type == SCM_RIGHTS) std::memcpy(&fd, CMSG_DATA(message), sizeof fd);
    return fd;
  }
  iovec part;
  msghdr header{};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
};

}  // namespace

std::optional<uid_t> peer_user(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return std::nullopt;
  return who.uid;
}

struct DescriptorServer::State {
  struct Client {
    Descriptor socket;
    std::string nonce;  // nonce sent to it
    Clock::time_point until;
  };

  void run();
  void accept_one();
  void answer(const Client& client);

  PeerUser user_of;
  std::string socket_name;
  std::string key;
  std::string address;
  Descriptor listener;
  Descriptor bell;  // readable: stop
  std::vector<Client> clients;
  std::mutex mutex;  // protects offered
  std::map<std::string, Descriptor, std::less<>> offered;
  std::atomic<std::uint64_t> made{0};
  std::thread thread;
};

void DescriptorServer::State::run() {
  while (true) {
    std::vector<pollfd> polled{{bell.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
    for (const Client& client : clients) polled.push_back({client.socket.get(), POLLIN, 0});
    (void)::poll(polled.data(), polled.size(), clients.empty() ? -1 : 1000);
    if (polled[0].revents != 0) return;
    std::vector<Client> staying;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      const short happened = polled[i + 2].revents;
      if ((happened & POLLIN) != 0) answer(clients[i]);
      if (happened == 0 && clients[i].until > Clock::now()) staying.push_back(std::move(clients[i]));
    }
    clients = std::move(staying);
    if ((polled[1].revents & POLLIN) != 0) accept_one();
  }
}

void DescriptorServer::State::accept_one() {
  Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    // Probably out of descriptors. The listener stays readable, so pause before the next attempt.
    if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  if (user_of(socket.get()) != ::geteuid()) return;
  const std::string nonce = random_nonce();
  if (::send(socket.get(), nonce.data(), nonce.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  if (clients.size() == kMaxClients) clients.erase(clients.begin());
  clients.push_back({std::move(socket), nonce, Clock::now() + kPatience});
}

void DescriptorServer::State::answer(const Client& client) {
  std::array<char, kRequestHead + kMaxName> bytes{};
  const ssize_t got = ::recv(client.socket.get(), bytes.data(), bytes.size(), MSG_TRUNC | MSG_DONTWAIT);
  if (got < static_cast<ssize_t>(kRequestHead) || got > static_cast<ssize_t>(bytes.size())) return;
  const std::string_view request(bytes.data(), static_cast<std::size_t>(got));
  if (!request.starts_with(kMagic)) return;
  const Nonces nonces{client.nonce, std::string(request.substr(kMagic.size(), kNonceBytes))};
  const std::string_view proof = request.substr(kMagic.size() + kNonceBytes, kProofBytes);
  const std::string_view name = request.substr(kRequestHead);
  if (!is_same_proof(proof, request_proof(key, nonces, name))) return;
  const std::lock_guard lock(mutex);
  const auto found = offered.find(name);
  const char said = found == offered.end() ? 'n' : 'y';
  std::string answer = said + answer_proof(key, nonces, name, said);
  Packet packet(answer.data(), answer.size());
  if (found != offered.end()) packet.attach(found->second.get());
  (void)::sendmsg(client.socket.get(), &packet.header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

DescriptorServer::DescriptorServer(PeerUser user_of) : state_(std::make_unique<State>()) {
  state_->user_of = std::move(user_of);
  state_->socket_name = "tessera-" + random_secret().substr(0, 32);
  state_->key = random_secret();
  state_->address = state_->socket_name + " " + state_->key;
  state_->bell.reset(::eventfd(0, EFD_CLOEXEC));
  state_->listener.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  const socklen_t size = fill(address, state_->socket_name);
  const bool listens = state_->bell && state_->listener &&
                       ::bind(state_->listener.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                       ::listen(state_->listener.get(), 512) == 0;
  TESSERA_CHECK_AS(IoError, listens, "cannot create a Unix socket for shared memory: ", reason());
  // Signals are for the program's own threads.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  state_->thread = std::thread([state = state_.get()] {
    ::pthread_setname_np(::pthread_self(), "descriptors");
    state->run();
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

DescriptorServer::~DescriptorServer() {
  const std::uint64_t one = 1;
  (void)!::write(state_->bell.get(), &one, sizeof one);
  state_->thread.join();
}

const std::string& DescriptorServer::address() const { return state_->address; }

void DescriptorServer::offer(const std::string& name, int fd) {
  TESSERA_CHECK(name.size() <= kMaxName, "a descriptor name must have at most ", kMaxName, " bytes, got ", name.size());
  Descriptor own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  TESSERA_CHECK_AS(IoError, own, "cannot duplicate descriptor ", fd, ": ", reason());
  const std::lock_guard lock(state_->mutex);
  state_->offered.insert_or_assign(name, std::move(own));
}

std::string DescriptorServer::offer_anew(const std::string& beginning, int fd) {
  std::string name = beginning + " " + std::to_string(state_->made.fetch_add(1));
  offer(name, fd);
  return name;
}

void DescriptorServer::withdraw(const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  state_->offered.erase(name);
}

namespace {

// Returns a socket connected to the server of this name, which must run as our user.
Descriptor connected_to(std::string_view socket_name, const PeerUser& user_of) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  TESSERA_CHECK_AS(IoError, socket, "cannot create a Unix socket: ", reason());
  sockaddr_un to{};
  const socklen_t size = fill(to, socket_name);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), size) != 0) {
    TESSERA_CHECK_AS(AbortedError, errno != ECONNREFUSED, "the process at ", socket_name, " has ended");
    TESSERA_THROW(IoError, "the process at ", socket_name, " cannot be reached: ", reason());
  }
  const std::optional<uid_t> user = user_of(socket.get());
  TESSERA_CHECK_AS(MismatchError, user == ::geteuid(), "the process at ", socket_name, " must run as user ",
                   ::geteuid(), ", got ", user ? std::to_string(*user) : "an unknown user",
                   "; start all ranks of a machine as one user");
  return socket;
}

// Returns true if a packet, or the end of the connection, arrived before the deadline.
bool is_readable_by(int socket, Clock::time_point deadline) {
  for (;;) {
    pollfd polled{socket, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const int ready = ::poll(&polled, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30)));
    if (ready >= 0 || errno != EINTR) return ready != 0;
  }
}

}  // namespace

Fetched fetch_descriptor(std::string_view address, std::string_view name, std::chrono::nanoseconds timeout,
                         const PeerUser& user_of) {
  const std::string_view socket_name = address.substr(0, address.find(' '));
  const std::string_view key = address.substr(std::min(socket_name.size() + 1, address.size()));
  const Descriptor socket = connected_to(socket_name, user_of);
  ucred who{};
  socklen_t who_size = sizeof who;
  (void)::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &who_size);
  TESSERA_CHECK_AS(IoError, who.pid > 0, "the process at ", socket_name, " is in another pid namespace");
  Fetched fetched;
  // Opened before the process replies: the process id then belongs to it, and not to a later process.
  fetched.process.reset(static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0)));
  TESSERA_CHECK_AS(IoError, fetched.process || errno == ESRCH, "pidfd_open of process ", who.pid, ": ", reason());
  const auto deadline = Clock::now() + std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(24));
  const auto wait = [&] {
    const bool is_ready = is_readable_by(socket.get(), deadline);
    TESSERA_CHECK_AS(TimeoutError, is_ready, "process ", who.pid, " did not send '", name, "' within ", timeout);
  };
  wait();
  Nonces nonces{std::string(kNonceBytes, '\0'), random_nonce()};
  if (::recv(socket.get(), nonces.server.data(), kNonceBytes, 0) > 0) {
    const std::string request =
        std::string(kMagic) + nonces.peer + request_proof(key, nonces, name) + std::string(name);
    (void)::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
    wait();
  }
  std::array<char, 1 + kProofBytes> said{};
  Packet answer(said.data(), said.size());
  answer.make_room();
  const ssize_t got = ::recvmsg(socket.get(), &answer.header, MSG_CMSG_CLOEXEC);
  TESSERA_CHECK_AS(AbortedError, got > 0 && fetched.process, "process ", who.pid,
                   " ended, or rejected the request for '", name, "'");
  Descriptor file(answer.attached());
  TESSERA_CHECK_AS(MismatchError,
                   got == static_cast<ssize_t>(said.size()) &&
                       is_same_proof({said.data() + 1, kProofBytes}, answer_proof(key, nonces, name, said[0])),
                   "process ", who.pid, " must prove that it is the rank whose descriptors the store names, got ", got,
                   " bytes without that proof");
  fetched.file = std::move(file);
  return fetched;
}

}  // namespace tessera::comm::detail

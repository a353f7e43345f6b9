#include "tessera/comm/detail/descriptor_server.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
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

namespace tessera::comm::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kMagic = "tsd1";
constexpr std::size_t kTokenChars = 32;
constexpr std::size_t kMostName = 256;
constexpr std::size_t kMostClients = 64;             // the longest silent one makes room
constexpr auto kPatience = std::chrono::seconds(5);  // with a peer that connected and says nothing

std::string reason() { return std::strerror(errno); }

std::string random_text() {
  std::array<unsigned char, kTokenChars / 2> bytes{};
  TESSERA_CHECK_AS(IoError, ::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
                   "no random numbers: ", reason());
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte / 16];
    text += "0123456789abcdef"[byte % 16];
  }
  return text;
}

// An abstract address: it is gone with its socket, and no file system is needed.
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

bool is_same_user(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == ::geteuid();
}

// Looks at all characters whatever they are, so that the time it takes tells nothing.
bool is_same_text(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char differs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differs |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differs == 0;
}

}  // namespace

struct DescriptorServer::State {
  struct Client {
    Descriptor socket;
    Clock::time_point until;
  };

  void run();
  void accept_one();
  bool answer(int socket);

  std::string socket_name;
  std::string token;
  std::string address;
  Descriptor listener;
  Descriptor bell;  // readable: stop
  std::vector<Client> clients;
  std::mutex mutex;  // for offered
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
      const bool stays =
          happened == 0 ? clients[i].until > Clock::now() : (happened & POLLIN) != 0 && answer(clients[i].socket.get());
      if (stays) staying.push_back(std::move(clients[i]));
    }
    clients = std::move(staying);
    if ((polled[1].revents & POLLIN) != 0) accept_one();
  }
}

void DescriptorServer::State::accept_one() {
  Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    // Out of descriptors, most likely: not to be asked again at once, as the listener stays readable.
    if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  if (!is_same_user(socket.get())) return;
  if (clients.size() == kMostClients) clients.erase(clients.begin());
  clients.push_back({std::move(socket), Clock::now() + kPatience});
}

// Whether the client may stay.
bool DescriptorServer::State::answer(int socket) {
  std::array<char, kMagic.size() + kTokenChars + kMostName> bytes{};
  const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_TRUNC | MSG_DONTWAIT);
  if (got < static_cast<ssize_t>(kMagic.size() + kTokenChars) || got > static_cast<ssize_t>(bytes.size())) return false;
  const std::string_view request(bytes.data(), static_cast<std::size_t>(got));
  if (!request.starts_with(kMagic)) return false;
  const bool knows = is_same_text(request.substr(kMagic.size(), kTokenChars), token);
  if (!knows) return false;
  const std::lock_guard lock(mutex);
  const auto found = offered.find(request.substr(kMagic.size() + kTokenChars));
  char said = found == offered.end() ? 'n' : 'y';
  Packet packet(&said, 1);
  if (found != offered.end()) packet.attach(found->second.get());
  return ::sendmsg(socket, &packet.header, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

DescriptorServer::DescriptorServer() : state_(std::make_unique<State>()) {
  state_->socket_name = "tessera-" + random_text();
  state_->token = random_text();
  state_->address = state_->socket_name + " " + state_->token;
  state_->bell.reset(::eventfd(0, EFD_CLOEXEC));
  state_->listener.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  const socklen_t size = fill(address, state_->socket_name);
  const bool listens = state_->bell && state_->listener &&
                       ::bind(state_->listener.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                       ::listen(state_->listener.get(), 512) == 0;
  TESSERA_CHECK_AS(IoError, listens, "no Unix socket to hand out memory: ", reason());
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
  TESSERA_CHECK(name.size() <= kMostName, "a descriptor under a name of ", name.size(), " bytes; ", kMostName,
                " are allowed");
  Descriptor own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  TESSERA_CHECK_AS(IoError, own, "descriptor ", fd, " could not be duplicated: ", reason());
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

Fetched fetch_descriptor(std::string_view address, std::string_view name, std::chrono::nanoseconds timeout) {
  const std::string_view socket_name = address.substr(0, address.find(' '));
  const std::string_view token = address.substr(std::min(socket_name.size() + 1, address.size()));
  const Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  TESSERA_CHECK_AS(IoError, socket, "no Unix socket: ", reason());
  sockaddr_un to{};
  const socklen_t size = fill(to, socket_name);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), size) != 0) {
    TESSERA_CHECK_AS(AbortedError, errno != ECONNREFUSED, "the process at ", socket_name, " has ended");
    TESSERA_THROW(IoError, "the process at ", socket_name, " cannot be reached: ", reason());
  }
  ucred who{};
  socklen_t who_size = sizeof who;
  (void)::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &who_size);
  TESSERA_CHECK_AS(IoError, who.pid > 0, "the process at ", socket_name, " is in another pid namespace");
  Fetched fetched;
  // Opened before the process answers: then the number was its own, and of no process that came after it.
  fetched.process.reset(static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0)));
  TESSERA_CHECK_AS(IoError, fetched.process || errno == ESRCH, "pidfd_open of process ", who.pid, ": ", reason());
  std::string request = std::string(kMagic) + std::string(token) + std::string(name);
  Packet ask(request.data(), request.size());
  (void)::sendmsg(socket.get(), &ask.header, MSG_NOSIGNAL);
  pollfd polled{socket.get(), POLLIN, 0};
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(timeout) + std::chrono::milliseconds(1);
  const int most = static_cast<int>(std::min<std::int64_t>(wait.count(), 1 << 30));
  int ready = 0;
  do {
    ready = ::poll(&polled, 1, most);
  } while (ready < 0 && errno == EINTR);
  TESSERA_CHECK_AS(TimeoutError, ready != 0, "process ", who.pid, " did not hand out '", name, "' within ", timeout);
  char said = 0;
  Packet answer(&said, 1);
  answer.make_room();
  const ssize_t got = ::recvmsg(socket.get(), &answer.header, MSG_CMSG_CLOEXEC);
  TESSERA_CHECK_AS(AbortedError, got == 1 && fetched.process, "process ", who.pid, " ended, or would not hand out '",
                   name, "'");
  fetched.file.reset(answer.attached());
  return fetched;
}

}  // namespace tessera::comm::detail

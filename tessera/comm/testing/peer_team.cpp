#include "tessera/comm/testing/peer_team.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tessera/base/error.h"
#include "tessera/comm/testing/mpirun.h"

namespace tessera::comm {
namespace {

// Limit for one reply: the start of a job on a busy machine, or many large operations.
constexpr int kPatienceMs = 120'000;

std::string beside(const std::string& program) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(program);
}

}  // namespace

std::vector<Peer> mpi_peers(std::string& why) {
  const std::string program = "comm_mpi_peer";
  if (find_mpirun().empty()) {
    why = "mpirun is not there";
  } else if (!std::filesystem::exists(beside(program))) {
    why = program + " was not built, for want of Open MPI's mpi.h";
  } else {
    return {{"Open MPI", "openmpi", program, {}},
            {"Open MPI, single copy off",
             "openmpi_no_single_copy",
             program,
             {"OMPI_MCA_btl_vader_single_copy_mechanism=none"}},
            {"Open MPI, rep movsb raised",
             "openmpi_no_rep_movsb",
             program,
             {"GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=0x40000000"}}};
  }
  return {};
}

std::vector<Peer> gloo_peers() {
  const std::string program = "comm_gloo_peer";
  if (!std::filesystem::exists(beside(program))) return {};
  return {{"gloo, TCP", "gloo", program, {}}};
}

PeerTeam::PeerTeam(const Peer& peer, int ranks, OpKind kind, std::size_t nbytes) : peer_(peer) {
  char name[] = "/tmp/tessera_peer_XXXXXX";
  TESSERA_CHECK_AS(IoError, ::mkdtemp(name) != nullptr, "no directory for a peer");
  folder_ = name;
  for (int rank = 0; rank < ranks; ++rank) {
    // Opened in both directions, so that it does not wait for the peer.
    const auto open = [&](const std::string& pipe) {
      const std::string path = folder_ + "/" + pipe + "." + std::to_string(rank);
      TESSERA_CHECK_AS(IoError, ::mkfifo(path.c_str(), 0600) == 0, "no pipe ", path);
      return ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    };
    const int orders = open("orders");
    members_.push_back({.orders = orders, .answers = open("answers")});
  }
  const std::vector<std::string> job = {beside(peer.program), folder_, std::string(to_string(kind)),
                                        std::to_string(nbytes)};
  if (peer.program == "comm_mpi_peer") {
    std::vector<std::string> command = {find_mpirun(), "--allow-run-as-root", "--oversubscribe", "-n",
                                        std::to_string(ranks)};
    command.insert(command.end(), job.begin(), job.end());
    start(command);
    return;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> command = job;
    command.insert(command.end(), {std::to_string(rank), std::to_string(ranks)});
    start(command);
  }
}

void PeerTeam::start(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const std::string log = folder_ + "/log";
  const pid_t process = ::fork();
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // it ends with the process that started it
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    for (const std::string& setting : peer_.environment) {
      const std::size_t equals = setting.find('=');
      ::setenv(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str(), 1);
    }
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  processes_.push_back(process);
}

PeerTeam::~PeerTeam() {
  const int no_more = 0;
  for (const PeerMember& member : members_) {
    (void)!::write(member.orders, &no_more, sizeof no_more);
    ::close(member.orders);
    ::close(member.answers);
  }
  for (const pid_t process : processes_) ::waitpid(process, nullptr, 0);
  std::filesystem::remove_all(folder_);
}

double PeerTeam::run(int times) {
  for (const PeerMember& member : members_) {
    TESSERA_CHECK_AS(IoError, ::write(member.orders, &times, sizeof times) == sizeof times, "no pipe to a peer");
  }
  double slowest = 0;
  for (const PeerMember& member : members_) {
    pollfd polled{member.answers, POLLIN, 0};
    double took = 0;
    const bool came = ::poll(&polled, 1, kPatienceMs) == 1 && ::read(member.answers, &took, sizeof took) == sizeof took;
    if (!came) {
      std::ifstream log(folder_ + "/log");
      const std::string words((std::istreambuf_iterator<char>(log)), std::istreambuf_iterator<char>());
      for (const pid_t process : processes_) ::kill(process, SIGTERM);
      TESSERA_THROW(IoError, peer_.name, " does not answer: ", words);
    }
    slowest = std::max(slowest, took);
  }
  return slowest / times;
}

}  // namespace tessera::comm

// Runs the same operation with other libraries, for benches: ranks of a peer program (mpi_peer_main.cpp,
// gloo_peer_main.cpp) repeat a collective on request, as RankTeam does with ours.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/operation.h"

namespace tessera::comm {

/// A library in one configuration.
struct Peer {
  std::string name;                      ///< display name
  std::string key;                       ///< key in the names of rows: "openmpi", ...
  std::string program;                   ///< file name, in the directory of this program
  std::vector<std::string> environment;  ///< "NAME=value"
};

/// Returns the configurations of Open MPI that can run here. If there are none, sets `why`.
std::vector<Peer> mpi_peers(std::string& why);
/// Returns Gloo if it is built in, otherwise an empty list.
std::vector<Peer> gloo_peers();

/// The ranks of one peer program.
class PeerTeam {
 public:
  /// Starts the ranks, which takes a moment.
  PeerTeam(const Peer& peer, int ranks, OpKind kind, std::size_t nbytes);
  /// Ends the ranks.
  ~PeerTeam();
  PeerTeam(const PeerTeam&) = delete;
  PeerTeam& operator=(const PeerTeam&) = delete;
  /// Makes all ranks repeat the operation `times` times, starting together. Returns nanoseconds per repetition on the
  /// slowest rank.
  double run(int times);
  [[nodiscard]] const Peer& peer() const { return peer_; }

 private:
  struct PeerMember {
    int orders = -1;
    int answers = -1;
  };
  void start(const std::vector<std::string>& command);

  Peer peer_;
  std::string folder_;
  std::vector<PeerMember> members_;
  std::vector<pid_t> processes_;
};

}  // namespace tessera::comm

// Other libraries doing the same job, for benches: ranks of a peer program (mpi_peer_main.cpp, gloo_peer_main.cpp) that
// repeat a collective when told, as RankTeam has ours do.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/operation.h"

namespace tessera::comm {

/// A library, set up in one way.
struct Peer {
  std::string name;                      ///< shown
  std::string key;                       ///< in names of rows: "openmpi", ...
  std::string program;                   ///< beside this one
  std::vector<std::string> environment;  ///< "NAME=value"
};

/// Those of Open MPI that can be run here; none: `why` says so.
std::vector<Peer> mpi_peers(std::string& why);
/// Gloo, if it was built: one or none.
std::vector<Peer> gloo_peers();

/// See the head of this file.
class PeerTeam {
 public:
  /// Starts the ranks, which need a moment.
  PeerTeam(const Peer& peer, int ranks, OpKind kind, std::size_t nbytes);
  /// Ends them.
  ~PeerTeam();
  PeerTeam(const PeerTeam&) = delete;
  PeerTeam& operator=(const PeerTeam&) = delete;
  /// Has all ranks repeat it this often, beginning together. Returns nanoseconds of one, on the slowest rank.
  double run(int times);
  /// The peer.
  [[nodiscard]] const Peer& peer() const { return peer_; }

 private:
  struct Member {
    int orders = -1;
    int answers = -1;
  };
  void start(const std::vector<std::string>& command);

  Peer peer_;
  std::string folder_;
  std::vector<Member> members_;
  std::vector<pid_t> processes_;
};

}  // namespace tessera::comm

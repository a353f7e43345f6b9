// run.on_failure = shrink: after a rank dies, the surviving processes continue as a shrunk world from the last
// checkpoint. tp does not change, because it shards the model. dp and fsdp are planned again, for as many ranks as can
// share the batch. Surplus ranks end normally. If no mesh fits, the run ends with the reason.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/comm/smaller_world.h"
#include "tessera/train/config.h"
#include "tessera/train/summary.h"

namespace tessera::train::detail {

/// Returns the largest mesh of at most `ranks` ranks that a resolved configuration can continue with: the same tp, the
/// same fsdp if it divides, and a divisible batch. Returns nothing if no mesh fits.
std::optional<MeshConfig> smaller_mesh(const Config& config, int ranks);

/// Returns true if the other ranks may continue after this error of a rank of a larger world.
bool may_shrink(const Config& config, const Error& error);

/// The sequence of worlds of a run. Not thread-safe.
class Shrinking {
 public:
  Shrinking(Config given, std::FILE* out);
  /// Leaves the worlds, the last one first.
  ~Shrinking();
  Shrinking(const Shrinking&) = delete;
  Shrinking& operator=(const Shrinking&) = delete;

  /// Returns the configuration for the current world.
  [[nodiscard]] const Config& config() const { return config_; }
  /// Called in the handler of the error that ended the run in this world. Rethrows it if the run cannot continue.
  void note(const Error& error);
  /// Agrees with the surviving ranks and enters the shrunk world. Returns false if this rank is surplus. Throws
  /// AbortedError if no mesh fits.
  bool shrink();
  /// After shrink() threw: returns true if this rank is the survivor that reports it.
  [[nodiscard]] bool is_to_tell() const;
  /// Returns the summary of a surplus rank.
  [[nodiscard]] RunSummary left_summary() const;

 private:
  Config config_;
  std::FILE* out_;
  std::string reason_;
  std::vector<int> left_;  // survivors of the last agreement; empty: none yet
  std::vector<std::unique_ptr<comm::SmallerWorld>> worlds_;
};

}  // namespace tessera::train::detail

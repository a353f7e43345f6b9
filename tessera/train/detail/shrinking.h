// run.on_failure = shrink: when a rank dies, those that are left go on in the same processes as a smaller world, from
// the last checkpoint. tp stays, since the model is cut by it; dp and fsdp are planned anew, for as many ranks as the
// batch can be shared by. Ranks that find no place end in order. Where no mesh fits, the run ends and says why.
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

/// The largest mesh of at most so many ranks that a resolved configuration can go on with: tp as it is, fsdp too where
/// that divides, and a batch that divides. Empty: there is none.
std::optional<MeshConfig> smaller_mesh(const Config& config, int ranks);

/// Whether this error, of a rank of a larger world, is one that the others may go on after.
bool may_shrink(const Config& config, const Error& error);

/// The worlds that a run goes through. For one thread.
class Shrinking {
 public:
  Shrinking(Config given, std::FILE* out);
  /// The last world first.
  ~Shrinking();
  Shrinking(const Shrinking&) = delete;
  Shrinking& operator=(const Shrinking&) = delete;

  /// For the world as it is.
  [[nodiscard]] const Config& config() const { return config_; }
  /// In the handler of what ended the run in this world: throws it again where the run cannot go on after it.
  void note(const Error& error);
  /// Agrees with the others that are left, and enters the smaller world. False: it has no place for this rank.
  /// AbortedError: no mesh fits.
  bool shrink();
  /// Where that threw: whether this rank is the one of those left that tells of it.
  [[nodiscard]] bool is_to_tell() const;
  /// What a rank without a place returns.
  [[nodiscard]] Summary left_summary() const;

 private:
  Config config_;
  std::FILE* out_;
  std::string reason_;
  std::vector<int> left_;  // when they last agreed; empty: they did not
  std::vector<std::unique_ptr<comm::SmallerWorld>> worlds_;
};

}  // namespace tessera::train::detail

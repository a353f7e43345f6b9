#include "tessera/analysis/evidence.h"

namespace tessera::analysis {

std::string to_string(RankState state) {
  switch (state) {
    case RankState::kRunning: return "is running";
    case RankState::kStopped: return "was stopped";
    case RankState::kEnded: return "ended";
    case RankState::kFailed: return "failed";
    case RankState::kDied: return "died";
    case RankState::kMissing: return "left no record";
    case RankState::kUnknown: break;
  }
  return "cannot be seen from here";
}

}  // namespace tessera::analysis

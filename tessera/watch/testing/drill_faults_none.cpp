// Runs without a fault, which must be reported as such: ended, active, with uneven traffic.
#include "tessera/device/device.h"
#include "tessera/watch/testing/drill.h"

namespace tessera::watch {
namespace {

const std::vector<DrillForm> kBoth = {DrillForm::kProcesses, DrillForm::kThreads};

// Batches go through the stages; ranks have different numbers of point-to-point operations, and odd ones add more.
void pipeline(WatchDrillRank& rank) {
  const int last = rank.ranks() - 1;
  for (int batch = 0; batch < 8; ++batch) {
    if (!rank.is(0)) rank.run(rank.recv(rank.rank() - 1, 100 + batch));
    if (!rank.is(last)) rank.run(rank.send(rank.rank() + 1, 100 + batch));
    if (batch % 3 == 0 && rank.is(last)) rank.run(rank.send(0, 7));
    if (batch % 3 == 0 && rank.is(0)) rank.run(rank.recv(last, 7));
  }
  rank.steps(1);
}
// Ranks are in groups of different sizes, and use them unevenly.
void uneven_groups(WatchDrillRank& rank) {
  const comm::ProcessGroup group = rank.world.split(rank.rank() < 2 ? 0 : 1, 0);
  for (int i = 0; i < (rank.rank() < 2 ? 9 : 2); ++i) rank.run(group, rank.all_reduce());
  rank.steps(2);
}
void steps(WatchDrillRank& rank) { rank.steps(5); }
void steps_and_go_on(WatchDrillRank& rank) {
  rank.steps(5);
  rank.wait_for_the_end();
  rank.steps(1);
}
void pipeline_and_go_on(WatchDrillRank& rank) {
  pipeline(rank);
  rank.wait_for_the_end();
  rank.steps(1);
}

}  // namespace

std::vector<DrillFault> faults_of_none() {
  return {
      {.name = "no fault", .ranks = 8, .body = steps, .forms = kBoth},
      {.name = "no fault, and it goes on", .body = steps_and_go_on, .is_looked_at = true},
      {.name = "uneven traffic of a pipeline", .body = pipeline, .forms = kBoth},
      {.name = "uneven traffic that goes on", .body = pipeline_and_go_on, .is_looked_at = true},
      {.name = "uneven use of groups", .ranks = 5, .body = uneven_groups, .forms = kBoth},
  };
}

}  // namespace tessera::watch

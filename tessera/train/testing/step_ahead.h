// A task whose samples give two steps without a finite loss, to compare steps that run ahead with others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/train/config.h"
#include "tessera/train/task.h"
#include "tessera/train/testing/replays.h"
#include "tessera/train/trainer.h"

namespace tessera::train::testing {

/// Returns a task with dropout. Two of its samples are not finite.
Task task_with_bad_samples();
/// Returns a configuration of 12 steps of the task. Two of them read a sample that is not finite.
Config task_config(bool is_graph, const std::string& on_nan);

/// Results of a run of the task.
struct TaskResults {
  ReplayResults steps;
  std::map<std::int64_t, std::vector<float>> bad_steps;  ///< By step: samples, parameters and gradients.
  std::string checkpoint;                                ///< Metadata "trainer" at the end.
};
/// Takes all steps, skipping bad ones, on every rank of the world.
TaskResults results_of_task(bool is_graph, Ahead ahead);

}  // namespace tessera::train::testing

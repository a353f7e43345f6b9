#include "tessera/train/detail/step_failure.h"

#include <algorithm>

#include "tessera/analysis/read_run.h"
#include "tessera/base/log.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/memory/oom_report.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/memory_fit.h"

namespace tessera::train::detail {
namespace {

constexpr std::size_t kShown = 4;

std::string advice_without_memory(const RunSummary& summary) {
  if (is_own(summary.config.model)) return "use a smaller train.batch, or more train.accumulate";
  return batch_advice(summary.config, summary.world_size, tensor::default_device());
}

}  // namespace

std::string last_launches() {
  const std::string record = probe::recorder().path();
  if (record.empty()) return {};
  std::string text;
  try {
    const analysis::Evidence evidence = analysis::read_record(record, {.has_memory = false});
    std::vector<analysis::LastKernel> launches = evidence.ranks.front().launches;
    std::ranges::sort(launches, std::greater<>(), &analysis::LastKernel::when_ns);
    for (std::size_t i = 0; i < std::min(kShown, launches.size()); ++i) {
      text += (text.empty() ? "" : ", ") + launches[i].name + " on stream " + std::to_string(launches[i].stream) +
              " of " + launches[i].device;
    }
  } catch (const Error& error) {
    log::warn("the last launches cannot be read: ", error.message());
  }
  return text;
}

std::string failure_reason(const Error& error, const RunSummary& summary) {
  std::string reason = error.message();
  if (dynamic_cast<const memory::OutOfMemoryError*>(&error) != nullptr)
    return reason + "; " + advice_without_memory(summary);
  if (error.kind() != ErrorKind::kDevice) return reason;
  const std::string launches = last_launches();
  return launches.empty() ? reason : reason + "; last launches: " + launches;
}

}  // namespace tessera::train::detail

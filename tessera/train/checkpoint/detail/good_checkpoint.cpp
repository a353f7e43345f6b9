#include "tessera/train/checkpoint/detail/good_checkpoint.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/train/run.h"

namespace tessera::train::detail {

std::string first_fault(const CheckpointVerdict& verdict) {
  const std::size_t more = verdict.faults.size() - 1;
  // Names of tensors come from a file.
  return printable(to_string(verdict.faults.front())) +
         (more > 0 ? tessera::detail::concat(" (and ", more, " more)") : "");
}

CheckpointInfo good_checkpoint(const std::filesystem::path& path, const OnProgress& on_progress) {
  CheckpointVerdict verdict = verify_checkpoint(path, CheckDepth::kEverything, on_progress);
  if (verdict.faults.empty()) return std::move(verdict.info);
  TESSERA_THROW(IoError, "checkpoint ", path.string(), " is corrupt: ", first_fault(verdict),
                "; use another: `tessera checkpoint ls --verify` lists the valid checkpoints of a run, `tessera "
                "checkpoint verify` all faults of this one");
}

}  // namespace tessera::train::detail

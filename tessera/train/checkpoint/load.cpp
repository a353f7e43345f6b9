#include <optional>
#include <unordered_map>

#include "tessera/base/error.h"
#include "tessera/base/nearest.h"
#include "tessera/base/rank.h"
#include "tessera/device/device.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/detail/fill.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/read_plan.h"

namespace tessera::train {
namespace {

using detail::CheckpointIndex;
using detail::SavedTensor;

// Returns the checked tensors of the index that the state requests.
std::vector<detail::Wanted> wanted_of(const CheckpointIndex& index, const CheckpointState& state,
                                      const std::string& path) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t t = 0; t < index.tensors.size(); ++t) places.emplace(index.tensors[t].name, t);
  std::vector<detail::Wanted> wanted;
  for (const auto& [name, tensor] : state.tensors) {
    TESSERA_CHECK(tensor, "checkpoint: '", name, "' must be a tensor");
    const auto found = places.find(name);
    if (found == places.end()) {
      std::vector<std::string> names;
      for (const SavedTensor& each : index.tensors) names.push_back(each.name);
      TESSERA_THROW(MismatchError, "checkpoint ", path, ": no tensor '", name, "'", did_you_mean(name, names),
                    " among its ", names.size(),
                    " tensors; use the configuration and the version of Tessera that it was saved with");
    }
    const SavedTensor& saved = index.tensors[found->second];
    TESSERA_CHECK_AS(MismatchError, saved.shape == tensor.shape(), "checkpoint ", path, ": tensor '", name,
                     "' has shape ", saved.shape, ", but the model requires ", tensor.shape(),
                     "; use the model sizes that it was saved with");
    TESSERA_CHECK_AS(MismatchError, saved.dtype == tensor.dtype(), "checkpoint ", path, ": tensor '", name,
                     "' has dtype ", saved.dtype, ", but ", tensor.dtype(), " is required; load it as ", saved.dtype,
                     " and cast it");
    TESSERA_CHECK(!tensor.has_layout() || tensor.layout().partials().empty(), "checkpoint: tensor '", name,
                  "': layout must not be partial, got ", tensor.layout().text(),
                  "; load into a layout without Partial()");
    wanted.push_back({found->second, tensor.layout()});
  }
  return wanted;
}

// Memory that a shard is read to: its own, or host memory for a device that the host cannot write.
struct Destination {
  Tensor part;
  std::vector<std::byte> aside;
};

}  // namespace

std::map<std::string, std::string> load_checkpoint(const CheckpointInfo& from, CheckpointState& into) {
  const CheckpointIndex index = detail::load_index(from.path);
  const std::vector<detail::Wanted> wanted = wanted_of(index, into, from.path.string());
  detail::ReadPlanner planner(index);
  const detail::ReadPlan plan = planner.plan(wanted, current_place().rank);
  std::vector<Destination> destinations(into.tensors.size());
  std::vector<detail::ShardTarget> targets(into.tensors.size());
  for (std::size_t i = 0; i < into.tensors.size(); ++i) {
    const auto& [name, tensor] = into.tensors[i];
    Destination& to = destinations[i];
    to.part = tensor.local();
    if (!to.part || to.part.nbytes() == 0) continue;
    TESSERA_CHECK(to.part.is_contiguous(), "checkpoint: tensor '", name, "' must be contiguous, got ",
                  tensor::describe(to.part));
    to.part.device().synchronize();
    targets[i] = {to.part.data(), itemsize(to.part.dtype())};
    if (to.part.device_kind() == tensor::kHostKind) continue;
    to.aside.resize(to.part.nbytes());
    targets[i].data = to.aside.data();
  }
  detail::fill(from.path, index, plan, targets);
  for (Destination& to : destinations) {
    if (!to.part) continue;
    to.part.storage().bump_version();
    if (to.aside.empty()) continue;
    const device::Stream& stream = tensor::current_stream(to.part.device());
    to.part.storage().use_on(stream);
    stream.copy(to.part.data(), to.aside.data(), to.aside.size(), "checkpoint");
    stream.synchronize();
  }
  return index.texts;
}

std::map<std::string, std::string> checkpoint_texts(const CheckpointInfo& from) {
  return detail::load_index(from.path).texts;
}

}  // namespace tessera::train

#include "tessera/train/detail/dump_step.h"

#include <filesystem>
#include <map>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/run_directory.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/detail/option_values.h"
#include "tessera/train/make_model.h"

namespace tessera::train::detail {

std::string write_step(const std::string& directory, int rank, const Trainer& trainer, const SeenStep& seen) {
  const StepReport& report = seen.report;
  const std::filesystem::path folder = std::filesystem::path(directory) / ("dump-" + std::to_string(report.step));
  make_run_subdirectory(folder);
  CheckpointState state = trainer.checkpoint_state();
  for (const auto& [name, leaf] : named_leaves(trainer.model())) {
    if (const Tensor gradient = autograd::grad(leaf)) state.tensors.emplace_back("gradients/" + name, gradient);
  }
  state.tensors.insert(state.tensors.end(), seen.activations.begin(), seen.activations.end());
  std::map<std::string, std::string> texts{{"step", std::to_string(report.step)},
                                           {"loss", number_text(report.loss)},
                                           {"grad_norm", number_text(report.grad_norm)},
                                           {"learning_rate", number_text(report.learning_rate)},
                                           {"micro_batch", "0 of " + std::to_string(seen.micro_batches)}};
  std::vector<tensor::NamedTensor> tensors;
  for (const auto& [name, tensor] : state.tensors) {
    if (tensor.has_layout()) texts["layout/" + name] = tensor.layout().text();
    tensors.push_back({name, tensor.local()});
  }
  std::string path = (folder / ("rank-" + std::to_string(rank) + ".safetensors")).string();
  tensor::write_safetensors(path, tensors, texts, FileKind::kRun);
  return path;
}

}  // namespace tessera::train::detail

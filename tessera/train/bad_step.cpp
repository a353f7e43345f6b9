#include "tessera/train/bad_step.h"

#include <filesystem>
#include <map>
#include <span>

#include "tessera/autograd/autograd.h"
#include "tessera/base/run_directory.h"
#include "tessera/tensor/safetensors.h"

namespace tessera::train {
namespace {

Tensor part_of(const Tensor& tensor) { return tensor.has_layout() ? tensor.local() : tensor; }

std::string text_of(std::span<const std::uint64_t> numbers) {
  std::string text;
  for (const std::uint64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

}  // namespace

std::string write_bad_step(const std::string& directory, int rank, const BadStep& step) {
  const std::filesystem::path folder =
      std::filesystem::path(directory) / ("bad-step-" + std::to_string(step.report.step));
  make_run_subdirectory(folder);
  std::vector<tensor::NamedTensor> tensors;
  std::map<std::string, std::string> texts{{"step", std::to_string(step.report.step)},
                                           {"loss", std::to_string(step.report.loss)},
                                           {"grad_norm", std::to_string(step.report.grad_norm)},
                                           {"learning_rate", std::to_string(step.report.learning_rate)},
                                           {"samples", text_of(step.samples)}};
  for (const auto& [name, leaf] : step.parameters) {
    const Tensor gradient = autograd::grad(leaf);
    tensors.push_back({"parameters/" + name, part_of(leaf.detach())});
    if (gradient) tensors.push_back({"gradients/" + name, part_of(gradient)});
    if (leaf.has_layout()) texts["layout/" + name] = leaf.layout().text();
  }
  std::string path = (folder / ("rank-" + std::to_string(rank) + ".safetensors")).string();
  tensor::write_safetensors(path, tensors, texts, FileKind::kRun);
  return path;
}

}  // namespace tessera::train

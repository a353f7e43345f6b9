// Throughput of the weights of `transformers`: the preset 1b of llama as files in bf16, which the page cache holds,
// into the parameters of a model in bf16 or f32, and to a checkpoint in the same directory (TMPDIR), synced to disk.
// Rates count the bytes of the files. The reference copies memory.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/bench.h"
#include "tessera/device/device.h"
#include "tessera/nn/hugging_face.h"
#include "tessera/nn/language_model.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/train/checkpoint/hugging_face.h"

namespace tessera::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A model as files, and the memory of the reference.
class Model {
 public:
  explicit Model(const std::string& preset) {
    std::string name = (std::filesystem::temp_directory_path() / "tessera_import_bench_XXXXXX").string();
    TESSERA_CHECK_AS(IoError, ::mkdtemp(name.data()) != nullptr, "no directory for the bench");
    directory_ = name;
    std::filesystem::create_directories(directory_ / "model");
    nn::ModelConfig config;
    for (const nn::Preset& each : nn::model_family("llama").presets) {
      if (each.name != preset) continue;
      config = {.width = each.width,
                .layers = each.layers,
                .heads = each.heads,
                .kv_heads = each.kv_heads,
                .hidden = each.hidden,
                .vocabulary = each.vocabulary,
                .sequence = each.sequence};
    }
    const nn::HuggingFaceFormat& format = nn::hugging_face_format_of_family("llama");
    write_file((directory_ / "model" / "config.json").string(), format.write_config(config, ""));
    std::vector<tensor::NamedTensor> tensors;
    table_ = format.tensors(config);
    for (const nn::HuggingFaceTensor& each : table_) {
      const Tensor made = Tensor::allocate(each.shape, DType::kBF16, device::Device::get("host"));
      std::memset(static_cast<void*>(made.data()), static_cast<int>(tensors.size()) + 1, made.nbytes());
      nbytes_ += made.nbytes();
      tensors.push_back({each.name, made});
    }
    tensor::write_safetensors((directory_ / "model" / "model.safetensors").string(), tensors);
    from_.assign(std::min<std::size_t>(nbytes_, std::size_t{256} << 20), std::byte{3});
    to_.assign(from_.size(), std::byte{4});
  }
  ~Model() { std::filesystem::remove_all(directory_); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Returns GB/s of a load into existing parameters of this dtype.
  double load_rate(DType dtype) {
    if (state_.tensors.empty() || state_.tensors.front().second.dtype() != dtype) {
      state_.tensors.clear();
      for (const nn::HuggingFaceTensor& each : table_) {
        const Tensor made = Tensor::allocate(each.parameter_shape(), dtype, device::Device::get("host"));
        std::memset(static_cast<void*>(made.data()), 1, made.nbytes());
        state_.tensors.emplace_back("parameters/" + each.paths.front(), made);
      }
    }
    const auto start = Clock::now();
    load_hugging_face(directory_ / "model", state_);
    return 1e-9 * static_cast<double>(nbytes_) / seconds_since(start);
  }
  // Returns GB/s.
  double import_rate() const {
    const auto start = Clock::now();
    (void)import_hugging_face(directory_ / "model", directory_ / "imported");
    const double seconds = seconds_since(start);
    std::filesystem::remove_all(directory_ / "imported");
    return 1e-9 * static_cast<double>(nbytes_) / seconds;
  }
  double memcpy_rate() {
    const auto start = Clock::now();
    bench::memcpy_reference(to_.data(), from_.data(), from_.size());
    return 1e-9 * static_cast<double>(from_.size()) / seconds_since(start);
  }

 private:
  std::filesystem::path directory_;
  std::size_t nbytes_ = 0;
  std::vector<nn::HuggingFaceTensor> table_;
  CheckpointState state_;  // of the last dtype
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

TESSERA_BENCH(hugging_face) {
  std::optional<Model> made;  // set when a row is measured
  const auto model = [&]() -> Model& {
    if (!made) made.emplace(context.is_brief() ? "tiny" : "1b");
    return *made;
  };
  const auto measure = [&](const char* name, const std::function<double()>& rate, double must) {
    context.measure({.name = name,
                     .unit = "GB/s",
                     .ours = rate,
                     .reference_name = "memcpy",
                     .reference = [&]() -> double { return model().memcpy_rate(); },
                     .must_ratio = must});
  };
  measure(
      "import_1b", [&] { return model().load_rate(DType::kBF16); }, 0.7);
  measure(
      "import_1b_to_f32", [&] { return model().load_rate(DType::kF32); }, 0);
  measure(
      "import_1b_to_checkpoint", [&] { return model().import_rate(); }, 0);
}

}  // namespace
}  // namespace tessera::train

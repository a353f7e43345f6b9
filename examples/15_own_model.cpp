// A model of our own, trained by train::run: a small vision transformer that tells apart images that are generated
// here. Two ranks keep its parameters in shards (FSDP). The first run ends after 20 steps, the second one resumes from
// its checkpoint, and both leave their losses, checkpoints and an HTML report in one run directory.
#include <tessera/analysis/report/report.h>
#include <tessera/tessera.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>

using namespace tessera;

namespace {

constexpr std::int64_t kSide = 16, kPatch = 4, kPatches = 16, kClasses = 4, kWidth = 32, kLayers = 2;

// A block of the transformer: attention between patches, then a feed-forward layer.
struct Block : nn::Layer<Block> {
  nn::LayerNorm norm1, norm2;
  nn::Attention attention;
  nn::Mlp mlp;

  Block()
      : norm1(add("norm1", nn::LayerNorm(kWidth))),
        norm2(add("norm2", nn::LayerNorm(kWidth))),
        attention(add("attention", nn::Attention({.width = kWidth, .heads = 4, .is_causal = false}))),
        mlp(add("mlp", nn::Mlp({.width = kWidth, .hidden = 4 * kWidth, .activation = "gelu", .bias = true}))) {}

  [[nodiscard]] Tensor forward(const Tensor& x) const {
    const Tensor y = x + attention(norm1(x));
    return y + mlp(norm2(y));
  }
};

struct VisionTransformer : nn::Layer<VisionTransformer> {
  nn::Linear patches;
  nn::Parameter positions;
  nn::ModuleList<Block> blocks;
  nn::LayerNorm norm;
  nn::Linear head;

  VisionTransformer()
      : patches(add("patches", nn::Linear(kPatch * kPatch, kWidth, {.out_meaning = "embed"}))),
        positions(parameter("positions", {kPatches, kWidth}, {.meaning = {"position", "embed"}})),
        blocks(add("blocks", nn::ModuleList<Block>(kLayers, [](std::int64_t) { return Block(); }))),
        norm(add("norm", nn::LayerNorm(kWidth))),
        head(add("head", nn::Linear(kWidth, kClasses, {.out_meaning = "class", .in_meaning = "embed"}))) {}

  // Returns the scores [images, classes] of images [images, patches, pixels].
  [[nodiscard]] Tensor forward(const Tensor& images) const {
    Tensor x = constrain(patches(images) + positions, {"batch", "sequence", "embed"});
    for (const Block& block : blocks) x = block(x);
    return head(constrain(norm(x), {"batch", "", "embed"}).mean(1));
  }

  // The trainer calls this with what read_images() returns, sharded over the ranks.
  [[nodiscard]] Tensor loss(const train::Batch& batch) const { return cross_entropy((*this)(batch[0]), batch[1]); }
};

// Returns a number in [0, 1) that depends on the sample and an index.
float noise(std::uint64_t sample, std::uint64_t index) {
  std::uint64_t x = (sample << 20 ^ index) * 0x9e3779b97f4a7c15;
  x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9;
  return static_cast<float>(x >> 40) * 0x1p-24F;
}

// Returns images [samples, patches, pixels] and their classes [samples]. An image has stripes in one of four
// directions.
train::Batch read_images(std::span<const std::uint64_t> samples) {
  const auto count = static_cast<std::int64_t>(samples.size());
  Tensor images = empty({count, kPatches, kPatch * kPatch});
  Tensor classes = empty({count}, {.dtype = kI64});
  auto* pixel = images.data_as<float>();
  for (std::size_t s = 0; s < samples.size(); ++s) {
    const auto direction = static_cast<std::int64_t>(samples[s] % kClasses);
    classes.data_as<std::int64_t>()[s] = direction;
    const double angle = static_cast<double>(direction) * M_PI / kClasses;
    for (std::int64_t patch = 0; patch < kPatches; ++patch) {
      for (std::int64_t i = 0; i < kPatch * kPatch; ++i) {
        const std::int64_t row = patch / (kSide / kPatch) * kPatch + i / kPatch;
        const std::int64_t column = patch % (kSide / kPatch) * kPatch + i % kPatch;
        const double across =
            std::cos(angle) * static_cast<double>(column) + std::sin(angle) * static_cast<double>(row);
        const float phase = noise(samples[s], 1 << 19) * 6;
        *pixel++ = static_cast<float>(std::sin(1.3 * across + phase)) +
                   noise(samples[s], static_cast<std::uint64_t>(row * kSide + column)) - 0.5F;
      }
    }
  }
  return {images, classes};
}

train::Config options(const std::string& directory, std::int64_t steps) {
  train::Config config;
  config.mesh = {.fsdp = 2};
  config.sharding.other = {"class="};  // the table has no row for this meaning of ours: its dimension is not sharded
  config.train.steps = steps;
  config.train.batch = 32;
  config.optimizer.learning_rate = 3e-3;
  config.schedule.kind = "constant";
  config.eval = {.every = 20, .samples = 64};
  config.checkpoint.every = 10;
  config.run.directory = directory;
  return config;
}

// Trains on 2 ranks, which are threads of this process. Returns the summary of the first one.
train::RunSummary train_on_2_ranks(const train::Config& config) {
  const train::Task task = train::task("vision transformer", [] { return VisionTransformer(); },
                                       {.size = 4096, .read = read_images}, {.size = 64, .read = read_images});
  train::RunSummary summary;
  simulate(2, [&] {
    const train::RunSummary own = train::run(task, config);
    if (rank() == 0) summary = own;
  });
  return summary;
}

}  // namespace

int main() {
  const std::filesystem::path parent =
      std::filesystem::temp_directory_path() / ("tessera_own_model_" + std::to_string(::getpid()));
  std::filesystem::create_directories(parent);
  const std::string directory = (parent / "run").string();

  (void)train_on_2_ranks(options(directory, 20));
  const train::RunSummary summary = train_on_2_ranks(options(directory, 80));
  const bool is_resumed = !summary.resumed_from.empty() && summary.resumed_from.front() == 20;
  const bool is_learned = summary.evaluations.back().loss < 0.2 * summary.evaluations.front().loss;
  std::printf("%s\n", analysis::leave_report_page(directory).c_str());
  const bool has_report = std::filesystem::exists(directory + "/report.html");
  std::printf("%s, %s, %s\n", is_resumed ? "resumed" : "NOT resumed", is_learned ? "learned" : "NOT learned",
              has_report ? "with a report" : "NO report");
  std::filesystem::remove_all(parent);
  return is_resumed && is_learned && has_report ? 0 : 1;
}

#include "tessera/train/detail/start_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/base/bytes.h"
#include "tessera/nn/language_model.h"
#include "tessera/ops/host_speed.h"
#include "tessera/ops/parallel.h"
#include "tessera/train/detail/loop.h"

namespace tessera::train::detail {
namespace {

std::string bytes_text(std::int64_t nbytes) { return format_bytes(static_cast<std::uint64_t>(nbytes)); }

// Returns "0.8 M", "8.03 G".
std::string count_text(std::int64_t count) {
  const auto number = static_cast<double>(count);
  if (number >= 1e9) return fmt::format("{:.2f} G", number / 1e9);
  if (number >= 1e5) return fmt::format("{:.1f} M", number / 1e6);
  return std::to_string(count);
}

// Returns true if the model has the sizes of its preset.
bool is_preset(const ModelConfig& model) {
  const auto is_same = [&](const nn::Preset& each) {
    return each.name == model.preset && each.width == model.width && each.layers == model.layers &&
           each.heads == model.heads && each.kv_heads == model.kv_heads && each.hidden == model.hidden &&
           each.vocabulary == model.vocabulary && each.sequence == model.sequence;
  };
  return std::ranges::any_of(nn::model_family(model.family).presets, is_same);
}

std::string model_text(const StartFacts& facts) {
  const ModelConfig& model = facts.config.model;
  if (is_own(model)) return fmt::format("{}: {} parameters\n", facts.name, count_text(facts.parameters));
  return fmt::format("{} {}{}: {} parameters, {} layer{}, vocabulary {}, sequence {}\n", model.family, model.preset,
                     is_preset(model) ? "" : " (changed)", count_text(facts.parameters), model.layers,
                     model.layers == 1 ? "" : "s", model.vocabulary, model.sequence);
}

std::string data_text(const StartFacts& facts) {
  const DataConfig& data = facts.config.data;
  std::string text = fmt::format("data: {} {} for training", facts.training, unit_of(facts.config.model));
  if (facts.held_out > 0) text += fmt::format(", {} held out", facts.held_out);
  if (is_own(facts.config.model)) return text + "\n";
  text += "; from " + data.files.front();
  if (data.files.size() > 1) text += fmt::format(" and {} more", data.files.size() - 1);
  return text + "\n";
}

// Returns "fsdp=2, tp=2": the axes with more than one rank, or "dp=1".
std::string axes_text(const MeshConfig& mesh) {
  std::string text;
  for (const auto& [name, ranks] : {std::pair("dp", mesh.dp), std::pair("fsdp", mesh.fsdp), std::pair("tp", mesh.tp)}) {
    if (ranks != 1) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, ranks);
  }
  return text.empty() ? "dp=1" : text;
}

std::string mesh_text(const StartFacts& facts) {
  const MeshConfig& mesh = facts.config.mesh;
  const TrainConfig& train = facts.config.train;
  const int ranks = mesh.dp * mesh.fsdp * mesh.tp;
  std::string text = fmt::format("mesh {} on {} rank{}", axes_text(mesh), ranks, ranks == 1 ? "" : "s");
  if (!facts.device.empty())
    text += fmt::format(" ({}{})", facts.backend.empty() ? "" : std::string(facts.backend) + ", ", facts.device);
  text += is_own(facts.config.model) ? fmt::format("; batch {} samples", train.batch)
                                     : fmt::format("; batch {} x {} tokens", train.batch, facts.config.model.sequence);
  if (train.accumulate > 1) text += fmt::format(" in {} micro-batches", train.accumulate);
  text += "; " + train.dtype + " compute, f32 state" + (train.deterministic ? ", deterministic" : "") + "\n";
  return facts.why_host.empty() ? text : text + "computing on the host, since " + facts.why_host + "\n";
}

std::string memory_text(const StartFacts& facts) {
  std::string owners;
  if (facts.predicted.empty()) return "";
  for (const OwnedBytes& each : facts.predicted) {
    if (each.owner != "total" && each.nbytes > 0)
      owners += (owners.empty() ? "" : ", ") + each.owner + " " + bytes_text(each.nbytes);
  }
  std::string text = fmt::format("memory: {} per rank predicted ({})", bytes_text(total_of(facts.predicted)), owners);
  if (facts.free_nbytes) text += "; " + bytes_text(*facts.free_nbytes) + " free on " + facts.device;
  return text + "\n";
}

}  // namespace

double measured_flops(std::string_view dtype) {
  const ops::HostSpeed& speed = ops::host_speed();
  return (dtype == "bf16" ? speed.bf16_product_gflops : speed.product_gflops) * 1e9 * ops::detail::thread_budget();
}

std::string compute_text(std::string_view dtype) {
  const ops::HostSpeed& speed = ops::host_speed();
  const int threads = ops::detail::thread_budget();
  const bool is_bf16 = dtype == "bf16";
  const std::string text = fmt::format(
      "compute: {}, {:.0f} GFLOP/s per thread; {} thread{} per rank\n", is_bf16 ? speed.bf16_products : speed.products,
      is_bf16 ? speed.bf16_product_gflops : speed.product_gflops, threads, threads == 1 ? "" : "s");
  return speed.is_slow() ? text + "warning: " + speed.warning() + "\n" : text;
}

std::string plan_text(const StartFacts& facts) { return model_text(facts) + mesh_text(facts); }

std::string start_text(const StartFacts& facts) {
  return model_text(facts) + data_text(facts) + mesh_text(facts) + facts.compute + memory_text(facts) +
         "run directory: " + facts.directory + "\n";
}

}  // namespace tessera::train::detail

#include "tessera/train/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tessera/base/bytes.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/detail/loop.h"
#include "tessera/train/detail/start_text.h"
#include "tessera/train/memory_fit.h"
#include "tessera/train/predict.h"

namespace tessera::train {
namespace {

std::string bytes_text(std::int64_t nbytes) { return format_bytes(static_cast<std::uint64_t>(nbytes)); }

// Returns "57.9 G", "110 T".
std::string number_text(double value) {
  constexpr const char* kPrefixes[] = {"", " k", " M", " G", " T", " P", " E"};
  std::size_t at = 0;
  for (; value >= 999.5 && at + 1 < std::size(kPrefixes); ++at) value /= 1e3;
  return fmt::format("{:.3g}{}", value, kPrefixes[at]);
}

std::string memory_text(const Prediction& prediction) {
  std::string text =
      fmt::format("memory per rank: {} predicted peak\n", bytes_text(detail::total_of(prediction.memory)));
  for (const OwnedBytes& each : prediction.memory) {
    if (each.owner != "total") text += fmt::format("  {:<12} {:>10}\n", each.owner, bytes_text(each.nbytes));
  }
  return text;
}

// Returns the limits of the named device, or those of the host. Each rank has a device.
MemoryLimits limits_of_run(const Config& config, int ranks) {
  MemoryLimits limits = host_limits(ranks);
  const std::string& name = config.run.device;
  if (name == "auto" || name == tensor::host_device().properties().kind) return limits;
  const MemoryLimits of_device = limits_of(device::Device::get(name));
  limits.device_nbytes = of_device.device_nbytes;
  limits.device = of_device.device;
  return limits;
}

std::string fit_text(const Config& config, int world_size, int ranks) {
  const MemoryLimits limits = limits_of_run(config, ranks);
  const std::string refusal = memory_refusal(config, world_size, limits);
  if (!refusal.empty()) return "does not fit: " + refusal + "\n";
  const std::string need = bytes_text(predicted_peak(config, world_size));
  const std::string here = ranks == 1 ? "one rank" : fmt::format("each of {} ranks", ranks);
  if (limits.device_nbytes)
    return fmt::format("fits: {} for {}; {} free on {}\n",
                       bytes_text(detail::total_of(predicted_memory(config, world_size))), here,
                       bytes_text(*limits.device_nbytes), limits.device);
  if (!limits.host_nbytes) return fmt::format("fits: {} for {}; the free memory of this host is unknown\n", need, here);
  return fmt::format("fits: {} for {}; {} free on this host\n", need, here, bytes_text(*limits.host_nbytes));
}

std::string flops_text(const Config& config, const Prediction& prediction) {
  const Flops token = flops_per_token(config.model);
  return fmt::format(
      "operations: {}FLOP per step of each rank, with recomputation and updates; the model has {}FLOP per token "
      "(causal "
      "{}FLOP)\n",
      number_text(prediction.flops), number_text(token.full), number_text(token.causal));
}

std::string traffic_text(const Prediction& prediction) {
  if (prediction.traffic.empty()) return "communication: none\n";
  std::string text = "communication per step of each rank:\n";
  for (const PredictedTraffic& each : prediction.traffic) {
    text += fmt::format("  {:<14} {:<12} {:>4} ranks {:>7} operations {:>10}\n", comm::to_string(each.kind), each.axes,
                        each.ranks, each.count, bytes_text(each.nbytes));
  }
  return text;
}

std::string time_text(const Config& config, const Prediction& prediction) {
  const bool is_given = config.run.peak_flops > 0;
  const double rate = is_given ? config.run.peak_flops : detail::measured_flops(config.train.dtype);
  const double compute = prediction.flops / rate;
  const double communication = communication_seconds(prediction);
  const double tokens = static_cast<double>(config.train.batch * config.model.sequence);
  return fmt::format(
      "time: about {:.3g} s per step, {} tokens/s: computation {:.3g} s at {}FLOP/s ({}), communication {:.3g} s if "
      "nothing overlaps\n",
      compute + communication, number_text(tokens / (compute + communication)), compute, number_text(rate),
      is_given ? "run.peak_flops" : "products on this host", communication);
}

}  // namespace

std::string dry_run_text(const Config& given, int world_size, int ranks) {
  const Config config = resolved(given, world_size);
  const Prediction prediction = predict(config, world_size);
  return detail::plan_text({.config = config, .parameters = prediction.parameters}) + memory_text(prediction) +
         fit_text(given, world_size, ranks) + flops_text(config, prediction) + traffic_text(prediction) +
         time_text(config, prediction) + "dry run: nothing was started\n";
}

int mesh_size(const Config& config) { return std::max(config.mesh.dp, 1) * config.mesh.fsdp * config.mesh.tp; }

}  // namespace tessera::train

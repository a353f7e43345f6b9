#include "tessera/train/testing/replays.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "tessera/train/detail/host_copies.h"
#include "tessera/train/make_model.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train::testing {

std::vector<float> own_weights(const Trainer& trainer) {
  std::vector<float> out;
  for (const Tensor& leaf : trainer.model().parameters()) {
    const Tensor own = detail::on_host(leaf.has_layout() ? leaf.local() : leaf.detach());
    out.insert(out.end(), own.data_as<float>(), own.data_as<float>() + own.numel());
  }
  return out;
}

ReplayResults seen_steps(Trainer& trainer, std::int64_t steps, const std::function<void(Trainer&)>& between,
                         Ahead ahead) {
  ReplayResults seen;
  while (trainer.step_count() < steps) {
    const StepReport report = trainer.step(trainer.step_count() + 1 < steps ? ahead : Ahead::kNone);
    seen.losses.push_back(report.loss);
    seen.norms.push_back(report.grad_norm);
    seen.rates.push_back(report.learning_rate);
    seen.ends.push_back(report.end);
    if (between) between(trainer);
  }
  seen.weights = own_weights(trainer);
  seen.random = ops::generator_state();
  return seen;
}

ReplayResults seen_run(const Config& config, const std::function<void(Trainer&)>& between, Ahead ahead) {
  Trainer trainer(config, synthetic_samples(config));
  return seen_steps(trainer, config.train.steps, between, ahead);
}

std::string difference(const ReplayResults& got, const ReplayResults& want) {
  if (got.losses.size() != want.losses.size()) return fmt::format("{} steps were taken", got.losses.size());
  const auto same = [](double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  };
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    const auto differs = [&](const char* what, double a, double b) {
      return same(a, b) ? std::string() : fmt::format("step {}: {} {:.17g} instead of {:.17g}", i + 1, what, a, b);
    };
    for (const std::string& wrong :
         {differs("loss", got.losses[i], want.losses[i]), differs("gradient norm", got.norms[i], want.norms[i]),
          differs("learning rate", got.rates[i], want.rates[i])}) {
      if (!wrong.empty()) return wrong;
    }
    if (got.ends[i] != want.ends[i]) return fmt::format("step {} ended otherwise", i + 1);
  }
  const bool is_same_size = got.weights.size() == want.weights.size();
  if (!is_same_size || std::memcmp(got.weights.data(), want.weights.data(), 4 * want.weights.size()) != 0)
    return "weights differ";
  return got.random == want.random ? "" : "random numbers to come differ";
}

}  // namespace tessera::train::testing

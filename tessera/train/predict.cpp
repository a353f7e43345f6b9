#include "tessera/train/predict.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "tessera/autograd/autograd.h"
#include "tessera/comm/traffic.h"
#include "tessera/memory/allocator.h"
#include "tessera/nn/language_model.h"
#include "tessera/nn/meta.h"
#include "tessera/ops/create/create.h"
#include "tessera/shard/groups.h"
#include "tessera/tensor/call_observer.h"
#include "tessera/train/plan.h"

namespace tessera::train {
namespace {

// Sums the costs of all calls. If the run computes on an accelerator, allocates the scratch memory of each call too.
class CostSum final : public tensor::CallObserver {
 public:
  explicit CostSum(bool has_scratch) : has_scratch_(has_scratch) {}
  void called(const tensor::Call& /*call*/, const tensor::Cost& cost) override {
    flops_ += cost.flops;
    nbytes_ += cost.nbytes;
    if (!has_scratch_ || cost.device_scratch == 0) return;
    const device::Device meta = tensor::meta_device();
    (void)memory::Allocator::of(meta).allocate(static_cast<std::size_t>(cost.device_scratch),
                                               tensor::current_stream(meta));
  }
  void reset() { flops_ = nbytes_ = 0; }
  [[nodiscard]] double flops() const { return flops_; }
  [[nodiscard]] double nbytes() const { return nbytes_; }

 private:
  bool has_scratch_;
  double flops_ = 0;
  double nbytes_ = 0;
};

// Returns true if the run computes on another device than the host.
bool is_on_accelerator(const Config& config) {
  const std::string& name = config.run.device;
  return name == "auto" ? device::Device::all().size() > 1 : name != tensor::host_device().properties().kind;
}

// Sums the operations of matrix products by both conventions.
class ProductSum final : public tensor::CallObserver {
 public:
  void called(const tensor::Call& call, const tensor::Cost& cost) override {
    if (!call.op->def.traits.is_product) return;
    sum_.causal += cost.flops;
    sum_.full += call.op.name() == "scaled_dot_product_attention" ? every_pair(call) : cost.flops;
  }
  [[nodiscard]] const Flops& sum() const { return sum_; }

 private:
  // Scores, and the sum of the values, of every query with every key.
  static double every_pair(const tensor::Call& call) {
    const Shape& q = call.inputs[0].shape();
    const Shape& v = call.inputs[2].shape();
    return 2 * static_cast<double>(q[0] * q[1] * q[2]) * static_cast<double>(v[2] * (q[3] + v[3]));
  }
  Flops sum_;
};

// Returns the axes of the mesh that a group of these ranks extends along.
std::string axes_of(const layout::Mesh& mesh, const std::vector<Rank>& ranks) {
  for (unsigned set = 1; set < 1U << mesh.ndim(); ++set) {
    std::vector<layout::SubAxis> axes;
    std::string text;
    for (int i = 0; i < mesh.ndim(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      axes.push_back({i, 1, mesh.axis(i).size});
      text += (text.empty() ? "" : "+") + mesh.axis(i).name;
    }
    if (shard::ranks_along(mesh, axes, Rank(0)) == ranks) return text;
  }
  return "world";
}

std::vector<PredictedTraffic> traffic_of(const layout::Mesh& mesh) {
  std::map<std::pair<std::string, comm::OpKind>, PredictedTraffic> sums;
  for (const comm::Traffic& each : comm::traffic()) {
    if (each.ranks.size() < 2) continue;
    const std::string axes = axes_of(mesh, each.ranks);
    PredictedTraffic& sum = sums[{axes, each.kind}];
    sum.kind = each.kind;
    sum.axes = axes;
    sum.ranks = static_cast<int>(each.ranks.size());
    sum.count += each.count;
    sum.nbytes += each.nbytes;
  }
  std::vector<PredictedTraffic> out;
  for (auto& [key, sum] : sums) out.push_back(std::move(sum));
  std::ranges::stable_sort(out, std::greater<>(), &PredictedTraffic::nbytes);
  return out;
}

// Returns samples of any tokens: no value is read.
SampleReader no_samples() {
  return [](std::uint64_t /*number*/, std::span<std::int32_t> tokens) { std::ranges::fill(tokens, 0); };
}

using MakeTrainer = std::function<std::unique_ptr<Trainer>(const Config& config)>;

std::unique_ptr<Trainer> language_trainer(const Config& config) {
  // No token of the samples ends a document: packing is predicted with documents of complete rows.
  return std::make_unique<Trainer>(config, no_samples(),
                                   config.data.pack ? std::optional<std::uint32_t>(1) : std::nullopt);
}

// Takes two steps: the first allocates the optimizer state, and the second, which a graph captures, holds most.
Prediction predict_resolved(Config config, int world_size, std::int64_t limit, const MakeTrainer& make_trainer) {
  config.run.check_replicas = 0;  // compares values
  config.train.steps = std::max<std::int64_t>(config.train.steps, 2);
  Prediction out;
  comm::run_as({.world_size = world_size}, [&] {
    const nn::Meta meta;
    memory::Allocator::of(tensor::meta_device()).set_limit(static_cast<std::size_t>(limit));
    const std::unique_ptr<Trainer> made = make_trainer(config);
    Trainer& trainer = *made;
    CostSum costs(is_on_accelerator(config));
    const tensor::CallObserverScope scope(costs);
    trainer.step();
    comm::reset_traffic();
    costs.reset();
    trainer.step();
    out.memory = trainer.memory_peak();
    out.flops = costs.flops();
    out.nbytes = costs.nbytes();
    out.parameters = trainer.parameter_count();
    if (world_size > 1) out.traffic = traffic_of(ParallelPlan::create(config, world_size).mesh());
  });
  return out;
}

}  // namespace

Prediction predict(const Config& config, int world_size) {
  return predict_resolved(resolved(config, world_size), world_size, 0, language_trainer);
}

Prediction predict(const Task& task, const Config& config, int world_size) {
  Config own = config;
  own.model = {.family = std::string(kOwnFamily)};
  return predict_resolved(resolved(own, world_size), world_size, 0,
                          [&](const Config& each) { return std::make_unique<Trainer>(each, task); });
}

std::vector<OwnedBytes> predicted_memory(const Config& config, int world_size, std::int64_t limit) {
  constexpr std::int64_t kMicroBatches = 2;
  Config now = resolved(config, world_size);
  if (now.train.accumulate > kMicroBatches) {
    now.train.batch = now.train.batch / now.train.accumulate * kMicroBatches;
    now.train.accumulate = kMicroBatches;
  }
  return predict_resolved(std::move(now), world_size, limit, language_trainer).memory;
}

double communication_seconds(const Prediction& prediction, const layout::CostModel& costs) {
  double us = 0;
  for (const PredictedTraffic& each : prediction.traffic) {
    const auto measured = costs.axes.find(each.axes);
    const layout::LinkCost& link = measured == costs.axes.end() ? costs.links[0] : measured->second;
    const double hops = (each.kind == comm::OpKind::kAllReduce ? 2.0 : 1.0) * (each.ranks - 1);
    us += static_cast<double>(each.count) * (costs.launch_us + hops * link.latency_us);
    us += static_cast<double>(each.nbytes) * hops / each.ranks / link.gigabytes_per_s / 1e3;
  }
  return us / 1e6;
}

Flops flops_per_token(const ModelConfig& model) {
  constexpr double kForwardAndBackward = 3;
  ProductSum products;
  comm::run_as({}, [&] {
    const nn::Meta meta;
    const autograd::NoGrad no_grad;
    const auto made = nn::model_family(model.family).create(model);
    const Tensor tokens = ops::zeros({1, model.sequence}, {.dtype = DType::kI32});
    const tensor::CallObserverScope scope(products);
    (void)made->loss(tokens, tokens, 0);
  });
  const double scale = kForwardAndBackward / static_cast<double>(model.sequence);
  return {.causal = scale * products.sum().causal, .full = scale * products.sum().full};
}

std::int64_t parameter_count(const ModelConfig& model) {
  std::int64_t count = 0;
  comm::run_as({}, [&] {
    const nn::Meta meta;
    count = nn::model_family(model.family).create(model)->module().parameter_count();
  });
  return count;
}

}  // namespace tessera::train

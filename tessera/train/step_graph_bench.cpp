// Replayed steps against eager ones: host cost besides kernels and transfers, and duration.
//
// Host CPU of an eager step: that of the enqueueing thread, with the stream stopped, so that no kernel runs on it. The
// cost of the stream to dequeue work is not counted, in its favor. Host CPU of a replayed step: that of the thread that
// sets batches and scalars and launches the graph, with the stream stopped, plus that of running a graph with the same
// nodes and edges whose kernels do nothing.
#include <cstdio>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/bench.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/update/update.h"
#include "tessera/shard/gradients.h"
#include "tessera/shard/redistribute.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/detail/batch.h"
#include "tessera/train/detail/step_graph.h"
#include "tessera/train/make_model.h"
#include "tessera/train/testing/cost_of_asking.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

using testing::cost_of_asking;
using testing::cpu_microseconds;

// A model with short kernels.
Config narrow() {
  Config config = testing::small_config();
  config.model = {.preset = "tiny", .width = 64, .layers = 8, .hidden = 64, .sequence = 16};
  config.model.dropout = 0.1;
  config.train.batch = 1;
  config.train.steps = 1000000;
  return resolved(config, 1);
}

// The step of one rank, in both forms.
class Step {
 public:
  explicit Step(const Config& config)
      : config_(config),
        plan_(ParallelPlan::create(config, current_place().world_size)),
        model_(make_model(config, plan_, std::make_shared<shard::ExposedTime>())),
        leaves_(model_->module().parameters()),
        optimizer_(make_optimizer(config.optimizer, model_->module())),
        graph_(config.train.accumulate),
        rows_(static_cast<std::size_t>(plan_.own_rows() * (config.model.sequence + 1)), 1) {}

  void ask() {
    const detail::StepValues values = compute(batch());
    optimizer_->set_learning_rate(1e-3);
    optimizer_->step({.scalars = {.clip_factor = values.norm.factor}});
  }
  void capture() {
    graph_.set_batch(0, batch(), plan_);
    graph_.capture(
        {.compute = [this](std::span<const Batch> batches) { return compute(batches[0]); },
         .update =
             [this](const detail::StepValues& values, const Tensor& rate, const Tensor& skip) {
               optimizer_->step({.scalars = {.learning_rate = rate, .clip_factor = values.norm.factor, .skip = skip},
                                 .keeps_gradients = true});
             },
         .leaves = leaves_},
        stream());
  }
  void replay() {
    graph_.set_batch(0, batch(), plan_);
    graph_.replay(1e-3, INFINITY, stream());
  }
  // Returns the values read after a replay.
  [[nodiscard]] double results() const {
    const detail::StepReadings of;
    of.read(graph_.outcome());
    stream().synchronize();
    return of.loss() + of.grad_norm() + (of.is_skipped() ? 1 : 0);
  }
  // Returns a graph with the nodes and edges of the captured step, whose nodes do nothing.
  [[nodiscard]] device::GraphExec hollow() const {
    const std::vector<device::NodeInfo> nodes = graph_.graph().graph().nodes();
    const device::Stream on = stream();
    on.begin_capture();
    for (const device::NodeInfo& node : nodes) {
      std::vector<NodeId> before;
      for (const device::Dependency& edge : node.dependencies) before.push_back(edge.node);
      on.set_capture_dependencies(before);
      on.run([] {}, {.label = "nothing", .accesses = std::span<const device::Access>()});
    }
    return on.end_capture().instantiate();
  }
  [[nodiscard]] std::size_t node_count() const { return graph_.graph().graph().nodes().size(); }
  [[nodiscard]] static const device::Stream& stream() { return tensor::current_stream(device::Device::get("host")); }

 private:
  [[nodiscard]] Batch batch() const { return detail::batch_of(rows_, plan_, plan_.own_rows()); }
  detail::StepValues compute(const Batch& batch) {
    const Tensor loss = model_->loss(batch[0], batch[1], static_cast<double>(rows_.size()));
    autograd::backward(loss);
    const autograd::NoGrad no_grad;
    if (plan_.mesh()) shard::reduce_gradients(leaves_);
    std::vector<Tensor> gradients;
    for (const Tensor& leaf : leaves_) gradients.push_back(autograd::grad(leaf));
    const ops::GradNorm norm = ops::grad_norm(gradients, 1);
    return {whole(loss.detach()), {whole(norm.norm), norm.factor}};
  }
  static Tensor whole(const Tensor& x) {
    return x.has_layout() ? shard::redistribute(x, layout::Layout::replicated(x.layout().mesh())).local() : x;
  }

  Config config_;
  ParallelPlan plan_;
  std::shared_ptr<nn::LanguageModel> model_;
  std::vector<Tensor> leaves_;
  std::unique_ptr<nn::Optimizer> optimizer_;
  detail::StepGraph graph_;
  std::vector<std::int32_t> rows_;
};

constexpr int kSteps = 20;

double asked_cost(Step& step) {
  double spent = 0;
  for (int i = 0; i < kSteps; ++i) spent += cost_of_asking([&] { step.ask(); });
  return spent / kSteps;
}

double replayed_cost(Step& step, const device::GraphExec& hollow) {
  double spent = 0;
  for (int i = 0; i < kSteps; ++i) {
    spent += cost_of_asking([&] { step.replay(); });
    const double start = cpu_microseconds();
    bench::do_not_optimize(step.results());
    hollow.launch(Step::stream());
    Step::stream().synchronize();
    spent += cpu_microseconds() - start;
  }
  return spent / kSteps;
}

// Returns the host CPU of a step of the first rank, in a separate run.
double outside_kernels(const Config& config, bool is_replayed, std::size_t* nodes = nullptr) {
  double cost = 0;
  simulate(config.mesh.dp * config.mesh.fsdp * config.mesh.tp, [&] {
    ops::detail::set_thread_budget(1);
    ops::manual_seed(1);
    Step step(config);
    for (int i = 0; i < 2; ++i) {  // ranks meet in groups that are created now
      step.ask();
      device::Device::get("host").synchronize();
    }
    step.capture();
    const double own = is_replayed ? replayed_cost(step, step.hollow()) : asked_cost(step);
    if (current_place().rank != Rank(0)) return;
    cost = own;
    if (nodes != nullptr) *nodes = step.node_count();
  });
  return cost;
}

TESSERA_BENCH(graph_cpu) {
  const std::pair<std::string, Config> rows[] = {{"graph_replay_cpu", narrow()},
                                                 {"graph_replay_cpu_tp2", testing::on_mesh(narrow(), 1, 1, 2)}};
  for (const auto& [name, config] : rows) {
    if (!context.wants(name)) continue;
    std::size_t nodes = 0;
    outside_kernels(config, true, &nodes);
    context.measure({.name = name,
                     .unit = "us",
                     .ours = [&config = config]() -> double { return outside_kernels(config, true); },
                     .reference_name = "asked for call by call, " + std::to_string(nodes) + " nodes",
                     .reference = [&config = config]() -> double { return outside_kernels(config, false); },
                     .must_ratio = 10});
  }
}

// Returns the mean duration of some steps of the first rank after the first two, in a separate run.
double step_milliseconds(Config config, bool is_replayed, int steps) {
  config.train.graph = is_replayed;
  double seconds = 0;
  simulate(config.mesh.dp * config.mesh.fsdp * config.mesh.tp, [&] {
    ops::detail::set_thread_budget(1);
    Trainer trainer(config, testing::synthetic_samples(config));
    for (int i = 0; i < 3; ++i) trainer.step();
    for (int i = 0; i < steps; ++i) {
      const StepReport report = trainer.step();
      if (current_place().rank == Rank(0)) seconds += report.seconds;
    }
  });
  return 1e3 * seconds / steps;
}

// Complete steps of trainers, including reading batches and reporting. Kernels of `tiny` take 99 % of a step of one
// rank, so a replay can gain little, but it must not lose time.
TESSERA_BENCH(graph_steps) {
  struct Row {
    std::string name;
    Config config;
    int steps;
  };
  const Config tiny = testing::bench_config(context.is_brief());
  const Row rows[] = {{"graph_step_narrow", narrow(), 40},
                      {"graph_step_tiny", tiny, 8},
                      {"graph_step_tiny_dp2", testing::on_mesh(tiny, 2, 1, 1), 8},
                      {"graph_step_tiny_fsdp2", testing::on_mesh(tiny, 1, 2, 1), 8},
                      {"graph_step_narrow_tp2", testing::on_mesh(narrow(), 1, 1, 2), 40}};
  for (const Row& row : rows) {
    context.measure({.name = row.name,
                     .unit = "ms",
                     .ours = [&]() -> double { return step_milliseconds(row.config, true, row.steps); },
                     .reference_name = "asked for call by call",
                     .reference = [&]() -> double { return step_milliseconds(row.config, false, row.steps); },
                     .must_ratio = 1});
  }
}

}  // namespace
}  // namespace tessera::train

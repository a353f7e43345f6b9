// Every measurement is a few rounds of the same launches, which the host waits for. After each round the ranks agree on
// the time of the slowest rank, so they run the same number of rounds and compute bitwise equal costs. The fastest
// round counts, because others were disturbed.
#include "tessera/shard/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/process_group.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/detail/cost_models.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/groups.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard {
namespace {

using layout::CostModel;
using Clock = std::chrono::steady_clock;

device::Stream host_stream() { return device::Device::get("host").default_stream(); }

// Measures until its budget is used. Times are those of the slowest rank, so that all ranks act equally.
class Meter {
 public:
  Meter(const device::Device& device, double budget_us, double slice_us)
      : device_(device), budget_us_(budget_us), slice_us_(slice_us) {}
  [[nodiscard]] const device::Device& device() const { return device_; }
  [[nodiscard]] double left_us() const { return budget_us_ - passed_us_; }

  // Returns microseconds per call of `once` in a sequence of calls. It is empty on ranks without work.
  [[nodiscard]] double us_of(const std::function<void()>& once) {
    const double begin = passed_us_;
    const double first = round_us(once, 1);  // performs first-use initialization
    const double least = first < slice_us_ / 8 ? 4 : 1;
    double best = std::numeric_limits<double>::max();
    for (int rounds = 0; rounds < kMaxRounds && passed_us_ - begin < slice_us_; ++rounds) {
      best = std::min(best, round_us(once, static_cast<int>(std::clamp(kRoundUs / best, least, 64.0))));
    }
    return std::min(best, first);
  }

 private:
  static constexpr double kRoundUs = 1000;
  static constexpr int kMaxRounds = 32;

  [[nodiscard]] double round_us(const std::function<void()>& once, int batch) {
    const device::Stream& stream = tensor::current_stream(device_);
    stream.synchronize();
    (void)agreed(0);  // all start together
    const Clock::time_point begin = Clock::now();
    for (int i = 0; once && i < batch; ++i) once();
    stream.synchronize();
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    return agreed(took.count()) / batch;
  }

  // Returns the maximum over all ranks and updates the time.
  double agreed(double value) {
    const std::chrono::duration<double, std::micro> passed = Clock::now() - start_;
    double values[] = {value, passed.count()};
    comm::world().all_reduce(values, values, 2, DType::kF64, {.kind = Reduction::kMax}, host_stream()).wait();
    passed_us_ = values[1];
    return values[0];
  }

  device::Device device_;
  Clock::time_point start_ = Clock::now();
  double budget_us_;
  double slice_us_;
  double passed_us_ = 0;
};

// A small and a large number of bytes, and the times to transfer them.
struct Line {
  double small_us = 0;
  double large_us = 0;
  double large_nbytes = 0;
  [[nodiscard]] double gigabytes_per_s() const {
    const double us = large_us > small_us ? large_us - small_us : large_us;
    return large_nbytes / std::max(us, 1e-3) / 1e3;
  }
};

// Increases the transfer until its time is measurable. `mover` returns a launch for a number of elements.
Line measured(Meter& meter, std::int64_t ranks, const std::function<std::function<void()>(std::int64_t)>& mover) {
  Line line;
  line.small_us = meter.us_of(mover(1));
  for (std::int64_t numel = 1 << 14; numel <= 1 << 22; numel *= 8) {  // f32: 64 KiB, 512 KiB, 4 MiB
    line.large_us = meter.us_of(mover(numel));
    line.large_nbytes = static_cast<double>(numel) * sizeof(float) * static_cast<double>(ranks);
    // A longer time is accurate enough. Three transfers of eight times the size must leave time for other axes.
    if (line.large_us > 1e4 || 24 * line.large_us > meter.left_us() / 4) break;
  }
  return line;
}

std::function<void()> gather(Meter& meter, const comm::ProcessGroup* group, std::int64_t numel) {
  if (group == nullptr) return {};
  const Tensor part = ops::zeros({numel}, {DType::kF32, meter.device()});
  const Tensor whole = ops::empty({numel * group->size()}, {DType::kF32, meter.device()});
  return [=] {
    group->all_gather(part.data(), whole.data(), numel, DType::kF32, tensor::current_stream(part.device()));
    detail::counters().collectives.fetch_add(1, std::memory_order_relaxed);
  };
}

std::function<void()> copy(Meter& meter, std::int64_t numel) {
  const Tensor from = ops::zeros({numel}, {DType::kF32, meter.device()});
  const Tensor to = ops::empty({numel}, {DType::kF32, meter.device()});
  return [=] { ops::copy_(to, from); };
}

// Rounds to four digits, the accuracy of the measurement.
double rounded(double value) { return std::stod(fmt::format("{:.4g}", value)); }

CostModel measure(const layout::Mesh& mesh, Meter& meter) {
  const bool is_on_mesh = mesh.contains(current_place().rank);
  CostModel model = planner().model();
  const Line copies = measured(meter, 1, [&](std::int64_t numel) { return copy(meter, numel); });
  model.copy_launch_us = rounded(copies.small_us);
  model.copy_gigabytes_per_s = rounded(copies.gigabytes_per_s());
  const comm::ProcessGroup* alone = is_on_mesh ? &group_along(mesh, {}) : nullptr;
  model.launch_us = rounded(meter.us_of(gather(meter, alone, 1)));
  bool is_measured[std::size(model.links)] = {};
  for (int a = 0; a < mesh.ndim(); ++a) {
    const layout::Axis& axis = mesh.axis(a);
    if (axis.size == 1) continue;
    const layout::SubAxis whole{a, 1, axis.size};
    const comm::ProcessGroup* group = is_on_mesh ? &group_along(mesh, std::span(&whole, 1)) : nullptr;
    const std::int64_t others = axis.size - 1;
    const Line line = measured(meter, others, [&](std::int64_t numel) { return gather(meter, group, numel); });
    const layout::LinkCost cost{rounded(std::max(0.0, line.small_us - model.launch_us) / static_cast<double>(others)),
                                rounded(line.gigabytes_per_s())};
    model.axes[axis.name] = cost;
    layout::LinkCost& link = model.links[static_cast<std::size_t>(axis.link)];
    bool& is_known = is_measured[static_cast<std::size_t>(axis.link)];
    link = is_known ? layout::LinkCost{std::max(link.latency_us, cost.latency_us),
                                       std::min(link.gigabytes_per_s, cost.gigabytes_per_s)}
                    : cost;
    is_known = true;
  }
  return model;
}

// Returns the text of the first rank on all ranks.
std::string agreed_text(const std::string& mine) {
  const comm::ProcessGroup world = comm::world();
  auto size = static_cast<std::int64_t>(mine.size());
  const auto broadcast = [&](void* data, std::int64_t count, DType dtype) {
    auto* bytes = static_cast<std::byte*>(data);
    world
        .launch({.kind = comm::OpKind::kBroadcast, .dtype = dtype, .in = bytes, .out = bytes, .count = count},
                host_stream())
        .wait();
  };
  broadcast(&size, 1, DType::kI64);
  std::string text = mine;
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) broadcast(text.data(), size, DType::kU8);
  return text;
}

// Runs `body` on world rank 0. Its exception is thrown on all ranks.
std::string from_first_rank(const std::function<std::string()>& body) {
  std::string text = "\1";
  if (comm::world().rank() == 0) {
    try {
      text += body();
    } catch (const IoError& error) {
      text = "\2" + error.message();
    } catch (const Error& error) {
      text = "\3" + error.message();
    }
  }
  text = agreed_text(text);
  TESSERA_CHECK_AS(IoError, text[0] != '\2', text.substr(1));
  TESSERA_CHECK(text[0] == '\1', text.substr(1));
  return text.substr(1);
}

}  // namespace

CostModel calibrate(const layout::Mesh& mesh, const CalibrateOptions& options) {
  TESSERA_CHECK(mesh, "calibrate: mesh must not be empty");
  TESSERA_CHECK(options.budget.count() > 0, "calibrate: budget must be above 0 ms, got ", options.budget.count(),
                "; 2 s are enough");
  detail::check_may_communicate(tessera::detail::concat("calibrate on ", mesh.text()));
  const auto axes = std::ranges::count_if(mesh.axes(), [](const layout::Axis& axis) { return axis.size > 1; });
  // Four measurements per axis, four for copies, one for a launch. Each may exceed its time by a round, especially on a
  // busy machine.
  const double budget_us = 1e3 * static_cast<double>(options.budget.count());
  const double slice_us = budget_us / static_cast<double>(8 * (axes + 1));
  Meter meter(options.device.value_or(device::Device::get("host")), budget_us, std::min(slice_us, 5e4));
  CostModel model = measure(mesh, meter);
  if (!options.save_to.empty()) {
    from_first_rank([&] {
      write_file(options.save_to, model.json());
      return std::string();
    });
  }
  set_cost_model(model);
  return model;
}

void set_cost_model(const CostModel& model) {
  model.check();
  const std::uint64_t mine = detail::CostModels::number_of(model);
  const comm::ProcessGroup world = comm::world();
  std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
  world.all_gather(&mine, all.data(), 1, DType::kI64, host_stream()).wait();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    TESSERA_CHECK_AS(MismatchError, all[rank] == all[0],
                     "set_cost_model: all ranks must give the same cost model, but ranks ", rank, " and 0 differ");
  }
  detail::costs().set(model);
}

void load_cost_model(const std::string& path) {
  const std::string text = from_first_rank([&] { return CostModel::load(path).json(); });
  set_cost_model(CostModel::parse(text, path));
}

}  // namespace tessera::shard

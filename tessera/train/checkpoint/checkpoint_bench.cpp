// Cost of a checkpoint: the delay of the step that saves, and the write throughput. Both are compared with plain copies
// and writes of the same bytes, in the same run and directory.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include "tessera/base/error.h"
#include "tessera/base/testing/bench.h"
#include "tessera/device/device.h"
#include "tessera/ops/testing/direct_sgemm.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/checkpoint/checkpoint.h"

namespace tessera::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTensors = 64;
constexpr int kProducts = 150;  // as long as a write takes, or longer

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A state of one rank and its directory.
class Saver {
 public:
  explicit Saver(std::int64_t nbytes) : nbytes_(nbytes) {
    std::string name = (std::filesystem::temp_directory_path() / "tessera_checkpoint_bench_XXXXXX").string();
    TESSERA_CHECK_AS(IoError, ::mkdtemp(name.data()) != nullptr, "no directory for the bench");
    directory_ = name;
    const device::Device host = device::Device::get("host");
    for (std::int64_t t = 0; t < kTensors; ++t) {
      const Tensor tensor = Tensor::allocate({nbytes / kTensors / 4096, 1024}, DType::kF32, host);
      std::memset(static_cast<void*>(tensor.data()), static_cast<int>(t + 1), tensor.nbytes());
      state_.tensors.emplace_back("tensor." + std::to_string(t), tensor);
    }
    writer_.emplace(CheckpointOptions{.directory = directory_ / "checkpoints", .keep = 1 << 20});
    from_.assign(static_cast<std::size_t>(nbytes), std::byte{3});
    to_.assign(static_cast<std::size_t>(nbytes), std::byte{4});
    save();  // the memory of the copy is reused by later saves
  }
  ~Saver() {
    writer_.reset();
    std::filesystem::remove_all(directory_);
  }
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  struct Times {
    double blocked = 0;  // delay of the step: the enqueue, and the copy on the stream
    double write = 0;    // from then on until the checkpoint has its final name
  };
  Times save() {
    const device::Stream& stream = tensor::current_stream(device::Device::get("host"));
    stream.synchronize();
    Times times;
    auto start = Clock::now();
    writer_->save(step_, state_);
    stream.synchronize();
    times.blocked = seconds_since(start);
    start = Clock::now();
    writer_->finish();
    times.write = seconds_since(start);
    const std::vector<std::string> errors = writer_->take_errors();
    TESSERA_CHECK_AS(IoError, errors.empty(), errors.empty() ? "" : errors.front());
    remove_all();
    ++step_;
    return times;
  }

  // Returns the time that a save adds to concurrent steps: products of matrices on one thread of the stream.
  double added_seconds() {
    const double alone = steps_seconds([] {});
    const double with = steps_seconds([this] { writer_->save(step_++, state_); });
    writer_->finish();
    remove_all();
    return with - alone;
  }

  // Copies as many bytes to memory that was used before.
  double memcpy_seconds() {
    const auto start = Clock::now();
    bench::memcpy_reference(to_.data(), from_.data(), from_.size());
    return seconds_since(start);
  }

  // Writes as many bytes sequentially and syncs them.
  double plain_write_seconds() const {
    constexpr std::size_t kChunk = std::size_t{8} << 20;
    const std::string path = (directory_ / "plain").string();
    const auto start = Clock::now();
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool is_well = file >= 0;
    for (std::size_t at = 0; at < from_.size() && is_well;) {
      const ssize_t count = ::write(file, from_.data() + at, std::min(kChunk, from_.size() - at));
      is_well = count > 0;
      at += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    }
    is_well = is_well && ::fsync(file) == 0 && ::close(file) == 0;
    const double seconds = seconds_since(start);
    TESSERA_CHECK_AS(IoError, is_well, "the plain write of the bench failed: is there room in ", directory_.string(),
                     "?");
    std::filesystem::remove(path);
    return seconds;
  }

  [[nodiscard]] double gigabytes() const { return 1e-9 * static_cast<double>(nbytes_); }

 private:
  void remove_all() const {
    for (const CheckpointInfo& each : checkpoints_in(directory_ / "checkpoints")) {
      std::filesystem::remove_all(each.path);
    }
  }
  template <class F>
  static double steps_seconds(const F& first) {
    const device::Stream& stream = tensor::current_stream(device::Device::get("host"));
    static const std::vector<float> matrix(512 * 512, 0.5F);
    static std::vector<float> product(512 * 512);
    stream.synchronize();
    const auto start = Clock::now();
    first();
    for (int i = 0; i < kProducts; ++i) {
      stream.run(
          [] {
            ops::testing::DirectSgemm{
                .m = 512, .n = 512, .k = 512, .a = matrix.data(), .b = matrix.data(), .c = product.data()}
                .run_dnnl();
          },
          {.label = "step", .accesses = std::span<const device::Access>()});
    }
    stream.synchronize();
    return seconds_since(start);
  }

  std::int64_t nbytes_;
  std::filesystem::path directory_;
  CheckpointState state_;
  std::optional<CheckpointWriter> writer_;
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
  std::int64_t step_ = 1;
};

TESSERA_BENCH(checkpoints) {
  std::optional<Saver> made;  // set when a row is measured
  const auto saver = [&]() -> Saver& {
    if (!made) made.emplace(context.is_brief() ? std::int64_t{4} << 20 : std::int64_t{256} << 20);
    return *made;
  };
  context.measure({.name = "checkpoint_blocked",
                   .unit = "x",
                   .ours = [&]() -> double {
                     const double copy = saver().memcpy_seconds();
                     const Saver::Times times = saver().save();
                     return times.blocked / std::max(0.05 * times.write, 1.2 * copy);
                   },
                   .reference_name = "bound: the larger of 5 % of the write and 1.2 memcpys",
                   .must = 1});
  context.measure({.name = "checkpoint_copy",
                   .unit = "ms",
                   .ours = [&]() -> double { return 1e3 * saver().save().blocked; },
                   .reference_name = "one memcpy of the same bytes",
                   .reference = [&]() -> double { return 1e3 * saver().memcpy_seconds(); }});
  context.measure({.name = "checkpoint_added",
                   .unit = "ms",
                   .ours = [&]() -> double { return 1e3 * saver().added_seconds(); },
                   .reference_name = "one memcpy of the same bytes",
                   .reference = [&]() -> double { return 1e3 * saver().memcpy_seconds(); }});
  context.measure({.name = "checkpoint_write",
                   .unit = "GB/s",
                   .ours = [&]() -> double { return saver().gigabytes() / saver().save().write; },
                   .reference_name = "write of the same bytes to one file, fsync",
                   .reference = [&]() -> double { return saver().gigabytes() / saver().plain_write_seconds(); },
                   .must_ratio = 0.8});
}

}  // namespace
}  // namespace tessera::train

// Files of 1 GiB in the page cache: mapping must not copy, copying must run at memory speed.
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/testing/bench.h"
#include "tessera/tensor/safetensors.h"

namespace tessera::tensor {
namespace {

constexpr std::int64_t kTensors = 64;
constexpr std::int64_t kTensorNbytes = std::int64_t{16} << 20;
constexpr std::size_t kAllNbytes = kTensors * kTensorNbytes;

// A file in shared memory that disappears with the program, even after a crash.
class BenchFile {
 public:
  BenchFile() : path_("/dev/shm/tessera_bench_" + std::to_string(::getpid()) + ".safetensors") {
    const Tensor x = Tensor::allocate({kTensorNbytes / 4}, DType::kF32, device::Device::get("host"));
    current_stream(x.device()).fill(x.data(), 1, 4, static_cast<std::size_t>(kTensorNbytes / 4));
    std::vector<NamedTensor> tensors;
    for (std::int64_t i = 0; i < kTensors; ++i) tensors.push_back({"layers." + std::to_string(i) + ".weight", x});
    write_safetensors(path_, tensors);
  }
  ~BenchFile() { ::unlink(path_.c_str()); }
  BenchFile(const BenchFile&) = delete;
  BenchFile& operator=(const BenchFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TESSERA_BENCH(safetensors) {
  if (!context.wants("safetensors_map") && !context.wants("safetensors_copy")) return;
  const BenchFile bench_file;
  context.measure({.name = "safetensors_map", .unit = "us", .ours = [&] {
                     bench::do_not_optimize(SafetensorsFile(bench_file.path()).map_all().size());
                   }});
  if (!context.wants("safetensors_copy")) return;
  // Both sides copy from the pages of one mapping into memory that was used before.
  const SafetensorsFile file(bench_file.path());
  const device::Device host = device::Device::get("host");
  const Tensor from = file.map_all().front().tensor;
  const Tensor to = Tensor::allocate({kTensors * kTensorNbytes}, DType::kU8, host);
  context.measure({.name = "safetensors_copy",
                   .unit = "GiB/s",
                   .per = static_cast<double>(kAllNbytes),
                   .ours =
                       [&] {
                         const auto tensors = file.copy_all(host);
                         host.synchronize();
                         bench::do_not_optimize(tensors.size());
                       },
                   .reference_name = "memcpy",
                   .reference = [&] { bench::memcpy_reference(to.data(), from.data(), kAllNbytes); },
                   .must_ratio = 0.9,
                   .calls = 1});
}

}  // namespace
}  // namespace tessera::tensor

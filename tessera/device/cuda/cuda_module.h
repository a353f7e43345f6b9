// Loaded images and their kernels. A kernel is prepared when it is looked up, not at its first launch: preparing may
// wait for a spinning kernel, so lookups pass the gate and launches need not.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/device/backend.h"
#include "tessera/device/cuda/driver.h"
#include "tessera/device/cuda/spin_budget.h"

namespace tessera::device::cuda {

class CudaContext;
class CudaModule;

/// A kernel; keeps its module loaded. Thread-safe.
class CudaKernel : public KernelBackend {
 public:
  CudaKernel(CudaContext& context, std::shared_ptr<CudaModule> module, CUfunction function, std::string name);
  /// Launches the kernel. If `overlap`, it may start before the previous launch has ended.
  void launch(CUstream stream, const LaunchConfig& config, const KernelArgs& args, bool overlap);
  /// Returns the share of the device that such a launch occupies.
  SpinShare share(const LaunchConfig& config);
  [[nodiscard]] CUfunction function() const { return function_; }

 private:
  void check_args(const KernelArgs& args) const;
  void raise_shared_limit(std::uint32_t nbytes);
  void launch_overlapping(CUstream stream, const LaunchConfig& config, void** args);

  CudaContext& context_;
  std::shared_ptr<CudaModule> module_;
  CUfunction function_;
  std::string name_;
  std::vector<std::size_t> sizes_;           // sizes of the parameters
  std::atomic<std::uint32_t> shared_limit_;  // dynamic shared memory that needs no opt-in
};

/// A loaded image.
class CudaModule : public ModuleBackend, public std::enable_shared_from_this<CudaModule> {
 public:
  /// Loads a fat binary, a cubin or PTX text.
  static std::shared_ptr<CudaModule> load(CudaContext& context, std::span<const std::byte> image);
  CudaModule(CudaContext& context, CUmodule module) : context_(context), module_(module) {}
  ~CudaModule() override;
  std::shared_ptr<KernelBackend> kernel(const std::string& name) override { return find(name); }
  /// Returns the kernel, or null.
  std::shared_ptr<CudaKernel> find(const std::string& name);

 private:
  CudaContext& context_;
  CUmodule module_;
};

}  // namespace tessera::device::cuda

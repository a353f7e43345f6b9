// The device suite on the first CUDA device; without one, each case is skipped with the reason. Foreign library calls
// go directly to the driver, which is loaded separately here.
#include <cuda.h>
#include <dlfcn.h>

#include <map>

#include "tessera/device/suite/device_suite.h"

extern "C" const std::byte tessera_kernels_suite_kernels[];
extern "C" const std::byte tessera_kernels_suite_kernels_end[];

namespace tessera::device::cuda {
namespace {

using suite::DeviceImplementation;
using suite::DeviceSubject;
using suite::Traits;

// The few driver calls of a foreign library.
class RawDriver {
 public:
  RawDriver() : library_(::dlopen("libcuda.so.1", RTLD_NOW)) {
    resolve(get_device_, "cuDeviceGet");
    resolve(retain_, "cuDevicePrimaryCtxRetain");
    resolve(set_current_, "cuCtxSetCurrent");
    resolve(stream_create_, "cuStreamCreate");
    resolve(event_create_, "cuEventCreate");
    resolve(event_record_, "cuEventRecord");
    resolve(launch_host_, "cuLaunchHostFunc");
    CUdevice device = 0;
    CUcontext context = nullptr;
    check(get_device_(&device, 0));
    check(retain_(&context, device));
    check(set_current_(context));
  }
  // Streams and events live until the end of the process: a case may end with work on them.
  CUstream make_stream() {
    CUstream stream = nullptr;
    check(stream_create_(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
  }
  CUevent make_event() {
    CUevent event = nullptr;
    check(event_create_(&event, CU_EVENT_DISABLE_TIMING));
    return event;
  }
  void record(CUevent event, CUstream stream) { check(event_record_(event, stream)); }
  void launch(CUstream stream, std::function<void()> body) {
    auto* kept = new std::function<void()>(std::move(body));
    check(launch_host_(
        stream,
        [](void* data) {
          auto* function = static_cast<std::function<void()>*>(data);
          (*function)();
          delete function;
        },
        kept));
  }

 private:
  static void check(CUresult result) {
    if (result != CUDA_SUCCESS) throw std::runtime_error("raw driver call: error " + std::to_string(result));
  }
  template <class F>
  void resolve(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("libcuda has no ") + name);
  }

  void* library_;
  CUresult (*get_device_)(CUdevice*, int) = nullptr;
  CUresult (*retain_)(CUcontext*, CUdevice) = nullptr;
  CUresult (*set_current_)(CUcontext) = nullptr;
  CUresult (*stream_create_)(CUstream*, unsigned) = nullptr;
  CUresult (*event_create_)(CUevent*, unsigned) = nullptr;
  CUresult (*event_record_)(CUevent, CUstream) = nullptr;
  CUresult (*launch_host_)(CUstream, CUhostFn, void*) = nullptr;
};

RawDriver& raw_driver() {
  static auto* only = new RawDriver;
  return *only;
}

// Loaded once for all cases, and each kernel launched once: a first launch may load code, which waits for spinning
// kernels.
Kernel suite_kernel(const Device& device, const std::string& name) {
  static const auto* kernels = [&device] {
    const Module module = device.load_module({tessera_kernels_suite_kernels, tessera_kernels_suite_kernels_end});
    auto* made = new std::map<std::string, Kernel>;
    for (const char* each : {"fill_ints", "add_ints", "copy_ints", "slow_add_ints", "mark_grid", "spin_until", "fail"})
      made->emplace(each, module.kernel(each));
    const PinnedMemory pinned = device.allocate_pinned(64);
    int* ints = reinterpret_cast<int*>(pinned.data());
    const int* from = ints;
    const auto* word = reinterpret_cast<const std::uint64_t*>(pinned.data());
    const int none = 0;
    const std::uint64_t zero = 0;
    const Stream stream = device.create_stream({.name = "warm-up"});
    stream.launch(made->at("fill_ints"), {}, KernelArgs(ints, none, none));
    stream.launch(made->at("add_ints"), {}, KernelArgs(ints, none, none));
    stream.launch(made->at("copy_ints"), {}, KernelArgs(ints, from, none));
    stream.launch(made->at("slow_add_ints"), {}, KernelArgs(ints, none, none, zero));
    stream.launch(made->at("mark_grid"), {}, KernelArgs(ints));
    stream.launch(made->at("spin_until"), {}, KernelArgs(word, zero));
    stream.synchronize(suite::kSoon);
    return made;
  }();
  return kernels->at(name);
}

class CudaSubject : public DeviceSubject {
 public:
  explicit CudaSubject(Device device) : device_(std::move(device)) { (void)suite_kernel(device_, "fill_ints"); }

  Device device() override { return device_; }
  Device peer() override {
    for (const Device& other : Device::all()) {
      if (other.properties().kind == "cuda" && !(other == device_)) return other;
    }
    return {};
  }
  Kernel kernel(const std::string& name) override { return suite_kernel(device_, name); }
  void launch_unseen(void* native_stream, std::function<void()> body) override {
    raw_driver().launch(static_cast<CUstream>(native_stream), std::move(body));
  }
  void* foreign_stream() override { return raw_driver().make_stream(); }
  void* foreign_event() override { return raw_driver().make_event(); }
  void record_unseen(void* native_event, void* native_stream) override {
    raw_driver().record(static_cast<CUevent>(native_event), static_cast<CUstream>(native_stream));
  }
  Traits traits() const override {
    return {.has_real_time = true,
            .captures_pageable = false,
            .has_host_kernels = false,
            .has_stream_faults = false,
            .zeroes_memory = false,
            .skips_after_error = false,
            .has_spin_budget = true};
  }

 private:
  Device device_;
};

std::unique_ptr<DeviceSubject> open_first(std::string& why) {
  try {
    return std::make_unique<CudaSubject>(Device::get("cuda"));
  } catch (const Error& error) {
    why = error.what();
    return nullptr;
  }
}

}  // namespace
}  // namespace tessera::device::cuda

namespace tessera::device::suite {

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceSuite, ::testing::Values(DeviceImplementation{"gpu0", &cuda::open_first}),
                         implementation_name);

}  // namespace tessera::device::suite

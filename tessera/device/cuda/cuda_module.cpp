#include "tessera/device/cuda/cuda_module.h"

#include <algorithm>
#include <cstring>

#include "tessera/device/cuda/cuda_context.h"

namespace tessera::device::cuda {
namespace {

// Limit for a load to wait for spinning kernels.
constexpr std::chrono::seconds kGateTimeout{10};

struct FatHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_nbytes;
  std::uint64_t nbytes;
};
constexpr std::uint32_t kFatMagic = 0xBA55ED50;

// The driver gets no length, so images that it would read past the end are rejected here. PTX is text and needs a
// terminator: `text` holds a copy while it is loaded.
const void* checked_image(std::span<const std::byte> image, std::string& text) {
  TESSERA_CHECK(image.size() > sizeof(FatHeader), "load_module: the image must be a fat binary, cubin or PTX, got ",
                image.size(), " bytes");
  FatHeader header{};
  std::memcpy(&header, image.data(), sizeof header);
  if (header.magic == kFatMagic) {
    TESSERA_CHECK(header.nbytes <= image.size() && header.header_nbytes + header.nbytes <= image.size(),
                  "load_module: the fat binary is truncated; it must have ", header.header_nbytes + header.nbytes,
                  " bytes, got ", image.size());
    return image.data();
  }
  if (std::memcmp(image.data(), "\177ELF", 4) == 0) return image.data();
  text.assign(reinterpret_cast<const char*>(image.data()), image.size());
  TESSERA_CHECK(text.find(".version") != std::string::npos,
                "load_module: the image must be a fat binary, cubin or PTX");
  return text.c_str();
}

}  // namespace

std::shared_ptr<CudaModule> CudaModule::load(CudaContext& context, std::span<const std::byte> image) {
  std::string text;
  const void* data = checked_image(image, text);
  CUmodule module = nullptr;
  std::string log(4096, '\0');
  context.make_current();
  context.spins().run_quiet("load_module", kGateTimeout, [&] {
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
    const CUresult result = driver().cuModuleLoadDataEx(&module, data, 2, options, values);
    if (result == CUDA_SUCCESS) return;
    context.note(result, "cuModuleLoadDataEx", {__FILE__, __LINE__});
    log.resize(std::strlen(log.c_str()));
    if (log.empty()) context.fail(result, "cuModuleLoadDataEx", {__FILE__, __LINE__});
    TESSERA_THROW(DeviceError, "load_module: the driver rejects the image: ", log);
  });
  return std::make_shared<CudaModule>(context, module);
}

CudaModule::~CudaModule() {
  context_.spins().when_quiet([&context = context_, module = module_] {
    try {
      context.make_current();
    } catch (...) {
      return;
    }
    TESSERA_CUDA_NOTHROW(context, cuModuleUnload, module);
  });
}

std::shared_ptr<CudaKernel> CudaModule::find(const std::string& name) {
  context_.make_current();
  CUfunction function = nullptr;
  context_.spins().run_quiet("looking up a kernel", kGateTimeout, [&] {
    const CUresult result = driver().cuModuleGetFunction(&function, module_, name.c_str());
    if (result == CUDA_ERROR_NOT_FOUND) return;
    if (result != CUDA_SUCCESS) context_.fail(result, "cuModuleGetFunction", {__FILE__, __LINE__});
    TESSERA_CUDA(context_, cuFuncLoad, function);
  });
  if (function == nullptr) return nullptr;
  return std::make_shared<CudaKernel>(context_, shared_from_this(), function, name);
}

CudaKernel::CudaKernel(CudaContext& context, std::shared_ptr<CudaModule> module, CUfunction function, std::string name)
    : context_(context), module_(std::move(module)), function_(function), name_(std::move(name)) {
  std::size_t offset = 0;
  std::size_t nbytes = 0;
  while (driver().cuFuncGetParamInfo(function_, sizes_.size(), &offset, &nbytes) == CUDA_SUCCESS) {
    sizes_.push_back(nbytes);
  }
  int limit = 0;
  TESSERA_CUDA(context_, cuFuncGetAttribute, &limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function_);
  shared_limit_.store(static_cast<std::uint32_t>(limit), std::memory_order_relaxed);
}

void CudaKernel::check_args(const KernelArgs& args) const {
  // The driver reads as many arguments as the kernel has, with the kernel's sizes, whatever the pointers.
  const auto sizes = args.sizes();
  if (sizes.size() == sizes_.size() && std::equal(sizes.begin(), sizes.end(), sizes_.begin())) [[likely]]
    return;
  TESSERA_THROW(InvalidArgument, "kernel ", name_, ": argument sizes must be ", sizes_, " bytes, got ", sizes);
}

void CudaKernel::raise_shared_limit(std::uint32_t nbytes) {
  TESSERA_CUDA(context_, cuFuncSetAttribute, function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
               static_cast<int>(nbytes));
  shared_limit_.store(nbytes, std::memory_order_relaxed);
}

void CudaKernel::launch(CUstream stream, const LaunchConfig& config, const KernelArgs& args, bool overlap) {
  check_args(args);
  context_.make_current();
  if (config.shared_nbytes > shared_limit_.load(std::memory_order_relaxed)) [[unlikely]]
    raise_shared_limit(config.shared_nbytes);
  void** pointers = const_cast<void**>(args.pointers().data());
  if (overlap && context_.has_overlap()) [[unlikely]] {
    launch_overlapping(stream, config, pointers);
    return;
  }
  TESSERA_CUDA(context_, cuLaunchKernel, function_, config.grid[0], config.grid[1], config.grid[2], config.block[0],
               config.block[1], config.block[2], config.shared_nbytes, stream, pointers, nullptr);
}

void CudaKernel::launch_overlapping(CUstream stream, const LaunchConfig& config, void** args) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig launch{};
  launch.gridDimX = config.grid[0];
  launch.gridDimY = config.grid[1];
  launch.gridDimZ = config.grid[2];
  launch.blockDimX = config.block[0];
  launch.blockDimY = config.block[1];
  launch.blockDimZ = config.block[2];
  launch.sharedMemBytes = config.shared_nbytes;
  launch.hStream = stream;
  launch.attrs = &attribute;
  launch.numAttrs = 1;
  TESSERA_CUDA(context_, cuLaunchKernelEx, &launch, function_, args, nullptr);
}

SpinShare CudaKernel::share(const LaunchConfig& config) {
  context_.make_current();
  const auto threads = static_cast<int>(config.block[0] * config.block[1] * config.block[2]);
  int per_multiprocessor = 0;
  TESSERA_CUDA(context_, cuOccupancyMaxActiveBlocksPerMultiprocessor, &per_multiprocessor, function_, threads,
               config.shared_nbytes);
  const std::uint64_t blocks = std::uint64_t{config.grid[0]} * config.grid[1] * config.grid[2];
  return share_of(
      blocks, static_cast<std::uint64_t>(per_multiprocessor) * static_cast<std::uint64_t>(context_.multiprocessors()));
}

}  // namespace tessera::device::cuda

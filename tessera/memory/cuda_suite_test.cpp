// The memory suite on the first CUDA device; without one every case is skipped with the reason.
#include "tessera/memory/suite/memory_suite.h"

namespace tessera::memory::suite {
namespace {

class CudaSubject : public MemorySubject {
 public:
  explicit CudaSubject(Device device) : device_(std::move(device)) {}
  Device device() override { return device_; }
  Device limited(std::size_t) override { return {}; }
  Device checked() override { return {}; }

 private:
  Device device_;
};

std::unique_ptr<MemorySubject> open_first(std::string& why) {
  try {
    return std::make_unique<CudaSubject>(Device::get("cuda"));
  } catch (const Error& error) {
    why = error.what();
    return nullptr;
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Cuda, MemorySuite, ::testing::Values(MemoryImplementation{"gpu0", &open_first}),
                         implementation_name);

}  // namespace tessera::memory::suite

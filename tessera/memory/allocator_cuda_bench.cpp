// The memory suite on the first CUDA device.
#include "tessera/base/error.h"
#include "tessera/memory/testing/workloads.h"

namespace tessera::memory::workloads {
namespace {

// Accepts the arguments of the measured launches and does nothing.
constexpr char kNothing[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry nothing(.param .u64 to, .param .u64 from, .param .f32 factor)\n{\n  ret;\n}\n";

TESSERA_BENCH(cuda) {
  Setup setup;
  try {
    setup.device = Device::get("cuda:0");
  } catch (const Error& error) {
    context.skip(error.what());
    return;
  }
  context.describe_machine("gpu", setup.device.properties().description);
  setup.kernel = setup.device.load_module(std::as_bytes(std::span(kNothing))).kernel("nothing");
  setup.prefix = "cuda_";
  setup.capture_must = 1.1;
  measure_all(context, setup);
}

}  // namespace
}  // namespace tessera::memory::workloads

// The header of a run, as one text.
#include "tessera/train/detail/start_text.h"

#include <gtest/gtest.h>

#include "tessera/ops/host_speed.h"

namespace tessera::train::detail {
namespace {

TEST(StartText, StatesModelDataMeshMemoryAndDirectory) {
  Config config;
  config.model.preset = "124m";
  config.mesh.fsdp = 2;
  config.mesh.tp = 2;
  config.train.batch = 32;
  config.train.accumulate = 4;
  config.train.dtype = "bf16";
  config.data.files = {"text", "more", "last"};
  config = resolved(config, 4);
  EXPECT_EQ(start_text({.config = config,
                        .parameters = 124'439'808,
                        .training = 1'000'000,
                        .held_out = 1000,
                        .device = "host",
                        .backend = "shm",
                        .compute = "compute: a library\n",
                        .predicted = {{"parameters", 1 << 20}, {"gradients", 0}, {"total", 3 << 20}},
                        .free_nbytes = std::int64_t{21} << 30,
                        .directory = "/runs/a"}),
            "llama 124m: 124.4 M parameters, 12 layers, vocabulary 50304, sequence 1024\n"
            "data: 1000000 tokens for training, 1000 held out; from text and 2 more\n"
            "mesh fsdp=2, tp=2 on 4 ranks (shm, host); batch 32 x 1024 tokens in 4 micro-batches; bf16 compute, f32 "
            "state\n"
            "compute: a library\n"
            "memory: 3 MiB per rank predicted (parameters 1 MiB); 21 GiB free on host\n"
            "run directory: /runs/a\n");
}

TEST(StartText, AMeshOfOneRankHasAnAxisToo) {
  Config config;
  config.model.layers = 1;
  config.data.files = {"text"};
  config = resolved(config, 1);
  const std::string text = start_text({.config = config, .parameters = 900, .device = "host", .directory = "/runs/a"});
  EXPECT_EQ(text.find("llama tiny (changed): 900 parameters, 1 layer, "), 0U) << text;
  EXPECT_NE(text.find("\nmesh dp=1 on 1 rank (host); batch 8 x 128 tokens; f32 compute, f32 state\n"),
            std::string::npos)
      << text;
  const std::string on_gpu = start_text({.config = config,
                                         .device = "cuda:0",
                                         .predicted = {{"total", 3 << 20}, {"parameters", 1 << 20}},
                                         .free_nbytes = std::int64_t{2} << 30,
                                         .directory = "/runs/a"});
  EXPECT_NE(on_gpu.find("; 2 GiB free on cuda:0\n"), std::string::npos) << on_gpu;
  config.train.deterministic = true;
  const std::string reason = start_text({.config = config, .device = "host", .why_host = "x lacks y"});
  EXPECT_NE(reason.find(" f32 state, deterministic\ncomputing on the host, since x lacks y\n"), std::string::npos)
      << reason;
}

// The line and the peak of the MFU are those of the dtype of the blocks.
TEST(StartText, TheRateOfProductsIsThatOfTheirDtype) {
  const ops::HostSpeed& speed = ops::host_speed();
  EXPECT_EQ(compute_text("f32").find("compute: " + speed.products + ", "), 0U) << compute_text("f32");
  EXPECT_EQ(compute_text("bf16").find("compute: " + speed.bf16_products + ", "), 0U) << compute_text("bf16");
  EXPECT_DOUBLE_EQ(measured_flops("f32") / speed.product_gflops, measured_flops("bf16") / speed.bf16_product_gflops);
  EXPECT_GE(measured_flops("f32"), speed.product_gflops * 1e9);
}

}  // namespace
}  // namespace tessera::train::detail

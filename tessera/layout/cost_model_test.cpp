#include "tessera/layout/cost_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::layout {
namespace {

TEST(CostModel, ReadsWhatItPrints) {
  CostModel model;
  model.launch_us = 3.25;
  model.copy_gigabytes_per_s = 2000.5;
  model.links[0] = {1.5, 7};
  model.axes["dp"] = {2.5, 40};
  EXPECT_EQ(CostModel::parse(model.json(), "test"), model);
  EXPECT_EQ(CostModel::parse("{}", "test"), CostModel());
}

TEST(CostModel, KeepsDefaultsOfWhatAFileDoesNotName) {
  const CostModel model = CostModel::parse(R"({"links": {"pcie": {"gigabytes_per_s": 50}}})", "test");
  EXPECT_EQ(model.links[2].gigabytes_per_s, 50);
  EXPECT_EQ(model.links[2].latency_us, CostModel().links[2].latency_us);
  EXPECT_EQ(model.launch_us, CostModel().launch_us);
}

TEST(CostModel, PrefersTheNumbersOfAnAxis) {
  CostModel model;
  model.axes["dp"] = {2.5, 40};
  const Mesh mesh = Mesh::parse("dp=2@network,tp=4");
  EXPECT_EQ(model.of(mesh.axis(0)), (LinkCost{2.5, 40}));
  EXPECT_EQ(model.of(mesh.axis(1)), model.links[1]);
}

TEST(CostModel, PricesCopies) {
  const CostModel model{.copy_gigabytes_per_s = 1000, .copy_launch_us = 2};
  EXPECT_EQ(model.copy_us(0), 2);
  EXPECT_DOUBLE_EQ(model.copy_us(5000000), 2 + 5);
}

TEST(CostModel, SaysWhereAFileIsWrong) {
  const auto parse = [](const char* json) { return [json] { CostModel::parse(json, "calibration.json"); }; };
  expect_error<InvalidArgument>(parse("{"), {"calibration.json", "JSON"});
  expect_error<InvalidArgument>(parse("[]"), {"calibration.json", "object"});
  expect_error<InvalidArgument>(parse(R"({"lauch_us": 1})"), {"lauch_us", "launch_us"});
  expect_error<InvalidArgument>(parse(R"({"launch_us": "fast"})"), {"launch_us", "must be a number, got"});
  expect_error<InvalidArgument>(parse(R"({"launch_us": -1})"), {"calibration.json", "launch_us", "-1"});
  expect_error<InvalidArgument>(parse(R"({"links": {"nvlnk": {}}})"), {"links.nvlnk", "nvlink"});
  expect_error<InvalidArgument>(parse(R"({"links": {"nvlink": {"latency": 1}}})"), {"links.nvlink.latency"});
  expect_error<InvalidArgument>(parse(R"({"links": {"nvlink": {"gigabytes_per_s": 0}}})"),
                                {"links.nvlink.gigabytes_per_s"});
  expect_error<InvalidArgument>(parse(R"({"axes": {"dp": {"latency_us": 1}}})"), {"axes.dp", "gigabytes_per_s"});
  expect_error<IoError>([] { CostModel::load("/no/such/file"); }, {"/no/such/file"});
  const std::string deep = R"({"launch_us": )" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  expect_error<InvalidArgument>(parse(deep.c_str()), {"calibration.json", "at most 64 levels deep, got 1000001"});
}

TEST(CostModel, LoadsAFile) {
  const std::string path = ::testing::TempDir() + "cost_model_test." + std::to_string(getpid()) + ".json";
  CostModel model;
  model.axes["tp"] = {0.5, 400};
  std::ofstream(path) << model.json();
  EXPECT_EQ(CostModel::load(path), model);
  std::remove(path.c_str());
}

TEST(CostModel, PrintsItsAssumptions) {
  CostModel model;
  model.axes["dp"] = {2.5, 40};
  const std::string text = model.text();
  for (const char* line : {"6 us to start", "1500 GB/s", "nvlink: 0.7 us per hop, 300 GB/s", "axis dp: 2.5 us per hop"})
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in\n" << text;
}

}  // namespace
}  // namespace tessera::layout

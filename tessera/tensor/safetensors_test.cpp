// Files of tensors: written tensors are read back, mapped and copied; invalid files throw.
#include "tessera/tensor/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "tessera/base/testing/expect_error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/layout/layout.h"

namespace tessera::tensor {
namespace {

device::Device host() { return device::Device::get("host"); }

class Safetensors : public ::testing::Test {
 protected:
  Safetensors() {
    char name[] = "/tmp/tessera_safetensors_XXXXXX";
    directory_ = ::mkdtemp(name);
    path_ = directory_ + "/a.safetensors";
  }
  ~Safetensors() override { std::filesystem::remove_all(directory_); }

  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  void put(const std::string& header, std::size_t data_nbytes) const {
    put(length(header.size()) + header + std::string(data_nbytes, '\1'));
  }
  static std::string length(std::uint64_t n) { return {reinterpret_cast<const char*>(&n), sizeof n}; }
  [[nodiscard]] std::string bytes() const {
    std::stringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    return text.str();
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory_), {}));
  }

  std::string directory_;
  std::string path_;
};

Tensor counting(const Shape& shape, DType dtype, unsigned char start = 0) {
  Tensor x = Tensor::allocate(shape, dtype, host());
  x.device().synchronize();
  for (std::size_t i = 0; i < x.nbytes(); ++i) x.data()[i] = static_cast<std::byte>((start + i) & 1);
  return x;
}
bool same_bytes(const Tensor& a, const Tensor& b) {
  a.device().synchronize();
  b.device().synchronize();
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.nbytes() == 0 || std::memcmp(a.data(), b.data(), a.nbytes()) == 0);
}

constexpr DType kKept[] = {DType::kF64, DType::kF32, DType::kF16,  DType::kBF16, DType::kF8E4M3, DType::kF8E5M2,
                           DType::kI64, DType::kI32, DType::kI16,  DType::kI8,   DType::kU64,    DType::kU32,
                           DType::kU16, DType::kU8,  DType::kBool, DType::kC64};

TEST_F(Safetensors, WritesAndReadsEveryDTypeOfTheFormat) {
  std::vector<NamedTensor> tensors;
  for (const DType dtype : kKept) tensors.push_back({"x." + std::string(to_string(dtype)), counting({3, 5}, dtype)});
  tensors.push_back({"scalar", counting({}, DType::kI16)});
  tensors.push_back({"empty", counting({4, 0}, DType::kF32)});
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"über", "\"quoted\"\n"}};
  write_safetensors(path_, tensors, metadata);
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(file.contains(name));
    EXPECT_TRUE(same_bytes(file.map(name), tensor)) << name;
    EXPECT_TRUE(same_bytes(file.copy(name, host()), tensor)) << name;
    EXPECT_TRUE(file.map(name).storage().is_external()) << name << " lies aligned and needs no copy";
  }
  EXPECT_EQ(file.map_all().size(), tensors.size());
  EXPECT_EQ(file.copy_all(host()).front().name, file.entries().front().name);
}

TEST_F(Safetensors, GoldenFile) {
  write_safetensors(path_, {{"b", counting({2}, DType::kU8)}, {"a", counting({1, 2}, DType::kI16, 1)}}, {{"k", "v"}});
  const std::string header = R"({"__metadata__":{"k":"v"},"a":{"dtype":"I16","shape":[1,2],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  const std::string all = bytes();
  ASSERT_EQ(all.size() % 64, 6U) << "elements begin at a multiple of 64";
  std::uint64_t n = 0;
  std::memcpy(&n, all.data(), 8);
  EXPECT_EQ(n, all.size() - 8 - 6);
  EXPECT_EQ(all.substr(8, header.size()), header);
  EXPECT_EQ(all.substr(8 + header.size(), n - header.size()), std::string(n - header.size(), ' '));
  EXPECT_EQ(all.substr(all.size() - 6), std::string("\1\0\1\0\0\1", 6));
}

TEST_F(Safetensors, WritesViewsAndOtherDevicesDense) {
  const device::Device device = device::host::make_host_device({.mode = device::host::Mode::kThreaded});
  const Tensor x = Tensor::allocate({2, 3}, DType::kI32, device);
  auto* data = x.data_as<std::int32_t>();
  const device::Stream& stream = current_stream(device);
  device.stall_stream(stream, true);
  const device::Access accesses[] = {device::writes(data, 24)};
  stream.run([data] { std::iota(data, data + 6, 0); }, {.label = "iota", .accesses = accesses});
  device.stall_stream(stream, false);
  write_safetensors(path_, {{"t", x.as_strided({3, 2}, {1, 3}, 0)}, {"r", x.as_strided({2, 1, 2}, {-3, 9, -2}, 5)}});
  const SafetensorsFile file(path_);
  const auto* t = file.map("t").data_as<std::int32_t>();
  EXPECT_EQ(std::vector(t, t + 6), (std::vector<std::int32_t>{0, 3, 1, 4, 2, 5}));
  const auto* r = file.map("r").data_as<std::int32_t>();
  EXPECT_EQ(std::vector(r, r + 4), (std::vector<std::int32_t>{5, 3, 2, 0}));
}

TEST_F(Safetensors, MappedTensorsOutliveTheFileAndItsHandle) {
  write_safetensors(path_, {{"x", counting({1000}, DType::kF32)}});
  const Tensor x = SafetensorsFile(path_).map("x");
  write_safetensors(path_, {{"x", counting({2}, DType::kF32)}});
  EXPECT_TRUE(same_bytes(x, counting({1000}, DType::kF32))) << "a new file does not disturb the one that is mapped";
  std::filesystem::remove(path_);
  EXPECT_TRUE(same_bytes(x, counting({1000}, DType::kF32)));
}

TEST_F(Safetensors, WritingToAMappedTensorLeavesTheFileAlone) {
  write_safetensors(path_, {{"x", counting({8}, DType::kU8)}});
  const std::string before = bytes();
  ::chmod(path_.c_str(), 0444);
  const SafetensorsFile file(path_);
  file.map("x").data()[3] = std::byte{77};
  EXPECT_EQ(file.map("x").data()[3], std::byte{77}) << "tensors of one file share its pages";
  EXPECT_EQ(SafetensorsFile(path_).map("x").data()[3], std::byte{1});
  EXPECT_EQ(bytes(), before);
}

TEST_F(Safetensors, CopiesOnTheStreamOfTheDevice) {
  write_safetensors(path_, {{"x", counting({64}, DType::kF32)}});
  const device::Device device = device::host::make_host_device({.mode = device::host::Mode::kThreaded});
  device.stall_stream(device.default_stream(), true);
  const Tensor x = SafetensorsFile(path_).copy("x", device);  // the handle is destroyed before the copy runs
  EXPECT_EQ(x.device(), device);
  device.stall_stream(device.default_stream(), false);
  EXPECT_TRUE(same_bytes(x, counting({64}, DType::kF32)));
}

TEST_F(Safetensors, CopiesWhatDoesNotLieAligned) {
  put(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})",
      9);
  const SafetensorsFile file(path_);
  const Tensor b = file.map("b");
  EXPECT_FALSE(b.storage().is_external());
  b.device().synchronize();
  EXPECT_EQ(b.data()[7], std::byte{1});
}

TEST_F(Safetensors, TakesWhatOtherWritersWrite) {
  put(" {\"__metadata__\":null , \"a\\u00e4\":{\"shape\":[],\"data_offsets\":[0,1],\"dtype\":\"BOOL\"}} \n  ", 1);
  EXPECT_EQ(SafetensorsFile(path_).entry("aä").dtype, DType::kBool);
  put("{}", 0);
  EXPECT_TRUE(SafetensorsFile(path_).entries().empty());
  put(R"({"z":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},"e":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      4);
  EXPECT_EQ(SafetensorsFile(path_).entries().back().name, "z") << "empty tensors may lie anywhere between others";
  write_safetensors(path_, {});
  EXPECT_TRUE(SafetensorsFile(path_).entries().empty());
}

struct Bad {
  std::string header;
  std::size_t data_nbytes;
  std::string_view word;
};

std::string entry(const std::string& name, const std::string& rest) { return "\"" + name + "\":{" + rest + "}"; }

TEST_F(Safetensors, RefusesHeadersThatAreNotSound) {
  const std::string a4 = entry("a", R"("dtype":"F32","shape":[1],"data_offsets":[0,4])");
  const std::string deep = std::string(100000, '[');
  const std::vector<Bad> all = {
      {"", 4, "not JSON"},
      {"[]", 0, "unexpected list"},
      {"17", 0, "unexpected number 17"},
      {"\"a\"", 0, "unexpected string 'a'"},
      {"{" + a4, 4, "not JSON"},
      {"{" + a4 + "} x", 4, "not JSON"},
      {std::string("{") + a4 + "}" + std::string(3, '\0'), 4, "not JSON"},
      {"{\"a\":{\"dtype\":" + deep, 0, "tensor 'a': unexpected list"},
      {"{\"a\":{\"shape\":[[1]]", 0, "unexpected list"},
      {"{\"a\":{\"shape\":{}", 0, "unexpected object"},
      {"{\"a\":3}", 0, "unexpected number 3"},
      {"{\"a\":null}", 0, "unexpected null"},
      {"{\"a\":true}", 0, "unexpected boolean"},
      {"{" + a4 + "," + a4 + "}", 4, "tensor 'a' appears twice"},
      {"{" + entry("a", R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])") + "}", 4,
       "field 'dtype' appears twice"},
      {R"({"__metadata__":{"k":"1","k":"2"}})", 0, "key 'k' appears twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__ appears twice"},
      {R"({"__metadata__":{"k":1}})", 0, "metadata: unexpected number 1"},
      {R"({"__metadata__":{"k":{}}})", 0, "metadata: unexpected object"},
      {"{" + entry("a", R"("dtype":"F32","shape":[1])") + "}", 4, "requires dtype, shape and data_offsets"},
      {"{" + entry("a", R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1)") + "}", 4, "field 'extra'"},
      {"{" + entry("a", R"("dtype":"Q7","shape":[1],"data_offsets":[0,4])") + "}", 4,
       "dtype must be one of F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, C64, "
       "got 'Q7'"},
      {"{" + entry("a", R"("dtype":7,"shape":[1],"data_offsets":[0,4])") + "}", 4, "unexpected number 7"},
      {"{" + entry("a", R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])") + "}", 4, "number -1 is negative"},
      {"{" + entry("a", R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])") + "}", 4,
       "number 1.0 must be an integer"},
      {"{" + entry("a", R"("dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4])") + "}", 4,
       "number 99999999999999999999 must be an integer of at most 64 bits"},
      {"{" + entry("a", R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4])") + "}", 4, "63 bits"},
      {"{" + entry("a", R"("dtype":"F32","shape":[1152921504606846976,1152921504606846976],"data_offsets":[0,4])") +
           "}",
       4, "more elements than fit 63 bits"},
      {"{" + entry("a", R"("dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,4])") + "}", 4, "63 bits"},
      {"{" + entry("a", R"("dtype":"U8","shape":[1152921504606846976],"data_offsets":[0,1152921504606846976])") + "}",
       4, "exceed the file"},
      {"{" + entry("a", R"("dtype":"F32","shape":[1],"data_offsets":[0])") + "}", 4,
       "data_offsets must have 2 numbers, got 1"},
      {"{" + entry("a", R"("dtype":"F32","shape":[1],"data_offsets":[0,2,4])") + "}", 4,
       "data_offsets must have 2 numbers, got 3"},
      {"{" + entry("a", R"("dtype":"F32","shape":[1],"data_offsets":[4,0])") + "}", 4,
       "data_offsets must not decrease, got [4, 0]"},
      {"{" + entry("a", R"("dtype":"F32","shape":[2],"data_offsets":[0,4])") + "}", 4, "f32[2] requires 8 bytes"},
      {"{" + entry("a", R"("dtype":"F32","shape":[2],"data_offsets":[0,8])") + "}", 4,
       "offsets [0, 8) exceed the file, which has 4"},
      {"{" + a4 + "," + entry("b", R"("dtype":"F32","shape":[1],"data_offsets":[2,6])") + "}", 8,
       "tensor 'b': offsets [2, 6) overlap tensor 'a', which ends at 4"},
      {"{" + a4 + "," + entry("b", R"("dtype":"F32","shape":[1],"data_offsets":[6,10])") + "}", 10,
       "tensor 'b': offsets [6, 10) leave a gap of 2 bytes"},
      {"{" + entry("a", R"("dtype":"F32","shape":[1],"data_offsets":[4,8])") + "}", 8,
       "gap of 4 bytes after the header"},
      {"{" + a4 + "}", 5, "tensors end at 4, but the file has 5 bytes"},
      {"{\"\xff\xfe\":{}}", 0, "not JSON at byte"},
  };
  for (const Bad& bad : all) {
    SCOPED_TRACE(bad.header.substr(0, 200));
    put(bad.header, bad.data_nbytes);
    try {
      const SafetensorsFile file(path_);
      ADD_FAILURE() << "was read";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(bad.word), std::string::npos) << error.message();
      EXPECT_TRUE(error.message().starts_with(path_ + ": ")) << error.message();
      EXPECT_LT(error.message().size(), 1000U);
    }
  }
}

TEST_F(Safetensors, RefusesMoreThan64Dimensions) {
  std::string shape = "1";
  for (int i = 0; i < 64; ++i) shape += ",1";
  put("{" + entry("a", "\"dtype\":\"U8\",\"shape\":[" + shape + "],\"data_offsets\":[0,1]") + "}", 1);
  expect_error<IoError>([&] { const SafetensorsFile file(path_); }, {"a list must have at most 64 numbers"});
}

TEST_F(Safetensors, RefusesFilesThatAreNone) {
  const auto refuses = [&](std::string_view word) {
    expect_error<IoError>([&] { const SafetensorsFile file(path_); }, {path_, word});
  };
  refuses("No such file");
  put("");
  refuses("file is empty");
  put("1234567");
  refuses("got 7 bytes");
  put(length(3));
  refuses("got 8 bytes");
  put(length(100) + "{}");
  refuses("header of 100 bytes exceeds the file of 10");
  put(length(~std::uint64_t{0}) + "{}");
  refuses("18446744073709551615");
  put(length(100'000'001) + "{}");
  refuses("at most 100000000 bytes, got 100000001");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  refuses("not a regular file");
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  refuses("not a regular file");  // and does not wait for a writer
}

TEST_F(Safetensors, EveryTruncationOfASoundFileIsRefused) {
  write_safetensors(path_, {{"a", counting({7}, DType::kF32)}, {"b", counting({3}, DType::kU8)}}, {{"k", "v"}});
  const std::string all = bytes();
  for (std::size_t n = 0; n < all.size(); ++n) {
    put(all.substr(0, n));
    EXPECT_THROW(SafetensorsFile file(path_), IoError) << n;
  }
}

TEST_F(Safetensors, NamesTheNearestTensor) {
  write_safetensors(path_, {{"layers.0.weight", counting({1}, DType::kU8)}});
  expect_error<InvalidArgument>([&] { (void)SafetensorsFile(path_).map("layers.0.wieght"); },
                                {"a.safetensors", "'layers.0.wieght'", "did you mean 'layers.0.weight'"});
}

TEST_F(Safetensors, RefusesToWriteWhatCannotBeAndLeavesTheOldFile) {
  put("old");
  const Tensor x = counting({2}, DType::kF32);
  const Tensor whole = Tensor::sharded({4}, DType::kF32, layout::Layout::parse("dp=2 {Shard(0)}"), x);
  const auto refuses = [&](const std::vector<NamedTensor>& tensors, std::string_view word) {
    expect_error<Error>([&] { write_safetensors(path_, tensors); }, {path_, word});
  };
  refuses({{"x", x}, {"x", x}}, "names must be distinct, got 'x' twice");
  refuses({{"__metadata__", x}}, "must not have the name '__metadata__'");
  refuses({{"x", Tensor()}}, "'x' must be a tensor");
  refuses({{"x", whole}}, "local()");
  refuses({{"x", counting({1}, DType::kC128)}}, "safetensors does not support c128");
  refuses({{"\xff", x}}, "must be UTF-8");
  expect_error<InvalidArgument>([&] { write_safetensors(path_, {{"x", x}}, {{"k", "\xc3"}}); }, {"must be UTF-8"});
  expect_error<IoError>([&] { write_safetensors(directory_ + "/no/such", {{"x", x}}); }, {"/no/such"});
  EXPECT_EQ(bytes(), "old");
  EXPECT_EQ(files(), 1U) << "nothing is left aside";
}

TEST_F(Safetensors, ManyTensorsAreWrittenAndRead) {
  std::vector<NamedTensor> tensors;
  const Tensor x = counting({1}, DType::kU8);
  for (int i = 0; i < 20000; ++i) tensors.push_back({"t" + std::to_string(i), x});
  write_safetensors(path_, tensors);
  EXPECT_EQ(SafetensorsFile(path_).map_all().size(), tensors.size());
}

}  // namespace
}  // namespace tessera::tensor

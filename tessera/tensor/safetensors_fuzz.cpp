// Random tensors written to a file must be read back unchanged. Corrupt copies of the file, and headers assembled
// randomly from pieces of valid ones, must throw a Tessera error or give complete, disjoint tensors inside the file.
//   tensor_safetensors_fuzz [--runs N] [--seed S] [--seconds T]
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/tensor/safetensors_header.h"

namespace tessera::tensor {
namespace {

using Random = std::mt19937_64;

constexpr DType kKept[] = {DType::kF64, DType::kF32, DType::kF16,  DType::kBF16, DType::kF8E4M3, DType::kF8E5M2,
                           DType::kI64, DType::kI32, DType::kI16,  DType::kI8,   DType::kU64,    DType::kU32,
                           DType::kU16, DType::kU8,  DType::kBool, DType::kC64};

// An anonymous file in memory.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("safetensors_fuzz", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void put(const std::string& bytes) const {
    if (::ftruncate(descriptor_, 0) != 0 ||
        ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
      std::abort();
    }
  }

 private:
  int descriptor_;
};

std::string random_name(Random& random) {
  static const char* const kParts[] = {"a", "layers.", "0", "weight", "ä", "\"", "\\", "\n", " ", "__metadata__x", ""};
  std::string name;
  for (std::size_t i = random() % 5; i > 0; --i) name += kParts[random() % std::size(kParts)];
  return name;
}

std::vector<SafetensorsEntry> random_entries(Random& random) {
  std::vector<SafetensorsEntry> entries;
  std::uint64_t end = 0;
  for (std::size_t i = random() % 6; i > 0; --i) {
    std::vector<std::int64_t> dims;
    for (std::size_t d = random() % 4; d > 0; --d) dims.push_back(static_cast<std::int64_t>(random() % 4));
    SafetensorsEntry entry{random_name(random) + std::to_string(i), kKept[random() % std::size(kKept)],
                           Shape(std::span<const std::int64_t>(dims)), end, 0};
    end += nbytes(entry.shape, entry.dtype);
    entry.end_nbytes = end;
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::map<std::string, std::string> random_metadata(Random& random) {
  std::map<std::string, std::string> metadata;
  for (std::size_t i = random() % 3; i > 0; --i) metadata[random_name(random)] = random_name(random);
  return metadata;
}

std::string with_length(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

// Returns random JSON that is often almost a header.
std::string random_header(Random& random) {
  static const char* const kPieces[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "\"a\"",
                                        "\"b\"",
                                        "\"dtype\"",
                                        "\"F32\"",
                                        "\"U8\"",
                                        "\"BOOL\"",
                                        "\"shape\"",
                                        "\"data_offsets\"",
                                        "\"__metadata__\"",
                                        "0",
                                        "1",
                                        "4",
                                        "8",
                                        "-1",
                                        "1.5",
                                        "1e3",
                                        "1152921504606846976",
                                        "9223372036854775807",
                                        "18446744073709551615",
                                        "99999999999999999999999",
                                        "null",
                                        "true",
                                        " ",
                                        "\\u0000",
                                        "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}",
                                        "{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}",
                                        "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                                        "\"\xff\"",
                                        "\"\\ud800\""};
  std::string text = random() % 4 == 0 ? "" : "{";
  for (std::size_t i = random() % 30; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
  return random() % 4 == 0 ? text : text + "}";
}

std::string spoilt(std::string bytes, Random& random) {
  for (std::size_t times = 1 + random() % 4; times > 0 && !bytes.empty(); --times) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 7) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[at] = "{}[]\",:0189-\\"[random() % 13]; break;
      case 2: bytes.erase(at, random() % 12); break;
      case 3: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40)); break;
      case 4: bytes.resize(at); break;
      case 5: bytes.append(random() % 9, static_cast<char>(random())); break;
      default:
        if (bytes.size() >= 8) bytes[random() % 8] = static_cast<char>(random() % 3 == 0 ? random() : random() % 4);
    }
  }
  return bytes;
}

// Returns the inconsistency in an accepted file; empty if consistent.
std::string nonsense_in(const SafetensorsFile& file, std::size_t file_nbytes) {
  std::uint64_t end = 0;
  std::uint64_t sum = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    if (entry.begin_nbytes != end) return "tensors that do not follow each other";
    end = entry.end_nbytes;
    if (end > file_nbytes) return "a tensor outside of the file";
    if (&file.entry(entry.name) != &entry) return "a name twice";
    const Tensor mapped = file.map(entry.name);
    const Tensor copied = file.copy(entry.name, mapped.device());
    mapped.device().synchronize();
    if (mapped.nbytes() != entry.end_nbytes - entry.begin_nbytes) return "a tensor of another size than its entry";
    if (mapped.nbytes() != 0 && std::memcmp(mapped.data(), copied.data(), mapped.nbytes()) != 0) {
      return "the mapped and the copied form differ";
    }
    for (std::size_t i = 0; i < mapped.nbytes(); ++i)
      sum += static_cast<std::uint64_t>(mapped.data()[i]);  // touches all bytes
  }
  return sum == ~std::uint64_t{0} ? "unlikely" : "";
}

std::string try_bytes(const MemoryFile& memory, const std::string& bytes) {
  memory.put(bytes);
  try {
    return nonsense_in(SafetensorsFile(memory.path()), bytes.size());
  } catch (const IoError&) {
  } catch (const NotSupported&) {
  }
  return {};
}

std::string run_one(std::uint64_t seed) {
  Random random(seed);
  static const MemoryFile memory;
  const std::vector<SafetensorsEntry> entries = random_entries(random);
  const std::map<std::string, std::string> metadata = random_metadata(random);
  std::string sound = detail::make_safetensors_header(entries, metadata, "fuzz");
  const std::size_t data_offset = sound.size();
  const std::size_t data_nbytes = entries.empty() ? 0 : entries.back().end_nbytes;
  for (std::size_t i = 0; i < data_nbytes; ++i) sound += static_cast<char>(random());
  memory.put(sound);
  const SafetensorsFile file(memory.path());
  if (file.metadata() != metadata) return "the metadata is not what was written";
  if (file.entries().size() != entries.size()) return "the count of tensors is wrong";
  for (const SafetensorsEntry& entry : entries) {
    const Tensor tensor = file.map(entry.name);
    tensor.device().synchronize();
    if (tensor.shape() != entry.shape || tensor.dtype() != entry.dtype) return "a tensor is not what was written";
    if (tensor.nbytes() != 0 &&
        std::memcmp(tensor.data(), sound.data() + data_offset + entry.begin_nbytes, tensor.nbytes()) != 0) {
      return "elements are not what was written";
    }
  }
  for (int i = 0; i < 8; ++i) {
    std::string problem = try_bytes(memory, spoilt(sound, random));
    if (problem.empty())
      problem = try_bytes(memory, with_length(random_header(random), std::string(random() % 12, 'x')));
    if (!problem.empty()) return problem;
  }
  return {};
}

}  // namespace
}  // namespace tessera::tensor

int main(int argc, char** argv) { return tessera::fuzz::run(argc, argv, "files", tessera::tensor::run_one); }

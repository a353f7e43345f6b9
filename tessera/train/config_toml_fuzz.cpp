// Reads corrupted configuration files: they are rejected with a Tessera error and change nothing, or the result is
// written and read back unchanged.
//   train_config_toml_fuzz [--runs N] [--seed S] [--seconds T]
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/base/testing/spoilt.h"
#include "tessera/train/config.h"

namespace tessera::train {
namespace {

// In memory; removed when the program ends.
struct ScratchFile {
  ScratchFile() {
    const int descriptor = ::mkstemp(path.data());
    if (descriptor < 0) std::abort();
    ::close(descriptor);
  }
  ~ScratchFile() { ::unlink(path.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  std::string path = "/dev/shm/tessera_toml_fuzz_XXXXXX";
};

std::string run_one(std::uint64_t seed) {
  static const ScratchFile scratch;
  const std::string& path = scratch.path;
  const auto write = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  };
  std::mt19937_64 random(seed);
  const std::string sound = to_toml(Config());
  write(random() % 10 == 0 ? fuzz::random_bytes(random) : fuzz::spoilt(sound, random));
  Config config;
  try {
    read_toml(config, path);
  } catch (const Error&) {
    return to_toml(config) == sound ? "" : "a file that was refused changed the configuration";
  }
  const std::string read = to_toml(config);
  write(read);
  Config again;
  read_toml(again, path);
  return to_toml(again) == read ? "" : "the configuration is not read back as it was written";
}

}  // namespace
}  // namespace tessera::train

int main(int argc, char** argv) { return tessera::fuzz::run(argc, argv, "configurations", tessera::train::run_one); }

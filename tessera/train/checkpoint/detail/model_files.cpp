#include "tessera/train/checkpoint/detail/model_files.h"

#include <array>
#include <system_error>

#include "tessera/base/atomic_file.h"
#include "tessera/base/regular_file.h"

namespace tessera::train::detail {
namespace {

constexpr std::uint64_t kMaxNbytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxConfigNbytes = std::uint64_t{1} << 24;

constexpr std::array kNames = {
    kConfigName,       "generation_config.json",  "tokenizer.json",    "tokenizer_config.json",
    "tokenizer.model", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",      "chat_template.jinja",     "chat_template.json"};

// A link that leads nowhere exists: reading it is an error.
bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

}  // namespace

void copy_model_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const char* name : kNames) {
    if (!is_there(from / name)) continue;
    write_file((to / name).string(), read_regular_file((from / name).string(), kMaxNbytes), FileKind::kRun);
  }
}

std::string model_config_text(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kConfigName;
  return is_there(path) ? read_regular_file(path.string(), kMaxConfigNbytes) : "";
}

}  // namespace tessera::train::detail

#include "tessera/analysis/detail/stop_reason.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/json_depth.h"
#include "tessera/base/regular_file.h"

namespace tessera::analysis::detail {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxBytes = 16 << 20;
constexpr std::size_t kMaxDepth = 64;

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Returns the bytes of a file that is not older than `since_ns`; empty if none exists, or if it is too large.
std::string text_since(const std::string& path, std::int64_t since_ns) {
  try {
    const RegularFile file(path);
    struct stat info {};
    if (::fstat(file.descriptor(), &info) != 0) return {};
    if (static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec < since_ns) return {};
    return file.nbytes() <= kMaxBytes ? file.read(0, file.nbytes()) : std::string();
  } catch (const IoError&) {
    return {};
  }
}

}  // namespace

std::string stop_reason(const std::string& directory, std::int64_t since_ns) {
  const std::string text = text_since(directory + "/summary.json", since_ns);
  if (tessera::detail::json_depth(text) > kMaxDepth) return {};
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && text_at(json, "end") == "stopped" ? text_at(json, "reason") : std::string();
}

}  // namespace tessera::analysis::detail

#include "tessera/record/detail/stop_reason.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tessera/base/detail/json_depth.h"

namespace tessera::record::detail {
namespace {

using Json = nlohmann::json;

constexpr std::uintmax_t kMostBytes = 64 << 20;
constexpr std::size_t kMostDepth = 64;

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string stop_reason(const std::string& directory, std::int64_t since_ns) {
  const std::string path = directory + "/summary.json";
  std::error_code error;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  if (static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec < since_ns) return {};
  if (!std::filesystem::is_regular_file(path, error)) return {};
  if (const std::uintmax_t nbytes = std::filesystem::file_size(path, error); error || nbytes > kMostBytes) return {};
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (tessera::detail::json_depth(text) > kMostDepth) return {};
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && text_at(json, "end") == "stopped" ? text_at(json, "reason") : std::string();
}

}  // namespace tessera::record::detail

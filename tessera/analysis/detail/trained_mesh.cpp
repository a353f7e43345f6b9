#include "tessera/analysis/detail/trained_mesh.h"

#include <array>
#include <charconv>
#include <filesystem>

#include "tessera/analysis/detail/launch_file.h"
#include "tessera/base/error.h"
#include "tessera/base/regular_file.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::uintmax_t kMaxBytes = 1 << 20;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

int integer_of(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

}  // namespace

MeshSizes sound_mesh(double dp, double fsdp, double tp) {
  for (const double axis : {dp, fsdp, tp}) {
    if (!(axis >= 1 && axis <= kMaxRanks)) return {};
  }
  if (dp * fsdp * tp > kMaxRanks) return {};
  return {static_cast<int>(dp), static_cast<int>(fsdp), static_cast<int>(tp)};
}

MeshSizes mesh_of_toml(std::string_view text) {
  constexpr std::array<std::string_view, 3> kNames = {"dp", "fsdp", "tp"};
  std::array<int, 3> sizes = {};
  bool is_mesh = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.starts_with("[")) is_mesh = line == "[mesh]";
    line = trimmed(line.substr(0, line.find('#')));
    const std::size_t equals = line.find('=');
    if (!is_mesh || equals == std::string_view::npos) continue;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      if (trimmed(line.substr(0, equals)) == kNames[i]) sizes[i] = integer_of(trimmed(line.substr(equals + 1)));
    }
  }
  return sound_mesh(sizes[0], sizes[1], sizes[2]);
}

MeshSizes trained_mesh(const std::string& directory) {
  const std::string path = directory + "/config.toml";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  try {
    return mesh_of_toml(read_regular_file(path, kMaxBytes));
  } catch (const IoError&) {
    return {};
  }
}

}  // namespace tessera::analysis::detail

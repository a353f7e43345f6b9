#include "tessera/train/data/text_files.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/train/data/detail/mapped_file.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

}  // namespace

std::vector<fs::path> files_under(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  TESSERA_CHECK_AS(IoError, fs::exists(status), "'", path.string(), "': ", error.message());
  if (!fs::is_directory(status)) return {path};
  std::vector<fs::path> files;
  try {
    for (auto each = fs::recursive_directory_iterator(path); each != fs::recursive_directory_iterator(); ++each) {
      if (is_hidden(each->path())) {
        if (each->is_directory()) each.disable_recursion_pending();
      } else if (each->is_regular_file()) {
        files.push_back(each->path());
      }
    }
  } catch (const fs::filesystem_error& failure) {
    TESSERA_THROW(IoError, "'", failure.path1().string(), "': ", failure.code().message());
  }
  TESSERA_CHECK_AS(IoError, !files.empty(), "directory '", path.string(), "' contains no files");
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.string(); });
  return files;
}

std::optional<std::string> read_text(const fs::path& path) {
  const detail::MappedFile file(path.string());
  if (!is_text(file.bytes())) return std::nullopt;
  return std::string(file.bytes());
}

bool is_text(std::string_view bytes) { return bytes.find('\0') == std::string_view::npos; }

}  // namespace tessera::train

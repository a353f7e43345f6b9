// A temporary directory of files for one test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace tessera::train::testing {

/// Creates the directory, and removes it in the destructor.
class DataDirectory {
 public:
  DataDirectory() {
    char name[] = "/tmp/tessera_data_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    path_ = name;
  }
  ~DataDirectory() { std::filesystem::remove_all(path_); }
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;

  /// Returns the path of a name in the directory.
  [[nodiscard]] std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : path_ + "/" + name;
  }
  /// Writes a file and its parent directories. Returns its path.
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = path(name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }
  /// Returns the bytes of a file.
  [[nodiscard]] std::string content(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }
  /// Returns the number of names in the directory.
  [[nodiscard]] std::size_t count() const {
    std::size_t names = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(path_)) ++names;
    return names;
  }

 private:
  std::string path_;
};

}  // namespace tessera::train::testing

// A directory of files for one test, gone with it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace tessera::train::testing {

/// See the head of this file.
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

  /// The path of a name in it.
  [[nodiscard]] std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : path_ + "/" + name;
  }
  /// Writes a file, with the directories it stands in; its path.
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = path(name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }
  /// The bytes of a file.
  [[nodiscard]] std::string content(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }
  /// How many names it holds.
  [[nodiscard]] std::size_t count() const {
    std::size_t names = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(path_)) ++names;
    return names;
  }

 private:
  std::string path_;
};

}  // namespace tessera::train::testing

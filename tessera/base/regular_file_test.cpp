#include "tessera/base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

class RegularFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_regular_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }
  [[nodiscard]] std::string made(const std::string& bytes) const {
    std::ofstream(path("file"), std::ios::binary) << bytes;
    return path("file");
  }

  std::string directory_;
};

std::string error_of(const std::string& path) {
  try {
    (void)read_regular_file(path, 100);
  } catch (const IoError& error) {
    return error.message();
  }
  return "none";
}

TEST_F(RegularFileTest, ReadsUpToTheBound) {
  EXPECT_EQ(read_regular_file(made("twelve bytes"), 12), "twelve bytes");
  EXPECT_EQ(error_of(made(std::string(101, 'x'))), "'" + path("file") + "': must have at most 100 bytes, got 101");
  EXPECT_EQ(RegularFile(made("twelve bytes")).read(7, 100), "bytes");
  EXPECT_EQ(RegularFile(made("twelve bytes")).read(70, 100), "");
}

TEST_F(RegularFileTest, RejectsWhatWouldWaitOrNeverEnd) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("fifo", path("link"));
  EXPECT_EQ(error_of(path("fifo")), "'" + path("fifo") + "': must be a regular file, got a FIFO");
  EXPECT_EQ(error_of(path("link")), "'" + path("link") + "': must be a regular file, got a FIFO");
  EXPECT_EQ(error_of("/dev/zero"), "'/dev/zero': must be a regular file, got a device");
  EXPECT_EQ(error_of(directory_), "'" + directory_ + "': must be a regular file, got a directory");
  EXPECT_EQ(error_of(path("missing")), "'" + path("missing") + "': No such file or directory");
}

TEST_F(RegularFileTest, GivesLinesAcrossChunks) {
  const std::string wide((std::size_t{3} << 20) + 17, 'w');
  const RegularFile file(made("one\n\n" + wide + "\ntwo\nend"));
  std::vector<std::string> lines;
  std::vector<int> kinds;
  const auto take = [&](const FileLine& line) {
    lines.emplace_back(line.text);
    kinds.push_back((line.is_ended ? 0 : 1) + (line.is_long ? 2 : 0));
  };
  each_line(file, std::uint64_t{4} << 20, take);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", wide, "two", "end"}));
  EXPECT_EQ(kinds, (std::vector<int>{0, 0, 0, 0, 1}));
  lines.clear();
  kinds.clear();
  each_line(file, 1000, take);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "", "two", "end"}));
  EXPECT_EQ(kinds, (std::vector<int>{0, 0, 2, 0, 1}));
}

}  // namespace
}  // namespace tessera

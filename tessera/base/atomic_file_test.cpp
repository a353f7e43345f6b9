// Atomic files: the old file stays until the new one is complete.
#include "tessera/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest() {
    char name[] = "/tmp/tessera_atomic_XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~AtomicFileTest() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::string path(const std::string& name = "file") const { return directory_ + "/" + name; }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory_), {}));
  }
  static std::string content(const std::string& file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

  std::string directory_;
};

TEST_F(AtomicFileTest, ShowsNothingUntilCommitted) {
  write_file(path(), "old");
  AtomicFile file(path());
  file.stream() << "new " << 42 << std::flush;
  EXPECT_EQ(content(path()), "old");
  file.commit();
  EXPECT_EQ(content(path()), "new 42");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, LeavesTheOldFileWhenNotCommitted) {
  write_file(path(), "old");
  { AtomicFile(path()).stream() << "new"; }
  EXPECT_EQ(content(path()), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, WritesMoreThanItsBufferInPiecesOfEverySize) {
  std::string expected;
  AtomicFile file(path());
  for (std::size_t size = 1; size < 300'000; size = size * 3 + 1) {
    const std::string piece(size, static_cast<char>('a' + size % 26));
    file.stream() << piece;
    for (int i = 0; i < 100; ++i) file.stream().put('.');
    expected += piece + std::string(100, '.');
  }
  file.commit();
  EXPECT_EQ(content(path()), expected);
}

TEST_F(AtomicFileTest, AFailedWriteIsAnErrorAndChangesNothing) {
  write_file(path(), "old");
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    write_file(path(), std::string(5000, 'x'));
  } catch (const IoError& error) {
    message = error.message();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "cannot write '" + path() + "': File too large");
  EXPECT_EQ(content(path()), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, AMissingDirectoryIsAnErrorThatNamesThePath) {
  try {
    AtomicFile file(path("none/file"));
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(error.message().find("'" + path("none/file") + "'"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("No such file or directory"), std::string::npos) << error.message();
  }
}

TEST_F(AtomicFileTest, ARenameThatFailsLeavesNothingAside) {
  std::filesystem::create_directory(path("folder"));
  EXPECT_THROW(write_file(path("folder"), "x"), IoError);
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, KeepsPermissionsAndFollowsLinks) {
  write_file(path(), "old");
  ASSERT_EQ(::chmod(path().c_str(), 0640), 0);
  std::filesystem::create_symlink("file", path("link"));
  write_file(path("link"), "new");
  EXPECT_EQ(content(path()), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  struct ::stat status = {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(AtomicFileTest, TwoWritersOfOnePathDoNotMeet) {
  AtomicFile first(path());
  AtomicFile second(path());
  first.stream() << "first";
  second.stream() << "second";
  second.commit();
  first.commit();
  EXPECT_EQ(content(path()), "first");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, CommitsOnce) {
  AtomicFile file(path());
  file.commit();
  EXPECT_THROW(file.commit(), InvalidArgument);
  EXPECT_EQ(content(path()), "");
}

}  // namespace
}  // namespace tessera

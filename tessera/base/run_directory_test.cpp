// Run directories: modes, planted links, the lock and a directory that disappears.
#include "tessera/base/run_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class RunDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_run_directory_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base = name;
    run = base + "/run";
    mask = ::umask(022);
  }
  void TearDown() override {
    ::umask(mask);
    fs::remove_all(base);
  }
  static unsigned mode(const std::string& path) {
    struct ::stat now = {};
    EXPECT_EQ(::lstat(path.c_str(), &now), 0) << path;
    return now.st_mode & 0777U;
  }

  std::string base;
  std::string run;
  ::mode_t mask = 0;
};

TEST_F(RunDirectory, IsPrivateUnlessShared) {
  make_run_directory(base + "/parent/private");
  EXPECT_EQ(mode(base + "/parent"), 0755U) << "only the run directory itself is private";
  EXPECT_EQ(mode(base + "/parent/private"), 0700U);
  ::umask(077);
  make_run_directory(base + "/shared", RunAccess::kGroup);
  EXPECT_EQ(mode(base + "/shared"), 0750U);
  write_file(base + "/parent/private/file", "x", FileKind::kRun);
  write_file(base + "/shared/file", "x", FileKind::kRun);
  EXPECT_EQ(mode(base + "/parent/private/file"), 0600U);
  EXPECT_EQ(mode(base + "/shared/file"), 0640U);
  make_run_subdirectory(base + "/shared/part");
  EXPECT_EQ(mode(base + "/shared/part"), 0750U);
}

TEST_F(RunDirectory, ThatExistsKeepsItsModeAndItsFilesArePrivate) {
  fs::create_directory(run);
  make_run_directory(run);
  EXPECT_EQ(mode(run), 0755U);
  ::close(open_run_file(run + "/lines"));
  EXPECT_EQ(mode(run + "/lines"), 0600U);
  make_run_directory(run, RunAccess::kGroup);
  EXPECT_EQ(mode(run), 0750U);
}

TEST_F(RunDirectory, PlantedLinksAreNotFollowed) {
  make_run_directory(run);
  std::ofstream(base + "/victim") << "old";
  for (const char* target : {"/victim", "/nowhere"}) {
    SCOPED_TRACE(target);
    fs::create_symlink(base + target, run + "/whole");
    write_file(run + "/whole", "new", FileKind::kRun);
    EXPECT_FALSE(fs::is_symlink(run + "/whole"));
    EXPECT_EQ(mode(run + "/whole"), 0600U);
    fs::create_symlink(base + target, run + "/lines");
    expect_error<IoError>([&] { (void)open_run_file(run + "/lines"); }, {run + "/lines", "symbolic link"});
    fs::remove(run + "/whole");
    fs::remove(run + "/lines");
  }
  EXPECT_FALSE(fs::exists(base + "/nowhere"));
  std::ifstream victim(base + "/victim");
  std::string text;
  victim >> text;
  EXPECT_EQ(text, "old");
  fs::create_directory(base + "/elsewhere");
  fs::create_symlink(base + "/elsewhere", run + "/folder");
  expect_error<IoError>([&] { make_run_subdirectory(run + "/folder"); }, {run + "/folder", "symbolic link"});
}

TEST_F(RunDirectory, TheModeOfALinkedDirectoryIsNotSet) {
  fs::create_directory(base + "/victim");
  fs::create_symlink(base + "/victim", run);
  expect_error<IoError>([&] { make_run_directory(run, RunAccess::kGroup); }, {run, "symbolic link"});
  EXPECT_EQ(mode(base + "/victim"), 0755U);
}

TEST_F(RunDirectory, ALinkOfAnotherUserIsNotFollowed) {
  fs::create_directory(base + "/elsewhere");
  fs::create_symlink(base + "/elsewhere", run);
  make_run_directory(run);  // a link of this user
  constexpr ::uid_t kOther = 12345;
  if (::lchown(run.c_str(), kOther, ::getegid()) != 0) GTEST_SKIP() << "only root can create a link of another user";
  for (const char* end : {"", "/"}) {
    expect_error<IoError>([&] { make_run_directory(run + end); }, {run, "is a symbolic link of user 12345"});
    expect_error<IoError>([&] { make_run_directory(run + end, RunAccess::kGroup); }, {run, "symbolic link"});
  }
}

TEST_F(RunDirectory, ThatCannotBeMadeIsNamed) {
  std::ofstream(run) << "a file";
  expect_error<IoError>([&] { make_run_directory(run); }, {run, "it is not a directory"});
  expect_error<IoError>([&] { make_run_directory("/proc/nothing/here"); }, {"/proc/nothing/here"});
  expect_error<IoError>([&] { make_run_subdirectory(base + "/gone/part"); }, {base + "/gone/part"});
  EXPECT_FALSE(fs::exists(base + "/gone"));
}

TEST_F(RunDirectory, HasOneHolder) {
  make_run_directory(run);
  std::optional<RunDirectoryLock> held(std::in_place, run, RunDirectoryLockOptions{});
  const auto lock = [&](bool is_rank) {
    const RunDirectoryLock second(run, {.option = "--its.name", .is_rank = is_rank});
  };
  expect_error<IoError>([&] { lock(false); }, {run, "is in use by an active run", "--its.name"});
  expect_error<IoError>([&] { lock(true); }, {run, "is in use by an active run", "--its.name"});
  ::setenv("TESSERA_RUN_DIR_LOCK", held->identity().c_str(), 1);
  lock(true);
  expect_error<IoError>([&] { lock(false); }, {"is in use by an active run"});
  ::unsetenv("TESSERA_RUN_DIR_LOCK");
  held.reset();
  lock(false);
}

TEST_F(RunDirectory, ThatGoesAwayIsNoticed) {
  make_run_directory(run);
  const RunDirectoryLock lock(run, {});
  lock.check_in_place();
  fs::rename(run, base + "/renamed");
  expect_error<IoError>([&] { lock.check_in_place(); }, {run, "removed or renamed"});
  make_run_directory(run);
  expect_error<IoError>([&] { lock.check_in_place(); }, {run, "replaced"});
}

TEST_F(RunDirectory, OfALauncherIsLostToItsRanksOnceItIsReplaced) {
  make_run_directory(run);
  const RunDirectoryLock lock(run, {});
  EXPECT_FALSE(is_lost_run_directory(run)) << "there is no launcher";
  ::setenv("TESSERA_RUN_DIR", run.c_str(), 1);
  ::setenv("TESSERA_RUN_DIR_LOCK", lock.identity().c_str(), 1);
  EXPECT_FALSE(is_lost_run_directory(run));
  fs::rename(run, base + "/renamed");
  EXPECT_TRUE(is_lost_run_directory(run));
  make_run_directory(run);
  EXPECT_TRUE(is_lost_run_directory(run));
  EXPECT_FALSE(is_lost_run_directory(base)) << "another directory";
  ::unsetenv("TESSERA_RUN_DIR");
  ::unsetenv("TESSERA_RUN_DIR_LOCK");
}

}  // namespace
}  // namespace tessera

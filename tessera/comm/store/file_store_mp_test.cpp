// A file store between processes: they may be killed at any time, the last user cleans up, and files of dead processes
// are not mistaken for values.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/file_store.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;

class FileStoreProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_store_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base = name;
    path = base + "/store";
  }
  void TearDown() override { std::filesystem::remove_all(base); }

  static pid_t start(const std::function<void()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        body();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "child: %s\n", error.what());
        ::_exit(1);
      }
      ::_exit(0);
    }
    return child;
  }
  static int end_of(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  std::string base;
  std::string path;
};

TEST_F(FileStoreProcesses, CountTogether) {
  FileStore store(path);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(start([&] {
      FileStore own(path);
      for (int k = 0; k < 50; ++k) own.add("n", 1);
      own.set("done/" + std::to_string(::getpid()), "");
    }));
  }
  std::vector<std::string> keys;
  keys.reserve(children.size());
  for (const pid_t child : children) keys.push_back("done/" + std::to_string(child));
  store.wait(keys, 60s);
  for (const pid_t child : children) EXPECT_EQ(end_of(child), 0);
  EXPECT_EQ(store.add("n", 0), 200);
}

// Killed while it holds the lock, while it writes the temporary file, or in between: the next process continues, and
// the count is that of the dead process.
TEST_F(FileStoreProcesses, AKilledWriterHurtsNobody) {
  FileStore store(path);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = start([&] {
      FileStore own(path);
      const std::string value(10'000, static_cast<char>('a' + round));
      for (std::int64_t k = 0;; ++k) {
        own.set("v", value);
        own.add("n", 1);
        if (k == round) own.set("on/" + std::to_string(round), "");
      }
    });
    store.get("on/" + std::to_string(round), 60s);
    ::kill(child, SIGKILL);
    const int status = end_of(child);
    EXPECT_TRUE(WIFSIGNALED(status));
    const std::int64_t before = store.add("n", 0);
    EXPECT_EQ(store.add("n", 1), before + 1);
    const std::string value = store.get("v", 0s);
    EXPECT_EQ(value, std::string(10'000, value[0]));
    store.set("v", "mine");
    EXPECT_EQ(store.find("v"), "mine");
  }
}

TEST_F(FileStoreProcesses, TheLastToLeaveRemovesEverything) {
  {
    FileStore one(path);
    {
      FileStore other(path);
      other.set("a", "1");
    }
    EXPECT_EQ(one.find("a"), "1") << "one is still there";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(FileStoreProcesses, WhatTheDeadLeftIsCleared) {
  const pid_t child = start([&] {
    const FileStore own(path);
    const_cast<FileStore&>(own).set("stale", "1");
    ::kill(::getpid(), SIGKILL);
  });
  end_of(child);
  EXPECT_TRUE(std::filesystem::exists(path + "/kstale"));
  FileStore store(path);
  EXPECT_EQ(store.find("stale"), std::nullopt);
}

TEST_F(FileStoreProcesses, KeptValuesOutliveTheirProcess) {
  { FileStore(path, {.is_kept = true}).set("a", "1"); }
  EXPECT_EQ(FileStore(path, {.is_kept = true}).find("a"), "1");
}

TEST_F(FileStoreProcesses, AStoppedHolderIsAnErrorAtTheDeadline) {
  FileStore store(path, {.lock_timeout = 20ms});
  const pid_t child = start([&] {
    FileStore own(path);
    own.set("on", "");
    for (;;) own.add("n", 1);
  });
  store.get("on", 60s);
  // Stopped at a random time; repeated until it holds the lock.
  bool is_stuck = false;
  for (int round = 0; round < 1000 && !is_stuck; ++round) {
    ::kill(child, SIGSTOP);
    int status = 0;
    ::waitpid(child, &status, WUNTRACED);
    try {
      store.set("mine", "1");
    } catch (const TimeoutError& error) {
      is_stuck = true;
      EXPECT_NE(error.message().find(".lock stayed locked for 20 ms"), std::string::npos) << error.message();
    }
    ::kill(child, SIGCONT);
  }
  EXPECT_TRUE(is_stuck);
  ::kill(child, SIGKILL);
  end_of(child);
  store.set("mine", "2");
}

TEST_F(FileStoreProcesses, SomeonesFilesAreNotTakenForValues) {
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  std::ofstream(path + "/thesis.txt") << "years of work";
  expect_error<IoError>([&] { FileStore store(path); }, {path, "name an empty or new directory"});
  EXPECT_TRUE(std::filesystem::exists(path + "/thesis.txt"));
}

TEST_F(FileStoreProcesses, ANewDirectoryIsForThisUserAlone) {
  const FileStore store(path + "/");
  struct stat info = {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
}

TEST_F(FileStoreProcesses, DirectoriesThatOthersCanWriteOrMadeAreRejected) {
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  for (const mode_t mode : {0770U, 0702U, 01777U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    expect_error<IoError>([&] { FileStore store(path); }, {path, "no other user may write", "chmod go-w"});
  }
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  { FileStore(path).set("a", "1"); }
  if (::geteuid() != 0) {
    expect_error<IoError>([&] { FileStore store("/"); }, {"must belong to user"});
  } else {
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
    expect_error<IoError>([&] { FileStore store(path); }, {"must belong to user 0, got user 12345"});
  }
}

TEST_F(FileStoreProcesses, LinksAreNotFollowed) {
  const std::string victim = base + "/victim";
  const auto content = [&] {
    std::ifstream in(victim);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  std::ofstream(victim) << "key\nvalue";
  std::filesystem::create_directory_symlink(base, base + "/link");
  expect_error<IoError>([&] { FileStore store(base + "/link"); }, {base + "/link", "not a symbolic link"});
  FileStore store(path);
  std::filesystem::create_symlink(victim, path + "/.aside");
  store.set("a", "1");
  EXPECT_EQ(content(), "key\nvalue") << "not written through a link";
  EXPECT_EQ(store.find("a"), "1");
  std::filesystem::create_symlink(victim, path + "/kkey");
  expect_error<IoError>([&] { (void)store.find("key"); }, {"reading kkey"});
  std::filesystem::remove(path + "/kkey");
  std::filesystem::remove(path + "/.lock");
  std::filesystem::create_symlink(base + "/made", path + "/.lock");
  expect_error<IoError>([&] { store.set("b", "1"); }, {"file store in " + path});
  EXPECT_FALSE(std::filesystem::exists(base + "/made"));
  std::filesystem::remove(path + "/.lock");
}

TEST_F(FileStoreProcesses, ValuesAreRegularFilesOfBoundedSize) {
  FileStore store(path);
  ASSERT_EQ(::mkfifo((path + "/kfifo").c_str(), 0600), 0);
  expect_error<IoError>([&] { (void)store.find("fifo"); }, {"kfifo must be a regular file"});
  std::ofstream(path + "/kbig") << "big\n";
  std::filesystem::resize_file(path + "/kbig", 64 << 20);
  expect_error<IoError>([&] { (void)store.find("big"); }, {"kbig must have at most"});
  const std::string key(Store::kMaxKeyBytes, 'k');
  const std::string value(Store::kMaxValueBytes, 'v');
  store.set(key, value);
  EXPECT_EQ(store.find(key), value);
}

TEST_F(FileStoreProcesses, DirectoriesThatCannotBeAreNamed) {
  std::ofstream(base + "/file") << "x";
  expect_error<IoError>([&] { FileStore store(base + "/file/below"); }, {base + "/file/below"});
  expect_error<IoError>([] { FileStore store("/proc/no/such"); }, {"/proc/no/such"});
  expect_error<InvalidArgument>([] { FileStore store(""); }, {"empty"});
}

TEST_F(FileStoreProcesses, OpeningAndLeavingTogetherLosesNothing) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(start([&] {
      for (int k = 0; k < 30; ++k) {
        FileStore own(path);
        own.set("a", "1");
        if (own.find("a") != "1") ::_exit(2);  // no process clears the store while this one uses it
      }
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(end_of(child), 0);
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace tessera::comm

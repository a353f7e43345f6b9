// Sources of the secret of a world, and worlds without one.
#include "tessera/comm/detail/world_secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/detail/proof.h"

namespace tessera::comm::detail {
namespace {

class WorldSecret : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_secret_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // Two ranks on each machine.
  static LaunchEnvironment ranks_on(int machines) {
    LaunchEnvironment launched;
    launched.place.world_size = 2 * machines;
    launched.place.local_world_size = 2;
    launched.store = "tcp://node1:29500";
    launched.is_rank_hosted = true;
    return launched;
  }
  [[nodiscard]] std::string user_directory() const { return directory_ + "/user"; }

  std::string directory_;
};

TEST_F(WorldSecret, AWorldOfOneMachineMakesOne) {
  const LaunchEnvironment launched = ranks_on(1);
  const std::string secret = world_secret(launched, user_directory());
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_EQ(world_secret(launched, user_directory()), secret) << "as the next rank finds it";
  struct stat info = {};
  ASSERT_EQ(::stat((user_directory() + "/store.secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(user_directory().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  EXPECT_NE(world_secret(launched, directory_ + "/other"), secret);
}

TEST_F(WorldSecret, JobsOfOneUserDiffer) {
  LaunchEnvironment launched = ranks_on(1);
  launched.job = "slurm 1.0";
  const std::string one = world_secret(launched, user_directory());
  launched.job = "slurm 2.0";
  EXPECT_NE(world_secret(launched, user_directory()), one);
}

TEST_F(WorldSecret, MachinesShareTheRunDirectory) {
  LaunchEnvironment launched = ranks_on(2);
  launched.place.run_dir = directory_ + "/runs/one";
  const std::string secret = world_secret(launched, user_directory());
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_EQ(world_secret(launched, directory_ + "/of another machine"), secret);
  struct stat info = {};
  ASSERT_EQ(::stat(launched.place.run_dir.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
}

TEST_F(WorldSecret, ARunDirectoryThatCannotBeMadeIsNamed) {
  LaunchEnvironment launched = ranks_on(2);
  launched.place.run_dir = directory_ + "/file/below";
  std::ofstream(directory_ + "/file") << "x";
  expect_error<IoError>([&] { world_secret(launched, user_directory()); },
                        {launched.place.run_dir, "TESSERA_STORE_SECRET"});
}

TEST_F(WorldSecret, RunsOfTorchrunDiffer) {
  const auto secret_of = [&](const std::string& id) {
    LaunchEnvironment launched = read_launch_environment({{"RANK", "0"},
                                                          {"WORLD_SIZE", "2"},
                                                          {"LOCAL_RANK", "0"},
                                                          {"LOCAL_WORLD_SIZE", "2"},
                                                          {"MASTER_ADDR", "localhost"},
                                                          {"MASTER_PORT", "29500"},
                                                          {"TORCHELASTIC_RUN_ID", id}});
    return world_secret(launched, user_directory());
  };
  const std::string one = secret_of("one");
  EXPECT_EQ(secret_of("one"), one);
  EXPECT_NE(secret_of("two"), one);
  EXPECT_LE(secret_of(std::string(1000, 'x')).size(), kMaxSecretBytes);
}

// TESSERA_STORE_INSECURE allows a store without a secret, but does not remove an existing one.
TEST_F(WorldSecret, AnInsecureWorldKeepsTheSecretThatItCanHave) {
  LaunchEnvironment launched = ranks_on(1);
  launched.is_insecure = true;
  EXPECT_EQ(world_secret(launched, user_directory()).size(), 64u);
  launched = ranks_on(2);
  launched.is_insecure = true;
  launched.place.run_dir = directory_ + "/runs/one";
  EXPECT_EQ(world_secret(launched, user_directory()).size(), 64u);
  launched.place.run_dir.clear();
  EXPECT_EQ(world_secret(launched, user_directory()), "");
  launched.is_rank_hosted = false;
  EXPECT_EQ(world_secret(launched, user_directory()), "");
  launched = ranks_on(1);
  launched.is_insecure = true;
  EXPECT_EQ(world_secret(launched, "/proc/no/such"), "");
}

TEST_F(WorldSecret, WithoutOneTheWorldDoesNotStart) {
  expect_error<InvalidArgument>([&] { world_secret(ranks_on(2), user_directory()); },
                                {"tcp://node1:29500 needs a secret, got none", "TESSERA_STORE_SECRET=$(openssl rand",
                                 "-x TESSERA_STORE_SECRET", "TESSERA_RUN_DIR", "TESSERA_STORE_INSECURE=1"});
  LaunchEnvironment hosted_elsewhere = ranks_on(1);
  hosted_elsewhere.is_rank_hosted = false;
  expect_error<InvalidArgument>([&] { world_secret(hosted_elsewhere, user_directory()); },
                                {"needs a secret, got none", "TESSERA_STORE_INSECURE=1"});
}

TEST_F(WorldSecret, GivenOnesAreTaken) {
  LaunchEnvironment launched = ranks_on(2);
  launched.secret = "mine";
  launched.job = "slurm 1.0";
  EXPECT_EQ(world_secret(launched, user_directory()), "mine");
  launched = ranks_on(2);
  launched.store = "file:///shared";
  EXPECT_EQ(world_secret(launched, user_directory()), "");
  EXPECT_FALSE(std::filesystem::exists(user_directory()));
}

TEST_F(WorldSecret, RanksThatComeAtOnceAgree) {
  std::vector<std::string> secrets(16);
  std::vector<std::thread> ranks;
  for (std::string& secret : secrets) ranks.emplace_back([&] { secret = shared_secret(directory_); });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(secrets, std::vector<std::string>(16, secrets[0]));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1) << "nothing else is left";
}

TEST_F(WorldSecret, FilesThatOthersCanReadOrMadeAreRejected) {
  const std::string path = directory_ + "/store.secret";
  std::ofstream(path) << std::string(64, 'a');
  ::chmod(path.c_str(), 0644);
  expect_error<IoError>([&] { shared_secret(directory_); }, {path, "mode 0644", "remove it", "TESSERA_STORE_SECRET"});
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(shared_secret(directory_), std::string(64, 'a'));
  std::ofstream(path) << "short";
  expect_error<IoError>([&] { shared_secret(directory_); }, {"must hold 64 bytes, got 5"});
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/etc/hostname", path);
  expect_error<IoError>([&] { shared_secret(directory_); }, {"cannot read", path});
  ::mkdir(user_directory().c_str(), 0755);
  expect_error<IoError>([&] { world_secret(ranks_on(1), user_directory()); }, {"must be a directory of user"});
}

}  // namespace
}  // namespace tessera::comm::detail

// The variables of each launcher, and the errors of invalid ones.
#include "tessera/comm/launch_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::comm {
namespace {

struct Good {
  std::string name;
  EnvironmentMap environment;
  std::string launcher;
  int rank, size, local_rank, local_size;
  std::string store;
  bool hosts_store;
};
void PrintTo(const Good& good, std::ostream* out) { *out << good.name; }

class Understood : public ::testing::TestWithParam<Good> {};

TEST_P(Understood, AsItIsMeant) {
  const Good& good = GetParam();
  const LaunchEnvironment read = read_launch_environment(good.environment);
  EXPECT_EQ(read.launcher, good.launcher);
  EXPECT_EQ(read.place.rank, Rank{good.rank});
  EXPECT_EQ(read.place.world_size, good.size);
  EXPECT_EQ(read.place.local_rank, good.local_rank);
  EXPECT_EQ(read.place.local_world_size, good.local_size);
  EXPECT_EQ(read.store, good.store);
  EXPECT_EQ(read.hosts_store, good.hosts_store);
  EXPECT_TRUE(read.is_rank_hosted || !read.hosts_store);
}

const EnvironmentMap kSlurm = {{"SLURM_PROCID", "3"},
                               {"SLURM_NTASKS", "64"},
                               {"SLURM_STEP_ID", "0"},
                               {"SLURM_STEP_NUM_TASKS", "5"},
                               {"SLURM_LOCALID", "1"},
                               {"SLURM_NODEID", "1"},
                               {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                               {"SLURM_JOB_ID", "123"},
                               {"SLURM_STEP_NODELIST", "gpu[07-09],login"}};

EnvironmentMap with(EnvironmentMap base, const EnvironmentMap& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

const EnvironmentMap kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "0"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                 {"PMIX_RANK", "0"},
                                 {"PMIX_NAMESPACE", "1840250881"}};

const std::vector<Good> kGood = {
    {"nothing", {}, "", 0, 1, 0, 1, "", false},
    {"a_world_of_one_said", {{"WORLD_SIZE", "1"}}, "", 0, 1, 0, 1, "", false},
    {"tessera_run",
     {{"RANK", "2"},
      {"WORLD_SIZE", "4"},
      {"LOCAL_RANK", "2"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "29501"},
      {"TESSERA_STORE", "tcp://127.0.0.1:29501"}},
     "tessera run",
     2,
     4,
     2,
     4,
     "tcp://127.0.0.1:29501",
     false},
    {"rank_zero_under_tessera_run_hosts_nothing",
     {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"TESSERA_STORE", "tcp://127.0.0.1:29501"}},
     "tessera run",
     0,
     4,
     0,
     4,
     "tcp://127.0.0.1:29501",
     false},
    {"torchrun_listens_at_its_own_port",
     {{"RANK", "0"},
      {"WORLD_SIZE", "8"},
      {"LOCAL_RANK", "0"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"MASTER_ADDR", "node1"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_RUN_ID", "none"}},
     "torchrun",
     0,
     8,
     0,
     4,
     "tcp://node1:29501",
     true},
    {"by_hand_on_one_machine",
     {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}},
     "the environment",
     1,
     2,
     1,
     2,
     "tcp://localhost:29500",
     false},
    {"by_hand_over_machines",
     {{"RANK", "3"},
      {"WORLD_SIZE", "4"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "fd00::1"},
      {"MASTER_PORT", "29500"}},
     "the environment",
     3,
     4,
     1,
     2,
     "tcp://[fd00::1]:29500",
     false},
    {"a_file_store",
     {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TESSERA_STORE", "file:///shared/run"}},
     "tessera run",
     0,
     2,
     0,
     2,
     "file:///shared/run",
     false},
    {"open_mpi_on_one_machine", kOpenMpi, "Open MPI", 0, 4, 0, 4, "tcp://127.0.0.1:15145", true},
    {"open_mpi_with_a_master",
     with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "3"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"PMIX_RANK", "3"},
                     {"MASTER_ADDR", "node1"},
                     {"MASTER_PORT", "5000"}}),
     "Open MPI", 3, 4, 1, 2, "tcp://node1:5000", false},
    {"pmi",
     {{"PMI_RANK", "1"},
      {"PMI_SIZE", "2"},
      {"MPI_LOCALRANKID", "0"},
      {"MPI_LOCALNRANKS", "1"},
      {"MASTER_ADDR", "node1"},
      {"MASTER_PORT", "5000"}},
     "PMI",
     1,
     2,
     0,
     1,
     "tcp://node1:5000",
     false},
    {"pmix_takes_its_size_from_the_environment",
     {{"PMIX_RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "5000"}},
     "PMIx",
     1,
     2,
     1,
     2,
     "tcp://localhost:5000",
     false},
    {"slurm", kSlurm, "Slurm", 3, 5, 1, 2, "tcp://gpu07:20790", false},
    {"slurm_last_node",
     with(kSlurm,
          {{"SLURM_PROCID", "4"}, {"SLURM_NODEID", "2"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NODELIST", "a,b[1-2]"}}),
     "Slurm", 4, 5, 0, 1, "tcp://a:20790", false},
    {"slurm_on_one_machine",
     with(kSlurm,
          {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "5"}}),
     "Slurm", 0, 5, 0, 5, "tcp://127.0.0.1:20790", true},
    {"a_batch_script_is_no_rank",
     {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "64"}, {"SLURM_JOB_ID", "123"}},
     "",
     0,
     1,
     0,
     1,
     "",
     false},
    {"tessera_run_inside_slurm",
     with(kSlurm, {{"RANK", "1"},
                   {"WORLD_SIZE", "5"},
                   {"LOCAL_RANK", "1"},
                   {"LOCAL_WORLD_SIZE", "5"},
                   {"TESSERA_STORE", "tcp://127.0.0.1:29501"}}),
     "tessera run", 1, 5, 1, 5, "tcp://127.0.0.1:29501", false},
    {"torchrun_inside_a_step_of_one",
     with(kSlurm, {{"SLURM_PROCID", "0"},
                   {"SLURM_STEP_NUM_TASKS", "1"},
                   {"RANK", "1"},
                   {"WORLD_SIZE", "2"},
                   {"LOCAL_RANK", "1"},
                   {"LOCAL_WORLD_SIZE", "2"},
                   {"MASTER_ADDR", "localhost"},
                   {"MASTER_PORT", "29400"},
                   {"TORCHELASTIC_RUN_ID", "x"}}),
     "torchrun", 1, 2, 1, 2, "tcp://localhost:29401", false},
    {"empty_values_are_none", {{"RANK", ""}, {"WORLD_SIZE", ""}, {"PMI_RANK", ""}}, "", 0, 1, 0, 1, "", false},
};

INSTANTIATE_TEST_SUITE_P(Launchers, Understood, ::testing::ValuesIn(kGood),
                         [](const auto& each) { return each.param.name; });

struct Bad {
  std::string name;
  EnvironmentMap environment;
  ErrorKind kind;
  std::vector<std::string> words;
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class Refused : public ::testing::TestWithParam<Bad> {};

TEST_P(Refused, WithTheNamesAndTheWayOut) {
  try {
    read_launch_environment(GetParam().environment);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), GetParam().kind) << error.what();
    for (const std::string& word : GetParam().words)
      EXPECT_NE(error.message().find(word), std::string::npos) << word << " is not in: " << error.message();
  }
}

constexpr ErrorKind kMissing = ErrorKind::kInvalidArgument;
constexpr ErrorKind kContradiction = ErrorKind::kMismatch;
const std::vector<Bad> kBad = {
    {"rank_without_size", {{"RANK", "1"}}, kMissing, {"RANK=1", "WORLD_SIZE", "tessera run"}},
    {"size_without_rank", {{"WORLD_SIZE", "4"}}, kMissing, {"WORLD_SIZE=4", "not RANK"}},
    {"no_number", {{"RANK", "one"}, {"WORLD_SIZE", "4"}}, kMissing, {"RANK='one'", "at least 0"}},
    {"negative", {{"RANK", "-1"}, {"WORLD_SIZE", "4"}}, kMissing, {"RANK='-1'"}},
    {"no_ranks", {{"RANK", "0"}, {"WORLD_SIZE", "0"}}, kMissing, {"WORLD_SIZE='0'", "at least 1"}},
    {"trailing", {{"RANK", "1 "}, {"WORLD_SIZE", "4"}}, kMissing, {"RANK='1 '"}},
    {"rank_beyond", {{"RANK", "4"}, {"WORLD_SIZE", "4"}}, kContradiction, {"RANK=4", "WORLD_SIZE=4", "[0, 3]"}},
    {"local_rank_beyond",
     {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
     kContradiction,
     {"LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"}},
    {"more_here_than_there_are",
     {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "8"}},
     kContradiction,
     {"LOCAL_WORLD_SIZE=8", "WORLD_SIZE=4"}},
    {"local_rank_alone",
     {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}},
     kMissing,
     {"LOCAL_RANK=0", "not LOCAL_WORLD_SIZE"}},
    {"local_size_alone",
     {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}},
     kMissing,
     {"LOCAL_WORLD_SIZE=2", "not LOCAL_RANK"}},
    {"local_place_unknown",
     {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "1"}},
     kMissing,
     {"MASTER_ADDR=node1", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}},
    {"no_master",
     {{"RANK", "1"}, {"WORLD_SIZE", "4"}},
     kMissing,
     {"MASTER_ADDR and MASTER_PORT are not set", "TESSERA_STORE"}},
    {"no_port",
     {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "localhost"}},
     kMissing,
     {"MASTER_PORT is not set"}},
    {"no_address", {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "1"}}, kMissing, {"MASTER_ADDR is not set"}},
    {"port_beyond",
     {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "70000"}},
     kMissing,
     {"MASTER_PORT='70000'", "65535"}},
    {"store_address",
     {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"TESSERA_STORE", "node1"}},
     kMissing,
     {"'node1'", "tcp://host:port"}},
    {"pmix_alone", {{"PMIX_RANK", "3"}}, kMissing, {"PMIX_RANK=3", "set WORLD_SIZE"}},
    {"open_mpi_over_machines",
     with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
     kMissing,
     {"Open MPI", "4 ranks", "mpirun -x MASTER_ADDR"}},
    {"exported_for_all",
     with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "3"}, {"RANK", "0"}, {"WORLD_SIZE", "4"}}),
     kContradiction,
     {"RANK=0", "OMPI_COMM_WORLD_RANK=3", "unset"}},
    {"slurm_list", with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(y2)"}}), kMissing, {"'2(y2)'", "2(x3),1"}},
};

INSTANTIATE_TEST_SUITE_P(Launchers, Refused, ::testing::ValuesIn(kBad),
                         [](const auto& each) { return each.param.name; });

TEST(LaunchEnvironment, JobsKeepApart) {
  const LaunchEnvironment one = read_launch_environment(kOpenMpi);
  const LaunchEnvironment other = read_launch_environment(with(kOpenMpi, {{"PMIX_NAMESPACE", "1840250882"}}));
  EXPECT_NE(one.store, other.store);
  EXPECT_NE(one.job, other.job);
  EXPECT_TRUE(one.secret.empty()) << "what other users can find out is no secret";
  EXPECT_EQ(read_launch_environment(with(kOpenMpi, {{"TESSERA_STORE_SECRET", "mine"}})).secret, "mine");
}

TEST(LaunchEnvironment, OfThisProcess) {
  ::setenv("RANK", "1", 1);
  ::setenv("WORLD_SIZE", "2", 1);
  ::setenv("TESSERA_STORE", "tcp://127.0.0.1:5", 1);
  ::setenv("TESSERA_STORE_SECRET", "sesame", 1);
  ::setenv("TESSERA_RUN_DIR", "/tmp/run", 1);
  const LaunchEnvironment read = read_launch_environment();
  for (const char* name : {"RANK", "WORLD_SIZE", "TESSERA_STORE", "TESSERA_STORE_SECRET", "TESSERA_RUN_DIR"})
    ::unsetenv(name);
  EXPECT_EQ(read.place.rank, Rank{1});
  EXPECT_EQ(read.place.run_dir, "/tmp/run");
  EXPECT_EQ(read.store, "tcp://127.0.0.1:5");
  EXPECT_EQ(read.secret, "sesame");
}

}  // namespace
}  // namespace tessera::comm

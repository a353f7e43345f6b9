// Tests `tessera view` from the command line, on the records of two ranks.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>

#include "tessera/cli/testing/run_program.h"
#include "tessera/cli/testing/simulated_run.h"

namespace tessera {
namespace {

using cli::testing::contains;
using cli::testing::content;
using cli::testing::Outcome;

class View : public cli::testing::SimulatedRun {
 protected:
  void SetUp() override {
    SimulatedRun::SetUp();
    work();
  }
};

TEST_F(View, WritesThePageToAFile) {
  const Outcome outcome = cli::testing::tessera("view " + run + " --out " + directory + "/page.html");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, directory + "/page.html\n");
  const std::string page = content(directory + "/page.html");
  EXPECT_TRUE(contains(page, "<!doctype html>"));
  EXPECT_TRUE(contains(page, "\"operation\":\"all_reduce\""));
}

TEST_F(View, SaysWhatIsWrong) {
  const Outcome none = cli::testing::tessera("view " + directory + "/none");
  EXPECT_EQ(none.code, 1);
  EXPECT_TRUE(contains(none.err, ": no such directory")) << none.err;
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(cli::testing::tessera("view " + run + " --bind nowhere").code, 2);
  for (const char* port : {"99999", "-1", "x", "80x"}) {
    const Outcome wrong = cli::testing::tessera("view " + run + " --port " + port);
    EXPECT_EQ(wrong.code, 2) << port;
    EXPECT_TRUE(contains(wrong.err, "--port: must be in [0, 65535], got ") &&
                contains(wrong.err, "0 selects a free port"))
        << wrong.err;
  }
  EXPECT_EQ(cli::testing::tessera("view").code, 1) << "there is no run under ./runs";
  EXPECT_EQ(cli::testing::tessera("view " + run + " --out " + directory + "/none/x.html").code, 1);
}

// Requests a page from 127.0.0.1.
std::string get_page(int port, const std::string& target) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const std::string request = "GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  EXPECT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string text;
  char part[4096];
  for (ssize_t count = 0; (count = ::read(fd, part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(count));
  ::close(fd);
  return text;
}

TEST_F(View, ServesThePageAtTheAddressThatItPrintsUntilItIsTold) {
  int out[2];
  ASSERT_EQ(::pipe2(out, O_CLOEXEC), 0);
  // Replaces the browser: stores the file that it is to open, and signals it.
  std::ofstream(directory + "/xdg-open") << "#!/bin/sh\nstat -c %a \"$1\" > " << directory << "/mode\ncp \"$1\" "
                                         << directory << "/opening && mv " << directory << "/opening " << directory
                                         << "/opened\necho \"$1\"\n";
  std::filesystem::permissions(directory + "/xdg-open", std::filesystem::perms::owner_all);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], 1);
    ::setenv("PATH", (directory + ":" + std::getenv("PATH")).c_str(), 1);
    ::setenv("XDG_RUNTIME_DIR", directory.c_str(), 1);
    ::execl(TESSERA_PROGRAM, TESSERA_PROGRAM, "view", run.c_str(), "--open", nullptr);
    ::_exit(127);
  }
  ::close(out[1]);
  std::FILE* lines = ::fdopen(out[0], "r");
  int port = 0;
  char target[200] = {};
  char opened[200] = {};
  EXPECT_EQ(std::fscanf(lines, "http://127.0.0.1:%d%199s\n%199s", &port, target, opened), 3);
  EXPECT_TRUE(std::string(target).starts_with("/?token=")) << target;
  EXPECT_TRUE(contains(content(directory + "/opened"), ":" + std::to_string(port) + target)) << opened;
  EXPECT_EQ(content(directory + "/mode"), "600\n");
  EXPECT_TRUE(get_page(port, "/").starts_with("HTTP/1.1 403 ")) << "another user of this machine";
  const std::string text = get_page(port, target);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK")) << text.substr(0, 200);
  EXPECT_TRUE(contains(text, "</html>"));
  ::kill(child, SIGTERM);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_FALSE(std::filesystem::exists(opened)) << "the token is left in no file";
  std::fclose(lines);
}

// A training run, and the line with the path of its report.
TEST_F(View, TrainingLeavesThePageInItsRunDirectoryAndSaysWhere) {
  std::ofstream text(directory + "/text");
  for (int line = 0; line < 400; ++line)
    text << "line " << line << " of a text that says little\n";  // words: data of the run
  text.close();
  const std::string small =
      " --model.width 32 --model.layers 1 --model.hidden 32 --model.sequence 16 --train.steps 2 --data.files " +
      directory + "/text --eval.samples 8 --run.directory " + directory;
  const std::string said = "report: " + directory + "/";
  const Outcome several = cli::testing::tessera("train -n 2" + small + "/several");
  ASSERT_EQ(several.code, 0) << several.err;
  EXPECT_TRUE(several.out.ends_with(said + "several/report.html\n")) << several.out;
  const std::string page = content(directory + "/several/report.html");
  EXPECT_TRUE(contains(page, "\"state\":\"done\"")) << "made when all had ended";
  EXPECT_TRUE(contains(page, "\"missing\":[]"));
  const Outcome alone = cli::testing::tessera("train" + small + "/alone");
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_TRUE(alone.out.ends_with(said + "alone/report.html\n")) << alone.out;
}

}  // namespace
}  // namespace tessera

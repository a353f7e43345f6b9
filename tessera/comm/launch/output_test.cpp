// Lines of output: split from arbitrary chunks, complete, with their rank, to the right descriptor.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "tessera/comm/launch/detail/output.h"
#include "tessera/comm/store/descriptor.h"

namespace tessera::comm::detail {
namespace {

std::vector<std::string> cut(std::string_view bytes, std::size_t piece) {
  LineCutter cutter;
  std::vector<std::string> lines;
  const auto line = [&](std::string_view text) { lines.emplace_back(text); };
  while (!bytes.empty()) {
    cutter.feed(bytes.substr(0, piece), line);
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  cutter.finish(line);
  return lines;
}

TEST(LineCutter, CutsTheSameFromAnyPieces) {
  const std::string bytes = "one\ntwo\r\n\nthree\rfour\r\r\nno end";
  const std::vector<std::string> lines = {"one", "two", "", "three", "four", "", "no end"};
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) EXPECT_EQ(cut(bytes, piece), lines) << piece;
  EXPECT_EQ(cut("", 1), std::vector<std::string>{});
  EXPECT_EQ(cut("a\n", 1), std::vector<std::string>{"a"}) << "nothing is left after the last end";
}

TEST(LineCutter, CutsLinesThatNeverEnd) {
  const std::vector<std::string> lines = cut(std::string(2 * LineCutter::kMaxLineBytes + 5, 'x'), 65536);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].size(), LineCutter::kMaxLineBytes);
  EXPECT_EQ(lines[2].size(), 5u);
}

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    from.reset(ends[0]);
    to.reset(ends[1]);
  }
  std::string content() {
    to.reset();
    std::string text;
    char piece[4096];
    for (ssize_t got = 0; (got = ::read(from.get(), piece, sizeof piece)) > 0;)
      text.append(piece, static_cast<std::size_t>(got));
    return text;
  }
  Descriptor from;
  Descriptor to;
};

void write_all(Output& output) {
  while (!output.waiting().empty()) {
    for (const int fd : output.waiting()) output.write_some(fd);
  }
}

TEST(Output, KeepsStdoutAndStderrApart) {
  Pipe out;
  Pipe err;
  Output output(out.to.get(), err.to.get(), 12);
  output.line(3, false, "to out");
  output.line(11, true, "to err");
  output.say("hello");
  output.set_status("a status is for terminals");
  EXPECT_FALSE(output.has_status());
  write_all(output);
  EXPECT_EQ(out.content(), "[ 3] to out\n");
  EXPECT_EQ(err.content(), "[11] to err\ntessera run: hello\n");
}

TEST(Output, KeepsTheOrderWhereBothAreOneFile) {
  Pipe both;
  Descriptor again(::dup(both.to.get()));
  Output output(both.to.get(), again.get(), 2);
  for (int i = 0; i < 3; ++i) output.line(i % 2, i % 2 == 1, std::to_string(i));
  EXPECT_EQ(output.waiting().size(), 1u);
  write_all(output);
  again.reset();
  EXPECT_EQ(both.content(), "[0] 0\n[1] 1\n[0] 2\n");
}

TEST(Output, IsFullUntilItIsRead) {
  Pipe out;
  Pipe err;
  Output output(out.to.get(), err.to.get(), 1);
  EXPECT_FALSE(output.is_full());
  while (!output.is_full()) output.line(0, false, std::string(1000, 'x'));
  output.write_some(out.to.get());
  EXPECT_FALSE(output.waiting().empty());
}

TEST(Output, NoticesThatNobodyReads) {
  Pipe out;
  Pipe err;
  Output output(out.to.get(), err.to.get(), 1);
  ::signal(SIGPIPE, SIG_IGN);
  out.from.reset();
  output.line(0, false, "to nobody");
  write_all(output);
  EXPECT_TRUE(output.is_broken());
  output.line(0, false, "is not kept");
  EXPECT_TRUE(output.waiting().empty());
  ::signal(SIGPIPE, SIG_DFL);
}

TEST(Output, OnATerminalHasColourAndAStatusBelow) {
  const Descriptor outer(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!outer || ::grantpt(outer.get()) != 0 || ::unlockpt(outer.get()) != 0)
    GTEST_SKIP() << "there are no pseudo-terminals here";
  const Descriptor inner(::open(::ptsname(outer.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(inner);
  Output output(inner.get(), inner.get(), 2);
  EXPECT_TRUE(output.has_status());
  output.set_status("2 of 2 running");
  write_all(output);
  output.line(1, false, "hello");
  write_all(output);
  output.set_status("");
  write_all(output);
  const std::string expected = "2 of 2 running\r\x1b[2K\x1b[33m[1]\x1b[0m hello\r\n2 of 2 running\r\x1b[2K";
  std::string seen;
  char piece[4096];
  while (seen.size() < expected.size()) {  // a terminal delivers it in chunks
    const ssize_t got = ::read(outer.get(), piece, sizeof piece);
    ASSERT_GT(got, 0) << seen;
    seen.append(piece, static_cast<std::size_t>(got));
  }
  EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace tessera::comm::detail

// The fixture of the device suite.
#include "tessera/device/suite/device_suite.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace tessera::device::suite {

namespace {

constexpr const char* kChildVariable = "DEVICE_SUITE_CHILD_FD";
constexpr std::size_t kPinnedNbytes = 64 << 10;

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

// Work that cannot be stopped would hang the destruction of the device and hide the name of the case.
[[noreturn]] void end_now(const Stream& stream, const std::exception& error) {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  std::printf("%s did not end: %s\n[  FAILED  ] %s.%s\n", stream.name().c_str(), error.what(), info->test_suite_name(),
              info->name());
  std::fflush(stdout);
  std::_Exit(1);
}

bool is_over(const Stream& stream) {
  try {
    return stream.query();
  } catch (const std::exception&) {  // the timeout of a hold was parked, not that of the wait
    return true;
  }
}

LaunchConfig small_grid() { return {.grid = {1, 1, 1}, .block = {64, 1, 1}, .shared_nbytes = 0, .spins = false}; }

}  // namespace

void DeviceSubject::run_together(std::vector<std::function<void()>> bodies) {
  std::vector<std::thread> threads;
  for (auto& body : bodies) threads.emplace_back(body);
  for (auto& thread : threads) thread.join();
}

void DeviceSuite::SetUp() {
  std::string why;
  subject_ = GetParam().open(why);
  if (!subject_) GTEST_SKIP() << why;
  device = subject_->device();
  const std::size_t nbytes = round_up(1 << 20, device.properties().granularity);
  range_ = device.reserve(nbytes);
  range_.map(0, device.create_memory(nbytes));
  pinned_ = device.allocate_pinned(kPinnedNbytes);
  std::memset(pinned_.data(), 0, kPinnedNbytes);
  reader_ = device.create_stream({.name = "reader"});
  reader_.fill(range_.data(), 0, 4, nbytes / 4);
  finish(reader_);
  stream = subject_->first_stream();
  streams_.push_back(stream);
}

void DeviceSuite::let_go() noexcept {
  for (const Hold& held : holds_) held.release();
  for (const auto& [at, value] : words_) store(at, value);
}

void DeviceSuite::TearDown() {
  if (!subject_) return;
  device.faults().clear();
  device.faults().count_calls(false);
  for (const Stream& each : streams_) {
    try {
      each.abort_capture();
    } catch (const std::exception& error) {
      ADD_FAILURE() << each.name() << ": abort_capture: " << error.what();
    }
  }
  let_go();
  for (const Stream& each : streams_) {
    try {
      each.synchronize(kSoon);
    } catch (const TimeoutError& error) {
      if (!is_over(each)) end_now(each, error);
    } catch (const std::exception&) {  // errors that a case parked do not matter here
    }
    try {
      each.reset_error();
    } catch (const std::exception&) {  // a lost device cannot be reset
    }
  }
  holds_.clear();
  streams_.clear();
  stream.reset();
}

Stream DeviceSuite::make_stream(const std::string& name, StreamOptions options) {
  if (!name.empty()) options.name = name;
  streams_.push_back(device.create_stream(options));
  return streams_.back();
}

Hold DeviceSuite::hold(const Stream& which) {
  holds_.push_back(which.hold(kHoldLimit));
  return holds_.back();
}

bool DeviceSuite::is_stuck(const Stream& which) {
  try {
    which.synchronize(kGlimpse);
  } catch (const TimeoutError&) {
    return true;
  }
  return false;
}

bool DeviceSuite::is_stuck(const Event& which) {
  try {
    which.synchronize(kGlimpse);
  } catch (const TimeoutError&) {
    return true;
  }
  return false;
}

DeviceInts DeviceSuite::ints(int count, int value) {
  const DeviceInts made{reinterpret_cast<int*>(range_.data() + range_used_), count};
  range_used_ = round_up(range_used_ + made.nbytes(), 256);
  EXPECT_LE(range_used_, range_.nbytes());
  if (value != 0) {
    reader_.fill(made.data, static_cast<std::uint32_t>(value), 4, static_cast<std::size_t>(count));
    finish(reader_);
  }
  return made;
}

int* DeviceSuite::pinned_ints(int count) {
  auto* made = reinterpret_cast<int*>(pinned_.data() + pinned_used_);
  pinned_used_ = round_up(pinned_used_ + static_cast<std::size_t>(count) * sizeof(int), 64);
  EXPECT_LE(pinned_used_, pinned_.nbytes());
  return made;
}

std::uint64_t* DeviceSuite::word(std::uint64_t let_go) {
  auto* made = reinterpret_cast<std::uint64_t*>(pinned_ints(2));
  words_.emplace_back(made, let_go);
  return made;
}

std::vector<int> DeviceSuite::read(const DeviceInts& from) {
  const std::size_t used = pinned_used_;
  int* staging = pinned_ints(from.count);
  reader_.copy(staging, from.data, from.nbytes());
  finish(reader_);
  pinned_used_ = used;
  return {staging, staging + from.count};
}

void DeviceSuite::fill(const Stream& on, const DeviceInts& to, int value, std::string_view label) {
  on.launch(subject_->kernel("fill_ints"), small_grid(), KernelArgs(to.data, to.count, value), {.label = label});
}

void DeviceSuite::add(const Stream& on, const DeviceInts& to, int value, std::string_view label) {
  on.launch(subject_->kernel("add_ints"), small_grid(), KernelArgs(to.data, to.count, value), {.label = label});
}

void DeviceSuite::copy(const Stream& on, const DeviceInts& to, const DeviceInts& from, std::string_view label) {
  const int* source = from.data;
  on.launch(subject_->kernel("copy_ints"), small_grid(), KernelArgs(to.data, source, to.count), {.label = label});
}

void DeviceSuite::slow_add(const Stream& on, const DeviceInts& to, int value, std::chrono::nanoseconds busy) {
  const auto nanoseconds = static_cast<std::uint64_t>(busy.count());
  on.launch(subject_->kernel("slow_add_ints"), small_grid(), KernelArgs(to.data, to.count, value, nanoseconds),
            {.label = "slow_add_ints"});
}

void DeviceSuite::fail_kernel(const Stream& on) {
  on.launch(subject_->kernel("fail"), {}, KernelArgs(), {.label = "fail"});
}

void DeviceSuite::fail_host(const Stream& on, const std::string& text) {
  on.run([text] { TESSERA_THROW(DeviceError, "on purpose: ", text); }, {.label = "fail_host"});
}

void DeviceSuite::note(const Stream& on, const std::string& text) {
  on.run(
      [kept = journal_, text] {
        const std::lock_guard lock(kept->mutex);
        kept->lines.push_back(text);
      },
      {.label = text});
}

void DeviceSuite::unseen_note(void* native_stream, const std::string& text) {
  subject_->launch_unseen(native_stream, [kept = journal_, text] {
    const std::lock_guard lock(kept->mutex);
    kept->lines.push_back(text);
  });
}

std::vector<std::string> DeviceSuite::journal() const {
  const std::lock_guard lock(journal_->mutex);
  return journal_->lines;
}

bool DeviceSuite::is_child() { return std::getenv(kChildVariable) != nullptr; }

int DeviceSuite::child_fd() { return std::atoi(std::getenv(kChildVariable)); }

namespace {

// Replaces this (forked) process by the case; must not allocate or take a lock.
[[noreturn]] void become_child(char* const* arguments, char* const* environment, int fd, int output) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
  ::execve("/proc/self/exe", arguments, environment);
  ::_exit(127);
}

}  // namespace

ChildEnd DeviceSuite::run_child(int fd) {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  std::string filter = std::string("--gtest_filter=") + info->test_suite_name() + "." + info->name();
  std::string program = "device_suite_child";
  std::string role = kChildVariable;
  role.append("=").append(std::to_string(fd));
  char* arguments[] = {program.data(), filter.data(), nullptr};
  std::string no_record = "TESSERA_RECORD=off";      // a child that dies would leave its record file
  std::vector<char*> environment{no_record.data()};  // the first entry of a name counts
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  environment.push_back(role.data());
  environment.push_back(nullptr);

  const int output = ::memfd_create("device_suite_child", MFD_CLOEXEC);
  const pid_t child = ::fork();
  if (child == 0) become_child(arguments, environment.data(), fd, output);
  int status = 0;
  ::waitpid(child, &status, 0);

  ChildEnd end;
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  char text[4096];
  ssize_t got = 0;
  ::lseek(output, 0, SEEK_SET);
  while ((got = ::read(output, text, sizeof text)) > 0) end.output.append(text, static_cast<std::size_t>(got));
  ::close(output);
  return end;
}

bool DeviceSuite::ran_in_child_if_lossy() {
  if (!device.properties().is_lossy_on_error || is_child()) return false;
  const ChildEnd end = run_child();
  EXPECT_EQ(end.exit_code, 0) << end.output;
  return true;
}

}  // namespace tessera::device::suite

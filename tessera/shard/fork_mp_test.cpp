// Tensors and graphs in a forked child: operators on inherited tensors throw, and the child can create new ones.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/device/device.h"
#include "tessera/device/graph.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {
namespace {

// Returns true if `use` throws an error that names the fork.
bool is_rejected(const std::function<void()>& use) {
  try {
    use();
  } catch (const NotSupported& error) {
    return error.message().find("forked child") != std::string::npos;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return false;
}

// Runs `body` in a forked child without exit handlers. Returns 0 if it returned true.
int status_in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool is_right = false;
    try {
      is_right = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "forked child: %s\n", error.what());
    }
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(ForkedChild, OperatorsOnInheritedTensorsThrow) {
  const Tensor x = ops::full({4}, 2.0F);
  const Tensor one = ops::full({}, 3.0F);
  EXPECT_EQ(status_in_child([&] {
              return is_rejected([&] { (void)ops::add(x, x); }) && is_rejected([&] { (void)ops::item(one); }) &&
                     is_rejected([&] { (void)ops::add(x, ops::full({4}, 1.0F)); });
            }),
            0);
  EXPECT_EQ(ops::item(ops::add(one, one)).as_double(), 6);
}

TEST(ForkedChild, InheritedGraphsThrow) {
  const device::Stream stream = device::Device::get("host").create_stream();
  stream.begin_capture();
  stream.run([] {});
  const device::Graph graph = stream.end_capture();
  const device::GraphExec exec = graph.instantiate();
  EXPECT_EQ(status_in_child([&] {
              return is_rejected([&] { (void)graph.instantiate(); }) && is_rejected([&] { exec.launch(stream); });
            }),
            0);
  exec.launch(stream);
  stream.synchronize();
}

TEST(ForkedChild, MakesTensorsOfItsOwn) {
  const Tensor x = ops::full({}, 2.0F);
  EXPECT_EQ(status_in_child([] {
              const Tensor own = ops::full({}, 5.0F);
              return ops::item(ops::add(own, own)).as_double() == 10;
            }),
            0);
  EXPECT_EQ(ops::item(x).as_double(), 2);
}

}  // namespace
}  // namespace tessera::shard

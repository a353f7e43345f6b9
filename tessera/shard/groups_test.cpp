#include "tessera/shard/groups.h"

#include <gtest/gtest.h>

#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera::shard {
namespace {

using layout::Mesh;
using layout::SubAxis;

std::vector<int> along(const Mesh& mesh, const std::vector<SubAxis>& axes, int rank) {
  std::vector<int> ranks;
  for (const Rank each : ranks_along(mesh, axes, Rank(rank))) ranks.push_back(each.value());
  return ranks;
}

TEST(Groups, AreTheRanksThatDifferAlongTheAxesAlone) {
  const Mesh mesh = Mesh::parse("dp=2,tp=4");
  EXPECT_EQ(along(mesh, {{1, 1, 4}}, 6), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(along(mesh, {{0, 1, 2}}, 6), (std::vector<int>{2, 6}));
  EXPECT_EQ(along(mesh, {{0, 1, 2}, {1, 1, 4}}, 6), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(along(mesh, {{1, 1, 4}, {0, 1, 2}}, 6), (std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(along(mesh, {}, 6), (std::vector<int>{6}));
}

TEST(Groups, OfPartsOfAnAxisGoByItsDigits) {
  const Mesh mesh = Mesh::parse("x=12");  // factored as 2 x 3 x 2
  EXPECT_EQ(along(mesh, {{0, 1, 2}}, 3), (std::vector<int>{3, 9}));
  EXPECT_EQ(along(mesh, {{0, 2, 3}}, 3), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(along(mesh, {{0, 6, 2}}, 3), (std::vector<int>{2, 3}));
  EXPECT_EQ(along(mesh, {{0, 6, 2}, {0, 1, 2}}, 3), (std::vector<int>{2, 8, 3, 9}));
  EXPECT_EQ(along(Mesh::create({{"x", 4}}, Rank(3)), {{0, 2, 2}}, 5), (std::vector<int>{5, 6}));
}

TEST(Groups, RejectPartsWhoseProductOverflows) {
  const Mesh mesh = Mesh::parse("dp=2,tp=4");
  constexpr std::int64_t kHalf = std::int64_t{1} << 32;  // the product of two is 0 in 64 bits
  expect_error<InvalidArgument>([&] { (void)along(mesh, {{1, kHalf, kHalf}}, 6); }, {"must divide the axis of 4"});
  expect_error<InvalidArgument>([&] { (void)along(mesh, {{1, 0, 4}}, 6); }, {"0 x 4 must divide the axis of 4"});
  expect_error<InvalidArgument>([&] { (void)along(mesh, {{1, 1, 0}}, 6); }, {"1 x 0 must divide the axis of 4"});
}

TEST(Groups, RefuseWhatIsNoPartOfTheMesh) {
  const Mesh mesh = Mesh::parse("x=4");
  expect_error<InvalidArgument>([&] { (void)along(mesh, {{1, 1, 2}}, 0); }, {"axis must be in [0, 1), got 1"});
  expect_error<InvalidArgument>([&] { (void)along(mesh, {{0, 1, 3}}, 0); }, {"1 x 3", "axis of 4"});
  expect_error<InvalidArgument>([&] { (void)along(mesh, {{0, 1, 2}, {0, 1, 4}}, 0); }, {"'x'", "twice"});
  expect_error<InvalidArgument>([&] { (void)along(mesh, {{0, 1, 2}}, 4); }, {"4"});
}

TEST(Groups, TakeTheOptionsOfTheirAxes) {
  const Mesh mesh = Mesh::create({{"a", 2, layout::Link::kMemory, {{"backend", "shm"}, {"deadline_ms", "250"}}},
                                  {"b", 2, layout::Link::kMemory, {{"fixed_order", "false"}}},
                                  {"c", 2, layout::Link::kMemory, {{"backend", "mpi"}}}});
  const std::vector<SubAxis> ab = {{0, 1, 2}, {1, 1, 2}};
  const comm::GroupOptions options = group_options(mesh, ab);
  EXPECT_EQ(options.backend, "shm");
  EXPECT_EQ(options.deadline, std::chrono::milliseconds(250));
  EXPECT_EQ(options.fixed_order, false);
  const std::vector<SubAxis> ac = {{0, 1, 2}, {2, 1, 2}};
  expect_error<InvalidArgument>([&] { (void)group_options(mesh, ac); },
                                {"'a' and 'c'", "same backend, got shm and mpi"});
}

TEST(Groups, RefuseOptionsThatThereAreNot) {
  const auto options_of = [](const char* name, const char* value) {
    const Mesh mesh = Mesh::create({{"tp", 2, layout::Link::kMemory, {{name, value}}}});
    const std::vector<SubAxis> axes = {{0, 1, 2}};
    return group_options(mesh, axes);
  };
  expect_error<InvalidArgument>([&] { (void)options_of("backnd", "shm"); }, {"'tp'", "'backnd'", "'backend'"});
  expect_error<InvalidArgument>([&] { (void)options_of("deadline_ms", "5s"); },
                                {"'tp'", "deadline_ms must be an integer", "5s"});
  expect_error<InvalidArgument>([&] { (void)options_of("deadline_ms", "0"); }, {"at least 1"});
  expect_error<InvalidArgument>([&] { (void)options_of("fixed_order", "yes"); }, {"yes", "true or false"});
}

TEST(Groups, AreMadeOnceForTheSameRanks) {
  simulate(4, [] {
    const Mesh flat = Mesh::parse("x=4");
    const Mesh square = Mesh::parse("a=2,b=2");
    const std::vector<SubAxis> all = {{0, 1, 4}};
    const std::vector<SubAxis> both = {{0, 1, 2}, {1, 1, 2}};
    const std::vector<SubAxis> swapped = {{1, 1, 2}, {0, 1, 2}};
    const std::vector<SubAxis> minor = {{0, 2, 2}};
    const std::vector<SubAxis> b = {{1, 1, 2}};
    const comm::ProcessGroup& group = group_along(flat, all);
    EXPECT_EQ(&group_along(flat, all), &group);
    EXPECT_EQ(&group_along(square, both), &group);
    EXPECT_EQ(&group_of_mesh(square), &group);
    EXPECT_NE(&group_along(square, swapped), &group);
    EXPECT_EQ(&group_along(square, b), &group_along(flat, minor));
    EXPECT_EQ(group_along(square, b).size(), 2);
    std::int64_t sum = 1;
    const device::Stream stream = device::Device::get("host").default_stream();
    group.all_reduce(&sum, &sum, 1, DType::kI64, {}, stream).wait();
    EXPECT_EQ(sum, 4);
  });
}

TEST(Groups, OfAMeshThatIsNotTheWorldAreForItsRanks) {
  simulate(3, [] {
    const Mesh mesh = Mesh::create({{"x", 2}}, Rank(1));
    if (current_place().rank == Rank(0)) {
      expect_error<InvalidArgument>([&] { (void)group_of_mesh(mesh); }, {"rank 0"});
    } else {
      EXPECT_EQ(group_of_mesh(mesh).ranks(), (std::vector<Rank>{Rank(1), Rank(2)}));
    }
  });
}

}  // namespace
}  // namespace tessera::shard

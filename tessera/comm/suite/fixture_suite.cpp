#include <cstring>
#include <numeric>
#include <random>

#include "tessera/comm/detail/group_state.h"
#include "tessera/comm/reduction.h"
#include "tessera/comm/suite/comm_suite.h"
#include "tessera/memory/allocator.h"

namespace tessera::comm::suite {

CaseRank::CaseRank(const CommImplementation& implementation)
    : group(world()), host(device::Device::get(implementation.device)), stream(host.default_stream()) {
  if (implementation.device != "host") {
    std::vector<int> all(static_cast<std::size_t>(group.size()));
    std::iota(all.begin(), all.end(), 0);
    group = group.subgroup(all, {.name = "world", .backend = implementation.backend});
    // All ranks share the default stream.
    stream = host.create_stream({.name = "rank " + std::to_string(group.rank())});
  }
  // Bounds hangs; a scheduler reports them anyway.
  if (group.deadline() != device::kForever) group.set_deadline(kSoon);
}

const Capabilities& CaseRank::can() const { return group.state()->communicator->capabilities(); }

Room::Room(const CaseRank& member, Where where, std::size_t nbytes) : nbytes_(nbytes) {
  if (nbytes == 0) return;
  if (member.host.properties().kind != "host") {
    buffer_ = memory::Allocator::pinned_of(member.host).allocate(nbytes, member.stream);
    buffer_.use_on(member.stream);
    data_ = buffer_.data();
  } else if (where == Where::kDevice) {
    buffer_ = memory::Allocator::of(member.host).allocate(nbytes, member.stream);
    data_ = buffer_.data();
  } else {
    heap_ = std::make_unique<std::byte[]>(nbytes);
    data_ = heap_.get();
  }
  std::memset(data_, 0xCD, nbytes);
}

Longs::Longs(const CaseRank& member, std::initializer_list<std::int64_t> values)
    : room_(member, Where::kDevice, values.size() * sizeof(std::int64_t)) {
  std::copy(values.begin(), values.end(), data());
}

Ints::Ints(const CaseRank& member, Where where, std::int64_t count)
    : room_(member, where, static_cast<std::size_t>(count) * sizeof(std::int32_t)), count_(count) {
  std::fill_n(data(), count, -1);
}

Ints& Ints::number(int rank) {
  for (std::int64_t i = 0; i < count_; ++i) data()[i] = value(rank, i);
  return *this;
}

void Ints::expect_from(int rank, std::int64_t from, std::int64_t first, std::int64_t count) const {
  for (std::int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(data()[first + i], value(rank, from + i)) << "element " << first + i << " of " << count_;
  }
}

void Ints::expect_untouched(std::int64_t first, std::int64_t count) const {
  for (std::int64_t i = first; i < first + count; ++i) ASSERT_EQ(data()[i], -1) << "element " << i << " of " << count_;
}

namespace {

template <class T>
void fill_floats(std::mt19937& random, std::int64_t count, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double magnitude = static_cast<double>(random() % 1000) / 100 - 5;
    const double value = (static_cast<double>(random()) / 2147483648.0 - 1) * std::exp2(magnitude);
    reinterpret_cast<T*>(to)[i] = static_cast<T>(static_cast<float>(value));
  }
}

}  // namespace

void fill_random(DType dtype, int rank, std::int64_t count, std::byte* to) {
  std::mt19937 random(static_cast<unsigned>(rank) * 7919 + 1);
  switch (dtype) {
    case DType::kF32: return fill_floats<float>(random, count, to);
    case DType::kC64: return fill_floats<float>(random, 2 * count, to);
    case DType::kF64: return fill_floats<double>(random, count, to);
    case DType::kC128: return fill_floats<double>(random, 2 * count, to);
    case DType::kF16: return fill_floats<f16>(random, count, to);
    case DType::kBF16: return fill_floats<bf16>(random, count, to);
    default: break;
  }
  const auto nbytes = static_cast<std::size_t>(count) * itemsize(dtype);
  for (std::size_t i = 0; i < nbytes; ++i)
    to[i] = static_cast<std::byte>(dtype == DType::kBool ? random() % 2 : random());
}

std::vector<std::byte> folded(DType dtype, const ReduceOp& reduction, int ranks, std::int64_t count) {
  const std::size_t nbytes = static_cast<std::size_t>(count) * itemsize(dtype);
  std::vector<std::vector<std::byte>> given(static_cast<std::size_t>(ranks), std::vector<std::byte>(nbytes));
  std::vector<const std::byte*> in;
  for (int rank = 0; rank < ranks; ++rank) {
    fill_random(dtype, rank, count, given[static_cast<std::size_t>(rank)].data());
    in.push_back(given[static_cast<std::size_t>(rank)].data());
  }
  std::vector<std::byte> result(nbytes);
  std::byte* out = result.data();
  fold(dtype, reduction, in, std::span(&out, 1), count);
  return result;
}

void CommSuite::on_ranks(int ranks, bool Capabilities::*needs, const std::function<void(CaseRank&)>& body) {
  GetParam().run(ranks, [&] {
    CaseRank member(GetParam());
    if (ranks > 1) {
      ASSERT_EQ(member.group.backend(), GetParam().backend);
    }
    if (needs != nullptr && !(member.can().*needs)) throw Lacking{GetParam().name + " declares that it cannot"};
    body(member);
    // A shared device has work of other ranks, which may wait for this rank to end.
    if (GetParam().device == "host") {
      member.host.synchronize();
    } else {
      member.stream.synchronize();
    }
  });
}

}  // namespace tessera::comm::suite

// Results of reductions, compared with plain loops; and collectives in place.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <span>

#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

// Reduces the values `give(rank, i)` of all ranks, and compares element i with `expected(i)`.
template <class T, class Give, class Expected>
void expect_reduced(const CaseRank& member, DType dtype, const ReduceOp& reduction, const Give& give,
                    const Expected& expected) {
  for (const std::int64_t count : {5, 6001}) {
    const Room x(member, Where::kDevice, static_cast<std::size_t>(count) * sizeof(T));
    auto* values = reinterpret_cast<T*>(x.data());
    for (std::int64_t i = 0; i < count; ++i) values[i] = give(member.rank(), i);
    member.group.all_reduce(values, values, count, dtype, reduction, member.stream).wait();
    for (std::int64_t i = 0; i < count; ++i) {
      const T wanted = expected(i);
      const auto is_same_bits =
          std::ranges::equal(std::as_bytes(std::span(&values[i], 1)), std::as_bytes(std::span(&wanted, 1)));
      ASSERT_TRUE(is_same_bits) << "element " << i << " of " << count;
    }
  }
}

Operation in_place(OpKind kind, const Ints& x, std::int64_t in, std::int64_t out, std::int64_t count) {
  return {.kind = kind, .dtype = DType::kI32, .in = x.bytes() + 4 * in, .out = x.bytes() + 4 * out, .count = count};
}

}  // namespace

TEST_P(CommSuite, PremultipliedSumsScaleEveryInput) {
  on_ranks(3, [](CaseRank& member) {
    const auto give = [](int rank, std::int64_t i) { return static_cast<float>(rank + 1) * static_cast<float>(i); };
    expect_reduced<float>(member, DType::kF32, {Reduction::kPremultiply, 0.25}, give,
                          [&](std::int64_t i) { return 0.25F * give(0, i) + 0.25F * give(1, i) + 0.25F * give(2, i); });
  });
}

TEST_P(CommSuite, AveragesDivideTheSumOnce) {
  on_ranks(3, [](CaseRank& member) {
    const auto give = [](int rank, std::int64_t i) { return static_cast<double>(rank) + 0.1 * static_cast<double>(i); };
    expect_reduced<double>(member, DType::kF64, {Reduction::kAvg}, give,
                           [&](std::int64_t i) { return (give(0, i) + give(1, i) + give(2, i)) / 3; });
  });
}

TEST_P(CommSuite, ProductsOfIntegersAreExact) {
  on_ranks(3, [](CaseRank& member) {
    const auto give = [](int rank, std::int64_t i) { return (i % 50 + 3) * (rank == 1 ? -1 : 1'000'003); };
    expect_reduced<std::int64_t>(member, DType::kI64, {Reduction::kProd}, give,
                                 [&](std::int64_t i) { return give(0, i) * give(1, i) * give(2, i); });
  });
}

TEST_P(CommSuite, SumsOfLargeIntegersAreExact) {
  on_ranks(3, [](CaseRank& member) {
    const auto give = [](int rank, std::int64_t i) { return (std::int64_t{1} << 60) + rank + i; };
    expect_reduced<std::int64_t>(member, DType::kI64, {}, give,
                                 [&](std::int64_t i) { return give(0, i) + give(1, i) + give(2, i); });
  });
}

TEST_P(CommSuite, TheLeastAndTheGreatestAreOfAllRanks) {
  on_ranks(4, [](CaseRank& member) {
    const auto give = [](int rank, std::int64_t i) { return static_cast<std::int32_t>((rank * 7 + i * 13) % 29 - 14); };
    const auto pick = [&](bool is_max, std::int64_t i) {
      std::int32_t best = give(0, i);
      for (int rank = 1; rank < 4; ++rank)
        best = is_max ? std::max(best, give(rank, i)) : std::min(best, give(rank, i));
      return best;
    };
    expect_reduced<std::int32_t>(member, DType::kI32, {Reduction::kMin}, give,
                                 [&](std::int64_t i) { return pick(false, i); });
    expect_reduced<std::int32_t>(member, DType::kI32, {Reduction::kMax}, give,
                                 [&](std::int64_t i) { return pick(true, i); });
  });
}

TEST_P(CommSuite, ANanOfOneRankIsTheLeastAndTheGreatest) {
  on_ranks(3, [](CaseRank& member) {
    for (const Reduction kind : {Reduction::kMin, Reduction::kMax}) {
      const Room room(member, Where::kDevice, sizeof(float));
      auto* const x = reinterpret_cast<float*>(room.data());
      *x = member.rank() == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
      member.group.all_reduce(x, x, 1, DType::kF32, {kind}, member.stream).wait();
      EXPECT_TRUE(std::isnan(*x));
    }
  });
}

TEST_P(CommSuite, BitwiseReductionsAreOfBits) {
  on_ranks(3, [](CaseRank& member) {
    const auto give = [](int rank, std::int64_t i) { return static_cast<std::uint8_t>(0x5A * (rank + 3) + i); };
    expect_reduced<std::uint8_t>(member, DType::kU8, {Reduction::kBitAnd}, give, [&](std::int64_t i) {
      return static_cast<std::uint8_t>(give(0, i) & give(1, i) & give(2, i));
    });
    expect_reduced<std::uint8_t>(member, DType::kU8, {Reduction::kBitOr}, give, [&](std::int64_t i) {
      return static_cast<std::uint8_t>(give(0, i) | give(1, i) | give(2, i));
    });
    expect_reduced<std::uint8_t>(member, DType::kU8, {Reduction::kBitXor}, give, [&](std::int64_t i) {
      return static_cast<std::uint8_t>(give(0, i) ^ give(1, i) ^ give(2, i));
    });
  });
}

TEST_P(CommSuite, ComplexSumsAndAveragesGoByParts) {
  on_ranks(2, [](CaseRank& member) {
    using Complex = std::complex<float>;
    const auto give = [](int rank, std::int64_t i) {
      return Complex(static_cast<float>(rank + 1), static_cast<float>(i));
    };
    expect_reduced<Complex>(member, DType::kC64, {}, give, [&](std::int64_t i) { return give(0, i) + give(1, i); });
    expect_reduced<Complex>(member, DType::kC64, {Reduction::kAvg}, give,
                            [&](std::int64_t i) { return Complex(1.5F, static_cast<float>(i)); });
  });
}

// 2048 + 1 + 1 is 2048 if every sum is rounded to f16, and 2050 if only the last is.
TEST_P(CommSuite, HalvesThatWouldBeLostInSumsOfHalvesAreNot) {
  on_ranks(3, [](CaseRank& member) {
    const auto give = [](int rank, std::int64_t) { return static_cast<f16>(rank == 0 ? 2048.0F : 1.0F); };
    expect_reduced<f16>(member, DType::kF16, {}, give, [](std::int64_t) { return static_cast<f16>(2050.0F); });
  });
}

TEST_P(CommSuite, ReductionsThatADTypeDoesNotHaveAreRefused) {
  on_ranks(2, [](CaseRank& member) {
    const Room x(member, Where::kDevice, 64);
    const auto refused = [&](DType dtype, Reduction kind, std::string_view words) {
      expect_error<InvalidArgument>(
          [&] { (void)member.group.all_reduce(x.data(), x.data(), 2, dtype, {kind}, member.stream); }, {words});
    };
    refused(DType::kC64, Reduction::kMin, "c64");
    refused(DType::kBool, Reduction::kSum, "use min for logical and, max for logical or");
    refused(DType::kF32, Reduction::kBitXor, "f32");
    member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait();
  });
}

TEST_P(CommSuite, ReduceScatterInPlace) {
  on_ranks(3, [](CaseRank& member) {
    for (const std::int64_t count : {4, 6000}) {
      const Ints x(member, Where::kDevice, 3 * count);
      for (std::int64_t i = 0; i < 3 * count; ++i) x.data()[i] = static_cast<std::int32_t>(i) * (member.rank() + 1);
      const std::int64_t first = member.rank() * count;
      member.group.launch(in_place(OpKind::kReduceScatter, x, 0, first, count), member.stream).wait();
      for (std::int64_t i = first; i < first + count; ++i) ASSERT_EQ(x.data()[i], 6 * i);
    }
  });
}

TEST_P(CommSuite, BroadcastInPlaceOnTheRoot) {
  on_ranks(3, [](CaseRank& member) {
    for (const std::int64_t count : {4, 20'000}) {
      Ints x(member, Where::kDevice, count);
      if (member.rank() == 2) x.number(2);
      Operation op = in_place(OpKind::kBroadcast, x, 0, 0, count);
      op.root = 2;
      member.group.launch(op, member.stream).wait();
      x.expect_from(2, 0, 0, count);
    }
  });
}

TEST_P(CommSuite, ReduceInPlaceOnTheRootLeavesTheOthersAsTheyWere) {
  on_ranks(3, [](CaseRank& member) {
    for (const std::int64_t count : {4, 20'000}) {
      Ints x(member, Where::kDevice, count);
      std::fill_n(x.data(), count, member.rank() + 1);
      Operation op = in_place(OpKind::kReduce, x, 0, 0, count);
      op.root = 1;
      member.group.launch(op, member.stream).wait();
      for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(x.data()[i], member.rank() == 1 ? 6 : member.rank() + 1);
    }
  });
}

TEST_P(CommSuite, ScatterAndGatherInPlaceOnTheRoot) {
  on_ranks(3, [](CaseRank& member) {
    for (const std::int64_t count : {4, 9000}) {
      const bool is_root = member.rank() == 1;
      Ints x(member, Where::kDevice, 3 * count);
      if (is_root) x.number(7);
      Operation scatter = in_place(OpKind::kScatter, x, 0, member.rank() * count, count);
      scatter.root = 1;
      member.group.launch(scatter, member.stream).wait();
      x.expect_from(7, member.rank() * count, member.rank() * count, count);
      Operation gather = in_place(OpKind::kGather, x, member.rank() * count, 0, count);
      gather.root = 1;
      member.group.launch(gather, member.stream).wait();
      if (is_root) x.expect_from(7, 0, 0, 3 * count);
    }
  });
}

TEST_P(CommSuite, OverlapsThatACollectiveDoesNotAllowAreRefused) {
  on_ranks(2, [](CaseRank& member) {
    const Ints x(member, Where::kDevice, 100);
    const auto refused = [&](const Operation& op) {
      expect_error<InvalidArgument>([&] { (void)member.group.launch(op, member.stream); }, {"overlap"});
    };
    refused(in_place(OpKind::kAllToAll, x, 0, 0, 10));
    refused(in_place(OpKind::kAllGather, x, 1, 0, 10));
    refused(in_place(OpKind::kReduceScatter, x, 0, 5, 10));
    member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait();
    EXPECT_EQ(member.group.sequence(), 1U);
  });
}

}  // namespace tessera::comm::suite

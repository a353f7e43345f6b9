// The protocol of a slot, with writers stopped at every point. The hook of a stopped writer between two stores runs
// everything that happens meanwhile.
#include "tessera/base/probe/slot.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

namespace tessera::probe::detail {
namespace {

constexpr int kSteps = kSlotWords + 2;  // before each store and after the last
constexpr std::uint64_t kRing = 2;
constexpr std::uint64_t kIndex = 77;
const std::uint64_t kPlace = slot_place(kRing, kIndex);

struct Slot {
  alignas(64) std::uint64_t word[kSlotWords] = {};
};

struct Written {
  std::uint64_t word[kSlotWords];
};

// Consecutive laps differ in few bits, as real records do.
Written record_of(std::uint64_t lap) {
  return {{0, 1'000'000 + lap * 40, slot_head(5, 1, lap), 3, 100 + lap, lap % 2, 0x8000000000000000 * (lap % 2), 7}};
}

enum class Seen { kEmpty, kTorn, kWhole };

// Returns the result of the reader for a slot; a complete record must be one of `laps`, word for word.
Seen look(const Slot& slot, const std::vector<std::uint64_t>& laps) {
  if (slot.word[0] == 0) return Seen::kEmpty;
  if (slot_check(slot.word, kPlace) != slot.word[0]) return Seen::kTorn;
  for (const std::uint64_t lap : laps) {
    if (std::memcmp(record_of(lap).word + 1, slot.word + 1, kSlotBytes - 8) == 0) return Seen::kWhole;
  }
  ADD_FAILURE() << "a mixed record passed for a whole one";
  return Seen::kWhole;
}

using Hook = std::function<void(int)>;
void write_lap(
    Slot& slot, std::uint64_t lap, const Hook& hook = [](int) {}) {
  store_slot(slot.word, record_of(lap).word, kPlace, hook);
}

TEST(Slot, AWriterAloneIsSeenWholeOrTorn) {
  Slot slot;
  write_lap(slot, 1);
  EXPECT_EQ(look(slot, {1}), Seen::kWhole);
  write_lap(slot, 2, [&](int step) {
    const Seen seen = look(slot, {1, 2});
    const bool is_done = step == 0 || step == kSteps - 1;
    EXPECT_EQ(seen, is_done ? Seen::kWhole : Seen::kTorn) << "step " << step;
  });
}

TEST(Slot, AStoppedWriterLappedTwiceIsNeverMixed) {
  for (int stop = 0; stop < kSteps; ++stop) {
    Slot slot;
    write_lap(slot, 1);
    write_lap(slot, 2, [&](int step) {
      if (step == stop) {
        write_lap(slot, 3, [&](int) { look(slot, {1, 2, 3}); });
        write_lap(slot, 4, [&](int) { look(slot, {1, 2, 3, 4}); });
        EXPECT_EQ(look(slot, {4}), Seen::kWhole);
      }
      look(slot, {1, 2, 3, 4});
    });
    const Seen end = look(slot, {2, 4});
    // Stopped before the first store, it is only late; stopped after the last, it has been overwritten in order.
    EXPECT_EQ(end, stop == 0 || stop >= kSteps - 1 ? Seen::kWhole : end) << "stop " << stop;
    write_lap(slot, 5);
    EXPECT_EQ(look(slot, {5}), Seen::kWhole) << "the next lap heals the slot";
  }
}

// Both writers stop anywhere, and the laps of the second end anywhere inside those of the first.
TEST(Slot, TwoStoppedWritersAreNeverMixed) {
  int torn = 0;
  for (int stop1 = 0; stop1 < kSteps; ++stop1) {
    for (int stop2 = 0; stop2 < kSteps; ++stop2) {
      Slot slot;
      write_lap(slot, 1, [&](int step1) {
        if (step1 != stop1) return;
        write_lap(slot, 2, [&](int step2) {
          if (step2 == stop2) write_lap(slot, 3, [&](int) { look(slot, {1, 2, 3}); });
          look(slot, {1, 2, 3});
        });
      });
      torn += look(slot, {1, 2, 3}) == Seen::kTorn ? 1 : 0;
    }
  }
  EXPECT_GT(torn, 0);
}

// The stores of two writers, interleaved in every order that keeps the order of each.
TEST(Slot, NoInterleavingOfTwoWritersIsMixed) {
  struct Store {
    std::size_t index;
    std::uint64_t value;
  };
  const auto stores_of = [](std::uint64_t lap) {
    std::vector<Store> stores;
    const Written record = record_of(lap);
    stores.push_back({0, kUnderWrite});
    for (std::size_t i = 1; i < kSlotWords; ++i) stores.push_back({i, record.word[i]});
    stores.push_back({0, slot_check(record.word, kPlace)});
    return stores;
  };
  const auto a = stores_of(2);
  const auto b = stores_of(4);
  std::uint64_t tried = 0;
  const std::function<void(Slot, std::size_t, std::size_t)> go = [&](Slot slot, std::size_t i, std::size_t j) {
    ++tried;
    look(slot, {1, 2, 4});
    if (i < a.size()) {
      Slot next = slot;
      next.word[a[i].index] = a[i].value;
      go(next, i + 1, j);
    }
    if (j < b.size()) {
      Slot next = slot;
      next.word[b[j].index] = b[j].value;
      go(next, i, j + 1);
    }
  };
  Slot slot;
  write_lap(slot, 1);
  go(slot, 0, 0);
  EXPECT_GT(tried, 48'620U);  // 18 choose 9 complete orders, and all their prefixes
}

TEST(Slot, ARecordMovedToAnotherSlotIsNotTaken) {
  Slot slot;
  write_lap(slot, 1);
  EXPECT_NE(slot_check(slot.word, slot_place(kRing, kIndex + 1)), slot.word[0]);
  EXPECT_NE(slot_check(slot.word, slot_place(kRing + 1, kIndex)), slot.word[0]);
}

TEST(Slot, EveryBitIsChecked) {
  Slot slot;
  write_lap(slot, 1);
  for (std::size_t bit = 0; bit < kSlotBytes * 8; ++bit) {
    Slot spoilt = slot;
    spoilt.word[bit / 64] ^= std::uint64_t{1} << bit % 64;
    EXPECT_NE(slot_check(spoilt.word, kPlace), spoilt.word[0]) << "bit " << bit;
  }
}

}  // namespace
}  // namespace tessera::probe::detail

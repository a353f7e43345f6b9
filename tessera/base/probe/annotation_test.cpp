// Annotations: records while they are open and after, and ranks, threads and scopes that end in any order.
#include "tessera/base/probe/annotation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"

namespace tessera::probe {
namespace {

RecordFile own_record() { return RecordFile::open(recorder().path()); }

std::uint64_t number_in(const RowInfo& row, std::string_view field) {
  return std::get<std::uint64_t>(row.find(field)->value);
}

// Returns the open annotations, "step 3 at 0 of 4711": name, value, depth, thread; by depth.
std::vector<std::string> open_annotations(const RecordFile& file) {
  std::vector<std::string> annotations;
  const TableInfo* table = file.find_table("record_mark");
  if (table == nullptr) return annotations;
  for (const RowInfo& row : table->claimed) {
    const std::string name = to_string(row.find("name")->value);
    if (name.empty()) continue;
    EXPECT_NE(to_string(row.find("since")->value), "0");
    annotations.push_back(std::to_string(number_in(row, "depth")) + ": " + name + " " +
                          to_string(row.find("value")->value) + " of " + std::to_string(number_in(row, "thread")));
  }
  std::ranges::sort(annotations);
  return annotations;
}
std::string of_this_thread() { return " of " + std::to_string(::gettid()); }

std::shared_ptr<RankContext> lone_rank() { return std::make_shared<RankContext>(RankPlace{}); }

TEST(Annotations, StandInTheRecordWhileTheyAreOpen) {
  const RankScope rank(lone_rank());
  EXPECT_TRUE(open_annotations(own_record()).empty());
  {
    const Annotation step("step", 117);
    EXPECT_EQ(open_annotations(own_record()), std::vector{"0: step 117" + of_this_thread()});
    {
      const Annotation data("data", -5);
      EXPECT_EQ(open_annotations(own_record()),
                (std::vector{"0: step 117" + of_this_thread(), "1: data -5" + of_this_thread()}));
    }
    EXPECT_EQ(open_annotations(own_record()), std::vector{"0: step 117" + of_this_thread()});
    const Annotation plain("plain");
    EXPECT_EQ(open_annotations(own_record()),
              (std::vector{"0: step 117" + of_this_thread(), "1: plain 0" + of_this_thread()}));
  }
  EXPECT_TRUE(open_annotations(own_record()).empty());
}

// A thread caches recent names in entries of 32 bytes, 27 of them for the name. A free entry has the length 255: a name
// of that length must not be compared with the memory after the entry.
TEST(Annotations, ANameOf255BytesIsNotTakenForAFreePlace) {
  const RankScope rank(lone_rank());
  std::string free_places(27, '\0');
  while (free_places.size() < 255) free_places.append(4, '\0').append(1, '\xff').append(27, '\0');
  free_places.resize(255);
  std::string room(4096, '\0');
  const std::shared_ptr<RankContext> context = current_rank();
  std::thread([&] {  // with only free entries
    const RankScope same(context);
    // The selected entry depends on the address.
    for (std::size_t at = 0; at < 12; ++at) {
      std::ranges::copy(free_places, room.begin() + static_cast<std::ptrdiff_t>(at * 16));
      const Annotation mark(std::string_view(room).substr(at * 16, free_places.size()));
      EXPECT_EQ(open_annotations(own_record()).at(0).find("(table full)"), std::string::npos) << "it has no name";
    }
  })
      .join();
}

TEST(Annotations, BeginAndEndAreRecordsInTheLaunchRing) {
  const RankScope rank(lone_rank());
  {
    const Annotation outer("outer", 1);
    const Annotation inner("inner", 2);
  }
  std::vector<std::string> texts;
  const RecordFile file = own_record();
  for (const RecordRef& ref : file.records()) {
    const Record record = file.read(ref);
    if (record.kind.starts_with("record_mark")) texts.push_back(record.ring + ": " + to_string(record));
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"launch: record_mark_begin value=1 name=outer depth=0",
                                             "launch: record_mark_begin value=2 name=inner depth=1",
                                             "launch: record_mark_end value=2 name=inner depth=1",
                                             "launch: record_mark_end value=1 name=outer depth=0"}));
}

// Names are cached by address; the text at an address may change.
TEST(Annotations, ANameThatIsMadeAnewInTheSamePlaceIsToldAnew) {
  const RankScope rank(lone_rank());
  char name[] = "one";
  { const Annotation scope(name, 1); }
  std::copy_n("two", 3, name);
  const Annotation scope(name, 2);
  const std::string longer(300, 'x');
  const Annotation lasting(longer, 3);
  EXPECT_EQ(open_annotations(own_record()),
            (std::vector{"0: two 2" + of_this_thread(), "1: " + longer + " 3" + of_this_thread()}));
}

TEST(Annotations, ManyOneAfterTheOtherTakeFewRows) {
  const RankScope rank(lone_rank());
  for (int i = 0; i < 5000; ++i) {
    const Annotation outer("outer", i);
    const Annotation inner("inner", i);
  }
  const RecordFile file = own_record();
  const TableInfo* table = file.find_table("record_mark");
  EXPECT_EQ(table->claimed.size(), 2U);
  EXPECT_EQ(table->refused, 0U);
}

TEST(Annotations, AreOfTheirThreadWhichGivesItsRowsBack) {
  const RankScope rank(lone_rank());
  const Annotation own("own", 1);
  for (int i = 0; i < 1000; ++i) {
    Thread("marker", [&] {
      const Annotation scope("theirs", i);
      if (i != 7) return;
      EXPECT_EQ(open_annotations(own_record()).size(), 2U);
      const auto annotations = open_annotations(own_record());
      EXPECT_EQ(std::ranges::count(annotations, "0: theirs 7" + of_this_thread()), 1);
    }).join();
  }
  const RecordFile file = own_record();
  EXPECT_EQ(file.find_table("record_mark")->claimed.size(), 1U);
  EXPECT_EQ(file.find_table("record_mark")->refused, 0U);
}

// More than the table has rows: those without a row are still in the ring.
TEST(Annotations, OfWhichThereAreTooManyAreLeftOut) {
  const RankScope rank(lone_rank());
  std::vector<std::unique_ptr<Annotation>> many;
  for (int i = 0; i < 2000; ++i) many.push_back(std::make_unique<Annotation>("many", i));
  EXPECT_GT(own_record().find_table("record_mark")->refused, 0U);
  while (!many.empty()) many.pop_back();
  EXPECT_TRUE(open_annotations(own_record()).empty());
}

TEST(Annotations, NothingIsRecordedWhereRecordingIsOff) {
  const RankScope rank(lone_rank());
  open_recorder(*current_rank(), {.is_on = false});
  const Annotation scope("step", 1);
  EXPECT_EQ(recorder().path(), "");
}

TEST(Annotations, AAnnotationMayOutliveItsRank) {
  std::optional<Annotation> kept;
  {
    const RankScope rank(lone_rank());
    kept.emplace("kept", 1);
  }
  const RankScope rank(lone_rank());
  const Annotation other("other", 2);
  kept.reset();
  EXPECT_EQ(open_annotations(own_record()), std::vector{"0: other 2" + of_this_thread()});
}

// It is removed from the record it began in, for any current rank of its thread.
TEST(Annotations, AAnnotationThatEndsUnderAnotherRankLeavesTheOneItBeganIn) {
  const auto first = lone_rank();
  std::optional<Annotation> moved;
  {
    const RankScope rank(first);
    moved.emplace("moved", 1);
    EXPECT_EQ(open_annotations(own_record()).size(), 1U);
  }
  {
    const RankScope rank(lone_rank());
    moved.reset();
    EXPECT_TRUE(open_annotations(own_record()).empty());
  }
  const RankScope rank(first);
  EXPECT_TRUE(open_annotations(own_record()).empty());
}

// Each rank has a separate record.
}  // namespace
}  // namespace tessera::probe

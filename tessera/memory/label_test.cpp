// Labels: scopes per thread, one number per text in the process, texts with stable addresses.
#include "tessera/memory/label.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::memory {
namespace {

std::string current() { return Label::text_of(detail::current_label); }

TEST(Label, NamesItsScopeAndNests) {
  EXPECT_EQ(detail::current_label, 0u);
  {
    const Label outer("optimizer");
    EXPECT_EQ(current(), "optimizer");
    {
      const Label inner("gradients");
      EXPECT_EQ(current(), "gradients");
    }
    EXPECT_EQ(current(), "optimizer");
  }
  EXPECT_EQ(detail::current_label, 0u);
}

TEST(Label, EmptyTextIsNone) {
  const Label outer("optimizer");
  const Label none("");
  EXPECT_EQ(detail::current_label, 0u);
  EXPECT_EQ(Label::id_of(""), 0u);
  EXPECT_EQ(Label::text_of(0), "");
}

TEST(Label, OneTextHasOneNumberWhereverItLies) {
  const std::string here = "activations of layer 17";
  const std::string there = "activations of layer 17";
  const LabelId id = Label::id_of(here);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(Label::id_of(there), id);
  EXPECT_EQ(Label::id_of(std::string_view(there).substr(0, there.size())), id);
  EXPECT_NE(Label::id_of(std::string_view(there).substr(0, there.size() - 1)), id);
}

// The cache is keyed by address; the memory there may hold another text later.
TEST(Label, AnAddressThatSaysSomethingElseIsAnotherLabel) {
  char text[] = "layer 1";
  const LabelId first = Label::id_of(text);
  text[6] = '2';
  const LabelId second = Label::id_of(text);
  EXPECT_NE(first, second);
  EXPECT_EQ(Label::text_of(first), "layer 1");
  EXPECT_EQ(Label::text_of(second), "layer 2");
}

TEST(Label, TextsMayHoldAnyBytes) {
  const std::string odd("a\0b,\"\n", 6);
  EXPECT_EQ(Label::text_of(Label::id_of(odd)), odd);
  EXPECT_NE(Label::id_of(odd), Label::id_of("a"));
}

TEST(Label, TextsStayWhereTheyAre) {
  const LabelId id = Label::id_of("stays");
  const std::string* const before = &Label::text_of(id);
  std::set<LabelId> ids;
  for (int i = 0; i < 5000; ++i) ids.insert(Label::id_of("label " + std::to_string(i)));
  EXPECT_EQ(ids.size(), 5000u);
  EXPECT_EQ(&Label::text_of(id), before);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = "label " + std::to_string(i);
    EXPECT_EQ(Label::text_of(Label::id_of(text)), text);
  }
  EXPECT_THROW(Label::text_of(4'000'000'000), InvalidArgument);
}

TEST(Label, ThreadsAgreeOnNumbersAndKeepTheirOwnScopes) {
  std::vector<std::vector<LabelId>> ids(4);
  std::vector<std::thread> threads;
  const Label mine("main thread");
  for (std::size_t t = 0; t < ids.size(); ++t) {
    threads.emplace_back([&ids, t] {
      EXPECT_EQ(detail::current_label, 0u);
      for (int i = 0; i < 500; ++i) {
        const std::string text = "shared " + std::to_string((i * 7 + static_cast<int>(t)) % 500);
        const Label label(text);
        EXPECT_EQ(current(), text);
      }
      for (int i = 0; i < 500; ++i) ids[t].push_back(Label::id_of("shared " + std::to_string(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_thread : ids) EXPECT_EQ(of_thread, ids[0]);
  EXPECT_EQ(current(), "main thread");
}

}  // namespace
}  // namespace tessera::memory

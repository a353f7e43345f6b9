#include "tessera/comm/store/testing/store_behaviours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::comm::testing {
namespace {

using namespace std::chrono_literals;
using Keys = std::vector<std::string>;
constexpr std::chrono::nanoseconds kLong = 60s;   // only reached if something hangs
constexpr std::chrono::nanoseconds kShort = 5ms;  // always reached

void set_then_find(const StoreKit& kit) {
  const auto store = kit.open();
  EXPECT_EQ(store->find("a"), std::nullopt);
  store->set("a", "1");
  EXPECT_EQ(store->find("a"), "1");
  store->set("a", "longer than before");
  EXPECT_EQ(store->find("a"), "longer than before");
  store->set("a", "s");
  EXPECT_EQ(store->find("a"), "s");
  EXPECT_EQ(store->find("A"), std::nullopt);
}

void others_see_it(const StoreKit& kit) {
  const auto one = kit.open();
  const auto other = kit.open();
  one->set("a", "1");
  EXPECT_EQ(other->find("a"), "1");
  EXPECT_EQ(other->add("n", 2), 2);
  EXPECT_EQ(one->add("n", 3), 5);
  EXPECT_TRUE(other->remove("a"));
  EXPECT_EQ(one->find("a"), std::nullopt);
}

void values_are_bytes(const StoreKit& kit) {
  const auto store = kit.open();
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  store->set("bytes", all);
  EXPECT_EQ(store->find("bytes"), all);
  store->set("empty", "");
  EXPECT_EQ(store->find("empty"), "");
  store->set("line", "\n\n");
  EXPECT_EQ(store->find("line"), "\n\n");
}

void keys_are_any_text(const StoreKit& kit) {
  const auto store = kit.open();
  const Keys names = {"a/b", "a", "..",   ".", "/",  "a b", "%61", "k", "\xc3\xa9t\xc3\xa9",
                      "=",   "*", "a/b/", "-", "\\", "\t"};
  for (const std::string& name : names) store->set(name, "value of " + name);
  for (const std::string& name : names) EXPECT_EQ(store->find(name), "value of " + name);
  Keys sorted = names;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(store->keys(""), sorted);
}

void longest_keys_and_values(const StoreKit& kit) {
  const auto store = kit.open();
  // A prefix uses part of the length, so this leaves some room.
  const std::string beginning(900, 'x');
  store->set(beginning + "1", "one");
  store->set(beginning + "2", "two");
  EXPECT_EQ(store->find(beginning + "1"), "one");
  EXPECT_EQ(store->find(beginning + "2"), "two");
  EXPECT_EQ(store->keys(beginning), (Keys{beginning + "1", beginning + "2"}));
  EXPECT_TRUE(store->remove(beginning + "1"));
  EXPECT_EQ(store->keys("x"), Keys{beginning + "2"});
  const std::string big(Store::kMaxValueBytes, 'v');
  store->set("big", big);
  EXPECT_EQ(store->find("big"), big);
  EXPECT_EQ(store->compare_set("big", big, "small"), "small");
}

void refuses_what_does_not_fit(const StoreKit& kit) {
  const auto store = kit.open();
  store->set("there", "1");
  const std::string long_key(Store::kMaxKeyBytes + 1, 'k');
  for (const std::string& bad :
       {std::string(), std::string("a\nb"), std::string("a\rb"), std::string("a\0b", 3), long_key}) {
    expect_error<InvalidArgument>([&] { store->set(bad, "1"); }, {"key"});
    expect_error<InvalidArgument>([&] { store->find(bad); }, {"key"});
    expect_error<InvalidArgument>([&] { store->add(bad, 1); }, {"key"});
    expect_error<InvalidArgument>([&] { store->compare_set(bad, std::nullopt, "1"); }, {"key"});
    expect_error<InvalidArgument>([&] { store->remove(bad); }, {"key"});
    expect_error<InvalidArgument>([&] { store->wait(Keys{"there", bad}, kLong); }, {"key"});
  }
  const std::string big(Store::kMaxValueBytes + 1, 'v');
  expect_error<InvalidArgument>([&] { store->set("a", big); }, {"a'", "4194305"});
  expect_error<InvalidArgument>([&] { store->compare_set("a", std::nullopt, big); }, {"a'", "4194305"});
  EXPECT_EQ(store->keys(""), Keys{"there"});
}

void add_counts(const StoreKit& kit) {
  const auto store = kit.open();
  EXPECT_EQ(store->add("n", 1), 1);
  EXPECT_EQ(store->add("n", 10), 11);
  EXPECT_EQ(store->add("n", -20), -9);
  EXPECT_EQ(store->add("n", 0), -9);
  EXPECT_EQ(store->find("n"), "-9");
  store->set("n", "41");
  EXPECT_EQ(store->add("n", 1), 42);
  EXPECT_EQ(store->add("zero", 0), 0);
  EXPECT_EQ(store->find("zero"), "0");
}

void add_refuses_what_is_no_number(const StoreKit& kit) {
  const auto store = kit.open();
  for (const char* bad : {"", "x", "1x", " 1", "1.5", "99999999999999999999"}) {
    store->set("n", bad);
    expect_error<InvalidArgument>([&] { store->add("n", 1); }, {"n'", "must be a 64-bit integer"});
    EXPECT_EQ(store->find("n"), bad);
  }
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(store->add("m", most), most);
  expect_error<InvalidArgument>([&] { store->add("m", 1); }, {"m'", "64 bits"});
  EXPECT_EQ(store->add("m", -most), 0);
}

void compare_set_knows_its_cases(const StoreKit& kit) {
  const auto store = kit.open();
  EXPECT_EQ(store->compare_set("k", "old", "new"), std::nullopt) << "an absent key is not set";
  EXPECT_EQ(store->find("k"), std::nullopt);
  EXPECT_EQ(store->compare_set("k", std::nullopt, "first"), "first");
  EXPECT_EQ(store->compare_set("k", std::nullopt, "second"), "first") << "there is one: not set";
  EXPECT_EQ(store->compare_set("k", "wrong", "second"), "first");
  EXPECT_EQ(store->compare_set("k", "", "second"), "first") << "an empty value is not none";
  EXPECT_EQ(store->compare_set("k", "first", "second"), "second");
  EXPECT_EQ(store->find("k"), "second");
  EXPECT_EQ(store->compare_set("k", "second", ""), "");
  EXPECT_EQ(store->compare_set("k", std::nullopt, "third"), "") << "an empty value is there";
  EXPECT_EQ(store->compare_set("k", "", "third"), "third");
}

void remove_says_whether(const StoreKit& kit) {
  const auto store = kit.open();
  EXPECT_FALSE(store->remove("a"));
  store->set("a", "");
  EXPECT_TRUE(store->remove("a"));
  EXPECT_FALSE(store->remove("a"));
  EXPECT_EQ(store->find("a"), std::nullopt);
  EXPECT_EQ(store->compare_set("a", std::nullopt, "again"), "again");
  EXPECT_EQ(store->add("n", 5), 5);
  EXPECT_TRUE(store->remove("n"));
  EXPECT_EQ(store->add("n", 5), 5);
}

void keys_are_sorted_and_by_prefix(const StoreKit& kit) {
  const auto store = kit.open();
  EXPECT_EQ(store->keys(""), Keys{});
  for (const char* key : {"b/2", "a/1", "b/1", "b", "c", "b/10"}) store->set(key, "");
  EXPECT_EQ(store->keys(""), (Keys{"a/1", "b", "b/1", "b/10", "b/2", "c"}));
  EXPECT_EQ(store->keys("b/"), (Keys{"b/1", "b/10", "b/2"}));
  EXPECT_EQ(store->keys("b/1"), (Keys{"b/1", "b/10"}));
  EXPECT_EQ(store->keys("d"), Keys{});
  store->remove("b/1");
  EXPECT_EQ(store->keys("b/1"), Keys{"b/10"});
}

void wait_returns_at_once_when_all_are_there(const StoreKit& kit) {
  const auto store = kit.open();
  store->wait(Keys{}, 0s);
  store->set("a", "");
  store->set("b", "1");
  store->wait(Keys{"a", "b", "a"}, 0s);
  store->wait(Keys{"a"}, -1s);
  store->wait(Keys{"b"}, std::chrono::nanoseconds::max());
  EXPECT_EQ(store->get("b", std::chrono::nanoseconds::max()), "1");
  EXPECT_EQ(store->get("b", -1s), "1");
}

void wait_names_what_is_missing(const StoreKit& kit) {
  const auto store = kit.open();
  store->set("there", "1");
  expect_error<TimeoutError>(
      [&] {
        store->wait(Keys{"there", "lost", "gone"}, kShort);
      },
      {"lost'", "gone'", "2 of 3 keys", "5 ms"});
  expect_error<TimeoutError>([&] { store->wait(Keys{"lost"}, 0s); }, {"lost'", "1 of 1 key "});
  expect_error<TimeoutError>([&] { store->wait(Keys{"lost"}, -1s); }, {"lost'"});
  expect_error<TimeoutError>([&] { store->get("lost", kShort); }, {"lost'"});
  try {
    store->wait(Keys{"there", "lost"}, kShort);
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.message().find("there'"), std::string::npos) << error.message();
  }
  store->set("lost", "found");
  store->wait(Keys{"there", "lost"}, 0s);
}

// Each way to set a value ends the wait of another rank.
void wait_is_ended_by_others(const StoreKit& kit) {
  const auto waiting = kit.open();
  const auto acting = kit.open();
  const std::pair<const char*, std::function<void()>> ways[] = {
      {"set", [&] { acting->set("set", "1"); }},
      {"add", [&] { acting->add("add", 1); }},
      {"compare_set", [&] { acting->compare_set("compare_set", std::nullopt, "1"); }}};
  for (const auto& [key, act] : ways) {
    std::thread waiter([&, name = key] { waiting->wait(Keys{name}, kLong); });
    act();
    waiter.join();
  }
  std::thread waiter([&] { EXPECT_EQ(waiting->get("value", kLong), "here"); });
  acting->set("value", "here");
  waiter.join();
}

void wait_needs_all_keys_at_once(const StoreKit& kit) {
  const auto store = kit.open();
  const auto other = kit.open();
  store->set("a", "1");
  std::atomic<bool> is_over = false;
  std::thread waiter([&] {
    other->wait(Keys{"a", "b"}, kLong);
    is_over = true;
  });
  // Whenever the waiter checks, one of the two is missing, until the last line.
  store->remove("a");
  store->set("b", "1");
  expect_error<TimeoutError>([&] { store->wait(Keys{"a", "b"}, kShort); }, {"a'"});
  store->set("a", "2");
  waiter.join();
  EXPECT_TRUE(is_over);
}

void a_wait_keeps_nobody_waiting(const StoreKit& kit) {
  const auto store = kit.open();
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&, i] { store->wait(Keys{"k" + std::to_string(i), "last"}, kLong); });
  }
  // The same object, while other threads wait on it.
  for (int i = 0; i < 4; ++i) store->set("k" + std::to_string(i), "1");
  EXPECT_EQ(store->add("n", 1), 1);
  EXPECT_EQ(store->find("n"), "1");
  expect_error<TimeoutError>([&] { store->wait(Keys{"never"}, kShort); }, {"never'"});
  store->set("last", "1");
  for (std::thread& waiter : waiters) waiter.join();
}

void threads_of_one_object_count_together(const StoreKit& kit) {
  const auto store = kit.open();
  constexpr int kThreads = 8;
  constexpr int kEach = 25;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        store->add("n", 1);
        store->set(std::to_string(t), std::to_string(i));
        EXPECT_EQ(store->find(std::to_string(t)), std::to_string(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->add("n", 0), kThreads * kEach);
}

void objects_of_one_store_count_together(const StoreKit& kit) {
  constexpr int kOpen = 4;
  constexpr int kEach = 40;
  const auto watching = kit.open();
  std::vector<std::thread> threads;
  for (int t = 0; t < kOpen; ++t) {
    threads.emplace_back([&] {
      const auto store = kit.open();
      for (int i = 0; i < kEach; ++i) store->add("n", 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(watching->add("n", 0), kOpen * kEach);
}

// A lock made of compare_set: exactly one rank wins each round.
void compare_set_has_one_winner(const StoreKit& kit) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 15;
  const auto watching = kit.open();
  std::atomic<int> won = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kRanks; ++t) {
    threads.emplace_back([&, t] {
      const auto store = kit.open();
      for (int round = 0; round < kRounds; ++round) {
        const std::string me = std::to_string(t);
        if (store->compare_set("round/" + std::to_string(round), std::nullopt, me) == me) ++won;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, kRounds);
}

// Ranks that arrive in any order leave together, many times, as groups do.
void ranks_meet(const StoreKit& kit) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 10;
  const auto watching = kit.open();
  std::vector<std::thread> threads;
  std::atomic<int> arrived = 0;
  for (int t = 0; t < kRanks; ++t) {
    threads.emplace_back([&] {
      const auto store = kit.open();
      for (int round = 1; round <= kRounds; ++round) {
        ++arrived;
        if (store->add("arrived", 1) == kRanks * round) store->set("go/" + std::to_string(round), "");
        store->wait(Keys{"go/" + std::to_string(round)}, kLong);
        EXPECT_GE(arrived, kRanks * round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Readers see complete values: never a part of one, nor a missing value during a replacement.
void values_are_replaced_whole(const StoreKit& kit) {
  const auto writing = kit.open();
  const auto reading = kit.open();
  writing->set("v", std::string(100'000, 'a'));
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) writing->set("v", std::string(i % 2 == 0 ? 100'000 : 50'000, i % 2 == 0 ? 'a' : 'b'));
    is_over = true;
  });
  while (!is_over) {
    const std::string value = reading->get("v", kLong);
    EXPECT_EQ(value, std::string(value.size(), value[0]));
    EXPECT_EQ(value.size(), value[0] == 'a' ? 100'000u : 50'000u);
  }
  writer.join();
}

// Random calls, compared with a plain map.
void behaves_like_a_map(const StoreKit& kit) {
  const auto store = kit.open();
  std::map<std::string, std::string> model;
  std::mt19937_64 random(7);
  const auto find = [&](const std::string& key) {
    const auto at = model.find(key);
    return at == model.end() ? std::nullopt : std::optional(at->second);
  };
  for (int step = 0; step < 400; ++step) {
    const std::string key = "key" + std::to_string(random() % 6);
    const std::string value = std::to_string(random() % 4);
    switch (random() % 6) {
      case 0:
        store->set(key, value);
        model[key] = value;
        break;
      case 1: EXPECT_EQ(store->find(key), find(key)); break;
      case 2: {
        const std::int64_t sum = std::stoll(find(key).value_or("0")) + 3;
        EXPECT_EQ(store->add(key, 3), sum);
        model[key] = std::to_string(sum);
        break;
      }
      case 3: {
        const auto expected = random() % 3 == 0 ? std::nullopt : std::optional(std::to_string(random() % 4));
        if (find(key) == expected) model[key] = value;
        EXPECT_EQ(store->compare_set(key, expected, value), find(key));
        break;
      }
      case 4: EXPECT_EQ(store->remove(key), model.erase(key) == 1); break;
      default: {
        Keys names;
        for (const auto& [name, ignored] : model) names.push_back(name);
        EXPECT_EQ(store->keys("key"), names);
      }
    }
  }
}

void names_itself(const StoreKit& kit) {
  const auto store = kit.open();
  EXPECT_NE(store->text().find("store"), std::string::npos) << store->text();
  expect_error<TimeoutError>([&] { store->wait(Keys{"x"}, 0s); }, {"store", "x'"});
}

}  // namespace

#define TESSERA_BEHAVIOUR(name) \
  { #name, name }
std::vector<StoreBehaviour> store_behaviours() {
  return {TESSERA_BEHAVIOUR(set_then_find),
          TESSERA_BEHAVIOUR(others_see_it),
          TESSERA_BEHAVIOUR(values_are_bytes),
          TESSERA_BEHAVIOUR(keys_are_any_text),
          TESSERA_BEHAVIOUR(longest_keys_and_values),
          TESSERA_BEHAVIOUR(refuses_what_does_not_fit),
          TESSERA_BEHAVIOUR(add_counts),
          TESSERA_BEHAVIOUR(add_refuses_what_is_no_number),
          TESSERA_BEHAVIOUR(compare_set_knows_its_cases),
          TESSERA_BEHAVIOUR(remove_says_whether),
          TESSERA_BEHAVIOUR(keys_are_sorted_and_by_prefix),
          TESSERA_BEHAVIOUR(wait_returns_at_once_when_all_are_there),
          TESSERA_BEHAVIOUR(wait_names_what_is_missing),
          TESSERA_BEHAVIOUR(wait_is_ended_by_others),
          TESSERA_BEHAVIOUR(wait_needs_all_keys_at_once),
          TESSERA_BEHAVIOUR(a_wait_keeps_nobody_waiting),
          TESSERA_BEHAVIOUR(threads_of_one_object_count_together),
          TESSERA_BEHAVIOUR(objects_of_one_store_count_together),
          TESSERA_BEHAVIOUR(compare_set_has_one_winner),
          TESSERA_BEHAVIOUR(ranks_meet),
          TESSERA_BEHAVIOUR(values_are_replaced_whole),
          TESSERA_BEHAVIOUR(behaves_like_a_map),
          TESSERA_BEHAVIOUR(names_itself)};
}
#undef TESSERA_BEHAVIOUR

}  // namespace tessera::comm::testing

// Random evidence, from nearly valid to nonsense: explain() never crashes, hangs or throws (run it under sanitizers),
// blames only existing ranks, returns one line, and prints no control characters.
//   record_explain_fuzz [--runs N] [--seed S] [--seconds T]
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tessera/analysis/explain.h"
#include "tessera/base/testing/fuzz.h"

namespace tessera::analysis {
namespace {

class GroupCreation {
 public:
  explicit GroupCreation(std::uint64_t seed) : random_(seed) { wild_ = one_in(3); }

  Evidence evidence() {
    Evidence made{.source = text(), .world_size = static_cast<int>(below(9)), .taken_ns = time()};
    const std::size_t ranks = one_in(50) ? 200 : below(9);
    for (std::size_t i = 0; i < ranks; ++i) made.ranks.push_back(rank(static_cast<int>(i), static_cast<int>(ranks)));
    for (std::size_t i = below(3); i > 0; --i) made.problems.push_back(text());
    return made;
  }

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::int64_t odd_number() {
    switch (below(4)) {
      case 0: return std::numeric_limits<std::int64_t>::min();
      case 1: return std::numeric_limits<std::int64_t>::max();
      case 2: return static_cast<std::int64_t>(random_());
      default: return static_cast<std::int64_t>(below(5)) - 2;
    }
  }
  std::int64_t time() {
    if (wild_ && one_in(4)) return odd_number();
    return one_in(6) ? 0 : static_cast<std::int64_t>(1'800'000'000'000'000'000 + below(60'000'000'000));
  }
  int place(int end) {
    if (wild_ && one_in(8)) return static_cast<int>(odd_number());
    return static_cast<int>(below(static_cast<std::uint64_t>(end) + 1));
  }
  std::string text() {
    static const std::vector<std::string> kTexts = {"",
                                                    "world",
                                                    "left",
                                                    "data",
                                                    "timeout: group world: x",
                                                    "aborted:",
                                                    "\033[2J",
                                                    "\xff",
                                                    "two\nlines",
                                                    "out of memory: y",
                                                    "mismatch: group a",
                                                    "exited with 3"};
    return kTexts[below(kTexts.size())];
  }

  RecordedOperation operation(int size) {
    static const std::vector<std::string> kKinds = {"all_reduce", "all_gather", "barrier", "send",
                                                    "recv",       "broadcast",  "",        "all_to_all"};
    RecordedOperation made{.kind = kKinds[below(kKinds.size())], .dtype = one_in(8) ? text() : "f32"};
    made.count = wild_ && one_in(4) ? odd_number() : static_cast<std::int64_t>(below(2));
    if (one_in(2)) made.reduction = "sum";
    if (made.kind == "broadcast") made.root = place(size);
    if (made.kind == "send" || made.kind == "recv") made.peer = place(size);
    made.parts = one_in(4) ? static_cast<std::uint32_t>(random_()) : 0;
    return made;
  }

  CollectiveCall launch(int size, std::uint64_t collective_number) {
    static const std::vector<std::string> kFailures = {"timeout", "aborted", "mismatch", "device error", ""};
    CollectiveCall made{.task = static_cast<std::uint32_t>(collective_number),
                        .sequence = collective_number,
                        .collective_number = collective_number};
    if (wild_ && one_in(4)) made.collective_number = one_in(2) ? random_() : ~below(3);
    for (std::size_t i = wild_ && one_in(9) ? 0 : 1 + below(4) / 3; i > 0; --i)
      made.operations.push_back(operation(size));
    made.stage = static_cast<Stage>(one_in(3) ? below(5) : 3);
    for (std::int64_t* one : {&made.asked_ns, &made.begun_ns, &made.met_ns, &made.ended_ns}) *one = time();
    if (made.stage == Stage::kFailed) made.failure = kFailures[below(kFailures.size())];
    made.label = text();
    made.device = text();
    made.replay = below(3);
    made.is_whole = !one_in(4);
    return made;
  }

  Group group(int rank, int ranks) {
    Group made{.name = one_in(4) ? text() : "world", .rank = rank};
    for (int i = 0; i < ranks; ++i) made.ranks.push_back(i);
    if (one_in(4)) made.ranks = {place(ranks), rank, place(ranks)};
    if (wild_ && one_in(6)) made.ranks.clear();
    if (one_in(8)) made.rank = place(ranks);
    made.asked = below(9);
    made.begun = wild_ ? random_() : below(9);
    made.ended = below(9);
    const std::uint64_t first = 1 + below(3);
    for (std::uint64_t i = 0; i < below(9); ++i)
      made.launches.push_back(launch(static_cast<int>(made.ranks.size()), first + i));
    return made;
  }

  Rank rank(int number, int ranks) {
    Rank made{.rank = wild_ && one_in(6) ? place(ranks) : number,
              .state = static_cast<RankState>(one_in(2) ? below(7) : 0)};
    made.reason = text();
    made.signal = one_in(3) ? static_cast<int>(below(20)) : 0;
    made.last_ns = time();
    made.lost = one_in(3) ? random_() : 0;
    for (std::uint64_t i = below(4); i > 0; --i) made.groups.push_back(group(number, ranks));
    for (std::uint64_t i = below(3); i > 0; --i) made.annotations.push_back({text(), odd_number(), text(), time()});
    if (one_in(3)) made.memory.push_back({text(), random_(), random_(), below(2) * random_(), {{text(), random_()}}});
    if (one_in(3)) made.launches.push_back({text(), text(), 1, time()});
    return made;
  }

  std::mt19937_64 random_;
  bool wild_ = false;
};

bool is_there(const Evidence& evidence, int rank) {
  for (const Rank& one : evidence.ranks) {
    if (one.rank == rank) return true;
    for (const Group& group : one.groups) {
      for (const int member : group.ranks) {
        if (member == rank) return true;
      }
    }
  }
  return false;
}

std::string wrong_in(const Evidence& evidence, const Verdict& verdict) {
  if (verdict.sentence.empty() || verdict.advice.empty()) return "nothing is said";
  if (verdict.sentence.find_first_of("\n\033\xff") != std::string::npos)
    return "not one visible line: " + verdict.sentence;
  for (const int rank : verdict.culprits) {
    if (!is_there(evidence, rank)) return "blames a rank that is not there";
  }
  if (verdict.fault == Fault::kNone && !verdict.culprits.empty()) return "blames somebody for nothing";
  return {};
}

std::string wrong_with(std::uint64_t seed) {
  const Evidence evidence = GroupCreation(seed).evidence();
  const Explanation found = explain(evidence);
  if (std::string wrong = wrong_in(evidence, found.verdict); !wrong.empty()) return wrong;
  for (const Verdict& other : found.others) {
    if (std::string wrong = wrong_in(evidence, other); !wrong.empty()) return wrong;
  }
  if (to_text(evidence, found).find('\033') != std::string::npos) return "text that a terminal obeys";
  if (to_json(evidence, found) != to_json(evidence, explain(evidence))) return "the same evidence gives other words";
  return {};
}

// Many ranks in many groups: a hang would exceed the deadline of the test.
std::string wrong_with_many() {
  Evidence evidence{.source = "many", .world_size = 1024, .taken_ns = 1'800'000'060'000'000'000};
  for (int rank = 0; rank < 1024; ++rank) {
    Rank& one = evidence.ranks.emplace_back(Rank{.rank = rank, .state = RankState::kRunning});
    for (int number = 0; number < 10; ++number) {
      Group& group = one.groups.emplace_back(Group{.name = "group " + std::to_string(number), .rank = rank});
      for (int i = 0; i < 1024; ++i) group.ranks.push_back(i);
      for (std::uint64_t collective_number = 1; collective_number <= (rank % 2 == 0 ? 100 : 99); ++collective_number) {
        const std::int64_t when = 1'800'000'000'000'000'000 + static_cast<std::int64_t>(collective_number) * 1'000'000;
        CollectiveCall& launch = group.launches.emplace_back(CollectiveCall{
            .task = static_cast<std::uint32_t>(collective_number), .collective_number = collective_number});
        launch.operations = {{.kind = "all_reduce", .dtype = "f32", .count = 8, .reduction = "sum"}};
        launch.stage = collective_number == 100 ? Stage::kBegun : Stage::kDone;
        launch.asked_ns = launch.begun_ns = when;
        if (collective_number != 100) launch.met_ns = launch.ended_ns = when + 1000;
      }
    }
  }
  const Explanation found = explain(evidence);
  return found.verdict.fault == Fault::kAbsent && found.verdict.culprits.size() == 512 ? "" : found.verdict.sentence;
}

}  // namespace
}  // namespace tessera::analysis

int main(int argc, char** argv) {
  bool has_many = false;
  return tessera::fuzz::run(argc, argv, "random evidences explained", [&](std::uint64_t seed) -> std::string {
    if (!has_many) {
      has_many = true;
      if (std::string wrong = tessera::analysis::wrong_with_many(); !wrong.empty()) return wrong;
    }
    return tessera::analysis::wrong_with(seed);
  });
}

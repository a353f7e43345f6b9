// Random logs in the format of RMM must be read back unchanged. The same logs corrupted at random must be rejected with
// an InvalidArgument or read as a consistent trace: each key allocated once and freed at most once.
//   analysis_trace_fuzz [--runs N] [--seed S] [--seconds T]
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "tessera/analysis/memory/trace.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"

namespace tessera::analysis {
namespace {

using Random = std::mt19937_64;

struct Program {
  std::string text = "Thread,Time,Action,Pointer,Size,Stream\n";
  Trace expected;
};

std::string quoted(const std::string& field, Random& random) { return random() % 8 == 0 ? '"' + field + '"' : field; }

std::string hex(std::uint64_t number, Random& random) {
  char text[32];
  std::snprintf(text, sizeof text, random() % 2 == 0 ? "0x%llx" : "%llX", static_cast<unsigned long long>(number));
  return text;
}

void add_line(Program& program, const std::string& action, const std::string& pointer, std::uint64_t nbytes,
              std::uint32_t stream, Random& random) {
  const std::string fields[] = {
      std::to_string(random() % 100), "12:00:00:000000", action, pointer, std::to_string(nbytes),
      "0x" + std::to_string(stream)};
  for (std::size_t i = 0; i < std::size(fields); ++i) {
    program.text += (i == 0 ? "" : ",") + quoted(fields[i], random);
  }
  program.text += random() % 4 == 0 ? "\r\n" : "\n";
}

// Streams first occur in the order of their numbers, as the reader counts them.
Program random_program(Random& random) {
  Program program;
  Trace& trace = program.expected;
  std::vector<std::pair<std::uint64_t, TraceOp>> live;  // by pointer
  std::vector<std::uint64_t> free_pointers;
  for (std::uint64_t p = 1; p <= 40; ++p) free_pointers.push_back(p << (random() % 50));
  std::sort(free_pointers.begin(), free_pointers.end());
  free_pointers.erase(std::unique(free_pointers.begin(), free_pointers.end()), free_pointers.end());
  const std::size_t steps = random() % 200;
  for (std::size_t i = 0; i < steps; ++i) {
    const std::uint64_t dice = random() % 10;
    if (dice < 5 && !free_pointers.empty()) {
      const std::size_t which = random() % free_pointers.size();
      const std::uint64_t pointer = free_pointers[which];
      free_pointers.erase(free_pointers.begin() + static_cast<std::ptrdiff_t>(which));
      const auto stream = static_cast<std::uint32_t>(random() % (trace.streams + 1));
      trace.streams = std::max(trace.streams, stream + 1);
      const TraceOp op{true, trace.keys++, random() >> (random() % 60 + 4), stream};
      trace.ops.push_back(op);
      live.emplace_back(pointer, op);
      add_line(program, "allocate", hex(pointer, random), op.nbytes, stream, random);
    } else if (dice < 9 && !live.empty()) {
      const std::size_t which = random() % live.size();
      auto [pointer, op] = live[which];
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      free_pointers.push_back(pointer);
      op.is_alloc = false;
      trace.ops.push_back(op);
      add_line(program, "free", hex(pointer, random), op.nbytes, op.stream, random);
    } else {
      ++trace.logged_failures;
      add_line(program, "allocate failure", random() % 2 == 0 ? "(nil)" : "0x0", random(), 0, random);
    }
  }
  return program;
}

std::string spoilt(std::string text, Random& random) {
  const std::size_t times = 1 + random() % 4;
  for (std::size_t i = 0; i < times && !text.empty(); ++i) {
    const std::size_t at = random() % text.size();
    switch (random() % 6) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text[at] = ",\"\n\r0x9-"[random() % 8]; break;
      case 2: text.erase(at, random() % 12); break;
      case 3: text.insert(at, text.substr(random() % text.size(), random() % 40)); break;
      case 4: text.resize(at); break;
      default: text.insert(at, 1, ",\"\n"[random() % 3]);
    }
  }
  return text;
}

std::string nonsense_in(const Trace& trace) {
  std::vector<int> state(trace.keys, 0);  // 0: not yet, 1: live, 2: freed
  std::vector<TraceOp> made(trace.keys);
  std::uint64_t next = 0;
  for (const TraceOp& op : trace.ops) {
    if (op.key >= trace.keys || op.stream >= trace.streams) return "a key or a stream beyond those counted";
    if (op.is_alloc && op.key != next++) return "keys do not count in order";
    if (state[op.key] != (op.is_alloc ? 0 : 1)) return "a key allocated or freed at the wrong time";
    state[op.key] += 1;
    if (op.is_alloc) made[op.key] = op;
    if (made[op.key].nbytes != op.nbytes || made[op.key].stream != op.stream) return "a free unlike its allocation";
  }
  return next == trace.keys ? "" : "keys that were never allocated";
}

std::string run_one(std::uint64_t seed) {
  Random random(seed);
  const Program program = random_program(random);
  const Trace trace = parse_rmm_csv(program.text);
  if (trace.ops != program.expected.ops) return "the trace is not what was written:\n" + program.text;
  if (trace.streams != program.expected.streams || trace.keys != program.expected.keys) return "the counts are wrong";
  if (trace.logged_failures != program.expected.logged_failures) return "the count of failures is wrong";
  for (int i = 0; i < 8; ++i) {
    try {
      std::string problem = nonsense_in(parse_rmm_csv(spoilt(program.text, random)));
      if (!problem.empty()) return problem;
    } catch (const InvalidArgument&) {
    }
  }
  return {};
}

}  // namespace
}  // namespace tessera::analysis

int main(int argc, char** argv) { return tessera::fuzz::run(argc, argv, "logs", tessera::analysis::run_one); }

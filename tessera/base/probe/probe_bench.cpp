// Cost of a record: alone, with all cores recording into one file, and with recording off.
#include <chrono>
#include <thread>
#include <vector>

#include "tessera/base/probe/recorder.h"
#include "tessera/base/testing/bench.h"

namespace tessera::probe {
namespace {

struct BenchRecord {
  std::uint32_t stream;
  StringId label;
  std::uint64_t tick;
  std::uint64_t grid;
  std::uint64_t address;
  std::uint64_t nbytes;
  TESSERA_RECORD(BenchRecord, "bench", stream, label, tick, grid, address, nbytes)
};

void write_one(Recorder& recorder, std::uint64_t i) {
  recorder.write(Ring::kLaunch, BenchRecord{7, StringId{3}, i, 5, i, 64});
}

TESSERA_BENCH(probe_record) {
  std::uint64_t i = 0;
  context.measure({.name = "probe_record",
                   .ours =
                       [&] {
                         record(Ring::kLaunch, BenchRecord{7, StringId{3}, ++i, 5, i, 64});
                       },
                   .must = 25});
}

// The lower bound of a record: reading the clock.
TESSERA_BENCH(probe_clock) {
  const Recorder& shared = recorder();
  context.measure({.name = "probe_clock", .ours = [&] { bench::do_not_optimize(shared.now()); }});
}

TESSERA_BENCH(probe_record_all_cores) {
  constexpr int kRecords = 20000;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  Recorder& shared = recorder();
  auto sample = [&]() -> double {
    // From the time when all threads are ready to the end of the last one, including the registration in the file.
    const double nanoseconds = bench::run_together(cores, [&](int) {
      for (std::uint64_t i = 0; i < kRecords; ++i) write_one(shared, i);
    });
    return nanoseconds / kRecords;
  };
  context.measure({.name = "probe_record_all_cores", .ours = sample, .must = 40});
}

TESSERA_BENCH(probe_record_off) {
  Recorder off({}, {.is_on = false});
  std::uint64_t i = 0;
  context.measure({.name = "probe_record_off", .ours = [&] { write_one(off, ++i); }});
}

}  // namespace
}  // namespace tessera::probe

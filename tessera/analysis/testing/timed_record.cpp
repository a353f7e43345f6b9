#include "tessera/analysis/testing/timed_record.h"

#include "tessera/base/probe/annotation.h"
#include "tessera/device/launch_records.h"

namespace tessera::analysis::testing {

using probe::Moment;
using probe::Ring;

TimedRecord::TimedRecord() : recorder_(RankPlace{}, {.nbytes = std::uint64_t{1} << 20}) {
  world_ = recorder_.table<comm::CommGroupRow>().claim({.group = 1,
                                                        .rank = 0,
                                                        .size = 1,
                                                        .name = recorder_.intern("world"),
                                                        .ranks = recorder_.intern("0"),
                                                        .backend = recorder_.intern("shm")});
  const double ns_per_tick = static_cast<double>(file().info().clock.duration_ns(1'000'000'000)) / 1e9;
  ticks_per_us_ = 1000 / ns_per_tick;
  first_ = recorder_.begin().value();
}

Moment TimedRecord::at(std::int64_t us) const {
  return Moment{first_ +
                static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<double>(us) * ticks_per_us_))};
}

std::int64_t TimedRecord::wall_ns(std::int64_t us) const { return file().info().clock.wall_ns(at(us).value()); }

std::uint64_t TimedRecord::launch(std::int64_t us, const std::string& label, std::uint32_t stream,
                                  const std::string& device) {
  ++number_;
  recorder_.write_at(
      at(us), Ring::kLaunch,
      device::LaunchRecord{recorder_.intern(label), stream, recorder_.intern(device), 0, number_, number_, 0});
  return number_;
}

void TimedRecord::launch_end(std::int64_t us, std::uint64_t number, std::uint32_t stream, const std::string& device) {
  recorder_.write_at(at(us), Ring::kLaunch,
                     device::LaunchEndRecord{number, stream, recorder_.intern(device), at(us), 0, 0});
}

void TimedRecord::device_end(std::int64_t told_us, std::uint64_t number, std::int64_t begin_us, std::int64_t end_us,
                             std::uint32_t stream, const std::string& device) {
  recorder_.write_at(
      at(told_us), Ring::kLaunch,
      device::LaunchEndRecord{number, stream, recorder_.intern(device), at(0), begin_us * 1000, end_us * 1000});
}

void TimedRecord::kernel(std::int64_t asked_us, std::int64_t end_us, const std::string& label, std::uint32_t stream) {
  launch_end(end_us, launch(asked_us, label, stream), stream);
}

void TimedRecord::replay(std::int64_t asked_us, std::int64_t end_us, std::uint32_t stream) {
  ++number_;
  recorder_.write_at(
      at(asked_us), Ring::kLaunch,
      device::LaunchRecord{recorder_.intern("graph"), stream, recorder_.intern("host"), 1, number_, number_, 1});
  launch_end(end_us, number_, stream);
}

void TimedRecord::mark_begin(std::int64_t us, const std::string& name, std::int64_t value, std::uint32_t depth) {
  recorder_.write_at(at(us), Ring::kLaunch, probe::AnnotationBeginRecord{value, recorder_.intern(name), depth});
}
void TimedRecord::mark_end(std::int64_t us, const std::string& name, std::int64_t value, std::uint32_t depth) {
  recorder_.write_at(at(us), Ring::kLaunch, probe::AnnotationEndRecord{value, recorder_.intern(name), depth});
}

void TimedRecord::collective(comm::OpKind kind, std::int64_t asked_us, std::int64_t begin_us, std::int64_t end_us) {
  ++task_;
  const auto sum = Reduction::kSum;
  recorder_.write_at(
      at(asked_us), Ring::kComm,
      comm::OperationRecord{8, task_, 1, 1, recorder_.intern("host"), 0, {}, kind, DType::kF32, sum, 0, 0});
  recorder_.write_at(at(begin_us), Ring::kComm,
                     comm::BeginRecord{task_, 8, task_, 1, kind, DType::kF32, sum, 1, 0, task_});
  recorder_.write_at(at(end_us), Ring::kComm, comm::EndRecord{task_, task_, 1, at(begin_us), 0});
}

}  // namespace tessera::analysis::testing

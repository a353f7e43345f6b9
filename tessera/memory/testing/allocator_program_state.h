// State of a random allocator program (allocator_program.h): its streams, its buffers, and its captures.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/testing/allocator_program.h"
#include "tessera/memory/testing/lane_clocks.h"
#include "tessera/memory/testing/random_numbers.h"

namespace tessera::memory::testing {

/// Thrown if the allocator violates its contract.
struct ProgramFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Knowledge of the value of a buffer.
enum class Value : std::uint8_t {
  kUnwritten,
  kKnown,  ///< Item::value
  kUnknown,
  kOverwritten,  ///< of a captured buffer: another graph overwrote it
};

/// A current or former buffer of the program.
struct ProgramBuffer {
  int id = 0;
  Buffer buffer;  ///< empty: freed
  std::byte* data = nullptr;
  std::size_t nbytes = 0;
  std::size_t usable = 0;
  int lane = -1;             ///< lane of the allocation
  int home = 0;              ///< number of its pool
  int capture = -1;          ///< capture of its allocation; -1: none
  bool is_captured = false;  ///< in memory of captures
  bool is_dropped = false;   ///< its capture was dropped: no graph writes it
  Value state = Value::kUnwritten;
  std::uint32_t value = 0;
  bool is_solid = false;        ///< the value is in every byte
  Moment writer;                ///< of eager work and, for a buffer outside of the pool of a graph, of replays
  std::vector<Moment> readers;  ///< since then
  int overwritten = 0;          ///< number of the last replay that overwrote it with another buffer
  int born = 0;                 ///< step of the program
  int freed = 0;                ///< 0: held

  [[nodiscard]] bool overlaps(const ProgramBuffer& other) const {
    return data < other.data + other.usable && other.data < data + usable;
  }
};

/// A captured operation.
struct CapturedOperation {
  enum Kind { kHandOut, kWrite, kCopy } kind;
  int to = -1;
  int from = -1;
  std::uint32_t value = 0;
};

/// A captured graph.
struct GraphModel {
  CapturedGraph graph;
  int pool = 0;         ///< pool of the capture
  std::set<int> pools;  ///< pools in which it has memory
  std::vector<CapturedOperation> operations;
  std::set<int> made;     ///< items allocated in it
  std::set<int> read;     ///< other items it reads
  std::set<int> written;  ///< other items it writes
  int captured = 0;       ///< number of earlier replays
  Moment last;            ///< last replay
};

/// A capture in progress.
struct CaptureModel {
  std::unique_ptr<GraphCapture> capture;
  int number = 0;
  GraphModel model;
  LaneClocks clocks;
  std::vector<int> lanes;  ///< of the program, by lane of the capture (some are over); the origin first
  struct Touch {
    Moment writer;
    std::vector<Moment> readers;
  };
  std::map<int, Touch> touched;  ///< by item
  struct Saved {
    std::vector<NodeId> nodes;
    LaneClocks::Clock clock;
  };
  std::optional<Saved> saved;  ///< a dependency set to return to
};

/// One program; run() throws failures. Not thread-safe.
class AllocatorProgram {
 public:
  AllocatorProgram(device::Device device, std::uint64_t seed, AllocatorProgramCounts& counts);
  void run();

 private:
  struct ProgramLane {
    Stream stream;
    int capture = -1;  ///< index into captures_; -1: none
    int inner = -1;    ///< lane of that capture
    [[nodiscard]] bool is_alive() const { return static_cast<bool>(stream); }
  };
  struct PoolModel {
    Pool pool;
    std::vector<Moment> replays;
  };

  // allocator_program.cpp
  void step();
  void allocate_step();
  void free_step();
  void work_step();
  void overlap_step();
  void stream_step();
  void pool_step();
  void layout_step();
  void pinned_step();
  void verify();
  void check_identity(const char* when);
  void finish();
  ProgramBuffer* allocate(int lane, std::size_t nbytes);
  ProgramBuffer& add_item(Buffer buffer, int lane, int home);
  void free(ProgramBuffer& item);
  bool eager_work(int lane, ProgramBuffer& to, ProgramBuffer* from);
  bool demand(int lane, const std::vector<Moment>& moments);
  void join(int lane, int other);
  void synchronize();
  void launch(const Stream& stream, const ProgramBuffer& to, const ProgramBuffer* from, std::uint32_t value,
              bool is_whole);
  [[nodiscard]] std::vector<Moment> needed(const ProgramBuffer& item, bool is_write) const;
  void wrote(ProgramBuffer& item, std::optional<std::uint32_t> value, bool is_solid, bool by_graph);

  // allocator_program_capture.cpp
  void capture_step();
  void captured_step(CaptureModel& capture);
  void captured_allocate(CaptureModel& capture, int lane, std::size_t nbytes);
  void captured_work(CaptureModel& capture, int lane);
  void captured_work(CaptureModel& capture, int lane, ProgramBuffer& to, ProgramBuffer* from);
  void captured_dependencies(CaptureModel& capture, int lane);
  bool captured_demand(CaptureModel& capture, int inner, int item, bool is_write);
  void captured_join(CaptureModel& capture, int inner, int other);
  void join_capture(int index, int lane);
  bool is_current(const CaptureModel& capture, int inner);
  void end_capture(int index, bool is_dropped);
  void close_capture(int index);
  void replay_step();
  bool order_replay(const GraphModel& graph, int lane, bool with_replays);
  void replayed(GraphModel& graph, int lane);
  void graph_step();
  void estimate_step();

  // random choices
  std::size_t random_size();
  int random_lane(bool may_capture);
  ProgramBuffer* random_item(bool may_be_captured);
  [[nodiscard]] bool is_open(const ProgramBuffer& item) const;  ///< its capture is still in progress
  [[nodiscard]] int captures_under_way() const;
  ProgramBuffer& item(int id) { return *items_[static_cast<std::size_t>(id)]; }
  ProgramLane& lane(int index) { return lanes_[static_cast<std::size_t>(index)]; }

  device::Device device_;
  RandomNumbers random_;
  AllocatorProgramCounts& counts_;
  Allocator allocator_;
  Allocator pinned_;
  LaneClocks clocks_;
  std::vector<ProgramLane> lanes_;
  std::vector<PoolModel> pools_;  ///< the default pool first
  std::vector<std::unique_ptr<ProgramBuffer>> items_;
  std::vector<int> held_;
  std::vector<std::unique_ptr<CaptureModel>> captures_;  ///< null: over
  std::vector<std::unique_ptr<GraphModel>> graphs_;
  std::optional<std::pair<int, PoolLayout>> layout_;
  int now_ = 0;
  int captures_made_ = 0;
  int replays_made_ = 0;
  std::uint32_t last_value_ = 0;
};

}  // namespace tessera::memory::testing

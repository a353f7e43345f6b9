// A model of an allocator, for tests of history readers: it allocates, frees and maps addresses without memory, writes
// the records of an allocator including keyframes, and knows the live blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/probe/recorder.h"
#include "tessera/memory/history.h"
#include "tessera/memory/snapshot.h"

namespace tessera::memory::testing {

/// One allocator with pools on several streams, each pair a heap with separate addresses.
class HistoryModel {
 public:
  static constexpr std::uint64_t kGranule = 2 << 20;

  /// Creates pools with rows in the pool table. `number` distinguishes allocators of one file.
  HistoryModel(probe::Recorder& recorder, std::uint32_t number, std::uint64_t seed);

  /// Performs and records a random action.
  void step();
  /// Writes a keyframe as an allocator does, heap by heap; calls `between` between heaps. Stops after `heaps` heaps,
  /// like a killed process.
  void keyframe(const std::function<void()>& between = {}, std::size_t heaps = ~std::size_t{0});

  /// Returns the number of records written so far.
  [[nodiscard]] std::uint64_t records() const { return records_; }
  /// Returns the difference between a snapshot and the state of this model; empty if none.
  [[nodiscard]] std::string difference(const Snapshot& snapshot) const;
  /// Returns the name of its device.
  [[nodiscard]] std::string device() const { return "model:" + std::to_string(number_); }
  /// Returns the live requested bytes, by label.
  [[nodiscard]] std::map<std::string, std::uint64_t> live_by_label() const;

 private:
  struct ModelBlock {
    std::uint64_t nbytes = 0, requested = 0;
    bool is_pending = false;
    std::uint32_t label = 0;  // index
  };
  struct ModelHeap {
    std::uint32_t pool = 0, stream = 0;
    bool is_expandable = true;
    std::uint64_t base = 0;
    std::map<std::uint64_t, std::uint64_t> pieces;  // mapped: address, size
    std::map<std::uint64_t, ModelBlock> blocks;     // not cached
  };

  template <class Record>
  void write(const Record& record) {
    recorder_.write(probe::Ring::kMemory, record);
    ++records_;
  }
  std::uint64_t pick(std::uint64_t count) { return random_() % count; }
  static std::uint64_t find_gap(const ModelHeap& heap, std::uint64_t nbytes);
  static bool is_free(const ModelHeap& heap, std::uint64_t address, std::uint64_t nbytes);
  void map(ModelHeap& heap);
  void unmap(ModelHeap& heap);
  void allocate(ModelHeap& heap);
  void free(ModelHeap& heap);
  void complete(ModelHeap& heap);
  std::uint32_t write_rows(const ModelHeap& heap);

  probe::Recorder& recorder_;
  std::uint32_t number_;
  std::mt19937_64 random_;
  std::vector<probe::Row<MemoryPoolRow>> rows_;
  std::vector<std::pair<std::string, probe::StringId>> labels_;
  probe::StringId stack_;
  std::map<std::uint32_t, PoolId> pools_;
  std::vector<ModelHeap> heaps_;
  std::uint64_t keyframes_ = 0;
  std::uint64_t records_ = 0;
};

}  // namespace tessera::memory::testing

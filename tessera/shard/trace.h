// Traces of sharded calls:
//
//   TraceLayouts trace(&std::cerr);
//   loss = model(batch);
//   trace.counts().collectives;           // of this scope alone
//
//   mm(f32[8, 64] {Shard(0), Replicate()}, f32[64, 64] {Replicate(), Shard(1)}) -> f32[8, 64] {Shard(0), Shard(1)}
//   move f32[8, 64] {Partial()} -> {Replicate()}: all-reduce over tp, 2 KiB, 6.1 us; automatic [encoder]
//
// visualize() draws which ranks own which elements of a tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layout/plan.h"
#include "tessera/shard/scopes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

struct TraceEvent;
namespace detail {
/// Passes the event to all scopes of this thread.
void tell(const TraceEvent& event);
}  // namespace detail

/// One traced event.
struct TESSERA_API TraceEvent {
  /// Kind of an event.
  enum class Kind : std::uint8_t {
    kCall,         ///< Call of an operator.
    kMove,         ///< Redistribution of a tensor.
    kCooperation,  ///< Exchange of statistics by a cooperative operator.
    kCollective,   ///< Collective on plain tensors.
  };
  Kind kind = Kind::kCall;                        ///< Kind of this event.
  std::string op = {};                            ///< Operator or collective. Empty for an explicit redistribution.
  std::vector<std::string> inputs = {};           ///< "f32[8, 64] {Shard(0)}". For kMove, the tensor before.
  std::vector<std::string> outputs = {};          ///< Results in the same format. For kMove, the tensor after.
  std::shared_ptr<const layout::Plan> plan = {};  ///< Plan of a kMove.
  std::string axes = {};                          ///< Axes of a kCooperation or kCollective: "dp and tp".
  std::int64_t nbytes = 0;                        ///< Bytes received by the busiest rank.
  double us = 0;                                  ///< Estimated time of a kMove in microseconds.
  bool is_automatic = false;                      ///< True if an AutoRedistribute scope caused the kMove.
  std::string label = {};                         ///< Memory label in force. In backward, that of the forward call.
  /// Returns one line, and for a kMove one more line for each step after the first.
  [[nodiscard]] std::string text() const;
};

/// Collects the events of this thread during its lifetime, and prints them if a stream is given. Scopes nest: outer
/// scopes also receive the events.
class TESSERA_API TraceLayouts {
 public:
  /// Starts the trace. `to` must outlive it.
  explicit TraceLayouts(std::ostream* to = nullptr);
  /// Ends the trace.
  ~TraceLayouts();
  TraceLayouts(const TraceLayouts&) = delete;
  TraceLayouts& operator=(const TraceLayouts&) = delete;

  /// Returns the events so far, in order.
  [[nodiscard]] const std::vector<TraceEvent>& events() const { return events_; }
  /// Returns the increase of the counters of this rank since the scope began.
  [[nodiscard]] ShardCounts counts() const;

 private:
  friend void detail::tell(const TraceEvent& event);
  std::ostream* to_;
  TraceLayouts* outer_;
  ShardCounts before_;
  std::vector<TraceEvent> events_;
};

/// Draws which ranks own which elements, as text: one row per chunk of one dimension, one column per chunk of another,
/// and in each cell the ranks that hold the box. If the tensor has more than two dimensions, at most two sharded ones
/// are drawn. Also lists ranks without data and partial axes.
TESSERA_API std::string visualize(const Tensor& tensor);

}  // namespace tessera::shard

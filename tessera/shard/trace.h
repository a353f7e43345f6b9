// What sharded calls do, told as they do it:
//
//   TraceLayouts trace(&std::cerr);
//   loss = model(batch);
//   trace.counts().collectives;           // of this scope alone
//
//   mm(f32[8, 64] {Shard(0), Replicate()}, f32[64, 64] {Replicate(), Shard(1)}) -> f32[8, 64] {Shard(0), Shard(1)}
//   move f32[8, 64] {Partial()} -> {Replicate()}: all-reduce over tp, 2 KiB, 6.1 us; automatic [encoder]
//
// and who owns what of one tensor, drawn as text.
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
/// Tells all scopes of this thread.
void tell(const TraceEvent& event);
}  // namespace detail

/// One thing that happened.
struct TESSERA_API TraceEvent {
  /// What.
  enum class Kind : std::uint8_t {
    kCall,         ///< an operator was called
    kMove,         ///< a tensor went to another layout
    kCooperation,  ///< ranks shared statistics of a cooperative operator
    kCollective,   ///< ranks met in a collective on plain tensors
  };
  Kind kind = Kind::kCall;                        ///< what
  std::string op = {};                            ///< the operator or collective; of a move that was asked for: none
  std::vector<std::string> inputs = {};           ///< "f32[8, 64] {Shard(0)}": of a move, the tensor before
  std::vector<std::string> outputs = {};          ///< likewise the results; of a move, the tensor after
  std::shared_ptr<const layout::Plan> plan = {};  ///< of a move
  std::string axes = {};                          ///< of a cooperation or a collective: "dp and tp"
  std::int64_t nbytes = 0;                        ///< received by the busiest rank
  double us = 0;                                  ///< of a move, by the cost model
  bool is_automatic = false;                      ///< of a move: an AutoRedistribute scope did it
  std::string label = {};                         ///< memory label in force; of backward, that of the forward call
  /// One line, or one for each step of a move behind the first.
  [[nodiscard]] std::string text() const;
};

/// Collects what sharded calls of this thread do while it lives, and prints it where a stream is given. Scopes nest:
/// the outer ones see it too.
class TESSERA_API TraceLayouts {
 public:
  /// Starts; `to` outlives it.
  explicit TraceLayouts(std::ostream* to = nullptr);
  /// Ends.
  ~TraceLayouts();
  TraceLayouts(const TraceLayouts&) = delete;
  TraceLayouts& operator=(const TraceLayouts&) = delete;

  /// What happened so far, in order.
  [[nodiscard]] const std::vector<TraceEvent>& events() const { return events_; }
  /// What this rank has counted since the scope began.
  [[nodiscard]] ShardCounts counts() const;

 private:
  friend void detail::tell(const TraceEvent& event);
  std::ostream* to_;
  TraceLayouts* outer_;
  ShardCounts before_;
  std::vector<TraceEvent> events_;
};

/// Who owns what, as text: a row for each piece of one dimension, a column for each of another, the ranks that hold the
/// box in each cell. Of a tensor of more than two dimensions those are drawn that are cut, at most two. Says which
/// ranks hold nothing, and where values are partial.
TESSERA_API std::string visualize(const Tensor& tensor);

}  // namespace tessera::shard

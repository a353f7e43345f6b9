// Host functions on the way through the driver. Outside graphs a call is made once and then retired. Inside a graph it
// may run many times and is owned by the graph: the driver holds it as a user object and lets go of it when the graph,
// its executables and their launches are gone.
//
// A graph's call does not know which launch it runs for, and two executables of one graph may run at once. So every
// executable gets calls of its own (rebind_host_calls), and since the launches of one executable run one after the
// other, the k-th run of a call belongs to the k-th launch since it was bound: GraphRuns keeps the list.
#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <mutex>

#include "tessera/device/cuda/retired.h"
#include "tessera/device/cuda/stream_errors.h"
#include "tessera/device/host_function.h"

namespace tessera::device::cuda {

class CudaContext;

/// A call made once.
class EagerCall : public Retired {
 public:
  /// `errors` null: the body cannot fail.
  EagerCall(CudaContext& context, HostFunction body, std::shared_ptr<StreamErrors> errors);
  /// Puts `body` on the stream; what it throws is parked in `errors`.
  static void launch(CudaContext& context, CUstream stream, HostFunction body, std::shared_ptr<StreamErrors> errors);

 private:
  static void run(void* self);

  CudaContext& context_;
  HostFunction body_;
  std::shared_ptr<StreamErrors> errors_;
  StreamErrors::Place place_ = 0;
};

/// The launches of one executable that have host functions still to run.
class GraphRuns {
 public:
  /// A launch with `calls` host functions is about to be made; what they throw is parked in `errors`.
  void begin(const std::shared_ptr<StreamErrors>& errors, std::size_t calls);
  /// The launch just begun was not made.
  void cancel_last();
  /// Launches begun so far.
  std::uint64_t launches();
  /// A host function of this launch is done.
  void finished(std::uint64_t launch, std::exception_ptr error) noexcept;

 private:
  struct Launch {
    std::shared_ptr<StreamErrors> errors;
    StreamErrors::Place place;
    std::size_t remaining;
    std::exception_ptr error;
  };
  std::mutex mutex_;
  std::uint64_t first_ = 0;  // number of launches_.front()
  std::deque<Launch> launches_;
};

/// A call inside a graph.
class GraphCall : public Retired {
 public:
  /// `runs` null: the call sits in a graph that is not executable yet; should somebody else run it, what it throws is
  /// parked in `errors`.
  GraphCall(std::shared_ptr<HostFunction> body, std::shared_ptr<GraphRuns> runs, std::shared_ptr<StreamErrors> errors);
  /// What the driver calls.
  static void run(void* self);
  [[nodiscard]] const std::shared_ptr<HostFunction>& body() const { return body_; }
  [[nodiscard]] const std::shared_ptr<StreamErrors>& errors() const { return errors_; }

 private:
  std::shared_ptr<HostFunction> body_;
  std::shared_ptr<GraphRuns> runs_;
  std::shared_ptr<StreamErrors> errors_;
  std::uint64_t next_launch_ = 0;
};

/// Makes `graph` the owner of `thing`, which is retired when the graph and all that was made from it are gone. On
/// failure it is destroyed.
void give_to_graph(CudaContext& context, CUgraph graph, std::unique_ptr<Retired> thing);
/// Gives every host function of ours in `graph`, and in the graphs inside it, a call of its own owned by `owner`.
/// Returns how many there are.
std::size_t rebind_host_calls(CudaContext& context, CUgraph graph, CUgraph owner,
                              const std::shared_ptr<GraphRuns>& runs);

}  // namespace tessera::device::cuda

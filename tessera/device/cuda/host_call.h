// Host functions that pass through the driver. Outside graphs, a call runs once and is then retired. Inside a graph it
// may run many times, and the graph owns it: the driver holds it as a user object and releases it when the graph, its
// executables and their launches are destroyed.
//
// A call of a graph does not know which launch it runs for, and two executables of one graph may run at the same time.
// So each executable gets its own calls (rebind_host_calls). Launches of one executable run one after the other, so the
// k-th run of a call belongs to the k-th launch since it was bound: GraphRuns keeps the list.
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

/// A call that runs once.
class EagerCall : public Retired {
 public:
  /// `errors` is null if the body cannot fail.
  EagerCall(CudaContext& context, HostFunction body, std::shared_ptr<StreamErrors> errors);
  /// Enqueues `body` on the stream; its error is parked in `errors`.
  static void launch(CudaContext& context, CUstream stream, HostFunction body, std::shared_ptr<StreamErrors> errors);

 private:
  static void run(void* self);

  CudaContext& context_;
  HostFunction body_;
  std::shared_ptr<StreamErrors> errors_;
  StreamErrors::Place place_ = 0;
};

/// The launches of one executable with pending host functions.
class GraphRuns {
 public:
  /// Notes that a launch with `calls` host functions is about to be made; their errors are parked in `errors`.
  void begin(const std::shared_ptr<StreamErrors>& errors, std::size_t calls);
  /// Notes that the last launch was not made.
  void cancel_last();
  /// Returns the number of launches so far.
  std::uint64_t launches();
  /// Notes that a host function of this launch has finished.
  void finished(std::uint64_t launch, std::exception_ptr error) noexcept;

 private:
  struct HostLaunch {
    std::shared_ptr<StreamErrors> errors;
    StreamErrors::Place place;
    std::size_t remaining;
    std::exception_ptr error;
  };
  std::mutex mutex_;
  std::uint64_t first_ = 0;  // number of launches_.front()
  std::deque<HostLaunch> launches_;
};

/// A call inside a graph.
class GraphCall : public Retired {
 public:
  /// `runs` is null in a graph that is not executable yet; if another library runs it, its error is parked in `errors`.
  GraphCall(std::shared_ptr<HostFunction> body, std::shared_ptr<GraphRuns> runs, std::shared_ptr<StreamErrors> errors);
  /// The callback for the driver.
  static void run(void* self);
  [[nodiscard]] const std::shared_ptr<HostFunction>& body() const { return body_; }
  [[nodiscard]] const std::shared_ptr<StreamErrors>& errors() const { return errors_; }

 private:
  std::shared_ptr<HostFunction> body_;
  std::shared_ptr<GraphRuns> runs_;
  std::shared_ptr<StreamErrors> errors_;
  std::uint64_t next_launch_ = 0;
};

/// Makes `graph` the owner of `thing`, which is retired when the graph and all its copies are destroyed. Destroys it on
/// failure.
void give_to_graph(CudaContext& context, CUgraph graph, std::unique_ptr<Retired> thing);
/// Gives each host function of ours in `graph` and its nested graphs a separate call, owned by `owner`. Returns their
/// number.
std::size_t rebind_host_calls(CudaContext& context, CUgraph graph, CUgraph owner,
                              const std::shared_ptr<GraphRuns>& runs);

}  // namespace tessera::device::cuda

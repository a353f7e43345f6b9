// Graphs that own the memory of their capture.
//
//   GraphCapture capture(pool, stream, "decode");       // begins; allocations on its streams come from the pool
//   ... launches and allocations on `stream` and on streams that join it ...
//   CapturedGraph graph = capture.end();
//   graph.replay(stream);
//
// Inside a capture, a freed block is reused by any stream of the capture if the nodes that used it provably come before
// (capture_order.h). At the end, all freed blocks are available to the next capture into the pool.
//
// Several graphs may share a pool and its memory. A graph tracks the bytes it writes, and the bytes it reads that
// another graph of the pool must have written: the buffers with use_on() inside its capture. In a capture, this
// includes the stream of the allocation. A replay is rejected with an error that names both graphs if its input was
// overwritten, or if it could overlap with a replay that shares memory. A buffer of a dropped capture is written by no
// graph: its contents stay valid until a graph overwrites them.
//
// A graph keeps buffers from outside the pool with use_on() inside its capture: if freed, their memory is released with
// the graph. The caller must keep other buffers that the graph uses.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/device/graph.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/pool.h"

namespace tessera::memory {

namespace detail {
struct CaptureScope;
struct CapturedState;
}  // namespace detail

/// Handle to a graph with its memory. Copies share it. After the last one, the memory is available to other graphs of
/// the pool. Buffers allocated in its capture stay valid. Thread-safe.
class TESSERA_API CapturedGraph {
 public:
  /// Constructs an empty handle.
  CapturedGraph() = default;
  /// For GraphCapture::end().
  explicit CapturedGraph(std::shared_ptr<detail::CapturedState> state) : state_(std::move(state)) {}
  /// Returns true if the handle refers to a graph.
  explicit operator bool() const { return state_ != nullptr; }
  /// Launches the graph on `stream`. Throws InvalidArgument and launches nothing if its input was overwritten or its
  /// memory may still be in use by another replay.
  void replay(const device::Stream& stream) const;
  /// Returns the captured nodes.
  [[nodiscard]] const device::Graph& graph() const;
  /// Returns the name.
  [[nodiscard]] const std::string& name() const;
  /// Returns the pool of its memory.
  [[nodiscard]] Pool pool() const;
  /// Returns the bytes of the pool that it writes.
  [[nodiscard]] std::size_t written_nbytes() const;

 private:
  std::shared_ptr<detail::CapturedState> state_;
};

/// A capture in progress. Belongs to the thread that created it.
class TESSERA_API GraphCapture {
 public:
  /// Begins a capture on `stream` into `pool`. `name` appears in errors and reports; default: "graph N".
  GraphCapture(Pool pool, const device::Stream& stream, std::string name = {});
  /// Begins a capture into a new pool.
  GraphCapture(const Allocator& allocator, const device::Stream& stream, const std::string& name = {});
  /// Drops the capture unless it was ended.
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  /// Ends the capture. If a stream that joined it has not been joined back, throws, and the capture continues.
  [[nodiscard]] CapturedGraph end();

 private:
  void abandon() noexcept;
  std::unique_ptr<detail::CaptureScope> scope_;
};

/// Returns the bytes by which the pool would grow. Runs `body`, which launches and allocates on `stream`, inside a
/// capture on addresses without memory, and drops the capture.
TESSERA_API std::size_t estimate(const Pool& pool, const device::Stream& stream, const std::function<void()>& body);

}  // namespace tessera::memory

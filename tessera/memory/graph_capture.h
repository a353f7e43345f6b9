// Graphs that own the memory they were captured on.
//
//   GraphCapture capture(pool, stream, "decode");       // begins; allocations on its streams come from the pool
//   ... launches and allocations on `stream` and on streams that join it ...
//   CapturedGraph graph = capture.end();
//   graph.replay(stream);
//
// Inside a capture a freed block is handed out again, to any stream of the capture, when the nodes that used it are
// proved to come before (capture_order.h). At the end all freed blocks are free for the next capture into the pool.
//
// Several graphs may share a pool, and so memory. A graph knows the bytes it writes, and the bytes it reads that
// another graph of the pool must have written: those of buffers on which use_on() was called inside its capture (in a
// capture say it also for the stream the buffer was allocated for). A replay whose input was overwritten since, or that
// could run at the same time as a replay it shares memory with, is refused with an error that names both graphs. A
// buffer whose capture was dropped is written by no graph: what the holder put there is good until one overwrites it.
//
// A buffer from outside the pool on which use_on() was called in the capture is kept for the graph: freed meanwhile,
// its memory comes back when the graph is gone. A buffer that is used without saying so must be kept by the caller.
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

/// A graph with its memory. A shared handle; when the last is gone the memory is free for other graphs of the pool, and
/// buffers that were allocated in its capture stay valid. Thread-safe.
class TESSERA_API CapturedGraph {
 public:
  /// No graph.
  CapturedGraph() = default;
  /// Made by GraphCapture::end.
  explicit CapturedGraph(std::shared_ptr<detail::CapturedState> state) : state_(std::move(state)) {}
  /// Whether there is a graph.
  explicit operator bool() const { return state_ != nullptr; }
  /// Launches it on `stream`; InvalidArgument, and nothing launched, when what it reads is not there or what it writes
  /// may still be in use (see the head of the file).
  void replay(const device::Stream& stream) const;
  /// The captured nodes.
  [[nodiscard]] const device::Graph& graph() const;
  /// Its name.
  [[nodiscard]] const std::string& name() const;
  /// The pool its memory is in.
  [[nodiscard]] Pool pool() const;
  /// Bytes of the pool that it writes.
  [[nodiscard]] std::size_t written_nbytes() const;

 private:
  std::shared_ptr<detail::CapturedState> state_;
};

/// A capture under way. Belongs to the thread that made it; the destructor drops a capture that was not ended.
class TESSERA_API GraphCapture {
 public:
  /// Begins a capture on `stream` into `pool`. `name` shows in errors and reports; default: "graph N".
  GraphCapture(Pool pool, const device::Stream& stream, std::string name = {});
  /// The same into a pool of its own.
  GraphCapture(const Allocator& allocator, const device::Stream& stream, const std::string& name = {});
  /// Drops the capture unless it was ended.
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  /// Ends the capture. While a stream that joined it has not been joined back this throws and the capture goes on.
  [[nodiscard]] CapturedGraph end();

 private:
  void abandon() noexcept;
  std::unique_ptr<detail::CaptureScope> scope_;
};

/// What a capture would cost before it is made: runs `body`, which launches and allocates on `stream`, inside a capture
/// on addresses that have no memory, and drops it. Returns the bytes the pool would have to grow by.
TESSERA_API std::size_t estimate(const Pool& pool, const device::Stream& stream, const std::function<void()>& body);

}  // namespace tessera::memory

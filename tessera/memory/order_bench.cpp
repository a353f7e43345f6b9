// Cost of proofs: an allocation in a capture calls advance() and proves(), a free advance() and mark(), and every
// replay of a graph is checked. Driver calls (dependency set, edges) are not included.
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/testing/bench.h"
#include "tessera/memory/detail/capture_order.h"
#include "tessera/memory/detail/replay_order.h"

namespace tessera::memory {
namespace {

using detail::CaptureOrder;
using detail::Marks;
using device::Dependency;
using device::EdgeKind;

constexpr std::uint64_t kNodes = 10'000;
constexpr std::uint64_t kStride = 0x240;  // ids as far apart as nodes in memory
constexpr StreamId kStream(3);

// A chain of launches on one stream.
std::unique_ptr<CaptureOrder> chain() {
  return std::make_unique<CaptureOrder>([](NodeId node, std::vector<Dependency>& out) {
    if (node.value() > kStride) out.push_back({NodeId(node.value() - kStride), EdgeKind::kFull});
  });
}

TESSERA_BENCH(capture_order) {
  const std::unique_ptr<CaptureOrder> order = chain();
  std::uint64_t last = 0;
  context.measure({.name = "capture_advance_new_node",
                   .ours =
                       [&] {
                         const Dependency next{NodeId(last += kStride), EdgeKind::kFull};
                         order->advance(kStream, {&next, 1});
                       },
                   .must = 50,
                   .calls = kNodes,
                   .before =
                       [&] {
                         order->reset();
                         last = 0;
                       }});
  order->reset();
  const Dependency next{NodeId(kNodes * kStride), EdgeKind::kFull};
  order->advance(kStream, {&next, 1});
  context.measure({.name = "capture_advance_unchanged",
                   .ours =
                       [&] {
                         bench::do_not_optimize(order->advance(kStream, {&next, 1}));
                       },
                   .must = 10});
  std::vector<Marks> marks(1024);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    marks[i].add(NodeId((1 + i * 7919 % kNodes) * kStride));
    marks[i].add(NodeId((1 + i * 104729 % kNodes) * kStride));
  }
  std::size_t at = 0;
  context.measure({.name = "capture_proves_2_marks",
                   .ours = [&] { bench::do_not_optimize(order->proves(kStream, marks[at++ % marks.size()])); },
                   .must = 10});
  context.measure({.name = "capture_mark",
                   .ours =
                       [&] {
                         Marks made;
                         order->mark(kStream, made);
                         bench::do_not_optimize(made.size());
                       },
                   .must = 10});
}

TESSERA_BENCH(replay_order) {
  detail::ReplayOrder order;
  std::vector<detail::GraphKey> graphs;
  for (std::uintptr_t i = 0; i < 32; ++i) {
    graphs.push_back(order.announce("size " + std::to_string(i)));
    order.add(graphs.back(), {{0x10000, 0x20000 + i * 512}}, {});
  }
  std::uint64_t tick = 0;
  std::size_t at = 0;
  const auto ordered = [&](StreamId, Tick asked) { return asked.value() <= tick; };
  const auto replay = [&](StreamId on) {
    const detail::GraphKey graph = graphs[at++ % graphs.size()];
    bench::do_not_optimize(order.refusal(graph, on, ordered).has_value());
    order.replayed(graph, on, Tick(++tick));
  };
  context.measure({.name = "replay_check_32_graphs", .ours = [&] { replay(kStream); }, .must = 100});
  context.measure({.name = "replay_check_32_graphs_4_streams",
                   .ours = [&] { replay(StreamId(static_cast<std::uint32_t>(at % 4))); },
                   .must = 100});
}

}  // namespace
}  // namespace tessera::memory

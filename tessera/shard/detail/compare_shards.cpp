#include "tessera/shard/detail/compare_shards.h"

#include <cstring>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/fnv1a.h"
#include "tessera/base/rank.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/exchange.h"
#include "tessera/shard/groups.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard::detail {
namespace {

using layout::Layout;
using layout::Mesh;

constexpr std::size_t kMaxDims = 16;

// Description of the shard of a rank. Plain integers, because it is sent as bytes.
struct Card {
  std::int64_t dtype = 0;
  std::uint64_t layout_high = 0;
  std::uint64_t layout_low = 0;
  std::int64_t ndim = 0;
  std::int64_t sizes[kMaxDims] = {};
  std::int64_t given_ndim = -1;  // -1: no shape is given
  std::int64_t given[kMaxDims] = {};
  std::uint64_t digest = 0;
};
static_assert(sizeof(Card) % sizeof(std::int64_t) == 0);

std::uint64_t digest_of(const char* what, const Tensor& local) {
  const Tensor dense = ops::contiguous(local);
  std::vector<std::byte> bytes(dense.nbytes());
  const device::Stream& stream = tensor::current_stream(dense.device());
  TESSERA_CHECK(!stream.is_capturing(), what, ": cannot compare shards while ", stream.name(),
                " is captured; omit the check");
  dense.storage().use_on(stream);
  if (!bytes.empty()) stream.copy(bytes.data(), dense.data(), bytes.size(), what);
  stream.synchronize();
  return tessera::detail::fnv1a({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void write_dims(const char* what, const Shape& shape, std::int64_t (&to)[kMaxDims]) {
  TESSERA_CHECK(shape.size() <= kMaxDims, what, ": must have at most ", kMaxDims, " dimensions, got shape ", shape,
                "; give the global shape, and omit the check");
  std::copy(shape.begin(), shape.end(), to);
}
Shape read_dims(const std::int64_t (&from)[kMaxDims], std::int64_t ndim) {
  return Shape(std::span<const std::int64_t>(from, static_cast<std::size_t>(ndim)));
}

// Returns the cards of all ranks, in mesh order.
std::vector<Card> all_cards(const char* what, const Card& mine, const Mesh& mesh, const device::Device& device) {
  const comm::ProcessGroup& group = group_of_mesh(mesh);
  const tensor::CurrentDevice where = tensor::current_device(device);
  TESSERA_CHECK(!where.stream->is_capturing(), what, ": cannot exchange shapes of shards while ", where.stream->name(),
                " is captured; give the global shape");
  constexpr std::int64_t kWords = sizeof(Card) / sizeof(std::int64_t);
  const Tensor sent = Tensor::allocate(Shape{kWords}, DType::kI64, where);
  const Tensor received = Tensor::allocate(Shape{kWords * group.size()}, DType::kI64, where);
  where.stream->copy(sent.address(), &mine, sizeof mine, what);
  const comm::Work work = group.all_gather(sent.address(), received.address(), kWords, DType::kI64, *where.stream);
  counters().collectives.fetch_add(1, std::memory_order_relaxed);
  counters().nbytes.fetch_add((static_cast<std::uint64_t>(group.size()) - 1) * sizeof(Card), std::memory_order_relaxed);
  std::vector<Card> cards(static_cast<std::size_t>(group.size()));
  where.stream->copy(cards.data(), received.data(), cards.size() * sizeof(Card), what);
  where.stream->synchronize();
  return cards;
}

void check_alike(const char* what, const std::vector<Card>& cards, const Mesh& mesh, const Layout& layout) {
  const Card& first = cards[0];
  const auto rank_at = [&](std::size_t place) { return mesh.ranks().at(static_cast<std::int64_t>(place)); };
  for (std::size_t p = 1; p < cards.size(); ++p) {
    const Card& card = cards[p];
    TESSERA_CHECK_AS(MismatchError, card.dtype == first.dtype, what, ": shards must have one dtype, got ",
                     to_string(static_cast<DType>(card.dtype)), " on rank ", rank_at(p), " and ",
                     to_string(static_cast<DType>(first.dtype)), " on rank ", rank_at(0));
    TESSERA_CHECK_AS(MismatchError, card.layout_high == first.layout_high && card.layout_low == first.layout_low, what,
                     ": ranks ", rank_at(p), " and ", rank_at(0), " give different layouts; on this rank it is ",
                     layout.text());
    TESSERA_CHECK_AS(MismatchError, card.ndim == first.ndim, what,
                     ": shards must have the same number of dimensions, got ", card.ndim, " dimensions on rank ",
                     rank_at(p), " and ", first.ndim, " on rank ", rank_at(0));
    const bool is_same_shape = card.given_ndim == first.given_ndim &&
                               std::equal(std::begin(card.given), std::end(card.given), std::begin(first.given));
    TESSERA_CHECK_AS(MismatchError, is_same_shape, what, ": ranks ", rank_at(p), " and ", rank_at(0),
                     " give different global shapes");
  }
}

Shape shape_from(const char* what, const std::vector<Card>& cards, const Layout& layout) {
  const Mesh& mesh = layout.mesh();
  Shape first = read_dims(cards[0].sizes, cards[0].ndim);
  TESSERA_CHECK(layout.ndim() <= first.ndim(), what, ": layout ", layout.text(), " shards dimension ",
                layout.ndim() - 1, ", but the shards have ", first.ndim(), " dimensions");
  SmallVector<std::int64_t, 8> sizes;
  for (int d = 0; d < first.ndim(); ++d) {
    std::vector<layout::SubAxis> axes;
    for (const layout::Sharding& sharding : layout.shardings(d)) axes.push_back(sharding.by);
    std::int64_t size = 0;
    for (const Rank rank : ranks_along(mesh, axes, mesh.ranks().at(0))) {
      size += cards[static_cast<std::size_t>(mesh.ranks().place_of(rank))].sizes[d];
    }
    sizes.push_back(size);
  }
  return Shape(std::span<const std::int64_t>(sizes));
}

void check_sizes(const char* what, const std::vector<Card>& cards, const Layout& layout, const Shape& shape) {
  const layout::RankSet ranks = layout.mesh().ranks();
  for (std::size_t p = 0; p < cards.size(); ++p) {
    const Rank rank = ranks.at(static_cast<std::int64_t>(p));
    const Shape has = read_dims(cards[p].sizes, cards[p].ndim);
    const Shape should = layout::local_shape(layout, shape, rank);
    TESSERA_CHECK_AS(MismatchError, has == should, what, ": for global shape ", shape, " under ",
                     layout.placements_text(), ", rank ", rank, " must hold ", should, ", got ", has,
                     "; unequal shards need a layout with sizes=");
  }
}

// Returns true if two ranks hold the same elements with the same values.
bool are_replicas(const Layout& layout, const Shape& shape, Rank a, Rank b) {
  const Mesh& mesh = layout.mesh();
  const layout::Coordinates at_a = mesh.coordinates(a);
  const layout::Coordinates at_b = mesh.coordinates(b);
  for (const layout::PartialAxis& partial : layout.partials()) {
    const auto axis = static_cast<std::size_t>(partial.by.axis);
    const std::int64_t behind = mesh.axis(partial.by.axis).size / (partial.by.before * partial.by.size);
    if (at_a[axis] / behind % partial.by.size != at_b[axis] / behind % partial.by.size) return false;
  }
  return shard_maps(layout, shape, a) == shard_maps(layout, shape, b);
}

void check_bytes(const char* what, const std::vector<Card>& cards, const Layout& layout, const Shape& shape) {
  const layout::RankSet ranks = layout.mesh().ranks();
  for (std::size_t p = 1; p < cards.size(); ++p) {
    const Rank rank = ranks.at(static_cast<std::int64_t>(p));
    for (std::size_t q = 0; q < p; ++q) {
      const Rank other = ranks.at(static_cast<std::int64_t>(q));
      if (!are_replicas(layout, shape, rank, other)) continue;
      TESSERA_CHECK_AS(MismatchError, cards[p].digest == cards[q].digest, what, ": ranks ", rank, " and ", other,
                       " hold replicas under ", layout.placements_text(), ", but their bytes differ");
      break;  // other replicas were compared with that one
    }
  }
}

}  // namespace

Shape compare_shards(const char* what, const Tensor& local, const Layout& layout, const std::optional<Shape>& given,
                     bool compares_bytes) {
  const layout::LayoutHash hash = layout.hash();
  Card mine;
  mine.dtype = static_cast<std::int64_t>(local.dtype());
  mine.layout_high = hash.high;
  mine.layout_low = hash.low;
  mine.ndim = local.ndim();
  write_dims(what, local.shape(), mine.sizes);
  if (given) {
    mine.given_ndim = given->ndim();
    write_dims(what, *given, mine.given);
  }
  if (compares_bytes) mine.digest = digest_of(what, local);
  const std::vector<Card> cards = all_cards(what, mine, layout.mesh(), local.device());
  check_alike(what, cards, layout.mesh(), layout);
  Shape shape = given ? *given : shape_from(what, cards, layout);
  check_sizes(what, cards, layout, shape);
  if (compares_bytes) check_bytes(what, cards, layout, shape);
  return shape;
}

void check_part(const Tensor& local, const Layout& layout, const Shape& shape) {
  const Rank rank = current_place().rank;
  const Shape should = layout::local_shape(layout, shape, rank);
  TESSERA_CHECK(local.shape() == should, "from_local: for shape ", shape, " under ", layout.text(), ", rank ", rank,
                " must hold ", should, ", got ", tensor::describe(local));
}

}  // namespace tessera::shard::detail

// A collective is data: its kind, its ranks, and the split of tensors into messages. transposed() returns its gradient
// as another collective, so all of them run the same way. Messages are contiguous, in the order of group ranks. A
// tensor that is split along its outermost dimension already has this form.
#include "tessera/shard/collectives.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tessera/autograd/function.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/detail/collective_axes.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/geometry.h"
#include "tessera/shard/detail/run_plans.h"
#include "tessera/shard/detail/tracing.h"
#include "tessera/shard/groups.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard {
namespace {

using comm::OpKind;
using Sizes = std::vector<std::int64_t>;

struct Collective {
  OpKind kind;
  Along over;
  Reduction reduction = Reduction::kSum;  // avg in an all_gather: gathered values are divided by the number of ranks
  int split = 0;                          // dimension that is split into messages
  int concat = 0;                         // dimension along which messages are concatenated
  Sizes in_sizes = {};                    // sizes of the messages along `split`
  Sizes out_sizes = {};                   // sizes of received messages along `concat`
  int root = 0;
  std::vector<int> targets = {};

  [[nodiscard]] std::string name() const { return std::string(to_string(kind)); }
};

std::int64_t sum_of(const Sizes& sizes) { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}); }

Shape with_size(const Shape& shape, int dim, std::int64_t size) {
  SmallVector<std::int64_t, 8> sizes;
  for (const std::int64_t each : shape) sizes.push_back(each);
  sizes[static_cast<std::size_t>(dim)] = size;
  return Shape(std::span<const std::int64_t>(sizes));
}

// Chunks along the outermost dimension are contiguous.
bool is_outermost(const Shape& shape, int dim) {
  return std::all_of(shape.begin(), shape.begin() + dim, [](std::int64_t size) { return size == 1; });
}

// Returns copies of the chunks of a dense tensor along a dimension to their messages.
std::vector<detail::RegionCopy> to_messages(const Shape& shape, int dim, const Sizes& sizes) {
  const Strides strides = contiguous_strides(shape);
  const std::int64_t step = strides[static_cast<std::size_t>(dim)];
  std::vector<detail::RegionCopy> copies;
  std::int64_t start = 0;
  std::int64_t offset = 0;
  for (const std::int64_t size : sizes) {
    const Shape chunk = with_size(shape, dim, size);
    if (chunk.numel() > 0)
      copies.push_back({{chunk, strides, start * step}, {chunk, contiguous_strides(chunk), offset}});
    start += size;
    offset += chunk.numel();
  }
  detail::merge_copies(copies);
  return copies;
}

std::vector<detail::RegionCopy> from_messages(const Shape& shape, int dim, const Sizes& sizes) {
  std::vector<detail::RegionCopy> copies = to_messages(shape, dim, sizes);
  for (detail::RegionCopy& copy : copies) std::swap(copy.from, copy.to);
  return copies;
}

bool shardings(OpKind kind) { return kind == OpKind::kReduceScatter || kind == OpKind::kAllToAll; }
bool concatenates(OpKind kind) { return kind == OpKind::kAllGather || kind == OpKind::kAllToAll; }

Shape result_shape(const Collective& collective, Shape shape, int place) {
  if (shardings(collective.kind)) {
    shape = with_size(shape, collective.split, collective.in_sizes[static_cast<std::size_t>(place)]);
  }
  if (concatenates(collective.kind)) shape = with_size(shape, collective.concat, sum_of(collective.out_sizes));
  return shape;
}

// Returns true if this group rank receives data.
bool receives(const Collective& collective, int place) {
  if (collective.kind == OpKind::kReduce) return place == collective.root;
  return collective.kind != OpKind::kPermute ||
         std::ranges::find(collective.targets, place) != collective.targets.end();
}

// Returns the elements that the busiest rank receives.
std::int64_t received_numel(const Collective& collective, const Shape& from, const Shape& to, int place) {
  const std::int64_t ranks = collective.over.size();
  const auto chunk = [&](const Shape& shape, int dim, const Sizes& sizes) {
    return with_size(shape, dim, sizes[static_cast<std::size_t>(place)]).numel();
  };
  switch (collective.kind) {
    case OpKind::kAllReduce: return 2 * (ranks - 1) * from.numel() / ranks;
    case OpKind::kReduceScatter: return (ranks - 1) * to.numel();
    case OpKind::kAllGather:
    case OpKind::kAllToAll: return to.numel() - chunk(to, collective.concat, collective.out_sizes);
    case OpKind::kReduce: return (ranks - 1) * from.numel();
    default: return from.numel();
  }
}

// Sets the elements of each message; equal ones as one count.
void set_counts(std::int64_t& count, SmallVector<std::int64_t, 8>& counts, const Shape& shape, int dim,
                const Sizes& sizes) {
  const bool is_even = std::ranges::all_of(sizes, [&](std::int64_t size) { return size == sizes[0]; });
  if (is_even) count = with_size(shape, dim, sizes[0]).numel();
  for (std::size_t p = 0; !is_even && p < sizes.size(); ++p) {
    counts.push_back(with_size(shape, dim, sizes[p]).numel());
  }
}

comm::Operation operation_of(const Collective& collective, const Shape& from, const Shape& to, DType dtype) {
  comm::Operation out{.kind = collective.kind, .dtype = dtype, .root = collective.root};
  switch (collective.kind) {
    case OpKind::kAllGather: set_counts(out.count, out.out_counts, to, collective.concat, collective.out_sizes); break;
    case OpKind::kReduceScatter:
      out.reduction.kind = collective.reduction;
      set_counts(out.count, out.in_counts, from, collective.split, collective.in_sizes);
      break;
    case OpKind::kAllToAll:
      for (const std::int64_t size : collective.in_sizes) {
        out.in_counts.push_back(with_size(from, collective.split, size).numel());
      }
      for (const std::int64_t size : collective.out_sizes) {
        out.out_counts.push_back(with_size(to, collective.concat, size).numel());
      }
      break;
    default:
      out.reduction.kind = collective.reduction;
      out.count = from.numel();
      for (const int target : collective.targets) out.targets.push_back(target);
      break;
  }
  return out;
}

// Describes the values that must be equal on all ranks: the sizes of the tensor after concatenation.
void set_geometry(comm::Geometry& out, const Collective& collective, const Shape& from, const Shape& to) {
  detail::GeometryOf how;
  if (shardings(collective.kind)) how.split = collective.split;
  if (concatenates(collective.kind)) how.concat = collective.concat;
  detail::set_geometry(out, collective.kind == OpKind::kAllGather ? to : from, how);
  if (collective.kind != OpKind::kAllToAll) return;
  // Within one dimension, each rank may hold a different number of rows.
  const std::int64_t whole = collective.split == collective.concat ? -1 : sum_of(collective.out_sizes);
  out.sizes[static_cast<std::size_t>(collective.concat)] = whole;
}

void count_and_trace(const Collective& collective, const Tensor& x, const Tensor& result, int place) {
  const std::int64_t nbytes =
      received_numel(collective, x.shape(), result.shape(), place) * static_cast<std::int64_t>(itemsize(x.dtype()));
  detail::AtomicShardCounts& counts = detail::counters();
  counts.collectives.fetch_add(1, std::memory_order_relaxed);
  counts.nbytes.fetch_add(static_cast<std::uint64_t>(nbytes), std::memory_order_relaxed);
  if (detail::is_tracing()) detail::trace_collective(collective.name(), x, result, collective.over.text(), nbytes);
}

Tensor run(const Collective& collective, const Tensor& x) {
  const comm::ProcessGroup& group = group_along(collective.over.mesh(), collective.over.axes());
  const tensor::CurrentDevice where = tensor::current_device(x.device());
  const Tensor dense = ops::contiguous(x);
  const Shape shape = result_shape(collective, x.shape(), group.rank());
  comm::Operation operation = operation_of(collective, x.shape(), shape, x.dtype());
  set_geometry(operation.geometry, collective, x.shape(), shape);
  Tensor sent = dense;
  if (shardings(collective.kind) && !is_outermost(x.shape(), collective.split)) {
    sent = Tensor::allocate(x.shape(), x.dtype(), where);
    detail::copy_regions(sent, dense, to_messages(x.shape(), collective.split, collective.in_sizes));
  }
  const bool unpacks = concatenates(collective.kind) && !is_outermost(shape, collective.concat);
  Tensor received = receives(collective, group.rank()) ? Tensor::allocate(shape, x.dtype(), where)
                                                       : ops::zeros(shape, {x.dtype(), x.device()});
  sent.storage().use_on(*where.stream);
  operation.in = sent.address();
  operation.out = received.address();
  (void)group.launch(operation, *where.stream);
  Tensor result = received;
  if (unpacks) {
    result = Tensor::allocate(shape, x.dtype(), where);
    detail::copy_regions(result, received, from_messages(shape, collective.concat, collective.out_sizes));
  }
  if (collective.kind == OpKind::kAllGather && collective.reduction == Reduction::kAvg) {
    ops::div_(result, Scalar(collective.over.size()));
  }
  count_and_trace(collective, x, result, group.rank());
  return result;
}

Collective transposed(const Collective& of) {
  const bool reduces = of.kind == OpKind::kAllReduce || of.kind == OpKind::kReduceScatter;
  TESSERA_CHECK_AS(NotSupported, !reduces || of.reduction == Reduction::kSum || of.reduction == Reduction::kAvg,
                   of.name(), " over ", of.over.text(), ": gradients require sum or avg, got ", to_string(of.reduction),
                   "; detach() its input");
  Collective back = of;
  std::swap(back.split, back.concat);
  std::swap(back.in_sizes, back.out_sizes);
  switch (of.kind) {
    case OpKind::kAllGather: back.kind = OpKind::kReduceScatter; break;
    case OpKind::kReduceScatter: back.kind = OpKind::kAllGather; break;
    case OpKind::kBroadcast: back.kind = OpKind::kReduce; break;
    case OpKind::kReduce: back.kind = OpKind::kBroadcast; break;
    case OpKind::kPermute:
      std::ranges::fill(back.targets, -1);
      for (std::size_t p = 0; p < of.targets.size(); ++p) {
        if (of.targets[p] != -1) back.targets[static_cast<std::size_t>(of.targets[p])] = static_cast<int>(p);
      }
      break;
    default: break;
  }
  return back;
}

Tensor apply(const Collective& collective, const Tensor& x);

class CollectiveFunction final : public autograd::Function {
 public:
  explicit CollectiveFunction(Collective collective) : collective_(std::move(collective)) {}
  [[nodiscard]] std::string name() const override { return collective_.name(); }
  std::vector<Tensor> forward(autograd::FunctionCall& /*call*/, const std::vector<Tensor>& inputs) const override {
    return {run(collective_, inputs[0])};
  }
  std::vector<Tensor> backward(autograd::FunctionCall& /*call*/, const std::vector<Tensor>& gradients) const override {
    return {apply(transposed(collective_), gradients[0])};
  }

 private:
  Collective collective_;
};

Tensor apply(const Collective& collective, const Tensor& x) {
  if (redistribute_mode() == RedistributeMode::kForbidden) {
    detail::check_may_communicate(
        tessera::detail::concat(collective.name(), " of ", tensor::describe(x), " over ", collective.over.text()));
  }
  detail::CollectiveAxes::note(collective.over.mesh(), collective.over.axes());
  if (!x.is_tracked() || !tensor::is_grad_enabled()) {
    const tensor::GradModeScope no_grad(false);
    return run(collective, x);
  }
  return std::move(autograd::apply_function(std::make_shared<const CollectiveFunction>(collective), {x})[0]);
}

void check_argument(std::string_view what, const Tensor& x, const Along& over) {
  TESSERA_CHECK(x, what, " over ", over.text(), ": tensor must not be empty");
  TESSERA_CHECK(!x.has_layout(), what, " over ", over.text(), ": requires a plain tensor, got ", tensor::describe(x),
                "; use redistribute(), or local_map() for a function of local shards");
  (void)over.place();  // throws on ranks outside the mesh
}

void check_reduction(std::string_view what, const Tensor& x, Reduction reduction) {
  TESSERA_CHECK_AS(NotSupported, comm::can_reduce(x.dtype(), reduction), what, ": dtype must support ",
                   to_string(reduction), ", got ", x.dtype(), "; cast() it first");
}

int dim_of(std::string_view what, const Tensor& x, std::int64_t dim) {
  TESSERA_CHECK(dim >= -x.ndim() && dim < x.ndim(), what, ": dimension must be in [", -x.ndim(), ", ", x.ndim(),
                "), got ", dim, " for ", tensor::describe(x));
  return static_cast<int>(dim < 0 ? dim + x.ndim() : dim);
}

void check_sizes(std::string_view what, const Sizes& sizes, const Along& over) {
  TESSERA_CHECK(sizes.size() == static_cast<std::size_t>(over.size()), what, ": requires one size for each of the ",
                over.size(), " ranks along ", over.text(), ", got ", sizes.size(), " sizes");
  TESSERA_CHECK(std::ranges::all_of(sizes, [](std::int64_t size) { return size >= 0; }), what,
                ": sizes must be at least 0, got ", sizes);
}

// Returns the sizes of the chunks of a dimension: those given, or equal ones.
Sizes split_sizes(std::string_view what, const Tensor& x, int dim, const Along& over, const Sizes& given) {
  const std::int64_t size = x.size(dim);
  if (given.empty()) {
    TESSERA_CHECK(size % over.size() == 0, what, ": dimension ", dim, " must be divisible by the ", over.size(),
                  " ranks along ", over.text(), ", got ", tensor::describe(x), "; give the sizes");
    return Sizes(static_cast<std::size_t>(over.size()), size / over.size());
  }
  check_sizes(what, given, over);
  TESSERA_CHECK(sum_of(given) == size, what, ": sizes must add up to ", size, ", dimension ", dim, " of ",
                tensor::describe(x), ", got ", given, " = ", sum_of(given));
  return given;
}

}  // namespace

Along::Along(layout::Mesh mesh, std::string_view axis) : Along(mesh, {axis}) {}

Along::Along(layout::Mesh mesh, std::initializer_list<std::string_view> axes) : mesh_(mesh) {
  TESSERA_CHECK(mesh_, "Along: mesh must not be empty");
  for (const std::string_view name : axes) {
    const int axis = mesh_.index_of(name);
    axes_.push_back({axis, 1, mesh_.axis(axis).size});
  }
}

Along::Along(layout::Mesh mesh, std::vector<layout::SubAxis> axes) : mesh_(mesh), axes_(std::move(axes)) {
  TESSERA_CHECK(mesh_, "Along: mesh must not be empty");
}

int Along::size() const {
  std::int64_t ranks = 1;
  for (const layout::SubAxis& axis : axes_) ranks *= axis.size;
  return static_cast<int>(ranks);
}

int Along::place() const {
  const layout::Coordinates at = mesh_.coordinates(current_place().rank);
  std::int64_t place = 0;
  for (const layout::SubAxis& part : axes_) {
    const std::int64_t behind = mesh_.axis(part.axis).size / (part.before * part.size);
    place = place * part.size + at[static_cast<std::size_t>(part.axis)] / behind % part.size;
  }
  return static_cast<int>(place);
}

std::string Along::text() const { return detail::axes_text(mesh_, axes_); }

Tensor all_reduce(const Tensor& x, const Along& over, Reduction reduction) {
  check_argument("all_reduce", x, over);
  check_reduction("all_reduce", x, reduction);
  if (over.size() == 1) return x;
  return apply({.kind = OpKind::kAllReduce, .over = over, .reduction = reduction}, x);
}

Tensor all_gather(const Tensor& x, std::int64_t dim, const Along& over, const Sizes& sizes) {
  check_argument("all_gather", x, over);
  const int along = dim_of("all_gather", x, dim);
  Sizes all = sizes;
  if (all.empty()) all = Sizes(static_cast<std::size_t>(over.size()), x.size(along));
  check_sizes("all_gather", all, over);
  const std::int64_t mine = all[static_cast<std::size_t>(over.place())];
  TESSERA_CHECK(mine == x.size(along), "all_gather: sizes ", all, " require ", mine, " in dimension ", along,
                " on this rank, got ", tensor::describe(x));
  if (over.size() == 1) return x;
  return apply({.kind = OpKind::kAllGather, .over = over, .concat = along, .out_sizes = std::move(all)}, x);
}

Tensor reduce_scatter(const Tensor& x, std::int64_t dim, const Along& over, const Sizes& sizes, Reduction reduction) {
  check_argument("reduce_scatter", x, over);
  check_reduction("reduce_scatter", x, reduction);
  const int along = dim_of("reduce_scatter", x, dim);
  Sizes all = split_sizes("reduce_scatter", x, along, over, sizes);
  if (over.size() == 1) return x;
  return apply({.kind = OpKind::kReduceScatter,
                .over = over,
                .reduction = reduction,
                .split = along,
                .in_sizes = std::move(all)},
               x);
}

Tensor all_to_all(const Tensor& x, std::int64_t split_dim, std::int64_t concat_dim, const Along& over,
                  const AllToAllSizes& sizes) {
  check_argument("all_to_all", x, over);
  const int split = dim_of("all_to_all", x, split_dim);
  const int concat = dim_of("all_to_all", x, concat_dim);
  Sizes in_sizes = split_sizes("all_to_all", x, split, over, sizes.split);
  Sizes out_sizes = sizes.concat;
  if (split == concat) {
    TESSERA_CHECK(sizes.split.empty() == sizes.concat.empty(), "all_to_all within dimension ", split, " of ",
                  tensor::describe(x), ": give both the split sizes and the concat sizes, or neither");
    if (out_sizes.empty()) out_sizes = in_sizes;
  } else {
    if (out_sizes.empty()) out_sizes = Sizes(static_cast<std::size_t>(over.size()), x.size(concat));
  }
  check_sizes("all_to_all", out_sizes, over);
  const auto self = static_cast<std::size_t>(over.place());
  const std::int64_t mine = split == concat ? in_sizes[self] : x.size(concat);
  TESSERA_CHECK(out_sizes[self] == mine, "all_to_all: sizes ", out_sizes, " require ", out_sizes[self],
                " in dimension ", concat, " from this rank itself, got ", mine, " of ", tensor::describe(x));
  if (over.size() == 1) return x;
  return apply({.kind = OpKind::kAllToAll,
                .over = over,
                .split = split,
                .concat = concat,
                .in_sizes = std::move(in_sizes),
                .out_sizes = std::move(out_sizes)},
               x);
}

Tensor permute(const Tensor& x, std::span<const int> targets, const Along& over) {
  check_argument("permute", x, over);
  Collective collective{.kind = OpKind::kPermute, .over = over};
  TESSERA_CHECK(targets.size() == static_cast<std::size_t>(over.size()),
                "permute: requires one target for each of the ", over.size(), " ranks along ", over.text(), ", got ",
                targets.size(), " targets; -1 means none");
  for (const int target : targets) {
    TESSERA_CHECK(target >= -1 && target < over.size(), "permute: target must be in [-1, ", over.size(), ") along ",
                  over.text(), ", got ", target);
    TESSERA_CHECK(target == -1 || std::ranges::count(targets, target) == 1, "permute: targets must be unique along ",
                  over.text(), ", got ", target, " twice");
    collective.targets.push_back(target);
  }
  if (over.size() == 1 && targets[0] == 0) return x;
  return apply(collective, x);
}

Tensor broadcast(const Tensor& x, int root, const Along& over) {
  check_argument("broadcast", x, over);
  TESSERA_CHECK(root >= 0 && root < over.size(), "broadcast: root must be in [0, ", over.size(), ") along ",
                over.text(), ", got ", root);
  if (over.size() == 1) return x;
  return apply({.kind = OpKind::kBroadcast, .over = over, .root = root}, x);
}

namespace detail {
namespace {
constinit thread_local CollectiveAxes* innermost = nullptr;
}  // namespace

CollectiveAxes::CollectiveAxes(layout::Mesh mesh) : mesh_(mesh), outer_(std::exchange(innermost, this)) {}

CollectiveAxes::~CollectiveAxes() {
  innermost = outer_;
  if (outer_ == nullptr || axes_ == 0) return;
  outer_->axes_ |= outer_->mesh_ == mesh_ ? axes_ : ~std::uint32_t{0};
}

void CollectiveAxes::note(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes) {
  if (innermost == nullptr) return;
  for (const layout::SubAxis& part : axes) {
    innermost->axes_ |= innermost->mesh_ == mesh ? std::uint32_t{1} << part.axis : ~std::uint32_t{0};
  }
}

void CollectiveAxes::note_all() {
  if (innermost != nullptr) innermost->axes_ = ~std::uint32_t{0};
}

}  // namespace detail
}  // namespace tessera::shard

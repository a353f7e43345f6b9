#include "tessera/ops/nn/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/nn/detail/attention_tiles.h"
#include "tessera/ops/nn/detail/paged_kernels.h"
#include "tessera/ops/nn/detail/row_kernels.h"
#include "tessera/ops/nn/detail/row_rule.h"
#include "tessera/ops/nn/detail/rows.h"
#include "tessera/ops/shape/detail/copy_elements.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using detail::AttentionOperand;
using detail::PageRows;
using detail::Rows;
using tensor::Call;
using tensor::KernelCall;

constexpr std::int64_t kQueriesTogether = 16;               // scores of one task
constexpr std::int64_t kPieceWork = std::int64_t{1} << 17;  // multiplications of a chunk of tasks

// Reads the pages and the length of each sequence when a kernel runs.
struct Tables {
  Tables(const Tensor& tables, const Tensor& starts, std::int64_t page_count, std::int64_t page_tokens,
         const char* name)
      : pages(tables, 1),
        first(starts, -1),
        columns(tables.size(1)),
        count(page_count),
        tokens(page_tokens),
        op(name) {}

  [[nodiscard]] std::int64_t start(std::int64_t b) const {
    std::int64_t one[1];
    const std::int64_t at = *first.read(b, one);
    TESSERA_CHECK(at >= 0, op, ": starts must be at least 0, got ", at, " of sequence ", b);
    return at;
  }
  // Returns the pages of a sequence that hold the positions before `end`, checked.
  const std::int64_t* row(std::int64_t b, std::int64_t end, std::vector<std::int64_t>& scratch) const {
    scratch.resize(static_cast<std::size_t>(columns));
    const std::int64_t* all = pages.read(b, scratch.data());
    const std::int64_t used = (end + tokens - 1) / tokens;
    TESSERA_CHECK(used <= columns, op, ": tables must have ", used, " columns for ", end, " tokens of sequence ", b,
                  ", got ", columns);
    for (std::int64_t i = 0; i < used; ++i) {
      TESSERA_CHECK(all[i] >= 0 && all[i] < count, op, ": pages must be in [0, ", count, "), got ", all[i],
                    " in sequence ", b);
    }
    return all;
  }

  Rows pages;
  Rows first;
  std::int64_t columns, count, tokens;
  const char* op;
};

void check_tables(const Call& call, const Tensor& tables, const Tensor& starts, std::int64_t batch) {
  TESSERA_CHECK_CALL(call, tables.dtype() == DType::kI64 && starts.dtype() == DType::kI64,
                     "tables and starts must be i64, got ", tables.dtype(), " and ", starts.dtype());
  TESSERA_CHECK_CALL(call, tables.ndim() == 2 && tables.size(0) == batch && starts.shape() == Shape({batch}),
                     "tables must have shape [", batch, ", columns] and starts [", batch, "], got ", tables.shape(),
                     " and ", starts.shape());
}

void check_rows(const Call& call, const char* name, const Tensor& rows, const Tensor& pages) {
  TESSERA_CHECK_CALL(call, rows.ndim() == 4 && pages.ndim() == 4 && rows.dtype() == pages.dtype(), name,
                     " and pages must have 4 dimensions and one dtype, got ", rows.dtype(), rows.shape(), " and ",
                     pages.dtype(), pages.shape());
  TESSERA_CHECK_CALL(call, rows.size(3) == pages.size(3), "widths of ", name, " and pages must be equal, got ",
                     rows.size(3), " and ", pages.size(3));
  TESSERA_CHECK_CALL(call, pages.size(2) > 0, "pages must hold at least 1 token, got ", pages.shape());
}

// write_pages

// The pages are not an input, as they are larger than the rows that a call writes.
void infer_write(const Call& call, std::span<tensor::OutputInfo> outputs) {
  TESSERA_CHECK_CALL(call, call.outputs.size() == 1 && call.outputs[0], "requires pages to write into");
  const Tensor& pages = call.outputs[0];
  const Tensor& rows = call.inputs[0];
  detail::check_floating(call, rows);
  check_rows(call, "rows", rows, pages);
  TESSERA_CHECK_CALL(call, rows.size(1) == pages.size(1), "heads of rows and pages must be equal, got ", rows.size(1),
                     " and ", pages.size(1));
  check_tables(call, call.inputs[1], call.inputs[2], rows.size(0));
  outputs[0] = {pages.shape(), pages.dtype()};
}

struct PageWrite {
  AttentionOperand pages, rows;
  Tables tables;
  std::int64_t batch, heads, count, width;

  void operator()() const {
    const std::size_t nbytes = itemsize(pages.dtype);
    const auto item = static_cast<std::int64_t>(nbytes);
    std::vector<std::int64_t> scratch;
    for (std::int64_t b = 0; b < batch && count > 0; ++b) {
      const std::int64_t start = tables.start(b);
      const std::int64_t* page = tables.row(b, start + count, scratch);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at =
            page[(start + i) / tables.tokens] * pages.batch + (start + i) % tables.tokens * pages.row;
        for (std::int64_t h = 0; h < heads; ++h) {
          detail::copy_row(pages.data + (at + h * pages.head) * item, pages.col,
                           rows.data + (b * rows.batch + h * rows.head + i * rows.row) * item, rows.col, nbytes, width);
        }
      }
    }
  }
};

void write_kernel(const KernelCall& call) {
  const Tensor& rows = call.inputs[0];
  const Tensor& pages = call.outputs[0];
  detail::enqueue(
      call, PageWrite{.pages = AttentionOperand(pages),
                      .rows = AttentionOperand(rows),
                      .tables = Tables(call.inputs[1], call.inputs[2], pages.size(0), pages.size(2), "write_pages"),
                      .batch = rows.size(0),
                      .heads = rows.size(1),
                      .count = rows.size(2),
                      .width = rows.size(3)});
}

layout::FactorRule write_rule(const Call& /*call*/) {
  return layout::FactorRule::parse(
      "write_pages: [b,h,t,d],[b,m],[b]->[n,h,p,d]; n=replicate, p=replicate, b=replicate, t=replicate, m=replicate");
}

tensor::Cost write_cost(const Call& call) {
  return {0, 2 * static_cast<double>(call.inputs[0].numel()) * static_cast<double>(itemsize(call.inputs[0].dtype()))};
}

// paged_attention

void infer(const Call& call, std::span<tensor::OutputInfo> outputs) {
  const Tensor& q = call.inputs[0];
  const Tensor& keys = call.inputs[1];
  const Tensor& values = call.inputs[2];
  detail::check_floating(call, q);
  check_rows(call, "q", q, keys);
  TESSERA_CHECK_CALL(call,
                     values.ndim() == 4 && values.dtype() == q.dtype() && values.size(0) == keys.size(0) &&
                         values.size(1) == keys.size(1) && values.size(2) == keys.size(2),
                     "keys and values must have one dtype and equal pages, heads and tokens, got ", keys.shape(),
                     " and ", values.dtype(), values.shape());
  TESSERA_CHECK_CALL(call, keys.size(1) > 0 ? q.size(1) % keys.size(1) == 0 : q.size(1) == 0,
                     "heads of q must be a multiple of the heads of keys (", keys.size(1), "), got ", q.size(1));
  TESSERA_CHECK_CALL(call, call.as<PagedAttentionAttributes>().scale >= 0, "scale must be at least 0, got ",
                     call.as<PagedAttentionAttributes>().scale);
  check_tables(call, call.inputs[3], call.inputs[4], q.size(0));
  outputs[0] = {Shape({q.size(0), q.size(1), q.size(2), values.size(3)}), q.dtype(), 0};
}

struct PagedCall {
  AttentionOperand q, keys, values, out;
  Tables tables;
  std::int64_t batch, heads, kv_heads, count, d, e;
  std::int64_t window_left;
  double scale;

  [[nodiscard]] std::int64_t group() const { return heads / kv_heads; }
  [[nodiscard]] std::int64_t first_key(std::int64_t position) const {
    return window_left < 0 ? 0 : std::max<std::int64_t>(0, position - window_left);
  }
};

// Some queries of one kv head of one sequence. Queries are numbered (head of the group, token).
template <class T>
class PagedTask {
 public:
  explicit PagedTask(const PagedCall& of) : of_(of) {}

  void run(std::int64_t b, std::int64_t kv_head, std::int64_t begin, std::int64_t end) {
    b_ = b;
    kv_head_ = kv_head;
    begin_ = begin;
    queries_ = end - begin;
    start_ = of_.tables.start(b);
    pages_ = of_.tables.row(b, start_ + of_.count, table_);
    stride_ = start_ + of_.count;
    std::int64_t from = stride_;
    std::int64_t to = 0;
    for (std::int64_t i = 0; i < queries_; ++i) {
      from = std::min(from, of_.first_key(position(i)));
      to = std::max(to, position(i) + 1);
    }
    load_queries();
    scores_.resize(static_cast<std::size_t>(queries_ * stride_));
    for_pages(of_.keys, of_.d, from, to, [&](std::int64_t key, const PageRows<T>& rows) {
      kernels_.scores(q_.data(), queries_, rows, scores_.data() + key, stride_);
    });
    for (std::int64_t i = 0; i < queries_; ++i) normalize(i, from, to);
    out_.assign(static_cast<std::size_t>(queries_ * of_.e), T(0));
    for_pages(of_.values, of_.e, from, to, [&](std::int64_t key, const PageRows<T>& rows) {
      kernels_.add_values(scores_.data() + key, stride_, queries_, rows, out_.data());
    });
    store_results();
  }

 private:
  [[nodiscard]] std::int64_t position(std::int64_t i) const { return start_ + (begin_ + i) % of_.count; }
  [[nodiscard]] std::int64_t head(std::int64_t i) const { return kv_head_ * of_.group() + (begin_ + i) / of_.count; }
  [[nodiscard]] std::byte* row_of(const AttentionOperand& x, std::int64_t i) const {
    const std::int64_t at = b_ * x.batch + head(i) * x.head + (begin_ + i) % of_.count * x.row;
    return x.data + at * static_cast<std::int64_t>(itemsize(x.dtype));
  }

  void load_queries() {
    const auto scale = static_cast<T>(of_.scale);
    q_.resize(static_cast<std::size_t>(queries_ * of_.d));
    for (std::int64_t i = 0; i < queries_; ++i) {
      T* to = q_.data() + i * of_.d;
      detail::load(to, row_of(of_.q, i), of_.q.dtype, of_.q.col, of_.d);
      for (std::int64_t c = 0; c < of_.d; ++c) to[c] *= scale;
    }
  }

  // Converts the scores of a query to probabilities; 0 for keys that it does not attend to.
  void normalize(std::int64_t i, std::int64_t from, std::int64_t to) {
    T* row = scores_.data() + i * stride_;
    const std::int64_t first = of_.first_key(position(i));
    const std::int64_t end = position(i) + 1;
    const T most = rows_.max(row + first, end - first);
    const T sum = rows_.exp_sum(row + first, most, row + first, end - first);
    rows_.scale(row + first, 1 / sum, row + first, end - first);
    std::fill(row + from, row + first, T(0));
    std::fill(row + end, row + to, T(0));
  }

  // Calls body(first key, rows) for the keys [from, to) of each page.
  template <class F>
  void for_pages(const AttentionOperand& x, std::int64_t width, std::int64_t from, std::int64_t to, const F& body) {
    const std::int64_t tokens = of_.tables.tokens;
    const auto item = static_cast<std::int64_t>(itemsize(x.dtype));
    for (std::int64_t key = from; key < to;) {
      const std::int64_t count = std::min(to, (key / tokens + 1) * tokens) - key;
      const std::int64_t at = pages_[key / tokens] * x.batch + kv_head_ * x.head + key % tokens * x.row;
      const std::byte* data = x.data + at * item;
      if (x.dtype == dtype_of<T>() && x.col == 1) {
        body(key, PageRows<T>{reinterpret_cast<const T*>(data), x.row, count, width});
      } else {
        page_.resize(static_cast<std::size_t>(count * width));
        for (std::int64_t j = 0; j < count; ++j) {
          detail::load(page_.data() + j * width, data + j * x.row * item, x.dtype, x.col, width);
        }
        body(key, PageRows<T>{page_.data(), width, count, width});
      }
      key += count;
    }
  }

  void store_results() {
    for (std::int64_t i = 0; i < queries_; ++i) {
      detail::store(out_.data() + i * of_.e, row_of(of_.out, i), of_.out.dtype, of_.out.col, of_.e);
    }
  }

  const PagedCall& of_;
  const detail::PagedKernels<T>& kernels_ = detail::paged_kernels<T>();
  const detail::RowKernels<T>& rows_ = detail::row_kernels<T>();
  std::int64_t b_ = 0, kv_head_ = 0, begin_ = 0, queries_ = 0, start_ = 0, stride_ = 0;
  const std::int64_t* pages_ = nullptr;
  std::vector<std::int64_t> table_;
  std::vector<T> q_, scores_, out_, page_;
};

template <class T>
void run(const PagedCall& of) {
  if (of.batch == 0 || of.heads == 0 || of.count == 0 || of.e == 0) return;
  const std::int64_t queries = of.group() * of.count;
  const std::int64_t chunks = (queries + kQueriesTogether - 1) / kQueriesTogether;
  const std::int64_t work = std::max<std::int64_t>(
      1, std::min(queries, kQueriesTogether) * (of.d + of.e) * of.tables.columns * of.tables.tokens);
  detail::parallel_for(of.batch * of.kv_heads * chunks, std::max<std::int64_t>(1, kPieceWork / work),
                       [&](std::int64_t begin, std::int64_t end) {
                         PagedTask<T> task(of);
                         for (std::int64_t i = begin; i < end; ++i) {
                           const std::int64_t first = i % chunks * kQueriesTogether;
                           task.run(i / chunks / of.kv_heads, i / chunks % of.kv_heads, first,
                                    std::min(first + kQueriesTogether, queries));
                         }
                       });
}

void kernel(const KernelCall& call) {
  const Tensor& q = call.inputs[0];
  const Tensor& keys = call.inputs[1];
  const Tensor& values = call.inputs[2];
  const auto& how = call.as<PagedAttentionAttributes>();
  auto of = std::make_shared<const PagedCall>(PagedCall{
      .q = AttentionOperand(q),
      .keys = AttentionOperand(keys),
      .values = AttentionOperand(values),
      .out = AttentionOperand(call.outputs[0]),
      .tables = Tables(call.inputs[3], call.inputs[4], keys.size(0), keys.size(2), "paged_attention"),
      .batch = q.size(0),
      .heads = q.size(1),
      .kv_heads = keys.size(1),
      .count = q.size(2),
      .d = q.size(3),
      .e = values.size(3),
      .window_left = how.window_left,
      .scale = how.scale != 0 ? how.scale : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(q.size(3), 1)))});
  detail::with_floating(q.dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of] { run<T>(*of); });
  });
}

layout::FactorRule rule(const Call& call) {
  const std::int64_t group = call.inputs[0].size(1) / std::max<std::int64_t>(1, call.inputs[1].size(1));
  return layout::FactorRule::parse(
      "paged_attention: [b,(h g),t,d],[n,h,p,d],[n,h,p,e],[b,m],[b]->[b,(h g),t,e]; t=replicate, d=replicate, "
      "n=replicate, p=replicate, e=replicate, m=replicate, g:" +
      std::to_string(group));
}

tensor::Cost cost(const Call& call) {
  const Tensor& q = call.inputs[0];
  const auto keys = static_cast<double>(call.inputs[3].size(1) * call.inputs[1].size(2));
  const auto widths = static_cast<double>(q.size(3) + call.inputs[2].size(3));
  const auto of_q = static_cast<double>(q.size(0) * q.size(1) * q.size(2));
  const auto read = static_cast<double>(q.size(0) * call.inputs[1].size(1)) * keys * widths;
  return {2 * of_q * keys * widths, (read + of_q * widths) * static_cast<double>(itemsize(q.dtype()))};
}

const tensor::Operator kWritePages = tensor::register_op({.name = "write_pages",
                                                          .inputs = "rows, tables, starts",
                                                          .outputs = "pages",
                                                          .infer = infer_write,
                                                          .host = write_kernel,
                                                          .rule = write_rule,
                                                          .cost = write_cost});
const tensor::Operator kPagedAttention = tensor::register_op({.name = "paged_attention",
                                                              .inputs = "q, keys, values, tables, starts",
                                                              .infer = infer,
                                                              .host = kernel,
                                                              .rule = rule,
                                                              .cost = cost});

}  // namespace

void write_pages_(const Tensor& pages, const Tensor& rows, const Tensor& tables, const Tensor& starts) {
  tensor::call_out(kWritePages, pages, {rows, tables, starts});
}

Tensor paged_attention(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& tables,
                       const Tensor& starts, const PagedAttentionAttributes& how) {
  return tensor::call(kPagedAttention, {q, keys, values, tables, starts}, how);
}

}  // namespace tessera::ops

#include "tessera/ops/nn/detail/attention_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "tessera/ops/matrix/detail/product.h"
#include "tessera/ops/nn/detail/row_kernels.h"

namespace tessera::ops::detail {
namespace {

constexpr std::int64_t kQueryBlock = 128;
constexpr std::int64_t kKeyBlock = 256;

// One sequence of one batch: where it starts and how long it is.
struct Sequence {
  std::int64_t batch, first_query, queries, first_key, keys;
};

struct Interval {
  std::int64_t begin, end;
};

// Which keys a query of a sequence may look at. Both ends never fall as queries go on.
class Mask {
 public:
  Mask(const AttentionBias& bias, const Sequence& sequence)
      : shift_(bias.is_bottom_right ? sequence.keys - sequence.queries : 0),
        left_(bias.window_left),
        right_(bias.is_causal ? 0 : bias.window_right),
        keys_(sequence.keys) {}
  [[nodiscard]] Interval keys_of(std::int64_t query) const {
    const std::int64_t place = query + shift_;
    const std::int64_t end = right_ < 0 ? keys_ : std::clamp<std::int64_t>(place + right_ + 1, 0, keys_);
    const std::int64_t begin = left_ < 0 ? 0 : std::clamp<std::int64_t>(place - left_, 0, end);
    return {begin, end};
  }
  // Of queries [first, last]: from the first's begin to the last's end.
  [[nodiscard]] Interval keys_of(std::int64_t first, std::int64_t last) const {
    return {keys_of(first).begin, keys_of(last).end};
  }

 private:
  std::int64_t shift_, left_, right_, keys_;
};

std::vector<Sequence> sequences_of(const AttentionCall& call) {
  std::vector<Sequence> all;
  if (!call.offsets_q.has_rows()) {
    for (std::int64_t b = 0; b < call.batch; ++b) all.push_back({b, 0, call.queries, 0, call.keys});
    return all;
  }
  const auto n = static_cast<std::size_t>(call.offsets_q.length());
  std::vector<std::int64_t> q_scratch(n);
  std::vector<std::int64_t> k_scratch(n);
  const std::int64_t* q = call.offsets_q.read(0, q_scratch.data());
  const std::int64_t* k = call.offsets_k.read(0, k_scratch.data());
  TESSERA_CHECK(q[0] == 0 && k[0] == 0 && q[n - 1] == call.queries && k[n - 1] == call.keys, call.op,
                ": offsets_q go from ", q[0], " to ", q[n - 1], ", offsets_k from ", k[0], " to ", k[n - 1],
                ", but there are ", call.queries, " queries and ", call.keys, " keys");
  for (std::size_t i = 0; i + 1 < n; ++i) {
    TESSERA_CHECK(q[i] <= q[i + 1] && k[i] <= k[i + 1], call.op, ": offsets of sequence ", i, " fall");
    all.push_back({0, q[i], q[i + 1] - q[i], k[i], k[i + 1] - k[i]});
  }
  return all;
}

// `rows` rows of one head, dense in T: in place or loaded into scratch.
template <class T>
ProductOperand<T> tile_of(const AttentionOperand& of, std::int64_t batch, std::int64_t head, std::int64_t first,
                          std::int64_t rows, std::int64_t width, T* scratch) {
  const auto item = static_cast<std::int64_t>(itemsize(of.dtype));
  const std::byte* at = of.data + (batch * of.batch + head * of.head + first * of.row) * item;
  if (of.dtype == ::tessera::dtype_of<T>() && of.col == 1 && of.row >= std::max<std::int64_t>(width, 1)) {
    return {reinterpret_cast<const T*>(at), of.row, false};
  }
  for (std::int64_t i = 0; i < rows; ++i) load(scratch + i * width, at + i * of.row * item, of.dtype, of.col, width);
  return {scratch, std::max<std::int64_t>(width, 1), false};
}

template <class T>
ProductOperand<T> transposed(ProductOperand<T> matrix) {
  matrix.is_transposed = true;
  return matrix;
}

template <class T>
void store_rows(const AttentionOperand& to, std::int64_t batch, std::int64_t head, std::int64_t first,
                std::int64_t rows, std::int64_t width, const T* from) {
  const auto item = static_cast<std::int64_t>(itemsize(to.dtype));
  for (std::int64_t i = 0; i < rows; ++i) {
    std::byte* at = to.data + (batch * to.batch + head * to.head + (first + i) * to.row) * item;
    store(from + i * width, at, to.dtype, to.col, width);
  }
}

// Memory that is written before it is read.
template <class T>
struct Scratch {
  Scratch(std::int64_t rows, std::int64_t width)
      : values(std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(rows * width))) {}
  T* data() { return values.get(); }

  std::unique_ptr<T[]> values;
};

std::size_t elements(std::int64_t rows, std::int64_t width) { return static_cast<std::size_t>(rows * width); }

double scale_of(const AttentionCall& call) {
  return call.bias.scale != 0 ? call.bias.scale : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(call.d, 1)));
}

template <class T>
class Forward {
 public:
  explicit Forward(const AttentionCall& of)
      : call_(of),
        q_(kQueryBlock, of.d),
        k_(kKeyBlock, of.d),
        v_(kKeyBlock, of.e),
        scores_(kQueryBlock, kKeyBlock),
        out_(elements(kQueryBlock, of.e)) {}

  void run(const Sequence& sequence, std::int64_t head, std::int64_t first) {
    const std::int64_t rows = std::min(kQueryBlock, sequence.queries - first);
    const std::int64_t kv_head = head / (call_.heads / call_.kv_heads);
    const Mask mask(call_.bias, sequence);
    const Interval all = mask.keys_of(first, first + rows - 1);
    std::fill(out_.begin(), out_.end(), T(0));
    std::fill_n(most_, kQueryBlock, -std::numeric_limits<T>::infinity());
    std::fill_n(sum_, kQueryBlock, T(0));
    const ProductOperand<T> q =
        tile_of(call_.q, sequence.batch, head, sequence.first_query + first, rows, call_.d, q_.data());
    for (std::int64_t key = all.begin; key < all.end; key += kKeyBlock) {
      const std::int64_t count = std::min(kKeyBlock, all.end - key);
      const std::int64_t place = sequence.first_key + key;
      const ProductOperand<T> k = tile_of(call_.k, sequence.batch, kv_head, place, count, call_.d, k_.data());
      multiply({rows, count, call_.d}, static_cast<T>(scale_of(call_)), q, transposed(k), T(0), scores_.data(),
               kKeyBlock);
      for (std::int64_t i = 0; i < rows; ++i) soften(i, mask.keys_of(first + i), key, count);
      const ProductOperand<T> v = tile_of(call_.v, sequence.batch, kv_head, place, count, call_.e, v_.data());
      multiply({rows, call_.e, count}, T(1), {scores_.data(), kKeyBlock, false}, v, T(1), out_.data(),
               std::max<std::int64_t>(call_.e, 1));
    }
    finish(sequence, head, first, rows);
  }

 private:
  // Scores of row i become probabilities up to the running sum; what was summed before is brought to the new maximum.
  void soften(std::int64_t i, Interval keys, std::int64_t key, std::int64_t count) {
    const auto& kernels = row_kernels<T>();
    T* row = scores_.data() + i * kKeyBlock;
    const std::int64_t begin = std::clamp<std::int64_t>(keys.begin - key, 0, count);
    const std::int64_t end = std::clamp<std::int64_t>(keys.end - key, begin, count);
    std::fill(row, row + begin, T(0));
    std::fill(row + end, row + count, T(0));
    if (begin == end) return;
    const T most = std::max(most_[i], kernels.max(row + begin, end - begin));
    if (most == -std::numeric_limits<T>::infinity()) {
      std::fill(row + begin, row + end, T(0));
      return;
    }
    if (most > most_[i]) {
      const T before = std::exp(most_[i] - most);
      sum_[i] *= before;
      if (before != 1) kernels.scale(out_.data() + i * call_.e, before, out_.data() + i * call_.e, call_.e);
      most_[i] = most;
    }
    sum_[i] += kernels.exp_sum(row + begin, most_[i], row + begin, end - begin);
  }

  void finish(const Sequence& sequence, std::int64_t head, std::int64_t first, std::int64_t rows) {
    const auto& kernels = row_kernels<T>();
    for (std::int64_t i = 0; i < rows; ++i) {
      if (sum_[i] != 0) kernels.scale(out_.data() + i * call_.e, T(1) / sum_[i], out_.data() + i * call_.e, call_.e);
      most_[i] = sum_[i] == 0 ? -std::numeric_limits<T>::infinity() : most_[i] + std::log(sum_[i]);
    }
    store_rows(call_.out, sequence.batch, head, sequence.first_query + first, rows, call_.e, out_.data());
    store_rows(call_.logsumexp, sequence.batch, head, sequence.first_query + first, rows, 1, most_);
  }

  const AttentionCall& call_;
  Scratch<T> q_, k_, v_, scores_;
  std::vector<T> out_;
  T most_[kQueryBlock];
  T sum_[kQueryBlock];
};

template <class T>
class Backward {
 public:
  Backward(const AttentionCall& of, const Sequence& sequence)
      : call_(of),
        sequence_(sequence),
        mask_(of.bias, sequence),
        q_(kQueryBlock, of.d),
        k_(kKeyBlock, of.d),
        v_(kKeyBlock, of.e),
        grad_(kQueryBlock, of.e),
        out_(kQueryBlock, of.e),
        p_(kQueryBlock, kKeyBlock),
        dp_(kQueryBlock, kKeyBlock),
        dq_(elements(sequence.queries, of.d)),
        dk_(elements(sequence.keys, of.d)),
        dv_(elements(sequence.keys, of.e)),
        delta_(static_cast<std::size_t>(sequence.queries)),
        logsumexp_(static_cast<std::size_t>(sequence.queries)) {}

  void run(std::int64_t kv_head) {
    const std::int64_t group = call_.heads / call_.kv_heads;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      std::fill(dq_.begin(), dq_.end(), T(0));
      load_statistics(head);
      for (std::int64_t key = 0; key < sequence_.keys; key += kKeyBlock) {
        for (std::int64_t query = 0; query < sequence_.queries; query += kQueryBlock) tile(head, kv_head, query, key);
      }
      store_rows(call_.dq, sequence_.batch, head, sequence_.first_query, sequence_.queries, call_.d, dq_.data());
    }
    store_rows(call_.dk, sequence_.batch, kv_head, sequence_.first_key, sequence_.keys, call_.d, dk_.data());
    store_rows(call_.dv, sequence_.batch, kv_head, sequence_.first_key, sequence_.keys, call_.e, dv_.data());
  }

 private:
  // delta is the dot product of each result with its gradient, which the softmax's gradient takes away.
  void load_statistics(std::int64_t head) {
    for (std::int64_t first = 0; first < sequence_.queries; first += kQueryBlock) {
      const std::int64_t rows = std::min(kQueryBlock, sequence_.queries - first);
      const std::int64_t place = sequence_.first_query + first;
      const ProductOperand<T> grad = tile_of(call_.grad, sequence_.batch, head, place, rows, call_.e, grad_.data());
      const ProductOperand<T> out = tile_of(call_.out, sequence_.batch, head, place, rows, call_.e, out_.data());
      for (std::int64_t i = 0; i < rows; ++i) {
        delta_[static_cast<std::size_t>(first + i)] =
            row_kernels<T>().dot(grad.data + i * grad.stride, out.data + i * out.stride, call_.e);
      }
    }
    load_column(call_.logsumexp, head, logsumexp_);
    if (call_.grad_logsumexp.data == nullptr) return;
    // Its gradient flows into every score by its probability: as if delta were less.
    std::vector<T> grad(delta_.size());
    load_column(call_.grad_logsumexp, head, grad);
    for (std::size_t i = 0; i < grad.size(); ++i) delta_[i] -= grad[i];
  }

  void load_column(const AttentionOperand& from, std::int64_t head, std::vector<T>& to) {
    const std::int64_t at = sequence_.batch * from.batch + head * from.head + sequence_.first_query * from.row;
    load(to.data(), from.data + at * static_cast<std::int64_t>(itemsize(from.dtype)), from.dtype, from.row,
         sequence_.queries);
  }

  void tile(std::int64_t head, std::int64_t kv_head, std::int64_t query, std::int64_t key) {
    const std::int64_t rows = std::min(kQueryBlock, sequence_.queries - query);
    const Interval all = mask_.keys_of(query, query + rows - 1);
    const std::int64_t count = std::min({kKeyBlock, sequence_.keys - key, all.end - key});
    if (count <= 0 || all.begin >= key + count) return;
    const std::int64_t d = call_.d;
    const std::int64_t e = call_.e;
    const std::int64_t q_place = sequence_.first_query + query;
    const std::int64_t k_place = sequence_.first_key + key;
    const ProductOperand<T> q = tile_of(call_.q, sequence_.batch, head, q_place, rows, d, q_.data());
    const ProductOperand<T> k = tile_of(call_.k, sequence_.batch, kv_head, k_place, count, d, k_.data());
    const ProductOperand<T> v = tile_of(call_.v, sequence_.batch, kv_head, k_place, count, e, v_.data());
    const ProductOperand<T> grad = tile_of(call_.grad, sequence_.batch, head, q_place, rows, e, grad_.data());
    const T scale = static_cast<T>(scale_of(call_));
    const std::int64_t d_stride = std::max<std::int64_t>(d, 1);
    const ProductOperand<T> p = {p_.data(), kKeyBlock, false};
    const ProductOperand<T> ds = {dp_.data(), kKeyBlock, false};
    multiply({rows, count, d}, scale, q, transposed(k), T(0), p_.data(), kKeyBlock);
    for (std::int64_t i = 0; i < rows; ++i) probabilities(i, query + i, key, count);
    multiply({count, e, rows}, T(1), transposed(p), grad, T(1), dv_.data() + key * e, std::max<std::int64_t>(e, 1));
    multiply({rows, count, e}, T(1), grad, transposed(v), T(0), dp_.data(), kKeyBlock);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* row = dp_.data() + i * kKeyBlock;
      row_kernels<T>().attention_gradient(p_.data() + i * kKeyBlock, row, delta_[static_cast<std::size_t>(query + i)],
                                          row, count);
    }
    multiply({rows, d, count}, scale, ds, k, T(1), dq_.data() + query * d, d_stride);
    multiply({count, d, rows}, scale, transposed(ds), q, T(1), dk_.data() + key * d, d_stride);
  }

  void probabilities(std::int64_t i, std::int64_t query, std::int64_t key, std::int64_t count) {
    const Interval keys = mask_.keys_of(query);
    T* row = p_.data() + i * kKeyBlock;
    const T logsumexp = logsumexp_[static_cast<std::size_t>(query)];
    const std::int64_t begin = std::clamp<std::int64_t>(keys.begin - key, 0, count);
    std::int64_t end = std::clamp<std::int64_t>(keys.end - key, begin, count);
    if (logsumexp == -std::numeric_limits<T>::infinity()) end = begin;
    std::fill(row, row + begin, T(0));
    std::fill(row + end, row + count, T(0));
    row_kernels<T>().exp_sum(row + begin, logsumexp, row + begin, end - begin);
  }

  const AttentionCall& call_;
  Sequence sequence_;
  Mask mask_;
  Scratch<T> q_, k_, v_, grad_, out_, p_, dp_;
  std::vector<T> dq_, dk_, dv_, delta_, logsumexp_;
};

}  // namespace

AttentionOperand::AttentionOperand(const Tensor& tensor)
    : data(tensor.data()),
      dtype(tensor.dtype()),
      batch(tensor.strides()[0]),
      head(tensor.strides()[1]),
      row(tensor.strides()[2]),
      col(tensor.ndim() > 3 ? tensor.strides()[3] : 1) {}

template <class T>
void run_attention(const AttentionCall& call) {
  struct Task {
    Sequence sequence;
    std::int64_t head, first;
  };
  std::vector<Task> tasks;
  for (const Sequence& sequence : sequences_of(call)) {
    for (std::int64_t head = 0; head < call.heads; ++head) {
      for (std::int64_t first = 0; first < sequence.queries; first += kQueryBlock) {
        tasks.push_back({sequence, head, first});
      }
    }
  }
  parallel_for(static_cast<std::int64_t>(tasks.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    Forward<T> forward(call);
    for (std::int64_t i = begin; i < end; ++i) {
      const Task& task = tasks[static_cast<std::size_t>(i)];
      forward.run(task.sequence, task.head, task.first);
    }
  });
}

template <class T>
void run_attention_backward(const AttentionCall& call) {
  const std::vector<Sequence> sequences = sequences_of(call);
  const std::int64_t count = static_cast<std::int64_t>(sequences.size()) * call.kv_heads;
  parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Backward<T>(call, sequences[static_cast<std::size_t>(i / call.kv_heads)]).run(i % call.kv_heads);
    }
  });
}

template void run_attention<float>(const AttentionCall&);
template void run_attention<double>(const AttentionCall&);
template void run_attention_backward<float>(const AttentionCall&);
template void run_attention_backward<double>(const AttentionCall&);

}  // namespace tessera::ops::detail

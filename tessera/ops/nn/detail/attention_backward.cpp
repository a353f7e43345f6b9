#include "tessera/ops/nn/detail/attention_tiles.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "tessera/ops/nn/detail/attention_operands.h"
#include "tessera/ops/nn/detail/row_kernels.h"

namespace tessera::ops::detail {
namespace {

constexpr std::int64_t kMinKeys = 256;     // keys per task, if its sequence has more than one task
constexpr std::int64_t kChunk = 512;       // keys whose gradients fit a near cache
constexpr std::int64_t kEnoughTasks = 32;  // enough to balance the threads

// A task: some keys of one kv head of one sequence, chunk by chunk. Each task sums its own part of dq, and the parts of
// all tasks of a kv head are added in the order of the keys. A task with one chunk and all keys of its sequence needs
// no separate part.
struct BackwardTask {
  std::size_t sequence;
  std::int64_t kv_head, first_key, keys;
  std::int64_t share;  // start of its part of dq, in rows; negative: not needed
  double pairs;        // estimated pairs of queries and keys
};

// Scales dq of a panel and stores it.
template <class T>
void store_dq(const AttentionCall& call, const AttentionSequence& sequence, std::int64_t head, std::int64_t first,
              std::int64_t queries, T* dq) {
  const std::int64_t width = padded_width<T>(call.d);
  row_kernels<T>().scale(dq, static_cast<T>(scale_of(call)), dq, queries * width);
  store_head_rows(call.dq, sequence.batch, head, sequence.first_query + first, queries, call.d, dq, width);
}

template <class T>
class AttentionBackward {
 public:
  AttentionBackward(const AttentionCall& of, const AttentionSequence& sequence, const BackwardTask& task, T* shares)
      : call_(of),
        sequence_(sequence),
        task_(task),
        mask_(of.bias, sequence),
        shares_(shares),
        memory_({keys_ * d_padded_, keys_ * e_padded_, keys_ * d_padded_, keys_ * e_padded_, panel_ * of.d,
                 panel_ * of.e, panel_ * d_padded_, panel_ * e_padded_, panel_ * e_padded_, panel_ * d_padded_,
                 kAttentionKeyBlock * panel_, kAttentionKeyBlock * panel_, panel_, panel_, panel_}),
        k_scratch_(memory_.take(keys_ * d_padded_)),
        v_scratch_(memory_.take(keys_ * e_padded_)),
        dk_(memory_.take(keys_ * d_padded_)),
        dv_(memory_.take(keys_ * e_padded_)),
        q_columns_(memory_.take(panel_ * of.d)),
        grad_columns_(memory_.take(panel_ * of.e)),
        q_scratch_(memory_.take(panel_ * d_padded_)),
        grad_scratch_(memory_.take(panel_ * e_padded_)),
        out_scratch_(memory_.take(panel_ * e_padded_)),
        dq_(memory_.take(panel_ * d_padded_)),
        p_(memory_.take(kAttentionKeyBlock * panel_)),
        ds_(memory_.take(kAttentionKeyBlock * panel_)),
        delta_(memory_.take(panel_)),
        logsumexp_(memory_.take(panel_)),
        grad_logsumexp_(memory_.take(panel_)) {}

  void run() {
    const std::int64_t end = task_.first_key + task_.keys;
    std::int64_t key = task_.first_key;
    do {
      run_chunk({key, std::min(key + kChunk, end)});
      key += kChunk;
    } while (key < end);
  }

 private:
  void run_chunk(Interval chunk) {
    const std::int64_t group = group_of(call_);
    const std::int64_t place = sequence_.first_key + chunk.begin;
    const std::int64_t count = chunk.end - chunk.begin;
    k_ = read_head_rows(call_.k, sequence_.batch, task_.kv_head, place, count, call_.d, d_padded_, k_scratch_);
    v_ = read_head_rows(call_.v, sequence_.batch, task_.kv_head, place, count, call_.e, call_.e, v_scratch_);
    std::fill_n(dk_, keys_ * d_padded_, T(0));
    std::fill_n(dv_, keys_ * e_padded_, T(0));
    for (std::int64_t i = 0; i < group; ++i) {
      for (std::int64_t first = 0; first < sequence_.queries; first += panel_) {
        panel(chunk, task_.kv_head * group + i, first, (i * round_up(sequence_.queries, panel_) + first) * d_padded_);
      }
    }
    row_kernels<T>().scale(dk_, scale_, dk_, keys_ * d_padded_);
    store_head_rows(call_.dk, sequence_.batch, task_.kv_head, place, count, call_.d, dk_, d_padded_);
    store_head_rows(call_.dv, sequence_.batch, task_.kv_head, place, count, call_.e, dv_, e_padded_);
  }

  // Processes all keys of the chunk that the panel attends to. `share` is the start of its queries in the dq part of
  // the task.
  void panel(Interval chunk, std::int64_t head, std::int64_t first, std::int64_t share) {
    const std::int64_t queries = std::min(panel_, sequence_.queries - first);
    const Interval all = mask_.keys_of(first, first + queries - 1);
    const std::int64_t begin =
        std::max<std::int64_t>(all.begin - chunk.begin, 0) / kAttentionKeyBlock * kAttentionKeyBlock;
    const std::int64_t end = std::min(all.end, chunk.end) - chunk.begin;
    const bool has_share = task_.share >= 0;
    if (begin >= end && has_share) return;
    T* const dq = has_share ? shares_ + task_.share * d_padded_ + share : dq_;
    const bool is_first = chunk.begin == task_.first_key || all.begin >= chunk.begin;
    if (is_first) std::fill_n(dq, panel_ * d_padded_, T(0));
    if (begin < end) load_panel(head, first, queries);
    PanelMask mask = panel_mask(mask_, first, queries, panel_);
    for (std::int64_t key = begin; key < end; key += kAttentionKeyBlock) {
      mask.block = chunk.begin + key;
      kernels_.backward({.queries = queries,
                         .keys = std::min(kAttentionKeyBlock, end - key),
                         .d = call_.d,
                         .e = call_.e,
                         .d_padded = d_padded_,
                         .e_padded = e_padded_,
                         .mask = &mask,
                         .q_columns = q_columns_,
                         .grad_columns = grad_columns_,
                         .q = q_,
                         .grad = grad_,
                         .logsumexp = logsumexp_,
                         .delta = delta_,
                         .k = {k_.data + key * k_.stride, k_.stride},
                         .v = {v_.data + key * v_.stride, v_.stride},
                         .dq = dq,
                         .dk = dk_ + key * d_padded_,
                         .dv = dv_ + key * e_padded_,
                         .p = p_,
                         .ds = ds_});
    }
    if (!has_share) store_dq(call_, sequence_, head, first, queries, dq);
  }

  void load_panel(std::int64_t head, std::int64_t first, std::int64_t queries) {
    const std::int64_t place = sequence_.first_query + first;
    q_ = read_head_rows(call_.q, sequence_.batch, head, place, queries, call_.d, d_padded_, q_scratch_);
    grad_ = read_head_rows(call_.grad, sequence_.batch, head, place, queries, call_.e, e_padded_, grad_scratch_);
    kernels_.pack_columns(q_, queries, call_.d, static_cast<T>(scale_of(call_) * kernels_.score_unit), q_columns_);
    kernels_.pack_columns(grad_, queries, call_.e, T(1), grad_columns_);
    const auto out = read_head_rows(call_.out, sequence_.batch, head, place, queries, call_.e, call_.e, out_scratch_);
    load_column(call_.logsumexp, head, place, queries, logsumexp_);
    std::fill_n(grad_logsumexp_, panel_, T(0));
    if (call_.grad_logsumexp.data != nullptr) {
      load_column(call_.grad_logsumexp, head, place, queries, grad_logsumexp_);
    }
    for (std::int64_t i = 0; i < panel_; ++i) {
      // Queries without keys, and queries beyond the end of the panel, have probabilities of 0.
      const bool is_none = i >= queries || logsumexp_[i] == -std::numeric_limits<T>::infinity();
      logsumexp_[i] =
          is_none ? std::numeric_limits<T>::infinity() : logsumexp_[i] * static_cast<T>(kernels_.score_unit);
      // The gradient of the logsumexp adds to each score by its probability, which is equivalent to a smaller delta.
      delta_[i] = i < queries
                      ? row_kernels<T>().dot(grad_.data + i * grad_.stride, out.data + i * out.stride, call_.e) -
                            grad_logsumexp_[i]
                      : T(0);
    }
  }

  void load_column(const AttentionOperand& from, std::int64_t head, std::int64_t place, std::int64_t queries, T* to) {
    load(to, row_address(from, sequence_.batch, head, place), from.dtype, from.row, queries);
  }

  const AttentionCall& call_;
  const AttentionSequence& sequence_;
  const BackwardTask& task_;
  KeyMask mask_;
  T* shares_;
  const AttentionKernels<T>& kernels_ = attention_kernels<T>();
  std::int64_t panel_ = kernels_.panel;
  std::int64_t d_padded_ = padded_width<T>(call_.d);
  std::int64_t e_padded_ = padded_width<T>(call_.e);
  std::int64_t keys_ = round_up(std::min(task_.keys, kChunk), kernels_.rows);  // keys per chunk
  T scale_ = static_cast<T>(scale_of(call_));
  AttentionMemory<T> memory_;
  T *k_scratch_, *v_scratch_, *dk_, *dv_, *q_columns_, *grad_columns_, *q_scratch_, *grad_scratch_, *out_scratch_;
  T *dq_, *p_, *ds_, *delta_, *logsumexp_, *grad_logsumexp_;
  AttentionRows<const T> k_, v_, q_, grad_;
};

// Estimates the pairs of queries and keys of a task from a few queries.
double pairs_of(const KeyMask& mask, std::int64_t queries, Interval keys) {
  const std::int64_t step = std::max<std::int64_t>(queries / 16, 1);
  double sum = 0;
  for (std::int64_t i = step / 2; i < queries; i += step) {
    const Interval of = mask.keys_of(i);
    sum += static_cast<double>(std::max<std::int64_t>(std::min(of.end, keys.end) - std::max(of.begin, keys.begin), 0) *
                               step);
  }
  return sum;
}

// Tasks of the backward pass by sequence, kv head and keys, and the total rows of their parts of dq.
struct BackwardPlan {
  std::vector<BackwardTask> tasks;
  std::int64_t share_rows = 0;
};

BackwardPlan plan_backward(const AttentionCall& call, const std::vector<AttentionSequence>& sequences,
                           std::int64_t panel) {
  BackwardPlan plan;
  const std::int64_t heads = std::max<std::int64_t>(static_cast<std::int64_t>(sequences.size()) * call.kv_heads, 1);
  const std::int64_t wanted = (kEnoughTasks + heads - 1) / heads;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const AttentionSequence& sequence = sequences[s];
    const KeyMask mask(call.bias, sequence);
    const std::int64_t each = std::max(round_up((sequence.keys + wanted - 1) / wanted, kAttentionKeyBlock), kMinKeys);
    const std::int64_t rows = group_of(call) * round_up(sequence.queries, panel);
    for (std::int64_t kv_head = 0; kv_head < call.kv_heads; ++kv_head) {
      for (std::int64_t key = 0; key == 0 || key < sequence.keys; key += each) {
        const std::int64_t keys = std::min(each, sequence.keys - key);
        const bool has_share = sequence.keys > std::min(each, kChunk);
        plan.tasks.push_back({s, kv_head, key, keys, has_share ? plan.share_rows : -1,
                              pairs_of(mask, sequence.queries, {key, key + keys})});
        if (has_share) plan.share_rows += rows;
      }
    }
  }
  return plan;
}

// Adds the parts of `tasks`, all of one kv head, and stores dq.
template <class T>
void add_shares(const AttentionCall& call, const AttentionSequence& sequence, std::span<const BackwardTask> tasks,
                T* shares) {
  const std::int64_t panel = attention_kernels<T>().panel;
  const std::int64_t width = padded_width<T>(call.d);
  const std::int64_t group = group_of(call);
  const KeyMask mask(call.bias, sequence);
  std::vector<T> sum(static_cast<std::size_t>(panel * width));
  for (std::int64_t i = 0; i < group; ++i) {
    for (std::int64_t first = 0; first < sequence.queries; first += panel) {
      const std::int64_t queries = std::min(panel, sequence.queries - first);
      const Interval keys = mask.keys_of(first, first + queries - 1);
      std::fill(sum.begin(), sum.end(), T(0));
      for (const BackwardTask& task : tasks) {
        if (keys.begin >= task.first_key + task.keys || keys.end <= task.first_key) continue;
        const T* share = shares + (task.share + i * round_up(sequence.queries, panel) + first) * width;
        row_kernels<T>().add_scaled(share, T(1), sum.data(), queries * width);
      }
      store_dq(call, sequence, tasks[0].kv_head * group + i, first, queries, sum.data());
    }
  }
}

}  // namespace

template <class T>
void run_attention_backward(const AttentionCall& call) {
  const std::vector<AttentionSequence> sequences = sequences_of(call);
  const BackwardPlan plan = plan_backward(call, sequences, attention_kernels<T>().panel);
  const auto shares =
      std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(plan.share_rows * padded_width<T>(call.d)));
  // Largest first, so that threads finish together.
  std::vector<const BackwardTask*> order;
  for (const BackwardTask& task : plan.tasks) order.push_back(&task);
  std::ranges::stable_sort(order, std::greater(), &BackwardTask::pairs);
  parallel_for(static_cast<std::int64_t>(order.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const BackwardTask& task = *order[static_cast<std::size_t>(i)];
      AttentionBackward<T>(call, sequences[task.sequence], task, shares.get()).run();
    }
  });
  if (plan.share_rows == 0) return;
  // Adjacent tasks of one sequence and kv head add up to one dq.
  std::vector<std::span<const BackwardTask>> sums;
  for (std::size_t begin = 0, end = 0; begin < plan.tasks.size(); begin = end) {
    const BackwardTask& first = plan.tasks[begin];
    while (end < plan.tasks.size() && plan.tasks[end].sequence == first.sequence &&
           plan.tasks[end].kv_head == first.kv_head) {
      ++end;
    }
    if (first.share >= 0) sums.push_back(std::span(plan.tasks).subspan(begin, end - begin));
  }
  parallel_for(static_cast<std::int64_t>(sums.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::span<const BackwardTask> tasks = sums[static_cast<std::size_t>(i)];
      add_shares(call, sequences[tasks[0].sequence], tasks, shares.get());
    }
  });
}

template void run_attention_backward<float>(const AttentionCall&);
template void run_attention_backward<double>(const AttentionCall&);

}  // namespace tessera::ops::detail

#include "tessera/ops/nn/detail/attention_operands.h"

namespace tessera::ops::detail {

AttentionOperand::AttentionOperand(const Tensor& tensor)
    : data(tensor.data()),
      dtype(tensor.dtype()),
      batch(tensor.strides()[0]),
      head(tensor.strides()[1]),
      row(tensor.strides()[2]),
      col(tensor.ndim() > 3 ? tensor.strides()[3] : 1) {}

std::vector<AttentionSequence> sequences_of(const AttentionCall& call) {
  std::vector<AttentionSequence> all;
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
                ": offsets_q must cover [0, ", call.queries, "] and offsets_k [0, ", call.keys, "], got [", q[0], ", ",
                q[n - 1], "] and [", k[0], ", ", k[n - 1], "]");
  for (std::size_t i = 0; i + 1 < n; ++i) {
    TESSERA_CHECK(q[i] <= q[i + 1] && k[i] <= k[i + 1], call.op, ": offsets must not decrease, but those of sequence ",
                  i, " do");
    all.push_back({0, q[i], q[i + 1] - q[i], k[i], k[i + 1] - k[i]});
  }
  return all;
}

}  // namespace tessera::ops::detail

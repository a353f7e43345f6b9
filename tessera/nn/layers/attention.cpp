#include "tessera/nn/layers/attention.h"

#include <algorithm>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/nn/kv_cache.h"
#include "tessera/nn/packing.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/local_map.h"

namespace tessera::nn {
namespace {

AttentionOptions resolved(AttentionOptions options) {
  TESSERA_CHECK(options.width > 0 && options.heads > 0, "Attention: width and heads must be at least 1, got ",
                options.width, " and ", options.heads);
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  TESSERA_CHECK(options.kv_heads > 0 && options.heads % options.kv_heads == 0, "Attention: heads (", options.heads,
                ") must be a multiple of kv_heads, got ", options.kv_heads);
  TESSERA_CHECK(options.head_width >= 0 && options.window >= 0,
                "Attention: head_width and window must be at least 0, got ", options.head_width, " and ",
                options.window);
  if (options.head_width == 0) {
    TESSERA_CHECK(options.width % options.heads == 0, "Attention: width must be a multiple of heads (", options.heads,
                  "), got ", options.width, "; set head_width");
    options.head_width = options.width / options.heads;
  }
  return options;
}

Linear projection(const AttentionOptions& options, std::int64_t heads) {
  return {options.width,
          heads * options.head_width,
          {.bias = options.bias,
           .init = options.init,
           .out_meaning = {"heads", options.head_width},
           .in_meaning = "embed"}};
}

Linear last_projection(const AttentionOptions& options) {
  return {options.heads * options.head_width,
          options.width,
          {.bias = options.out_bias,
           .init = options.out_init,
           .out_meaning = "embed",
           .in_meaning = {"heads", options.head_width}}};
}

// Rows [batch, heads, sequence, width] as one row of all tokens, [1, heads, batch * sequence, width].
Tensor joined_rows(const Tensor& x) {
  const Tensor rows = ops::transpose(x, 1, 2);
  return ops::transpose(ops::reshape(rows, {1, rows.size(0) * rows.size(1), rows.size(2), rows.size(3)}), 1, 2);
}

// Attention within documents, which begin at `offsets` of the rows of this rank.
Tensor packed_attention(const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionBias& bias,
                        const Tensor& offsets) {
  const auto attend = [bias, offsets](const std::vector<Tensor>& parts) -> std::vector<Tensor> {
    const Tensor& own = parts[0];
    const Tensor out = ops::scaled_dot_product_attention(joined_rows(own), joined_rows(parts[1]), joined_rows(parts[2]),
                                                         bias, {.q = offsets, .k = offsets});
    const Tensor rows = ops::transpose(out, 1, 2);
    return {ops::transpose(ops::reshape(rows, {own.size(0), own.size(2), rows.size(2), rows.size(3)}), 1, 2)};
  };
  if (!q.has_layout()) return attend({q, k, v})[0];
  const Shape shape{q.size(0), q.size(1), q.size(2), v.size(3)};
  return shard::local_map(attend, {q.layout(), k.layout(), v.layout()}, {q.layout()})({q, k, v},
                                                                                      {{shape, q.dtype()}})[0];
}

}  // namespace

Attention::Attention(const AttentionOptions& options)
    : q_proj(add("q_proj", projection(resolved(options), options.heads))),
      k_proj(add("k_proj", projection(resolved(options), resolved(options).kv_heads))),
      v_proj(add("v_proj", projection(resolved(options), resolved(options).kv_heads))),
      o_proj(add("o_proj", last_projection(resolved(options)))),
      options_(resolved(options)) {
  if (!options.qk_norm_eps) return;
  const NormOptions norm{.eps = *options.qk_norm_eps, .meaning = ""};
  q_norm = add("q_norm", RMSNorm(options_.head_width, norm));
  k_norm = add("k_norm", RMSNorm(options_.head_width, norm));
}

// Returns [batch, heads, sequence, head_width], a view of the rows unless they are normalized.
Tensor Attention::heads_of(const Tensor& rows, std::int64_t heads, const std::optional<RMSNorm>& norm) const {
  const Tensor split = ops::view(rows, {rows.size(0), rows.size(1), heads, options_.head_width});
  return ops::transpose(norm ? (*norm)(split) : split, 1, 2);
}

Tensor Attention::rotated(const Tensor& heads, KvCache* cache) const {
  if (!options_.rope) return heads;
  ops::RopeAttributes rope = *options_.rope;
  if (cache == nullptr) return ops::rope(heads, rope);
  std::vector<std::int64_t> starts = cache->starts(heads.size(0), *this);
  for (std::int64_t& start : starts) start += rope.offset;
  if (std::ranges::adjacent_find(starts, std::not_equal_to()) != starts.end())
    return ops::rope(heads, rope, positions_from(starts, heads.size(2), heads));
  if (!starts.empty()) rope.offset = starts[0];
  return ops::rope(heads, rope);
}

Tensor Attention::forward(const Tensor& x, KvCache* cache) const {
  TESSERA_CHECK(cache == nullptr || options_.is_causal, "Attention: a cache requires is_causal");
  const Tensor rows = constrain(x, {"batch", "", "embed"});
  const Tensor q = rotated(heads_of(q_proj(rows), options_.heads, q_norm), cache);
  const Tensor k = rotated(heads_of(k_proj(rows), options_.kv_heads, k_norm), cache);
  const Tensor v = heads_of(v_proj(rows), options_.kv_heads, {});
  const ops::AttentionBias bias{.is_causal = options_.is_causal,
                                .window_left = options_.window > 0 ? options_.window - 1 : -1};
  const Packing& documents = packing(*this);
  TESSERA_CHECK(!documents.offsets || cache == nullptr, "Attention: packed documents require calls without a cache");
  const auto attended = [&] {
    if (cache != nullptr) return cache->attend(*this, q, k, v, options_.window);
    if (documents.offsets) return packed_attention(q, k, v, bias, documents.offsets);
    return ops::scaled_dot_product_attention(q, k, v, bias);
  };
  const Tensor out = attended();
  const Tensor joined =
      ops::reshape(ops::transpose(out, 1, 2), {out.size(0), out.size(2), options_.heads * options_.head_width});
  return o_proj.with_bias(constrain(o_proj.product(observe("values", joined)), {"batch", "sequence", "embed"}));
}

}  // namespace tessera::nn

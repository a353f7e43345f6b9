#include "tessera/ops/matrix/detail/bf16_product.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <oneapi/dnnl/dnnl.hpp>

#include "tessera/base/error.h"
#include "tessera/ops/matrix/detail/product_library.h"

namespace tessera::ops::detail {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
}

memory::desc matrix(std::int64_t rows, std::int64_t cols, memory::data_type type, std::int64_t stride,
                    bool is_transposed) {
  return {{rows, cols}, type, is_transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

// Sizes, strides and kinds of a product.
using Key = std::array<std::int64_t, 10>;

// Code that oneDNN generated for one kind of product. Any thread may run it: its scratch memory is the caller's.
class Prepared {
 public:
  explicit Prepared(const Key& key) {
    const auto& [m, n, k, a_stride, is_a_transposed, b_stride, is_b_transposed, c_stride, is_c_f32, is_added] = key;
    const auto c_type = is_c_f32 != 0 ? memory::data_type::f32 : memory::data_type::bf16;
    a_ = matrix(m, k, memory::data_type::bf16, a_stride, is_a_transposed != 0);
    b_ = matrix(k, n, memory::data_type::bf16, b_stride, is_b_transposed != 0);
    c_ = matrix(m, n, c_type, c_stride, false);
    dnnl::primitive_attr how;
    how.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (is_added != 0) {
      dnnl::post_ops after;
      after.append_sum(1.0F);
      how.set_post_ops(after);
    }
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc planned(engine(), a_, b_, c_, how);
#else
    const dnnl::matmul::primitive_desc planned(dnnl::matmul::desc(a_, b_, c_), how, engine());
#endif
    scratch_ = planned.scratchpad_desc();
    code_ = dnnl::matmul(planned);
  }

  void run(const void* a, const void* b, void* c) const {
    const auto scratch = std::make_unique_for_overwrite<std::byte[]>(scratch_.get_size());
    // oneDNN takes non-const pointers to data that it only reads.
    dnnl::stream stream(engine());
    code_.execute(stream, {{DNNL_ARG_SRC, memory(a_, engine(), const_cast<void*>(a))},
                           {DNNL_ARG_WEIGHTS, memory(b_, engine(), const_cast<void*>(b))},
                           {DNNL_ARG_DST, memory(c_, engine(), c)},
                           {DNNL_ARG_SCRATCHPAD, memory(scratch_, engine(), scratch.get())}});
    stream.wait();
  }

 private:
  memory::desc a_, b_, c_, scratch_;
  dnnl::matmul code_;
};

// Generating code takes a few hundred microseconds, so it is kept; a program has few kinds of products.
class PreparedProducts {
 public:
  std::shared_ptr<const Prepared> find(const Key& key) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto at = all_.find(key); at != all_.end()) return at->second;
    }
    auto made = std::make_shared<const Prepared>(key);
    const std::lock_guard lock(mutex_);
    if (all_.size() >= kMax) all_.clear();
    return all_.try_emplace(key, std::move(made)).first->second;
  }

 private:
  static constexpr std::size_t kMax = 512;
  std::shared_mutex mutex_;
  std::map<Key, std::shared_ptr<const Prepared>> all_;
};

PreparedProducts& products() {
  static auto* const kProducts = new PreparedProducts();  // threads may multiply while the program ends
  return *kProducts;
}

}  // namespace

void multiply_bf16(const GemmSizes& s, const ProductOperand<bf16>& a, const ProductOperand<bf16>& b, bool is_added,
                   DType c_dtype, void* c, std::int64_t c_stride) {
  const ProductCall call(s.k);
  try {
    products()
        .find({s.m, s.n, s.k, a.stride, a.is_transposed ? 1 : 0, b.stride, b.is_transposed ? 1 : 0, c_stride,
               c_dtype == DType::kF32 ? 1 : 0, is_added ? 1 : 0})
        ->run(a.data, b.data, c);
  } catch (const dnnl::error& error) {
    TESSERA_THROW(DeviceError, "product of bf16 [", s.m, ", ", s.k, "] and [", s.k, ", ", s.n,
                  "]: oneDNN failed with status ", static_cast<int>(error.status), ": ", error.message);
  }
}

}  // namespace tessera::ops::detail

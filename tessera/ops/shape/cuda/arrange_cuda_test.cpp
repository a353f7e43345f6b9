// Rearrangements and strided copies on a GPU have the bits of the host: every item size, odd sizes, unaligned views,
// more than one tile, block and table, and replays of a graph.
#include "tessera/ops/shape/arrange.h"

#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/on_cuda.h"

namespace tessera::ops {
namespace {

using testing::expect_same_bits;

// Items of 1, 2, 4, 8 and 16 bytes.
constexpr DType kDTypes[] = {DType::kI8, DType::kBF16, DType::kF32, DType::kF64, DType::kC128};

Tensor numbers(const Shape& shape, DType dtype) { return cast(mul(randn(shape), 30.0), dtype); }

class ArrangedOnCuda : public testing::OnCuda {
 protected:
  // Expects the same bits from `body` on the host and on the GPU, which may take views of its argument.
  template <class F>
  void expect_host_bits(const Tensor& x, const F& body) const {
    expect_same_bits(here(contiguous(body(there(x)))), contiguous(body(x)));
  }
};

TEST_F(ArrangedOnCuda, CopiesTransposedMatrices) {
  for (const DType dtype : kDTypes) {
    for (const auto& [rows, columns] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
             {64, 64}, {65, 130}, {1000, 72}, {16, 5000}, {1, 70}, {15, 15}, {128, 16}, {257, 511}, {272, 400}}) {
      SCOPED_TRACE(tessera::detail::concat(dtype, " ", rows, " x ", columns));
      const Tensor x = numbers({rows, columns}, dtype);
      expect_host_bits(x, [](const Tensor& t) { return contiguous(transpose(t, 0, 1)); });
      expect_host_bits(x, [](const Tensor& t) {
        const Tensor from = slice(slice(t, 0, t.size(0) > 1 ? 1 : 0), 1, 1);
        return contiguous(transpose(from, 0, 1));
      });
      expect_host_bits(x, [](const Tensor& t) {
        const Tensor out = Tensor::allocate({t.size(1), t.size(0)}, t.dtype(), t.device());
        copy_(transpose(out, 0, 1), t);
        return out;
      });
    }
  }
}

TEST_F(ArrangedOnCuda, CopiesPermutedTensors) {
  for (const DType dtype : kDTypes) {
    const Tensor x = numbers({5, 18, 33, 40}, dtype);
    for (const tensor::IntList& dims :
         std::initializer_list<tensor::IntList>{{0, 1, 3, 2}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}}) {
      expect_host_bits(x, [&](const Tensor& t) { return contiguous(permute(t, dims)); });
    }
    expect_host_bits(x, [](const Tensor& t) {
      return contiguous(transpose(expand(unsqueeze(select(t, 0, 1), 0), Shape({3, 18, 33, 40}).values()), 1, 3));
    });
  }
}

TEST_F(ArrangedOnCuda, ConcatenatesAlongEveryDimension) {
  for (const DType dtype : kDTypes) {
    for (std::int64_t dim = 0; dim < 3; ++dim) {
      std::vector<Tensor> list;
      std::vector<Tensor> on_gpu;
      for (std::int64_t i = 0; i < 45; ++i) {  // several tables of segments
        tensor::IntList sizes = {6, 8, 16};
        sizes[static_cast<std::size_t>(dim)] = i % 9;
        list.push_back(numbers(Shape(std::span<const std::int64_t>(sizes)), dtype));
        on_gpu.push_back(there(list.back()));
      }
      expect_same_bits(here(cat(on_gpu, dim)), cat(list, dim));
    }
    const Tensor large = numbers({300, 1111}, dtype);
    expect_host_bits(large, [](const Tensor& t) { return cat({t, t}, 1); });
    expect_host_bits(large, [](const Tensor& t) {
      return cat({slice(t, 1, 1, 301), transpose(slice(t, 1, 3, 1001), 0, 1)}, 0);
    });
  }
}

TEST_F(ArrangedOnCuda, FlipsRollsAndPads) {
  for (const DType dtype : kDTypes) {
    for (const Shape& shape : {Shape({7, 9, 33}), Shape({2, 3, 4096}), Shape({1, 1, 1}), Shape({3, 0, 2})}) {
      SCOPED_TRACE(tessera::detail::concat(dtype, " ", shape));
      const Tensor x = numbers(shape, dtype);
      expect_host_bits(x, [](const Tensor& t) { return flip(t, {0, 2}); });
      expect_host_bits(x, [](const Tensor& t) { return flip(t, {1}); });
      expect_host_bits(x, [](const Tensor& t) { return flip(transpose(t, 0, 2), {0}); });
      expect_host_bits(x, [](const Tensor& t) { return roll(t, {5, -2, 3}, {0, 1, 2}); });
      expect_host_bits(x, [](const Tensor& t) { return roll(t, {8}, {2}); });
      expect_host_bits(x, [](const Tensor& t) { return pad(t, {1, 2, 0, 3, 4, 0}, 3); });
      expect_host_bits(x, [](const Tensor& t) { return pad(t, {16, 16}); });
      expect_host_bits(x, [](const Tensor& t) { return unslice(t, 2, 5000, 8); });
      expect_host_bits(x, [](const Tensor& t) { return unslice(t, 2, 13000, 2, 3); });
      expect_host_bits(x, [](const Tensor& t) { return unslice(transpose(t, 0, 2), 1, 40, 1, 4); });
    }
  }
}

TEST_F(ArrangedOnCuda, KeepsTriangles) {
  for (const DType dtype : kDTypes) {
    for (const Shape& shape : {Shape({3, 50, 70}), Shape({256, 512}), Shape({2, 2, 33, 16}), Shape({1, 1})}) {
      const Tensor x = numbers(shape, dtype);
      for (const std::int64_t diagonal : {0, 3, -5, 1000, -1000}) {
        expect_host_bits(x, [&](const Tensor& t) { return tril(t, diagonal); });
        expect_host_bits(x, [&](const Tensor& t) { return triu(t, diagonal); });
      }
      expect_host_bits(x, [](const Tensor& t) { return tril(transpose(t, -1, -2)); });
    }
  }
}

TEST_F(ArrangedOnCuda, KeepsTrianglesOfShards) {
  TriangleAttributes part;
  part.diagonal = 1;
  part.rows = {.offset = 8, .block = 16, .levels = {}};
  part.columns = {.offset = 2, .block = 2, .levels = {{.count = 8, .stride = 4}}};
  const Tensor x = numbers({2, 16, 16}, DType::kF32);
  for (const char* name : {"tril", "triu"}) {
    expect_host_bits(x, [&](const Tensor& t) { return tensor::call(tensor::find_op(name), {t}, part); });
  }
}

TEST_F(ArrangedOnCuda, AReplayMovesWhatTheTensorsHold) {
  const Tensor x = numbers({70, 130}, DType::kF32);
  const Tensor on_gpu = there(x);
  const auto all = [](const Tensor& t) {
    return cat({contiguous(transpose(t, 0, 1)), pad(transpose(t, 0, 1), {0, 0, 1, 1}), tril(transpose(t, 0, 1))});
  };
  (void)all(on_gpu);  // loads the kernels
  Tensor out;
  const memory::CapturedGraph graph = captured([&] { out = all(on_gpu); });
  for (int replay = 0; replay < 2; ++replay) {
    const Tensor next = numbers({70, 130}, DType::kF32);
    copy_(on_gpu, next);
    graph.replay(stream());
    expect_same_bits(here(out), all(next));
  }
}

}  // namespace
}  // namespace tessera::ops

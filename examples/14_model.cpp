// A small Llama-style model, first on one device, then on a mesh of 2 x 2 ranks (data x tensor). Only the placement
// differs: a layout for each weight (weight()), and redistributions of activations (moved()). All other code, including
// the gradients, is shared; both runs print the same losses.
#include <tessera/tessera.h>

#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

namespace ops = tessera::ops;
namespace autograd = tessera::autograd;
namespace layout = tessera::layout;
namespace shard = tessera::shard;
using layout::Layout;
using tessera::Shape;
using tessera::Tensor;

namespace {

constexpr std::int64_t kWidth = 32, kHeads = 4, kHidden = 96, kLayers = 2, kVocabulary = 128;
constexpr std::int64_t kBatch = 8, kSequence = 32;
constexpr double kRate = 0.3;

constexpr std::string_view kText =
    "A tensor with a layout is cut over the ranks of a mesh. Its shape is that of the whole; each rank holds its part. "
    "Programs are written once, in terms of the whole: where layouts fit, each rank makes its local call, and nothing "
    "is "
    "sent; where they do not, the call is refused, and says which move would make it fit and what that would cost. ";

class Model {
 public:
  // Without a mesh, the model is on one device. The axes are dp and tp.
  explicit Model(const std::optional<layout::Mesh>& mesh) : mesh_(mesh) {
    ops::manual_seed(1);
    embedding_ = weight({kVocabulary, kWidth}, "R,S0");
    for (Block& block : blocks_) {
      block = {.norm = weight({kWidth}, "R,R"),
               .query = weight({kWidth, kWidth}, "R,S0"),  // rows: each rank of tp has some of the heads
               .key = weight({kWidth, kWidth}, "R,S0"),
               .value = weight({kWidth, kWidth}, "R,S0"),
               .out = weight({kWidth, kWidth}, "R,S1"),  // columns, to match: the product is a partial sum
               .second_norm = weight({kWidth}, "R,R"),
               .gate = weight({kHidden, kWidth}, "R,S0"),
               .up = weight({kHidden, kWidth}, "R,S0"),
               .down = weight({kWidth, kHidden}, "R,S1")};
    }
    norm_ = weight({kWidth}, "R,R");
    head_ = weight({kVocabulary, kWidth}, "R,S0");
  }

  // Returns the mean loss of the next token. Tokens and targets are [batch, sequence], sharded over dp.
  [[nodiscard]] Tensor loss(const Tensor& tokens, const Tensor& targets) const {
    Tensor x = moved(ops::embedding(embedding_, tokens), "S0,S1");  // between blocks, tp shards the sequence
    for (const Block& block : blocks_) {
      const Tensor whole = moved(ops::rms_norm(x, block.norm), "S0,R");
      x = ops::add(x, moved(attention(whole, block), "S0,S1"));
      const Tensor rows = moved(ops::rms_norm(x, block.second_norm), "S0,R");
      const Tensor hidden = ops::swiglu(ops::linear(rows, block.gate), ops::linear(rows, block.up));
      x = ops::add(x, moved(ops::linear(hidden, block.down), "S0,S1"));
    }
    return ops::linear_cross_entropy(moved(ops::rms_norm(x, norm_), "S0,R"), head_, targets);
  }

  // Runs a step of gradient descent and returns the loss before it.
  double step(const Tensor& tokens, const Tensor& targets) {
    const Tensor loss = this->loss(tokens, targets);
    autograd::backward(loss);
    if (mesh_) shard::reduce_gradients(weights_);  // one launch per group: reduces over dp, and over tp for norms
    const autograd::NoGrad no_grad;
    for (const Tensor& weight : weights_) {
      ops::add_(weight, ops::mul(autograd::grad(weight), -kRate));
      autograd::set_grad(weight, {});
    }
    return ops::item(mesh_ ? shard::gather(loss) : loss).as_double();
  }

  // Returns a batch of text. Every rank reads all of it and keeps its shard.
  [[nodiscard]] Tensor tokens(std::int64_t first) const {
    const Tensor all = ops::empty({kBatch, kSequence}, {.dtype = tessera::DType::kI64});
    for (std::int64_t i = 0; i < all.numel(); ++i) {
      all.data_as<std::int64_t>()[i] =
          static_cast<unsigned char>(kText[static_cast<std::size_t>(first + i) % kText.size()]);
    }
    return mesh_ ? shard::distribute(all, Layout::parse(*mesh_, "S0,R"), shard::DataOn::kEveryRank) : all;
  }

 private:
  struct Block {
    Tensor norm, query, key, value, out, second_norm, gate, up, down;
  };

  // Draws the local shard, with the values that one device would draw.
  Tensor weight(const Shape& shape, const char* placements) {
    Tensor drawn;
    if (shape.size() == 1) {
      drawn = mesh_ ? shard::ones(shape, Layout::parse(*mesh_, placements)) : ops::ones(shape);
    } else {
      drawn = mesh_ ? shard::randn(shape, Layout::parse(*mesh_, placements)) : ops::randn(shape);
      ops::mul_(drawn, 1 / std::sqrt(static_cast<double>(shape[1])));
    }
    autograd::set_requires_grad(drawn, true);
    weights_.push_back(drawn);
    return drawn;
  }

  [[nodiscard]] Tensor moved(const Tensor& x, const char* placements) const {
    return mesh_ ? shard::redistribute(x, Layout::parse(*mesh_, placements)) : x;
  }

  static Tensor attention(const Tensor& x, const Block& block) {
    const auto heads_of = [&](const Tensor& weight) {
      return ops::transpose(ops::view(ops::linear(x, weight), {kBatch, kSequence, kHeads, kWidth / kHeads}), 1, 2);
    };
    const Tensor out = ops::scaled_dot_product_attention(
        ops::rope(heads_of(block.query)), ops::rope(heads_of(block.key)), heads_of(block.value), {.is_causal = true});
    return ops::linear(ops::reshape(ops::transpose(out, 1, 2), {kBatch, kSequence, kWidth}), block.out);
  }

  std::optional<layout::Mesh> mesh_;
  Tensor embedding_;
  Block blocks_[kLayers];
  Tensor norm_;
  Tensor head_;
  std::vector<Tensor> weights_;
};

std::vector<double> train(const std::optional<layout::Mesh>& mesh) {
  Model model(mesh);
  std::vector<double> losses;
  for (std::int64_t step = 0; step < 10; ++step) {
    losses.push_back(model.step(model.tokens(step * 17), model.tokens(step * 17 + 1)));
  }
  return losses;
}

}  // namespace

int main() {
  const std::vector<double> alone = train(std::nullopt);
  std::vector<double> together;
  tessera::simulate(4, [&] {
    const std::vector<double> losses = train(layout::Mesh::parse("dp=2,tp=2"));
    if (tessera::current_place().rank == tessera::Rank(0)) together = losses;
  });
  bool are_equal = true;
  std::printf("step  one device   dp 2 x tp 2\n");
  for (std::size_t i = 0; i < alone.size(); ++i) {
    are_equal = are_equal && std::abs(alone[i] - together[i]) < 1e-5 * alone[i];
    std::printf("%4zu  %.6f     %.6f\n", i + 1, alone[i], together[i]);
  }
  std::printf("%s\n", are_equal ? "the same" : "NOT the same");
  return are_equal && alone.back() < alone.front() ? 0 : 1;
}

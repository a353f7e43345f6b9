// A small Llama-style model, first on one device, then on a mesh of 2 x 2 ranks (data x tensor). Only the placement
// differs: without a mesh, layouts are empty and redistribute() returns its input. Both runs print the same losses.
#include <tessera/tessera.h>

#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

using namespace tessera;

namespace {

constexpr std::int64_t kWidth = 32, kHeads = 4, kHidden = 96, kLayers = 2, kVocabulary = 128;
constexpr std::int64_t kBatch = 8, kSequence = 32;

constexpr std::string_view kText =
    "A tensor with a layout is sharded over the ranks of a mesh. Its shape is global, and each rank holds its shard. "
    "Programs are written in global terms. If the layouts of the operands fit, each rank makes its local call, and "
    "nothing is sent. If they do not, the call throws, and the error lists the cheapest fixes and their cost. ";

class Model {
 public:
  explicit Model(const Mesh& mesh) : mesh_(mesh) {
    manual_seed(1);
    embedding_ = weight({kVocabulary, kWidth}, Shard(0));
    for (Block& block : blocks_) {
      block = {.norm = weight({kWidth}),
               .query = weight({kWidth, kWidth}, Shard(0)),  // rows: each rank of tp has some of the heads
               .key = weight({kWidth, kWidth}, Shard(0)),
               .value = weight({kWidth, kWidth}, Shard(0)),
               .out = weight({kWidth, kWidth}, Shard(1)),  // columns, to match: the product is a partial sum
               .second_norm = weight({kWidth}),
               .gate = weight({kHidden, kWidth}, Shard(0)),
               .up = weight({kHidden, kWidth}, Shard(0)),
               .down = weight({kWidth, kHidden}, Shard(1))};
    }
    norm_ = weight({kWidth});
    head_ = weight({kVocabulary, kWidth}, Shard(0));
  }

  // Returns the mean loss of the next token. Tokens and targets are [batch, sequence], sharded over dp.
  [[nodiscard]] Tensor loss(const Tensor& tokens, const Tensor& targets) const {
    Tensor x = between_blocks(embedding(embedding_, tokens));
    for (const Block& block : blocks_) {
      x = x + between_blocks(attention(in_block(rms_norm(x, block.norm)), block));
      const Tensor rows = in_block(rms_norm(x, block.second_norm));
      x = x + between_blocks(linear(swiglu(linear(rows, block.gate), linear(rows, block.up)), block.down));
    }
    return linear_cross_entropy(in_block(rms_norm(x, norm_)), head_, targets);
  }

  // Runs a step of gradient descent and returns the loss before it.
  double step(std::int64_t first) {
    const Tensor loss = this->loss(tokens(first), tokens(first + 1));
    loss.backward();
    if (mesh_) reduce_gradients(weights_);  // one launch per group: reduces over dp, and over tp for norms
    const NoGrad no_grad;
    for (const Tensor& weight : weights_) {
      weight -= weight.grad() * 0.3;
      weight.zero_grad();
    }
    return loss.gather().item<double>();
  }

 private:
  struct Block {
    Tensor norm, query, key, value, out, second_norm, gate, up, down;
  };

  // Returns a batch of text. Every rank reads all of it and keeps its shard.
  [[nodiscard]] Tensor tokens(std::int64_t first) const {
    const Tensor all = empty({kBatch, kSequence}, {.dtype = kI64});
    for (std::int64_t i = 0; i < all.numel(); ++i)
      all.data_as<std::int64_t>()[i] = kText[static_cast<std::size_t>(first + i) % kText.size()];
    return distribute(all, {mesh_, {{"dp", Shard(0)}}}, DataOn::kEveryRank);
  }

  // Draws the values that one device would draw.
  Tensor weight(const Shape& shape, Placement over_tp = Replicate()) {
    const CreateOptions options{.layout = {mesh_, {{"tp", over_tp}}}};
    const Tensor drawn =
        shape.size() == 1 ? ones(shape, options) : randn(shape, options) / std::sqrt(static_cast<double>(shape[1]));
    weights_.push_back(drawn.requires_grad_());
    return drawn;
  }

  // tp shards the sequence between blocks, and heads or hidden units inside them.
  static Tensor between_blocks(const Tensor& x) { return redistribute(x, {{"dp", Shard(0)}, {"tp", Shard(1)}}); }
  static Tensor in_block(const Tensor& x) { return redistribute(x, {{"dp", Shard(0)}}); }

  static Tensor attention(const Tensor& x, const Block& block) {
    const auto heads_of = [&](const Tensor& weight) {
      return linear(x, weight).view({kBatch, kSequence, kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const Tensor out = scaled_dot_product_attention(rope(heads_of(block.query)), rope(heads_of(block.key)),
                                                    heads_of(block.value), {.is_causal = true});
    return linear(out.transpose(1, 2).reshape({kBatch, kSequence, kWidth}), block.out);
  }

  Mesh mesh_;  // empty on one device
  Tensor embedding_;
  Block blocks_[kLayers];
  Tensor norm_;
  Tensor head_;
  std::vector<Tensor> weights_;
};

std::vector<double> fit(const Mesh& mesh) {
  Model model(mesh);
  std::vector<double> losses;
  for (std::int64_t step = 0; step < 10; ++step) losses.push_back(model.step(step * 17));
  return losses;
}

}  // namespace

int main() {
  const std::vector<double> alone = fit(Mesh());
  std::vector<double> together;
  simulate(4, [&] {
    const std::vector<double> losses = fit(Mesh({{"dp", 2}, {"tp", 2}}));
    if (rank() == 0) together = losses;
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

#include "tessera/train/memory_plan.h"

#include <algorithm>

namespace tessera::train {
namespace {

std::int64_t parts_of(std::int64_t n, std::int64_t parts) { return (n + parts - 1) / parts; }

// Bytes of the tensors of a step, on the first rank.
struct Sizes {
  Sizes(const Config& config, const ParallelPlan& plan) {
    const ModelConfig& model = config.model;
    const std::int64_t item = config.train.dtype == "bf16" ? 2 : 4;
    const std::int64_t tokens = plan.own_rows() * model.sequence;
    const std::int64_t tp = plan.tp();
    const bool is_sharded = tp > 1 && plan.is_sequence_parallel();
    moves = tp > 1;
    const std::int64_t own_tokens = is_sharded ? plan.own_rows() * parts_of(model.sequence, tp) : tokens;
    residual = own_tokens * model.width * item;
    inside = tokens * model.width * item;
    statistic = own_tokens * 4;
    queries = inside / tp;
    keys = queries / model.heads * model.kv_heads;
    logsumexp = tokens * model.heads / tp * 4;
    hidden = tokens * model.hidden / tp * item;
    losses = tokens * 4;
    dropout = model.dropout > 0 ? 2 * residual : 0;
  }
  bool moves = false;          // true if blocks are entered and left by redistributions
  std::int64_t residual = 0;   // [batch, sequence, width] between blocks
  std::int64_t inside = 0;     // inside of blocks
  std::int64_t statistic = 0;  // of a norm
  std::int64_t queries = 0;    // of the heads of the rank
  std::int64_t keys = 0;       // keys of the rank; values have the same size
  std::int64_t logsumexp = 0;  // of attention
  std::int64_t hidden = 0;     // of the hidden units of the rank
  std::int64_t losses = 0;     // one value per token
  std::int64_t dropout = 0;    // its input and its mask
};

// Parameters that are gathered together.
struct Unit {
  std::int64_t kept = 0;    // shards of this rank, f32
  std::int64_t in_use = 0;  // gathered, in the dtype of blocks
};

// Dimension of a matrix that tp shards.
enum class TpDim : std::uint8_t { kNone, kRows, kColumns };

class Step {
 public:
  Step(const Config& config, const ParallelPlan& plan)
      : config_(config),
        plan_(plan),
        sizes_(config, plan),
        item_(config.train.dtype == "bf16" ? 2 : 4),
        is_gathered_(plan.fsdp() > 1 || item_ != 4),
        is_ahead_(plan.fsdp() > 1 && config.mesh.prefetch) {
    const std::int64_t width = config.model.width;
    const std::int64_t keys = width / config.model.heads * config.model.kv_heads;
    const std::int64_t hidden = config.model.hidden;
    embedding_ = unit({{TpDim::kRows, config.model.vocabulary, width}});
    layer_ = unit({{TpDim::kNone, width, 1},
                   {TpDim::kRows, width, width},
                   {TpDim::kRows, keys, width},
                   {TpDim::kRows, keys, width},
                   {TpDim::kColumns, width, width},
                   {TpDim::kNone, width, 1},
                   {TpDim::kRows, hidden, width},
                   {TpDim::kRows, hidden, width},
                   {TpDim::kColumns, width, hidden}});
    last_ = unit({{TpDim::kNone, width, 1}, {TpDim::kRows, config.model.vocabulary, width}});
    const std::int64_t layers = config.model.layers;
    parameters_ = embedding_.kept + layers * layer_.kept + last_.kept - (config.model.tied ? embedding_.kept : 0);
  }

  std::vector<OwnedBytes> run() {
    const std::int64_t copies =
        config_.optimizer.kind == "adamw" ? 2 : static_cast<std::int64_t>(config_.optimizer.momentum != 0);
    const std::int64_t optimizer = copies * parameters_;
    add(parameters_ + optimizer);
    for (std::int64_t m = 0; m < config_.train.accumulate; ++m) {
      is_first_ = m == 0;
      forward();
      activations_ = std::max(activations_, saved_);
      backward();
    }
    // All gradients are partial over dp; without dp, those of norms over tp.
    const std::int64_t norms = (2 * config_.model.layers + 1) * parts_of(config_.model.width, plan_.fsdp()) * 4;
    const std::int64_t settled = plan_.dp() > 1 ? std::min(parameters_, kSettledTogether) : plan_.tp() > 1 ? norms : 0;
    passing(settled);
    return {{"parameters", parameters_}, {"gradients", parameters_},    {"optimizer", optimizer},
            {"gathered", max_gathered_}, {"activations", activations_}, {"total", max_}};
  }

 private:
  struct Matrix {
    TpDim tp;
    std::int64_t rows;
    std::int64_t columns;
  };

  [[nodiscard]] Unit unit(const std::vector<Matrix>& matrices) const {
    Unit out;
    for (const Matrix& each : matrices) {
      const std::int64_t rows = each.tp == TpDim::kRows ? parts_of(each.rows, plan_.tp()) : each.rows;
      const std::int64_t columns = each.tp == TpDim::kColumns ? parts_of(each.columns, plan_.tp()) : each.columns;
      out.in_use += rows * columns * item_;
      out.kept += parts_of(rows, plan_.fsdp()) * columns * 4;
    }
    return out;
  }

  void add(std::int64_t nbytes) {
    now_ += nbytes;
    max_ = std::max(max_, now_);
  }
  void drop(std::int64_t nbytes) { now_ -= nbytes; }
  // Adds a temporary.
  void passing(std::int64_t nbytes) {
    add(nbytes);
    drop(nbytes);
  }
  void save(std::int64_t nbytes) {
    add(nbytes);
    saved_ += nbytes;
  }
  void unsave(std::int64_t nbytes) {
    drop(nbytes);
    saved_ -= nbytes;
  }

  // Takes a unit, and starts the next one.
  void take(const Unit& unit, const Unit* next) {
    if (!is_gathered_) return;
    if (ahead_ == 0) gather(unit.in_use);
    ahead_ = is_ahead_ && next != nullptr ? next->in_use : 0;
    gather(ahead_);
  }
  void gather(std::int64_t nbytes) {
    add(nbytes);
    gathered_ += nbytes;
    max_gathered_ = std::max(max_gathered_, gathered_);
  }
  void release(const Unit& unit) {
    if (!is_gathered_) return;
    drop(unit.in_use);
    gathered_ -= unit.in_use;
  }
  // The gradient of a weight. It stays with its leaf, is added as a new tensor to that of an earlier micro-batch, or
  // waits for the others of its unit. Gradients of units gathered again by a checkpoint go weight by weight.
  void weight(std::int64_t rows, std::int64_t columns) {
    const std::int64_t nbytes = rows * columns * item_;
    add(nbytes);
    if (is_computed_again_) release({.in_use = nbytes});
    if (is_gathered_ || is_first_) return;
    passing(nbytes);
    drop(nbytes);
  }
  // Sends gradients of a gathered unit to their leaves, as f32.
  void send_back(const Unit& unit) {
    if (!is_gathered_) return;
    const std::int64_t cast = plan_.fsdp() > 1 && item_ != 4 ? unit.in_use / item_ * 4 : 0;
    add(cast + unit.kept);
    drop(cast + unit.in_use);
    if (is_first_) return;
    passing(unit.kept / 2);
    drop(unit.kept);
  }

  [[nodiscard]] bool is_repeated() const { return config_.train.checkpointing != "none"; }
  // Results of attention, which selective checkpointing keeps.
  [[nodiscard]] std::int64_t kept_of_layer() const {
    return config_.train.checkpointing == "selective" ? sizes_.queries + sizes_.logsumexp : 0;
  }

  // Tensors that gradients of a layer read: for the norm and the rows of query, key and value; for attention (its
  // inputs and its result, which the next matrix reads too); and for the rest.
  [[nodiscard]] std::int64_t entry_saved() const { return sizes_.statistic + sizes_.inside; }
  [[nodiscard]] std::int64_t attention_saved() const { return 2 * sizes_.queries + 2 * sizes_.keys + sizes_.logsumexp; }
  [[nodiscard]] std::int64_t rest_saved() const {
    return sizes_.residual + sizes_.statistic + sizes_.inside + 3 * sizes_.hidden + 2 * sizes_.dropout;
  }
  // For the loss: with sharded classes its rows and one value each, otherwise its gradients, computed with it.
  [[nodiscard]] std::int64_t loss_saved() const {
    if (plan_.tp() > 1) return sizes_.inside + sizes_.losses;
    return sizes_.inside + config_.model.vocabulary * config_.model.width * item_;
  }
  // Tensors at the end of a layer: the result of its last matrix, after it leaves the block, and the sum.
  [[nodiscard]] std::int64_t end_of_layer() const { return sizes_.inside + (sizes_.moves ? sizes_.residual : 0); }

  void forward() {
    take(embedding_, &layer_);
    passing(sizes_.moves ? sizes_.inside : 0);
    release(embedding_);
    for (std::int64_t i = 0; i < config_.model.layers; ++i) {
      save(sizes_.residual);  // input of the layer
      forward_layer(i + 1 < config_.model.layers ? layer_ : last_);
    }
    take(last_, nullptr);
    save(sizes_.residual + sizes_.statistic + loss_saved());
    release(last_);
  }

  void forward_layer(const Unit& next) {
    take(layer_, &next);
    if (is_repeated()) {
      passing(entry_saved() + attention_saved() + rest_saved() + end_of_layer());
      save(kept_of_layer());
    } else {
      save(entry_saved() + attention_saved() + rest_saved());
      passing(end_of_layer());
    }
    release(layer_);
  }

  void backward() {
    const ModelConfig& model = config_.model;
    take(last_, &layer_);
    add(sizes_.inside);
    weight(parts_of(model.vocabulary, plan_.tp()), model.width);
    unsave(loss_saved());
    leave_rows();
    add(sizes_.residual);
    weight(1, model.width);
    drop(sizes_.residual);
    unsave(sizes_.residual + sizes_.statistic);
    release(last_);
    send_back(last_);
    for (std::int64_t i = model.layers; i-- > 0;) backward_layer(i > 0 ? &layer_ : nullptr);
    const std::int64_t moved = sizes_.moves ? sizes_.inside : 0;
    add(moved);
    weight(parts_of(model.vocabulary, plan_.tp()), model.width);
    drop(moved + sizes_.residual);
    send_back(embedding_);
  }

  // One gradient of the residual stream is held throughout.
  void backward_layer(const Unit* before) {
    take(layer_, before);
    is_computed_again_ = is_repeated();
    if (is_repeated()) {
      save(entry_saved() + attention_saved() + rest_saved() - kept_of_layer());
      passing(end_of_layer());
    }
    backward_rest();
    backward_attention();
    backward_entry();
    if (!is_computed_again_) release(layer_);
    is_computed_again_ = false;
    send_back(layer_);
  }

  void backward_rest() {
    const std::int64_t width = config_.model.width;
    const std::int64_t hidden = parts_of(config_.model.hidden, plan_.tp());
    const std::int64_t moved = sizes_.moves ? sizes_.inside : 0;
    // The down matrix.
    unsave(sizes_.dropout);
    add(moved + sizes_.hidden);
    weight(width, hidden);
    unsave(sizes_.hidden);
    drop(moved);
    // swiglu: both gradients from one.
    add(2 * sizes_.hidden);
    drop(sizes_.hidden);
    unsave(2 * sizes_.hidden);
    // The gate and up matrices, and the sum of their gradients.
    add(sizes_.inside);
    weight(hidden, width);
    drop(sizes_.hidden);
    add(sizes_.inside);
    weight(hidden, width);
    drop(sizes_.hidden);
    unsave(sizes_.inside);
    add(sizes_.inside);
    drop(2 * sizes_.inside);
    end_in_norm();
    // The out matrix.
    unsave(sizes_.dropout);
    add(moved + sizes_.queries);
    weight(width, parts_of(width, plan_.tp()));
    drop(moved);
  }

  void backward_attention() {
    add(sizes_.queries + 2 * sizes_.keys);
    unsave(2 * sizes_.queries + 2 * sizes_.keys + sizes_.logsumexp);
    drop(sizes_.queries);
  }

  // Values, keys and queries: the latter two are rotated back, as new tensors, then the matrix of each follows.
  void backward_entry() {
    const std::int64_t width = config_.model.width;
    const std::int64_t of_keys = width / config_.model.heads * config_.model.kv_heads;
    bool has_sum = false;
    for (const auto& [nbytes, rows] :
         {std::pair{sizes_.keys, of_keys}, {sizes_.keys, of_keys}, {sizes_.queries, width}}) {
      if (has_sum) passing(nbytes);
      add(sizes_.inside);
      weight(parts_of(rows, plan_.tp()), width);
      drop(nbytes);
      if (!has_sum) {
        has_sum = true;
        continue;
      }
      if (rows == width) unsave(sizes_.inside);
      add(sizes_.inside);
      drop(2 * sizes_.inside);
    }
    end_in_norm();
  }

  // The gradient of rows inside a block returns to the residual stream.
  void leave_rows() {
    if (!sizes_.moves) return;
    add(sizes_.residual);
    drop(sizes_.inside);
  }
  // It passes the norm, and is added to the existing gradient.
  void end_in_norm() {
    leave_rows();
    add(sizes_.residual);
    weight(1, config_.model.width);
    drop(sizes_.residual);
    unsave(sizes_.residual + sizes_.statistic);
    add(sizes_.residual);
    drop(2 * sizes_.residual);
  }

  const Config& config_;
  const ParallelPlan& plan_;
  Sizes sizes_;
  std::int64_t item_;  // bytes per element in blocks
  bool is_gathered_;   // or cast: parameters in use are copies
  bool is_ahead_;
  bool is_first_ = true;            // first micro-batch
  bool is_computed_again_ = false;  // backward uses recomputed tensors
  Unit embedding_;
  Unit layer_;
  Unit last_;
  std::int64_t parameters_ = 0;
  std::int64_t now_ = 0;
  std::int64_t max_ = 0;
  std::int64_t saved_ = 0;
  std::int64_t activations_ = 0;
  std::int64_t ahead_ = 0;
  std::int64_t gathered_ = 0;
  std::int64_t max_gathered_ = 0;
};

}  // namespace

std::vector<OwnedBytes> predicted_memory(const Config& config, const ParallelPlan& plan) {
  return Step(config, plan).run();
}

}  // namespace tessera::train

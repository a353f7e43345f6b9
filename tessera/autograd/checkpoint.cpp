#include "tessera/autograd/checkpoint.h"

#include <memory>
#include <mutex>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/detail/kept_calls.h"
#include "tessera/autograd/detail/node.h"
#include "tessera/ops/create/generator.h"

namespace tessera::autograd {
namespace detail {
namespace {

// Holds the inputs of a checkpoint like those of a call: versioned, and packed by the surrounding hooks. It never runs.
class InputsNode final : public Node {
 public:
  explicit InputsNode(std::span<const Tensor> tensors) {
    connect(tensors);
    saved.init(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) save(saved[i], tensors[i], SavedInput::Role::kInput, i);
  }
  [[nodiscard]] std::string name() const override { return "checkpoint"; }
  void differentiate(std::span<Tensor> /*gradients*/, bool /*attach*/) override {}
};

// Restarts the random generator of this rank at an earlier state; restores its current state at the end.
class RandomScope {
 public:
  explicit RandomScope(const ops::GeneratorState& begin) : now_(ops::generator_state()) {
    ops::set_generator_state(begin);
  }
  ~RandomScope() { ops::set_generator_state(now_); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  ops::GeneratorState now_;
};

// One checkpoint: the function that recomputes saved tensors and, after a recomputation, the values not fetched yet, in
// the order in which they are saved.
class Frame {
 public:
  Frame(CheckpointBody body, const std::vector<Tensor>& inputs, const CheckpointOptions& options)
      : body_(std::move(body)),
        inputs_(NodeRef::adopt(new InputsNode(inputs))),
        random_(ops::generator_state()),
        kept_(options.kept_operators) {}
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    const KeptCalls::Scope keeping(kept_, false);
    return body_(inputs);
  }
  /// Counts a value that is saved in the first computation. Returns its number.
  std::size_t note() { return count_++; }
  /// Returns the value with this number.
  Tensor value(std::size_t number) {
    const std::lock_guard lock(mutex_);
    if (values_.size() <= number || !values_[number]) recompute();
    return std::exchange(values_[number], {});
  }

 private:
  void recompute();

  CheckpointBody body_;
  NodeRef inputs_;
  ops::GeneratorState random_;
  KeptCalls kept_;
  std::size_t count_ = 0;
  std::mutex mutex_;  // two runs may reach parts of one checkpoint that share no call
  std::vector<Tensor> values_;
};

void Frame::recompute() {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < inputs_->saved.size(); ++i) {
    Tensor held;
    Tensor input = inputs_->unpack(inputs_->saved[i], held, false);
    if (input && inputs_->edges[i].target) {
      input = input.detach();
      set_requires_grad(input, true);
    }
    inputs.push_back(std::move(input));
  }
  std::vector<Tensor> values;
  {
    const RandomScope random(random_);
    const EnableGrad enabled;
    const KeptCalls::Scope keeping(kept_, true);
    const SavedHooksScope collecting(
        {.pack = [&values](const Tensor& tensor) -> std::shared_ptr<void> {
           values.push_back(tensor);
           return std::make_shared<Tensor>(tensor);
         },
         .unpack = [](const std::shared_ptr<void>& packed) { return *static_cast<const Tensor*>(packed.get()); }});
    (void)body_(inputs);
  }
  TESSERA_CHECK(values.size() == count_, "checkpoint: the body must save the same tensors in each run, got ",
                values.size(), " tensors in the recomputation instead of ", count_);
  values_ = std::move(values);
}

struct Token {
  std::shared_ptr<Frame> frame;
  std::size_t number;
};

}  // namespace
}  // namespace detail

std::vector<Tensor> checkpoint(CheckpointBody body, const std::vector<Tensor>& inputs,
                               const CheckpointOptions& options) {
  if (!tensor::is_grad_enabled()) return body(inputs);
  const auto frame = std::make_shared<detail::Frame>(std::move(body), inputs, options);
  const SavedHooksScope dropping({.pack = [frame](const Tensor& /*tensor*/) -> std::shared_ptr<void> {
                                    return std::make_shared<detail::Token>(detail::Token{frame, frame->note()});
                                  },
                                  .unpack =
                                      [](const std::shared_ptr<void>& packed) {
                                        const auto& token = *static_cast<const detail::Token*>(packed.get());
                                        return token.frame->value(token.number);
                                      }});
  return frame->run(inputs);
}

}  // namespace tessera::autograd

// Optimizer steps over lists of tensors, one launch each.
#include <cmath>
#include <memory>

#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/update/detail/lists.h"
#include "tessera/ops/update/detail/update_kernels.h"
#include "tessera/ops/update/update.h"

namespace tessera::ops {
namespace {

using detail::ListCall;
using detail::ListPiece;
using detail::ListWork;
using detail::ScalarSource;
using tensor::Call;
using tensor::KernelCall;

// Singles: learning rate, clip factor, skip; adamw has the step before them.
ListCall sgd_call(const Call& call) { return {call, call.op->outputs.size() + 1, 3}; }
ListCall adamw_call(const Call& call) { return {call, 4, 4}; }
ListCall lion_call(const Call& call) { return {call, 3, 3}; }

// Parameters, gradients and, with three lists, one state per parameter.
void infer_step(const ListCall& of, std::span<tensor::OutputInfo> outputs) {
  of.check();
  of.check_single(0, false, ListCall::Single::kNumber);
  of.check_single(1, true, ListCall::Single::kNumber);
  of.check_single(2, true, ListCall::Single::kFlag);
  for (std::size_t i = 0; i < of.count; ++i) {
    outputs[i] = {of.at(0, i).shape(), of.at(0, i).dtype()};
    if (of.lists == 3) outputs[of.count + i] = {of.at(2, i).shape(), of.at(2, i).dtype()};
  }
}
void infer_sgd(const Call& call, std::span<tensor::OutputInfo> outputs) { infer_step(sgd_call(call), outputs); }
void infer_lion(const Call& call, std::span<tensor::OutputInfo> outputs) { infer_step(lion_call(call), outputs); }

void infer_adamw(const Call& call, std::span<tensor::OutputInfo> outputs) {
  const ListCall of = adamw_call(call);
  of.check();
  of.check_single(0, false, ListCall::Single::kCount);
  of.check_single(1, false, ListCall::Single::kNumber);
  of.check_single(2, true, ListCall::Single::kNumber);
  of.check_single(3, true, ListCall::Single::kFlag);
  for (std::size_t i = 0; i < of.count; ++i) {
    outputs[i] = {of.at(0, i).shape(), of.at(0, i).dtype()};
    outputs[of.count + i] = {of.at(2, i).shape(), of.at(2, i).dtype()};
    outputs[2 * of.count + i] = {of.at(3, i).shape(), of.at(3, i).dtype()};
  }
  outputs[3 * of.count] = {of.single(0).shape(), DType::kI64};
}

// The scalars of a step, read when it runs.
struct Scalars {
  ScalarSource learning_rate, clip, skip;
  [[nodiscard]] bool is_skipped() const { return skip.read(0) != 0; }
};

// A skipped step leaves results as their inputs; in place there is nothing to do.
template <class T>
void keep(const detail::ListRows& from, const detail::ListRows& to, const ListPiece& at, T* scratch) {
  const T* in = from.read(at.row, at.begin, at.count, scratch);
  T* out = to.begin_write(at.row, at.begin, scratch);
  if (in != out) std::copy_n(in, at.count, out);
  to.finish(at.row, at.begin, at.count, scratch);
}

struct SgdWork {
  SgdWork(const ListCall& of, const SgdAttributes& attributes)
      : work(of, of.lists - 1),
        scalars{ScalarSource(of.single(0)), ScalarSource(of.single(1)), ScalarSource(of.single(2))},
        how(attributes),
        has_momenta(of.lists == 3) {}

  ListWork work;
  Scalars scalars;
  SgdAttributes how;
  bool has_momenta;
};

template <class T>
void sgd_piece(const SgdWork& of, const detail::SgdStep<double>& step, const ListPiece& at, T* scratch) {
  const auto i = static_cast<std::size_t>(at.place);
  const ListWork& work = of.work;
  const auto part = [&](int n) { return scratch + n * at.count; };
  detail::SgdRow<T> row = {};
  row.param = work.in(0, i).read(at.row, at.begin, at.count, part(0));
  row.grad = work.in(1, i).read(at.row, at.begin, at.count, part(1));
  row.new_param = work.out(0, i).begin_write(at.row, at.begin, part(3));
  if (of.has_momenta) {
    row.momentum = work.in(2, i).read(at.row, at.begin, at.count, part(2));
    row.new_momentum = work.out(1, i).begin_write(at.row, at.begin, part(4));
  }
  const detail::SgdStep<T> typed = {static_cast<T>(step.momentum), static_cast<T>(step.weight_decay),
                                    static_cast<T>(step.clip), static_cast<T>(step.learning_rate), step.is_nesterov};
  detail::update_kernels<T>().sgd(row, typed, at.count);
  work.out(0, i).finish(at.row, at.begin, at.count, part(3));
  if (of.has_momenta) work.out(1, i).finish(at.row, at.begin, at.count, part(4));
}

void sgd_kernel(const KernelCall& call) {
  const auto of = std::make_shared<const SgdWork>(sgd_call(call), call.as<SgdAttributes>());
  detail::enqueue(call, [of] {
    if (of->scalars.is_skipped()) {
      detail::for_list_pieces(of->work, 1, [&](const ListPiece& at, auto* scratch) {
        const auto i = static_cast<std::size_t>(at.place);
        keep(of->work.in(0, i), of->work.out(0, i), at, scratch);
        if (of->has_momenta) keep(of->work.in(2, i), of->work.out(1, i), at, scratch);
      });
      return;
    }
    const detail::SgdStep<double> step = {of->how.momentum, of->how.weight_decay, of->scalars.clip.read(1),
                                          of->scalars.learning_rate.read(0), of->how.is_nesterov};
    detail::for_list_pieces(of->work, 5,
                            [&](const ListPiece& at, auto* scratch) { sgd_piece(*of, step, at, scratch); });
  });
}

struct AdamWWork {
  AdamWWork(const ListCall& of, const AdamWAttributes& attributes)
      : work(of, 3),
        step(of.single(0)),
        scalars{ScalarSource(of.single(1)), ScalarSource(of.single(2)), ScalarSource(of.single(3))},
        how(attributes),
        new_step(of.call.outputs[3 * of.count].data_as<std::int64_t>()) {}

  ListWork work;
  ScalarSource step;
  Scalars scalars;
  AdamWAttributes how;
  std::int64_t* new_step;
};

// The values that do not depend on the element, in doubles.
detail::AdamWStep<double> adamw_step(const AdamWWork& of, std::int64_t number) {
  const double rate = of.scalars.learning_rate.read(0);
  const auto power = static_cast<double>(number);
  detail::AdamWStep<double> step = {};
  step.beta1 = of.how.beta1;
  step.beta2 = of.how.beta2;
  step.eps = of.how.eps;
  step.keep = 1 - rate * of.how.weight_decay;
  step.clip = of.scalars.clip.read(1);
  step.rate = rate / (1 - std::pow(of.how.beta1, power));
  step.root_scale = 1 / std::sqrt(1 - std::pow(of.how.beta2, power));
  return step;
}

template <class T>
void adamw_piece(const ListWork& work, const detail::AdamWStep<double>& step, const ListPiece& at, T* scratch) {
  const auto i = static_cast<std::size_t>(at.place);
  const auto part = [&](int n) { return scratch + n * at.count; };
  const detail::AdamWRow<T> row = {
      work.in(0, i).read(at.row, at.begin, at.count, part(0)), work.in(1, i).read(at.row, at.begin, at.count, part(1)),
      work.in(2, i).read(at.row, at.begin, at.count, part(2)), work.in(3, i).read(at.row, at.begin, at.count, part(3)),
      work.out(0, i).begin_write(at.row, at.begin, part(4)),   work.out(1, i).begin_write(at.row, at.begin, part(5)),
      work.out(2, i).begin_write(at.row, at.begin, part(6))};
  const detail::AdamWStep<T> typed = {
      static_cast<T>(step.beta1), static_cast<T>(step.beta2), static_cast<T>(step.eps),       static_cast<T>(step.keep),
      static_cast<T>(step.clip),  static_cast<T>(step.rate),  static_cast<T>(step.root_scale)};
  detail::update_kernels<T>().adamw(row, typed, at.count);
  for (int n = 0; n < 3; ++n) {
    work.out(static_cast<std::size_t>(n), i).finish(at.row, at.begin, at.count, part(4 + n));
  }
}

void adamw_kernel(const KernelCall& call) {
  const auto of = std::make_shared<const AdamWWork>(adamw_call(call), call.as<AdamWAttributes>());
  detail::enqueue(call, [of] {
    const auto done = static_cast<std::int64_t>(of->step.read(0));
    if (of->scalars.is_skipped()) {
      detail::for_list_pieces(of->work, 1, [&](const ListPiece& at, auto* scratch) {
        const auto i = static_cast<std::size_t>(at.place);
        keep(of->work.in(0, i), of->work.out(0, i), at, scratch);
        keep(of->work.in(2, i), of->work.out(1, i), at, scratch);
        keep(of->work.in(3, i), of->work.out(2, i), at, scratch);
      });
      *of->new_step = done;
      return;
    }
    const detail::AdamWStep<double> step = adamw_step(*of, done + 1);
    detail::for_list_pieces(of->work, 7,
                            [&](const ListPiece& at, auto* scratch) { adamw_piece(of->work, step, at, scratch); });
    *of->new_step = done + 1;
  });
}

struct LionWork {
  LionWork(const ListCall& of, const LionAttributes& attributes)
      : work(of, 2),
        scalars{ScalarSource(of.single(0)), ScalarSource(of.single(1)), ScalarSource(of.single(2))},
        how(attributes) {}

  ListWork work;
  Scalars scalars;
  LionAttributes how;
};

template <class T>
void lion_piece(const ListWork& work, const detail::LionStep<double>& step, const ListPiece& at, T* scratch) {
  const auto i = static_cast<std::size_t>(at.place);
  const auto part = [&](int n) { return scratch + n * at.count; };
  const detail::LionRow<T> row = {
      work.in(0, i).read(at.row, at.begin, at.count, part(0)), work.in(1, i).read(at.row, at.begin, at.count, part(1)),
      work.in(2, i).read(at.row, at.begin, at.count, part(2)), work.out(0, i).begin_write(at.row, at.begin, part(3)),
      work.out(1, i).begin_write(at.row, at.begin, part(4))};
  const detail::LionStep<T> typed = {static_cast<T>(step.beta1), static_cast<T>(step.beta2), static_cast<T>(step.keep),
                                     static_cast<T>(step.clip), static_cast<T>(step.learning_rate)};
  detail::update_kernels<T>().lion(row, typed, at.count);
  for (int n = 0; n < 2; ++n) {
    work.out(static_cast<std::size_t>(n), i).finish(at.row, at.begin, at.count, part(3 + n));
  }
}

void lion_kernel(const KernelCall& call) {
  const auto of = std::make_shared<const LionWork>(lion_call(call), call.as<LionAttributes>());
  detail::enqueue(call, [of] {
    if (of->scalars.is_skipped()) {
      detail::for_list_pieces(of->work, 1, [&](const ListPiece& at, auto* scratch) {
        const auto i = static_cast<std::size_t>(at.place);
        keep(of->work.in(0, i), of->work.out(0, i), at, scratch);
        keep(of->work.in(2, i), of->work.out(1, i), at, scratch);
      });
      return;
    }
    const double rate = of->scalars.learning_rate.read(0);
    const detail::LionStep<double> step = {of->how.beta1, of->how.beta2, 1 - rate * of->how.weight_decay,
                                           of->scalars.clip.read(1), rate};
    detail::for_list_pieces(of->work, 5,
                            [&](const ListPiece& at, auto* scratch) { lion_piece(of->work, step, at, scratch); });
  });
}

layout::FactorRule sgd_rule(const Call& call) {
  const ListCall of = sgd_call(call);
  return of.rule(layout::FactorKind::kPass, of.lists - 1);
}
layout::FactorRule lion_rule(const Call& call) { return lion_call(call).rule(layout::FactorKind::kPass, 2); }
layout::FactorRule adamw_rule(const Call& call) {
  layout::FactorRule rule = adamw_call(call).rule(layout::FactorKind::kPass, 3);
  rule.outputs.emplace_back();
  return rule;
}

template <int kFlops>
tensor::Cost cost(const Call& call) {
  tensor::Cost of;
  for (const Tensor& x : call.inputs) {
    if (x) of.nbytes += 2 * static_cast<double>(x.numel()) * static_cast<double>(itemsize(x.dtype()));
    if (x) of.flops += kFlops * static_cast<double>(x.numel());
  }
  return of;
}

const tensor::Operator kSgd = tensor::register_op({.name = "sgd",
                                                   .inputs = "params*, grads*, learning_rate, clip_factor?, skip?",
                                                   .outputs = "new_params*",
                                                   .infer = infer_sgd,
                                                   .host = sgd_kernel,
                                                   .rule = sgd_rule,
                                                   .cost = cost<2>,
                                                   .traits = {.is_pointwise = true}});
const tensor::Operator kSgdMomentum =
    tensor::register_op({.name = "sgd_momentum",
                         .inputs = "params*, grads*, momenta*, learning_rate, clip_factor?, skip?",
                         .outputs = "new_params*, new_momenta*",
                         .infer = infer_sgd,
                         .host = sgd_kernel,
                         .rule = sgd_rule,
                         .cost = cost<2>,
                         .traits = {.is_pointwise = true}});
const tensor::Operator kAdamW =
    tensor::register_op({.name = "adamw",
                         .inputs = "params*, grads*, first*, second*, step, learning_rate, clip_factor?, skip?",
                         .outputs = "new_params*, new_first*, new_second*, new_step",
                         .infer = infer_adamw,
                         .host = adamw_kernel,
                         .rule = adamw_rule,
                         .cost = cost<4>,
                         .traits = {.is_pointwise = true}});
const tensor::Operator kLion =
    tensor::register_op({.name = "lion",
                         .inputs = "params*, grads*, means*, learning_rate, clip_factor?, skip?",
                         .outputs = "new_params*, new_means*",
                         .infer = infer_lion,
                         .host = lion_kernel,
                         .rule = lion_rule,
                         .cost = cost<3>,
                         .traits = {.is_pointwise = true}});

}  // namespace

void sgd_(std::span<const Tensor> params, std::span<const Tensor> grads, std::span<const Tensor> momenta,
          const StepScalars& scalars, const SgdAttributes& how) {
  TESSERA_CHECK(params.size() == grads.size() && (momenta.empty() || momenta.size() == params.size()),
                "sgd_: lists must have the same length, got ", params.size(), " parameters, ", grads.size(),
                " gradients and ", momenta.size(), " momenta");
  TESSERA_CHECK(how.momentum == 0 || !momenta.empty() || params.empty(), "sgd_: momentum requires a list of momenta");
  if (params.empty()) return;
  const Tensor numbers[] = {scalars.learning_rate, scalars.clip_factor, scalars.skip};
  const tensor::BorrowedTensors inputs = detail::joined({params, grads, momenta, numbers});
  const tensor::BorrowedTensors outputs = detail::joined({params, momenta});
  tensor::call_into({momenta.empty() ? kSgd : kSgdMomentum, inputs.tensors(), how, outputs.tensors()});
}

void adamw_(std::span<const Tensor> params, std::span<const Tensor> grads, std::span<const Tensor> first,
            std::span<const Tensor> second, const Tensor& step, const StepScalars& scalars,
            const AdamWAttributes& how) {
  TESSERA_CHECK(params.size() == grads.size() && params.size() == first.size() && params.size() == second.size(),
                "adamw_: lists must have the same length, got ", params.size(), " parameters, ", grads.size(),
                " gradients, ", first.size(), " first and ", second.size(), " second moments");
  if (params.empty()) return;
  const Tensor numbers[] = {step, scalars.learning_rate, scalars.clip_factor, scalars.skip};
  const tensor::BorrowedTensors inputs = detail::joined({params, grads, first, second, numbers});
  const tensor::BorrowedTensors outputs = detail::joined({params, first, second, {&step, 1}});
  tensor::call_into({kAdamW, inputs.tensors(), how, outputs.tensors()});
}

void lion_(std::span<const Tensor> params, std::span<const Tensor> grads, std::span<const Tensor> means,
           const StepScalars& scalars, const LionAttributes& how) {
  TESSERA_CHECK(params.size() == grads.size() && params.size() == means.size(),
                "lion_: lists must have the same length, got ", params.size(), " parameters, ", grads.size(),
                " gradients and ", means.size(), " means");
  if (params.empty()) return;
  const Tensor numbers[] = {scalars.learning_rate, scalars.clip_factor, scalars.skip};
  const tensor::BorrowedTensors inputs = detail::joined({params, grads, means, numbers});
  const tensor::BorrowedTensors outputs = detail::joined({params, means});
  tensor::call_into({kLion, inputs.tensors(), how, outputs.tensors()});
}

}  // namespace tessera::ops

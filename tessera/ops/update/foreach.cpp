// Simple steps on every tensor of a list, and norms over lists.
#include <cmath>
#include <memory>

#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/update/detail/lists.h"
#include "tessera/ops/update/detail/norm_cooperations.h"
#include "tessera/ops/update/detail/norm_fold.h"
#include "tessera/ops/update/detail/update_kernels.h"
#include "tessera/ops/update/update.h"

namespace tessera::ops {
namespace {

using detail::ListCall;
using detail::ListPiece;
using detail::ListWork;
using detail::NormFold;
using detail::ScalarSource;
using tensor::Call;
using tensor::KernelCall;

ListCall add_call(const Call& call) { return {call, 2, 0}; }
ListCall mul_call(const Call& call) { return {call, 1, 1}; }
ListCall norm_call(const Call& call) { return {call, 1, 0}; }

void infer_add(const Call& call, std::span<tensor::OutputInfo> outputs) {
  const ListCall of = add_call(call);
  of.check();
  for (std::size_t i = 0; i < of.count; ++i) outputs[i] = {of.at(0, i).shape(), of.at(0, i).dtype()};
}
void infer_mul(const Call& call, std::span<tensor::OutputInfo> outputs) {
  const ListCall of = mul_call(call);
  of.check();
  of.check_single(0, true, ListCall::Single::kNumber);
  for (std::size_t i = 0; i < of.count; ++i) outputs[i] = {of.at(0, i).shape(), of.at(0, i).dtype()};
}
void check_p(const Call& call, double p) {
  TESSERA_CHECK_CALL(call, p > 0, "p must be positive, or infinity for the maximum, got ", p);
}
void infer_norm(const Call& call, std::span<tensor::OutputInfo> outputs) {
  const ListCall of = norm_call(call);
  of.check();
  check_p(call, call.as<ForeachNormAttributes>().p);
  for (std::size_t i = 0; i < of.count; ++i) outputs[i] = {Shape(), detail::statistics_dtype(of.at(0, i).dtype())};
}
void infer_grad_norm(const Call& call, std::span<tensor::OutputInfo> outputs) {
  const ListCall of = norm_call(call);
  of.check();
  TESSERA_CHECK_CALL(call, call.as<GradNormAttributes>().max_norm >= 0, "max_norm must be at least 0, got ",
                     call.as<GradNormAttributes>().max_norm);
  check_p(call, call.as<GradNormAttributes>().p);
  const bool is_double = of.count > 0 && of.at(0, 0).dtype() == DType::kF64;
  outputs[0] = outputs[1] = {Shape(), is_double ? DType::kF64 : DType::kF32};
}

void add_kernel(const KernelCall& call) {
  const auto work = std::make_shared<const ListWork>(add_call(call), 1);
  detail::enqueue(call, [work, by = call.as<ForeachAttributes>().by] {
    detail::for_list_pieces(*work, 3, [&]<class T>(const ListPiece& at, T* scratch) {
      const auto i = static_cast<std::size_t>(at.place);
      const T* a = work->in(0, i).read(at.row, at.begin, at.count, scratch);
      const T* b = work->in(1, i).read(at.row, at.begin, at.count, scratch + at.count);
      T* out = work->out(0, i).begin_write(at.row, at.begin, scratch + 2 * at.count);
      detail::update_kernels<T>().add(a, b, static_cast<T>(by), out, at.count);
      work->out(0, i).finish(at.row, at.begin, at.count, scratch + 2 * at.count);
    });
  });
}

void mul_kernel(const KernelCall& call) {
  const ListCall of = mul_call(call);
  const auto work = std::make_shared<const ListWork>(of, 1);
  detail::enqueue(
      call, [work, by = call.as<ForeachAttributes>().by, factor = std::make_shared<const ScalarSource>(of.single(0))] {
        const double all = by * factor->read(1);
        detail::for_list_pieces(*work, 2, [&]<class T>(const ListPiece& at, T* scratch) {
          const auto i = static_cast<std::size_t>(at.place);
          const T* a = work->in(0, i).read(at.row, at.begin, at.count, scratch);
          T* out = work->out(0, i).begin_write(at.row, at.begin, scratch + at.count);
          detail::update_kernels<T>().mul(a, static_cast<T>(all), out, at.count);
          work->out(0, i).finish(at.row, at.begin, at.count, scratch + at.count);
        });
      });
}

// Joins the chunks of each tensor in order, in doubles.
std::vector<double> folds(const ListWork& work, const NormFold& fold) {
  std::vector<double> partial(work.pieces.size());
  detail::for_list_pieces(work, 1, [&]<class T>(const ListPiece& at, T* scratch) {
    const T* x = work.in(0, static_cast<std::size_t>(at.place)).read(at.row, at.begin, at.count, scratch);
    partial[static_cast<std::size_t>(&at - work.pieces.data())] = fold.of(x, at.count);
  });
  std::vector<double> all(work.count);
  for (std::size_t i = 0; i < partial.size(); ++i) {
    double& place = all[static_cast<std::size_t>(work.pieces[i].place)];
    place = fold.joined(place, partial[i]);
  }
  return all;
}

void put(std::byte* to, DType dtype, double value) { detail::store(&value, to, dtype, 1, 1); }

void norm_kernel(const KernelCall& call) {
  const auto work = std::make_shared<const ListWork>(norm_call(call), 0);
  std::vector<std::pair<std::byte*, DType>> to;
  for (const Tensor& out : call.outputs) to.emplace_back(out.data(), out.dtype());
  const NormFold fold{call.as<ForeachNormAttributes>().p};
  detail::enqueue(call, [work, fold, to = std::move(to)] {
    const std::vector<double> all = folds(*work, fold);
    for (std::size_t i = 0; i < all.size(); ++i) put(to[i].first, to[i].second, fold.root(all[i]));
  });
}

void grad_norm_kernel(const KernelCall& call) {
  const auto work = std::make_shared<const ListWork>(norm_call(call), 0);
  const NormFold fold{call.as<GradNormAttributes>().p};
  detail::enqueue(call, [work, fold, to = call.outputs[0].data(), factor = call.outputs[1].data(),
                         dtype = call.outputs[0].dtype(), most = call.as<GradNormAttributes>().max_norm] {
    double all = 0;
    for (const double one : folds(*work, fold)) all = fold.joined(all, one);
    const double norm = fold.root(all);
    put(to, dtype, norm);
    put(factor, dtype, norm > most ? most / norm : std::isnan(norm) ? norm : 1);
  });
}

layout::FactorRule add_rule(const Call& call) {
  layout::FactorRule rule = add_call(call).rule(layout::FactorKind::kPass, 1);
  if (call.inputs.size() == 2) rule.algebra.assign(2, {layout::Linearity::kJoint});
  return rule;
}
layout::FactorRule mul_rule(const Call& call) {
  layout::FactorRule rule = mul_call(call).rule(layout::FactorKind::kPass, 1);
  if (call.inputs.size() == 2) rule.algebra = {{layout::Linearity::kJoint}, {}};
  return rule;
}
layout::FactorRule norm_rule(const Call& call) {
  layout::FactorRule rule = norm_call(call).rule(layout::FactorKind::kReplicate, 0);
  rule.outputs.resize(call.op.name() == "grad_norm" ? 2 : call.inputs.size());
  return rule;
}

template <int kFlops, int kPasses>
tensor::Cost cost(const Call& call) {
  tensor::Cost of;
  for (const Tensor& x : call.inputs) {
    if (!x) continue;
    of.flops += kFlops * static_cast<double>(x.numel());
    of.nbytes += kPasses * static_cast<double>(x.numel()) * static_cast<double>(itemsize(x.dtype()));
  }
  return of;
}

const tensor::Operator kForeachAdd = tensor::register_op({.name = "foreach_add",
                                                          .inputs = "a*, b*",
                                                          .outputs = "out*",
                                                          .infer = infer_add,
                                                          .host = add_kernel,
                                                          .rule = add_rule,
                                                          .cost = cost<1, 1>,
                                                          .traits = {.is_pointwise = true}});
const tensor::Operator kForeachMul = tensor::register_op({.name = "foreach_mul",
                                                          .inputs = "tensors*, factor?",
                                                          .outputs = "out*",
                                                          .infer = infer_mul,
                                                          .host = mul_kernel,
                                                          .rule = mul_rule,
                                                          .cost = cost<1, 2>,
                                                          .traits = {.is_pointwise = true}});
const tensor::Operator kForeachNorm = tensor::register_op({.name = "foreach_norm",
                                                           .inputs = "tensors*",
                                                           .outputs = "norms*",
                                                           .infer = infer_norm,
                                                           .host = norm_kernel,
                                                           .rule = norm_rule,
                                                           .cost = cost<2, 1>,
                                                           .cooperation = &detail::kForeachNormTogether});
const tensor::Operator kGradNorm = tensor::register_op({.name = "grad_norm",
                                                        .inputs = "grads*",
                                                        .outputs = "norm, factor",
                                                        .infer = infer_grad_norm,
                                                        .host = grad_norm_kernel,
                                                        .rule = norm_rule,
                                                        .cost = cost<2, 1>,
                                                        .cooperation = &detail::kGradNormTogether});

}  // namespace

std::vector<Tensor> foreach_add(std::span<const Tensor> a, std::span<const Tensor> b, double by) {
  TESSERA_CHECK(a.size() == b.size(), "foreach_add: lists must have the same length, got ", a.size(), " and ",
                b.size());
  std::vector<Tensor> out(a.size());
  if (!a.empty()) tensor::call_into({kForeachAdd, detail::joined({a, b}).tensors(), ForeachAttributes{by}, out});
  return out;
}
void foreach_add_(std::span<const Tensor> a, std::span<const Tensor> b, double by) {
  TESSERA_CHECK(a.size() == b.size(), "foreach_add_: lists must have the same length, got ", a.size(), " and ",
                b.size());
  if (a.empty()) return;
  const tensor::BorrowedTensors inputs = detail::joined({a, b});
  tensor::call_into({kForeachAdd, inputs.tensors(), ForeachAttributes{by}, inputs.tensors().first(a.size())});
}
std::vector<Tensor> foreach_mul(std::span<const Tensor> tensors, double by, const Tensor& factor) {
  std::vector<Tensor> out(tensors.size());
  if (tensors.empty()) return out;
  const tensor::BorrowedTensors inputs = detail::joined({tensors, {&factor, 1}});
  tensor::call_into({kForeachMul, inputs.tensors(), ForeachAttributes{by}, out});
  return out;
}
void foreach_mul_(std::span<const Tensor> tensors, double by, const Tensor& factor) {
  if (tensors.empty()) return;
  const tensor::BorrowedTensors inputs = detail::joined({tensors, {&factor, 1}});
  tensor::call_into({kForeachMul, inputs.tensors(), ForeachAttributes{by}, inputs.tensors().first(tensors.size())});
}
std::vector<Tensor> foreach_norm(std::span<const Tensor> tensors, double p) {
  std::vector<Tensor> out(tensors.size());
  if (!tensors.empty()) tensor::call_into({kForeachNorm, tensors, ForeachNormAttributes{p}, out});
  return out;
}
GradNorm grad_norm(std::span<const Tensor> grads, double max_norm, double p) {
  TESSERA_CHECK(!grads.empty(), "grad_norm: requires at least one gradient");
  Tensor out[2];
  tensor::call_into({kGradNorm, grads, GradNormAttributes{max_norm, p}, out});
  return {out[0], out[1]};
}
Tensor clip_grad_norm_(std::span<const Tensor> grads, double max_norm, double p) {
  const GradNorm norm = grad_norm(grads, max_norm, p);
  foreach_mul_(grads, 1, norm.factor);
  return norm.norm;
}

}  // namespace tessera::ops

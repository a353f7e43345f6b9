// Macros that convert the tables of this folder to kernels, operators and functions. A table is a macro that calls its
// argument once per row; each file documents its columns.
//
//   per target:  TESSERA_POINTWISE_KERNEL of each row, then TESSERA_POINTWISE_KERNELS with their list
//   once:        the operators, with kernels found at each call: TESSERA_POINTWISE_LOOKUP
#pragma once

#include "tessera/ops/pointwise/detail/gradients.h"
#include "tessera/ops/pointwise/detail/row.h"
#include "tessera/tensor/call.h"

/// Defines a kernel of one input x by its functions of a vector (with descriptor d) and of one element.
#define TESSERA_POINTWISE_KERNEL_1(name, vector, element) \
  struct name##_kernel {                                  \
    template <class D, class V>                           \
    static HWY_INLINE V vec([[maybe_unused]] D d, V x) {  \
      return vector;                                      \
    }                                                     \
    template <class T>                                    \
    static auto one([[maybe_unused]] T x) {               \
      return element;                                     \
    }                                                     \
  };
/// Defines a kernel of two inputs a and b.
#define TESSERA_POINTWISE_KERNEL_2(name, vector, element)         \
  struct name##_kernel {                                          \
    template <class D, class V>                                   \
    static HWY_INLINE V vec([[maybe_unused]] D d, V a, V b) {     \
      return vector;                                              \
    }                                                             \
    template <class T>                                            \
    static auto one([[maybe_unused]] T a, [[maybe_unused]] T b) { \
      return element;                                             \
    }                                                             \
  };

/// Defines the functions of an operator of one input: a new tensor, in place, to a given tensor.
#define TESSERA_POINTWISE_FORMS_1(name)                                   \
  Tensor name(const Tensor& x) { return tensor::call(rows::name, {x}); }  \
  void name##_(const Tensor& x) { tensor::call_out(rows::name, x, {x}); } \
  Tensor name(const Tensor& x, const ResultOptions& options) { return tensor::call_out(rows::name, options.out, {x}); }
/// Defines the functions of an operator of two inputs: a new tensor, in place, to a given tensor.
#define TESSERA_POINTWISE_FORMS_2(name)                                                       \
  Tensor name(const Tensor& a, const Tensor& b) { return tensor::call(rows::name, {a, b}); }  \
  void name##_(const Tensor& a, const Tensor& b) { tensor::call_out(rows::name, a, {a, b}); } \
  Tensor name(const Tensor& a, const Tensor& b, const ResultOptions& options) {               \
    return tensor::call_out(rows::name, options.out, {a, b});                                 \
  }

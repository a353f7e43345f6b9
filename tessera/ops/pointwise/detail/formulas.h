// Formulas of pointwise operators as types. The tables of this folder (*_rows.h) hold the rows; host files and CUDA
// files expand them with these macros, so that each formula is written once.
//
// A formula has two forms. `vector` computes floating numbers: the inputs are vectors, d is their descriptor, and hn
// names the functions of a vector. `element` computes integers and complex numbers, if the types include them: the
// inputs are elements of type T.
#pragma once

#include "tessera/ops/pointwise/detail/types.h"

/// Defines the formula of an input x.
#define TESSERA_FORMULA_1(name, types, vector, element, ...) \
  struct name##_formula {                                    \
    static constexpr int kInputs = 1;                        \
    static constexpr unsigned kTypes = (types);              \
    template <class D, class V>                              \
    static HWY_INLINE V vec([[maybe_unused]] D d, V x) {     \
      return vector;                                         \
    }                                                        \
    template <class T>                                       \
    static HWY_INLINE auto one([[maybe_unused]] T x) {       \
      return element;                                        \
    }                                                        \
  };
/// Defines the formula of inputs a and b.
#define TESSERA_FORMULA_2(name, types, vector, element, ...)                 \
  struct name##_formula {                                                    \
    static constexpr int kInputs = 2;                                        \
    static constexpr unsigned kTypes = (types);                              \
    template <class D, class V>                                              \
    static HWY_INLINE V vec([[maybe_unused]] D d, V a, V b) {                \
      return vector;                                                         \
    }                                                                        \
    template <class T>                                                       \
    static HWY_INLINE auto one([[maybe_unused]] T a, [[maybe_unused]] T b) { \
      return element;                                                        \
    }                                                                        \
  };
/// Defines the formula of three inputs with these names.
#define TESSERA_FORMULA_3(name, types, vector, element, i, j, k)   \
  struct name##_formula {                                          \
    static constexpr int kInputs = 3;                              \
    static constexpr unsigned kTypes = (types);                    \
    template <class D, class V>                                    \
    static HWY_INLINE V vec([[maybe_unused]] D d, V i, V j, V k) { \
      return vector;                                               \
    }                                                              \
    template <class T>                                             \
    static HWY_INLINE auto one(T i, T j, T k) {                    \
      return element;                                              \
    }                                                              \
  };
/// Defines the formula of four inputs with these names.
#define TESSERA_FORMULA_4(name, types, vector, element, i, j, k, l)     \
  struct name##_formula {                                               \
    static constexpr int kInputs = 4;                                   \
    static constexpr unsigned kTypes = (types);                         \
    template <class D, class V>                                         \
    static HWY_INLINE V vec([[maybe_unused]] D d, V i, V j, V k, V l) { \
      return vector;                                                    \
    }                                                                   \
    template <class T>                                                  \
    static HWY_INLINE auto one(T i, T j, T k, T l) {                    \
      return element;                                                   \
    }                                                                   \
  };

// Reductions of contiguous runs of numbers, in vector code for the processor.
//
// A run reduces to one number: eight vectors at a time in pairs, then into four partial results, so that errors grow
// with a small fraction of the length. Columns reduce elementwise into an accumulator. Maxima and minima are nan if a
// value is nan.
#pragma once

#include <cstdint>

namespace tessera::ops::detail {

/// Returns the sum of n values. The rounding errors are those of n / 128 additions, in vectors of four.
double sum_run(const float* x, std::int64_t n);
/// Returns the sum of n values.
double sum_run(const double* x, std::int64_t n);
/// Returns the greatest of n values, n >= 1.
float max_run(const float* x, std::int64_t n);
/// Returns the greatest of n values, n >= 1.
double max_run(const double* x, std::int64_t n);
/// Returns the least of n values, n >= 1.
float min_run(const float* x, std::int64_t n);
/// Returns the least of n values, n >= 1.
double min_run(const double* x, std::int64_t n);

/// Computes acc[i] += x[i].
void add_columns(float* acc, const float* x, std::int64_t n);
/// Computes acc[i] += x[i].
void add_columns(double* acc, const double* x, std::int64_t n);
/// Sets acc[i] to the greater of acc[i] and x[i].
void max_columns(float* acc, const float* x, std::int64_t n);
/// Sets acc[i] to the greater of acc[i] and x[i].
void max_columns(double* acc, const double* x, std::int64_t n);
/// Sets acc[i] to the lesser of acc[i] and x[i].
void min_columns(float* acc, const float* x, std::int64_t n);
/// Sets acc[i] to the lesser of acc[i] and x[i].
void min_columns(double* acc, const double* x, std::int64_t n);

}  // namespace tessera::ops::detail

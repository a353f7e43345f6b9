// Folds of dense stretches of numbers, in vector code for the machine at hand.
//
// A run folds to one number: eight vectors at a time in pairs, these into four partial results side by side, so that
// errors grow with a small part of the length. Columns fold elementwise into an accumulator. Maxima and minima give nan
// where one of the values is.
#pragma once

#include <cstdint>

namespace tessera::ops::detail {

/// Sum of n values; the rounding errors are those of n / 128 additions, in vectors of four.
double sum_run(const float* x, std::int64_t n);
/// Likewise.
double sum_run(const double* x, std::int64_t n);
/// Greatest of n values, at least 1.
float max_run(const float* x, std::int64_t n);
/// Likewise.
double max_run(const double* x, std::int64_t n);
/// Least of n values, at least 1.
float min_run(const float* x, std::int64_t n);
/// Likewise.
double min_run(const double* x, std::int64_t n);

/// acc[i] += x[i].
void add_columns(float* acc, const float* x, std::int64_t n);
/// Likewise.
void add_columns(double* acc, const double* x, std::int64_t n);
/// acc[i] = the greater of acc[i] and x[i].
void max_columns(float* acc, const float* x, std::int64_t n);
/// Likewise.
void max_columns(double* acc, const double* x, std::int64_t n);
/// acc[i] = the lesser.
void min_columns(float* acc, const float* x, std::int64_t n);
/// Likewise.
void min_columns(double* acc, const double* x, std::int64_t n);

}  // namespace tessera::ops::detail

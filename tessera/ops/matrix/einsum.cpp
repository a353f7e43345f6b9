// Einstein sums. Labels that occur in a single tensor are summed there. Then pairs of tensors are contracted, the
// cheapest first, until one tensor remains.
#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

#include "tessera/ops/create/create.h"
#include "tessera/ops/matrix/detail/einsum_terms.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/shape.h"

namespace tessera::ops {
namespace detail {
namespace {

using Sizes = std::array<std::int64_t, 128>;

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

Sizes sizes_of(const char* name, const std::vector<EinsumTerm>& terms) {
  Sizes sizes;
  sizes.fill(-1);
  for (const EinsumTerm& term : terms) {
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      const std::int64_t size = term.tensor.shape()[i];
      std::int64_t& known = sizes[static_cast<std::size_t>(term.labels[i])];
      TESSERA_CHECK(known == -1 || known == 1 || size == 1 || known == size, name, ": sizes of '", term.labels[i],
                    "' must be equal, got ", known, ", and ", size, " in ", describe(term.tensor));
      if (known == -1 || known == 1) known = size;
    }
  }
  return sizes;
}

// Drops dimensions of size 1 whose label is larger elsewhere. The product then broadcasts.
void drop_broadcast(EinsumTerm& term, const Sizes& sizes) {
  tensor::IntList dims;
  std::string labels;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (term.tensor.shape()[i] == 1 && sizes[static_cast<std::size_t>(term.labels[i])] != 1) {
      dims.push_back(static_cast<std::int64_t>(i));
    } else {
      labels += term.labels[i];
    }
  }
  if (dims.empty()) return;
  term.tensor = squeeze(term.tensor, dims);
  term.labels = labels;
}

// Sums over the labels that `kept` lacks.
void sum_out(EinsumTerm& term, const std::string& kept) {
  tensor::IntList dims;
  std::string labels;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (has(kept, term.labels[i])) {
      labels += term.labels[i];
    } else {
      dims.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (dims.empty()) return;
  term.tensor = sum(term.tensor, dims);
  term.labels = labels;
}

// Returns the number of multiplications of a contraction of two terms.
double cost_of(const EinsumTerm& a, const EinsumTerm& b, const Sizes& sizes) {
  double cost = 1;
  for (const char label : a.labels) cost *= static_cast<double>(sizes[static_cast<std::size_t>(label)]);
  for (const char label : b.labels) {
    if (!has(a.labels, label)) cost *= static_cast<double>(sizes[static_cast<std::size_t>(label)]);
  }
  return cost;
}

// Replaces terms i and j by their product.
void join(std::vector<EinsumTerm>& terms, std::size_t i, std::size_t j, const std::string& result) {
  EinsumTerm a = terms[i];
  EinsumTerm b = terms[j];
  terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(j));
  terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i));
  std::string wanted = result;
  for (const EinsumTerm& other : terms) wanted += other.labels;
  sum_out(a, wanted + b.labels);
  sum_out(b, wanted + a.labels);
  std::string labels;
  for (const char label : terms.empty() ? result : a.labels + b.labels) {
    if (has(wanted, label) && !has(labels, label) && (has(a.labels, label) || has(b.labels, label))) labels += label;
  }
  terms.insert(terms.begin() + static_cast<std::ptrdiff_t>(i),
               {contract(a.tensor, b.tensor, a.labels + "," + b.labels + "->" + labels), labels});
}

}  // namespace

Tensor sum_of_products(const char* name, std::vector<EinsumTerm> terms, const std::string& result) {
  const Sizes sizes = sizes_of(name, terms);
  for (const char label : result) {
    TESSERA_CHECK(sizes[static_cast<std::size_t>(label)] >= 0, name, ": label '", label,
                  "' of the result must appear in an input");
  }
  for (EinsumTerm& term : terms) drop_broadcast(term, sizes);
  while (terms.size() > 1) {
    std::size_t left = 0;
    std::size_t right = 1;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < terms.size(); ++i) {
      for (std::size_t j = i + 1; j < terms.size(); ++j) {
        const double cost = cost_of(terms[i], terms[j], sizes);
        if (cost >= least) continue;
        least = cost;
        left = i;
        right = j;
      }
    }
    join(terms, left, right, result);
  }
  EinsumTerm& last = terms[0];
  sum_out(last, result);
  tensor::IntList order;
  bool is_ordered = true;
  for (const char label : result) {
    order.push_back(static_cast<std::int64_t>(last.labels.find(label)));
    is_ordered &= order[order.size() - 1] == static_cast<std::int64_t>(order.size()) - 1;
  }
  return is_ordered ? last.tensor : permute(last.tensor, order);
}

}  // namespace detail

namespace {

using detail::EinsumTerm;

struct Equation {
  std::vector<std::string> inputs;
  std::string result;
};

// Returns letters for the dimensions of "..." that the equation does not use.
std::string spare_letters(std::string_view equation) {
  std::string spare;
  for (char letter = 'A'; letter <= 'z'; ++letter) {
    if (std::isalpha(static_cast<unsigned char>(letter)) != 0 && equation.find(letter) == std::string_view::npos)
      spare += letter;
  }
  return spare;
}

void check_text(std::string_view equation, const std::string& part, bool is_result) {
  std::string letters = part;
  if (const std::size_t dots = letters.find("..."); dots != std::string::npos) letters.erase(dots, 3);
  for (std::size_t i = 0; i < letters.size(); ++i) {
    TESSERA_CHECK(std::isalpha(static_cast<unsigned char>(letters[i])) != 0, "einsum: '", equation,
                  "' must consist of letters, got '", letters[i], "'");
    TESSERA_CHECK(!is_result || letters.find(letters[i], i + 1) == std::string::npos, "einsum: the result of '",
                  equation, "' must name each label once, got '", letters[i], "' twice");
  }
}

// Without "->": labels that occur once, in alphabetical order, after those of "...".
std::string implied_result(const std::vector<std::string>& inputs) {
  std::string all;
  for (const std::string& input : inputs) all += input;
  std::string result = all.find("...") != std::string::npos ? "..." : "";
  for (char letter = 'A'; letter <= 'z'; ++letter) {
    if (std::isalpha(static_cast<unsigned char>(letter)) != 0 && std::ranges::count(all, letter) == 1) result += letter;
  }
  return result;
}

Equation parse(std::string_view given) {
  std::string text;
  std::ranges::copy_if(given, std::back_inserter(text), [](char c) { return c != ' '; });
  Equation equation;
  const std::size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  for (std::size_t comma = left.find(','); comma != std::string::npos; comma = left.find(',')) {
    equation.inputs.push_back(left.substr(0, comma));
    left.erase(0, comma + 1);
  }
  equation.inputs.push_back(left);
  for (const std::string& input : equation.inputs) check_text(given, input, false);
  equation.result = arrow == std::string::npos ? implied_result(equation.inputs) : text.substr(arrow + 2);
  check_text(given, equation.result, true);
  return equation;
}

// Writes letters for "...": the last `count` of `letters`, so that they are aligned at the right.
std::string expanded(std::string labels, const std::string& letters, std::size_t count) {
  const std::size_t dots = labels.find("...");
  if (dots != std::string::npos) labels.replace(dots, 3, letters.substr(letters.size() - count));
  return labels;
}

// Returns the diagonal of the last two dimensions. With a layout, ranks keep their rows and columns and replace other
// elements by zeros. Otherwise the result is a view of every (n + 1)th element of both dimensions as one.
Tensor diagonal(const Tensor& square, std::int64_t n) {
  if (square.has_layout()) {
    const Tensor on_diagonal = where(eye(n, n, {DType::kBool, square.device()}), square, Scalar(0));
    return sum(on_diagonal, {-1}, /*keepdim=*/false, square.dtype());  // without a dtype, integers would become i64
  }
  std::vector<std::int64_t> sizes(square.shape().begin(), square.shape().end() - 2);
  sizes.push_back(n * n);
  return slice(reshape(square, sizes), -1, 0, n * n, n + 1);
}

// A label that occurs twice in a tensor selects the diagonal.
EinsumTerm without_repeats(EinsumTerm term) {
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    const std::size_t j = term.labels.find(term.labels[i], i + 1);
    if (j == std::string::npos) continue;
    const std::int64_t n = term.tensor.shape()[i];
    TESSERA_CHECK(n == term.tensor.shape()[j], "einsum: sizes of '", term.labels[i], "' must be equal, got ", n,
                  " and ", term.tensor.shape()[j], " in ", describe(term.tensor));
    tensor::IntList order;
    std::string labels;
    for (std::size_t d = 0; d < term.labels.size(); ++d) {
      if (d == i || d == j) continue;
      order.push_back(static_cast<std::int64_t>(d));
      labels += term.labels[d];
    }
    order.push_back(static_cast<std::int64_t>(i));
    order.push_back(static_cast<std::int64_t>(j));
    return without_repeats({diagonal(permute(term.tensor, order), n), labels + term.labels[i]});
  }
  return term;
}

}  // namespace

Tensor einsum(std::string_view text, std::span<const Tensor> tensors) {
  const Equation equation = parse(text);
  TESSERA_CHECK(equation.inputs.size() == tensors.size(), "einsum: '", text, "' requires ", equation.inputs.size(),
                " tensors, got ", tensors.size());
  std::size_t most = 0;
  std::vector<std::size_t> extra;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool has_dots = equation.inputs[i].find("...") != std::string::npos;
    const std::size_t named = equation.inputs[i].size() - (has_dots ? 3 : 0);
    const std::size_t ndim = tensors[i].shape().size();
    TESSERA_CHECK((has_dots ? ndim >= named : ndim == named), "einsum: '", equation.inputs[i], "' of '", text,
                  "' must match the dimensions of tensor ", i, ", got ", describe(tensors[i]));
    extra.push_back(ndim - named);
    most = std::max(most, ndim - named);
  }
  std::string letters = spare_letters(text);
  TESSERA_CHECK(most <= letters.size(), "einsum: '", text, "' has too few unused letters for ", most,
                " dimensions of ...");
  letters.resize(most);
  std::vector<EinsumTerm> terms;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    terms.push_back(without_repeats({tensors[i], expanded(equation.inputs[i], letters, extra[i])}));
  }
  return detail::sum_of_products("einsum", std::move(terms), expanded(equation.result, letters, most));
}

Tensor einsum(std::string_view equation, std::initializer_list<Tensor> tensors) {
  return einsum(equation, std::span(tensors.begin(), tensors.size()));
}

}  // namespace tessera::ops

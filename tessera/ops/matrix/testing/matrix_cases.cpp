// Cases of the matrix operators: the reference of all of them is the plain sum over labels.
#include <map>

#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

// Sum over every index of every label of a times b.
Array product(const Array& a, const Array& b, const std::string& labels) {
  const std::size_t comma = labels.find(',');
  const std::size_t arrow = labels.find("->");
  const std::string parts[3] = {labels.substr(0, comma), labels.substr(comma + 1, arrow - comma - 1),
                                labels.substr(arrow + 2)};
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < parts[0].size(); ++i) sizes[parts[0][i]] = a.shape[i];
  for (std::size_t i = 0; i < parts[1].size(); ++i) sizes[parts[1][i]] = b.shape[i];
  std::vector<std::int64_t> all;
  for (const auto& entry : sizes) all.push_back(entry.second);
  std::vector<std::int64_t> out;
  for (const char label : parts[2]) out.push_back(sizes[label]);
  Array result((Shape(std::span<const std::int64_t>(out))));
  const Shape space((std::span<const std::int64_t>(all)));
  for (std::int64_t at = 0; at < space.numel(); ++at) {
    const auto index = digits(space, at);
    std::map<char, std::int64_t> of;
    std::size_t i = 0;
    for (const auto& entry : sizes) of[entry.first] = index[i++];
    const auto place = [&](const std::string& part) {
      std::int64_t sum = 0;
      for (const char label : part) sum = sum * sizes[label] + of[label];
      return static_cast<std::size_t>(sum);
    };
    result.values[place(parts[2])] += a.values[place(parts[0])] * b.values[place(parts[1])];
  }
  return result;
}

std::vector<OpSample> pairs(Random& random, const std::vector<std::pair<Shape, Shape>>& shapes) {
  std::vector<OpSample> samples;
  for (const auto& [a, b] : shapes) samples.push_back({.inputs = {normal(random, a), normal(random, b)}});
  return samples;
}

const OpCase kMm{{.op = "mm",
                  .samples =
                      [](Random& random) {
                        return pairs(random, {{{5, 7}, {7, 3}}, {{1, 4}, {4, 1}}, {{4, 0}, {0, 3}}, {{0, 3}, {3, 2}}});
                      },
                  .reference = [](std::span<const Array> in, const tensor::AttributesRef&) -> std::vector<Array> {
                    return {product(in[0], in[1], "ik,kj->ij")};
                  }}};

const OpCase kBmm{{.op = "bmm",
                   .samples =
                       [](Random& random) {
                         return pairs(random, {{{3, 5, 7}, {3, 7, 2}}, {{1, 4, 2}, {1, 2, 4}}, {{2, 3, 0}, {2, 0, 3}}});
                       },
                   .reference = [](std::span<const Array> in, const tensor::AttributesRef&) -> std::vector<Array> {
                     return {product(in[0], in[1], "nik,nkj->nij")};
                   }}};

const OpCase kLinear{
    {.op = "linear",
     .samples =
         [](Random& random) {
           return pairs(random, {{{5, 7}, {3, 7}}, {{7}, {3, 7}}, {{2, 3, 5}, {4, 5}}, {{2, 0, 5}, {4, 5}}});
         },
     .reference = [](std::span<const Array> in, const tensor::AttributesRef&) -> std::vector<Array> {
       const std::string leading = std::string("abcd").substr(0, in[0].shape.size() - 1);
       return {product(in[0], in[1], leading + "k,jk->" + leading + "j")};
     }}};

const OpCase kContract{
    {.op = "contract",
     .samples = [](Random& random) -> std::vector<OpSample> {
       const auto of = [&](const Shape& a, const Shape& b, const char* labels) {
         return OpSample{.inputs = {normal(random, a), normal(random, b)},
                         .attributes = tensor::Attributes(ContractAttributes{labels})};
       };
       return {of({5, 7}, {7, 3}, "ik,kj->ji"),
               of({3, 4, 5}, {3, 5, 2, 4}, "bik,bkji->ijb"),
               of({7}, {7}, "k,k->"),
               of({4}, {3}, "i,j->ij"),
               of({3, 4, 5}, {3, 5}, "abk,ak->ab"),
               of({3, 4, 2, 5}, {5, 2, 3}, "ijkl,lki->j"),
               of({2, 3}, {2, 3}, "ij,ij->ij"),
               of({}, {2, 3}, ",ij->ij"),
               of({2, 0}, {0, 3}, "ik,kj->ij"),
               of({4, 3, 5}, {6, 3, 5}, "ixy,jxy->ij")};
     },
     .reference = [](std::span<const Array> in, const tensor::AttributesRef& attributes) -> std::vector<Array> {
       return {product(in[0], in[1], attributes.as<ContractAttributes>().labels)};
     }}};

// Samples have no tensor to add to.
const OpCase kContractAdd{{.op = "contract_add", .samples = {}, .why_no_reference = "autograd_in_place_sums_test"}};

}  // namespace
}  // namespace tessera::ops::testing

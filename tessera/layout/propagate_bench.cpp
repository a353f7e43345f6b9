// Cost of propagation for a matrix product: compatible inputs, and fixes by a planner with an empty cache.
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/bench.h"
#include "tessera/layout/propagate.h"

namespace tessera::layout {
namespace {

struct Case {
  std::string name;
  const char* mesh;
  const char* left;   // [i,k]
  const char* right;  // [k,j]
  double must;        // microseconds
};

struct Product {
  FactorRule rule = FactorRule::parse("mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi");
  std::vector<Operand> inputs;
  std::vector<Shape> outputs = {{4096, 4096}};

  explicit Product(const Case& from) {
    const Mesh mesh = Mesh::parse(from.mesh);
    inputs = {{{4096, 1024}, Layout::parse(mesh, from.left), 2}, {{1024, 4096}, Layout::parse(mesh, from.right), 2}};
  }
};

TESSERA_BENCH(propagate) {
  const Case matches[] = {
      {"propagate_match_1", "tp=8", "S1", "S0", 5},
      {"propagate_match_2", "dp=4@network,tp=8", "S0,S1", "R,S0", 10},
      {"propagate_match_3", "dp=4@network,cp=2,tp=8", "S0,S0,S1", "R,R,S0", 20},
      {"propagate_match_5", "pp=2@network,dp=4@network,fs=4,cp=2,tp=8", "S0,S0,R,S0,S1", "R,R,S1,R,S0", 100},
  };
  for (const Case& each : matches) {
    const Product product(each);
    context.measure({.name = each.name,
                     .unit = "us",
                     .ours =
                         [&] {
                           const Propagation found = propagate(product.rule, product.inputs, product.outputs);
                           TESSERA_CHECK(found.is_match(), found.conflict);
                           bench::do_not_optimize(found.outputs.data());
                         },
                     .must = each.must});
  }
  const Case conflicts[] = {
      {"propagate_fix_2", "dp=4@network,tp=8", "S0,S1", "R,S1", 200},
      {"propagate_fix_3", "dp=4@network,cp=2,tp=8", "S0,S0,S1", "R,S1,S1", 2000},
      {"propagate_fix_5", "pp=2@network,dp=4@network,fs=4,cp=2,tp=8", "S0,S0,R,S0,S1", "R,R,S1,S0,S1", 10000},
  };
  for (const Case& each : conflicts) {
    const Product product(each);
    context.measure({.name = each.name,
                     .unit = "us",
                     .ours =
                         [&] {
                           Planner cold;
                           const auto found = propagate_or_fix(product.rule, product.inputs, product.outputs, cold, 3);
                           TESSERA_CHECK(found.fixes.size() == 3, "the inputs fit together");
                           bench::do_not_optimize(found.fixes.data());
                         },
                     .must = each.must});
  }
}

}  // namespace
}  // namespace tessera::layout

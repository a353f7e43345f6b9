// Layouts: the shard of each rank, the output layouts of an operator, and the plan from one layout to another. Layouts
// are pure arithmetic: the eight ranks of this program do not exist.
#include <tessera/tessera.h>

#include <array>
#include <cstdio>

using namespace tessera;

int main() {
  const Mesh mesh({{"dp", 2}, {"tp", 4}});
  const Shape activations{4096, 512};
  const Shape weights{512, 1024};

  // The shard of one rank.
  const Layout rows(mesh, {{"dp", Shard(0)}});
  const layout::Box box = layout::local_box(rows, activations, Rank(5));
  std::printf("rank 5 of %s holds %s\n", rows.text().c_str(), box.text().c_str());

  // A matrix product of sharded rows and sharded columns needs no communication.
  const layout::FactorRule mm = layout::FactorRule::parse("mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi");
  const Layout columns(mesh, {{"tp", Shard(1)}});
  const std::array results{Shape{4096, 1024}};
  const std::array fitting{layout::Operand{activations, rows}, layout::Operand{weights, columns}};
  const layout::Propagation product = layout::propagate(mm, fitting, results);
  std::printf("their product: %s\n", product.outputs.at(0).placements_text().c_str());

  // Only one input is sharded along the summed index: the layouts are incompatible, and the fixes have a cost.
  layout::Planner planner;
  const std::array clashing{layout::Operand{activations, rows},
                            layout::Operand{weights, Layout(mesh, {{"tp", Shard(0)}})}};
  const layout::Propagation clash = layout::propagate_or_fix(mm, clashing, results, planner);
  std::printf("%s\n  cheapest: %s\n", clash.conflict.c_str(), clash.fixes.at(0).text().c_str());

  // The cheapest plan from rows to columns.
  const auto plan = planner.plan({.from = rows, .to = columns, .shape = activations});
  std::printf("%s", plan->text().c_str());
  return product.is_match() && !clash.is_match() && !plan->steps.empty() ? 0 : 1;
}

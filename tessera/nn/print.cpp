// The tree of a module as text.
#include <ostream>
#include <set>

#include "tessera/base/bytes.h"
#include "tessera/nn/detail/module_state.h"
#include "tessera/nn/module.h"

namespace tessera::nn {
namespace {

using detail::ModuleState;
using detail::ParameterSlot;

class Tree {
 public:
  explicit Tree(std::ostream& out) : out_(out) {}

  void print(const ModuleState& module, const std::string& name, const std::string& indent) {
    out_ << indent << (name.empty() ? "" : name + ": ") << module.kind << "\n";
    for (const ModuleState::Entry& entry : module.entries) {
      if (const auto* slot = std::get_if<std::shared_ptr<ParameterSlot>>(&entry.item)) {
        print(**slot, entry.name, indent + "  ");
      } else {
        print(*std::get<std::shared_ptr<ModuleState>>(entry.item), entry.name, indent + "  ");
      }
    }
  }
  void print_total() const { out_ << count_ << " parameters, " << format_bytes(nbytes_) << " on this rank\n"; }

 private:
  void print(const ParameterSlot& slot, const std::string& name, const std::string& indent) {
    const Tensor& leaf = slot.leaf;
    const std::size_t nbytes = leaf.local() ? leaf.local().nbytes() : 0;
    out_ << indent << name << ": " << to_string(leaf.dtype()) << to_string(leaf.shape());
    if (leaf.has_layout()) out_ << " " << leaf.layout().placements_text();
    out_ << ", " << format_bytes(nbytes);
    if (slot.is_buffer) out_ << ", buffer";
    if (!slot.is_buffer && !leaf.is_tracked()) out_ << ", frozen";
    const bool is_new = seen_.insert(&slot).second;
    out_ << (is_new ? "" : ", shared") << "\n";
    if (!is_new || slot.is_buffer) return;
    count_ += leaf.numel();
    nbytes_ += nbytes;
  }

  std::ostream& out_;
  std::set<const ParameterSlot*> seen_;
  std::int64_t count_ = 0;
  std::uint64_t nbytes_ = 0;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Module& module) {
  Tree tree(out);
  tree.print(*module.state(), "", "");
  tree.print_total();
  return out;
}

}  // namespace tessera::nn

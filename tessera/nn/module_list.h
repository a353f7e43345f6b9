// A list of modules of one type, with the paths "NAME.0", "NAME.1", ...
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tessera/nn/module.h"

namespace tessera::nn {

/// A list of modules, such as the blocks of a model. By default, its elements are units of distribute().
template <class M>
class ModuleList : public Module {
 public:
  /// Constructs an empty list.
  ModuleList() : Module("ModuleList") {}
  /// Constructs a list of `count` modules; make(i) returns element i.
  template <class Make>
  ModuleList(std::int64_t count, const Make& make) : ModuleList() {
    for (std::int64_t i = 0; i < count; ++i) push_back(make(i));
  }

  /// Appends a module.
  void push_back(M module) { modules_.push_back(add(std::to_string(modules_.size()), std::move(module))); }
  /// Returns the number of modules.
  [[nodiscard]] std::size_t size() const { return modules_.size(); }
  /// Returns a module.
  const M& operator[](std::size_t index) const { return modules_.at(index); }
  /// Returns the first module, for loops.
  [[nodiscard]] auto begin() const { return modules_.begin(); }
  /// Returns the end of the list.
  [[nodiscard]] auto end() const { return modules_.end(); }

 private:
  std::vector<M> modules_;
};

}  // namespace tessera::nn

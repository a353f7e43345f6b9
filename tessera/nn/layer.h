// The call operator of modules. Layer<Derived> gives a struct with a member forward() the call operator:
//
//   struct Double : nn::Layer<Double> {
//     Tensor forward(const Tensor& x) const { return x * 2; }
//   };
//   Tensor y = Double()(x);
//
// A call passes its result to the observer of the model, and repeats itself in backward if the module is checkpointed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/base/export.h"
#include "tessera/nn/module.h"
#include "tessera/tensor/tensor.h"

namespace tessera::nn {

namespace detail {

// Returns the last component of the name of T: "Linear".
template <class T>
std::string type_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  const std::size_t colon = text.rfind(':');
  return std::string(colon == std::string_view::npos ? text : text.substr(colon + 1));
}

// Returns true if calls of the module are observed or checkpointed.
TESSERA_API bool is_intercepted(const ModuleState& module);
// Returns true if calls of the module are checkpointed.
TESSERA_API bool is_checkpointed(const ModuleState& module);
// Passes the result of a module to the observer, and returns it.
TESSERA_API Tensor observed(const ModuleState& module, const Tensor& result);
// Returns body(x), repeated in backward.
TESSERA_API Tensor checkpointed(const ModuleState& module, const Tensor& x, std::function<Tensor(const Tensor&)> body);
// Throws NotSupported: the module cannot be checkpointed.
[[noreturn]] TESSERA_API void refuse_checkpoint(const ModuleState& module);

}  // namespace detail

/// Base of a module with a member function `forward`.
template <class Derived>
class Layer : public Module {
 public:
  /// Constructs a module without parameters.
  Layer() : Module(detail::type_name<Derived>()) {}

  /// Returns forward(arguments...).
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const {
    if (!detail::is_intercepted(*state())) [[likely]]
      return self().forward(std::forward<Arguments>(arguments)...);
    return intercepted(std::forward<Arguments>(arguments)...);
  }

 private:
  [[nodiscard]] const Derived& self() const { return static_cast<const Derived&>(*this); }

  template <class... Arguments>
  auto intercepted(Arguments&&... arguments) const {
    using Result = decltype(self().forward(std::forward<Arguments>(arguments)...));
    if constexpr (std::is_same_v<Result, Tensor>) {
      if (detail::is_checkpointed(*state()))
        return detail::observed(*state(), repeated(std::forward<Arguments>(arguments)...));
      return detail::observed(*state(), self().forward(std::forward<Arguments>(arguments)...));
    } else {
      if (detail::is_checkpointed(*state())) detail::refuse_checkpoint(*state());
      return self().forward(std::forward<Arguments>(arguments)...);
    }
  }

  template <class First, class... Rest>
  Tensor repeated(First&& first, Rest&&... rest) const {
    if constexpr (std::is_convertible_v<First, Tensor>) {
      return detail::checkpointed(
          *state(), first, [module = self(), rest = std::tuple<std::decay_t<Rest>...>(rest...)](const Tensor& x) {
            return std::apply([&](const auto&... each) { return module.forward(x, each...); }, rest);
          });
    } else {
      detail::refuse_checkpoint(*state());
    }
  }
  Tensor repeated() const { detail::refuse_checkpoint(*state()); }
};

}  // namespace tessera::nn

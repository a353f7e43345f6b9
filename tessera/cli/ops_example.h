// Finds the attributes of an operator and its rule for example shapes. Runs no kernel: only calls the functions that
// infer shapes and dtypes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/tensor/op_def.h"

namespace tessera::cli {

/// The properties that were found.
struct OpExample {
  std::vector<std::string> attributes;  ///< names of the fields
  std::string defaults;                 ///< "dim=0, keepdim=false"; empty if there are no attributes or no defaults
  std::string call;                     ///< a call that the operator accepts; empty if none was found
  std::string result;                   ///< result of that call, "f32[6, 8]"; several are separated by commas
  std::string rule;                     ///< rule of that call; empty if the call has no rule
};

/// Tries calls until the operator accepts one.
OpExample find_example(const tensor::Operator& op);

}  // namespace tessera::cli

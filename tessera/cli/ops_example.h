// What an operator tells of itself when it is called: the attributes it reads, and its rule for some shapes. Nothing
// runs: only the functions that look at shapes and dtypes are asked.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/tensor/op_def.h"

namespace tessera::cli {

/// What was found out.
struct OpExample {
  std::vector<std::string> attributes;  ///< names of the fields
  std::string defaults;                 ///< "dim=0, keepdim=false"; empty: it has no attributes, or they no defaults
  std::string call;                     ///< a call that it takes; empty: none was found
  std::string result;                   ///< "f32[6, 8]" of that call, with commas between several
  std::string rule;                     ///< of that call; empty: it has none
};

/// Tries calls until the operator takes one.
OpExample find_example(const tensor::Operator& op);

}  // namespace tessera::cli

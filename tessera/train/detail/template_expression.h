// Expressions of chat templates: literals, variables, members, slices, operators, tests, a few filters and methods.
// Values are JSON; an undefined value is of type discarded.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <nlohmann/json.hpp>

namespace tessera::train::detail {

using TemplateValue = nlohmann::ordered_json;

/// Returns the value of an expression. `variables` is an object. Throws NotSupported for what is outside of the subset,
/// InvalidArgument if the text is malformed, and InvalidArgument with its message for raise_exception().
TemplateValue evaluate_expression(std::string_view text, const TemplateValue& variables);
/// Returns true if a value counts as true: not undefined, none, false, zero or empty.
bool is_true(const TemplateValue& value);
/// Returns a value as text.
std::string text_of(const TemplateValue& value);
/// Returns about the memory of a value. Throws NotSupported if it is nested too deeply: a few statements can double a
/// value often, or nest it in itself.
std::size_t nbytes_of(const TemplateValue& value, int depth = 0);

}  // namespace tessera::train::detail

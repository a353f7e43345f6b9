// Expects an error of a given type whose text contains given words.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace tessera {

/// Runs `body` and expects an error of type E whose text contains all `words`.
template <class E, class F>
void expect_error(F&& body, std::initializer_list<std::string_view> words = {}) {
  try {
    body();
  } catch (const E& error) {
    const std::string text = error.what();
    for (const std::string_view word : words)
      EXPECT_NE(text.find(word), std::string::npos) << "the message lacks \"" << word << "\": " << text;
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an error of another type: " << error.what();
    return;
  }
  ADD_FAILURE() << "no error was thrown; wanted one about "
                << (words.size() == 0 ? std::string_view("anything") : *words.begin());
}

}  // namespace tessera

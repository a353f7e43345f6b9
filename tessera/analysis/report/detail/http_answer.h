// Answers to HTTP requests, without sockets (serve.h lists the answers).
#pragma once

#include <string>
#include <string_view>

#include "tessera/analysis/report/serve.h"

namespace tessera::analysis::detail {

/// Credentials that a request must present.
struct PageAccess {
  std::string token;   ///< Value of the address parameter `token`, or of the cookie.
  std::string cookie;  ///< Name of the cookie.
};

/// Returns a token of 64 hexadecimal digits from 32 bytes of getrandom(2). Throws IoError.
std::string random_token();

/// Returns true if both are equal. The time depends only on the length.
bool are_equal_secrets(std::string_view a, std::string_view b);

/// Returns the answer to the head of a request, up to its empty line: status line, headers and body. Calls the function
/// of `source` that the path names; its exception becomes an answer. The answer to an address with the token sets the
/// cookie.
std::string http_answer(std::string_view request, const PageAccess& access, const PageSource& source);

}  // namespace tessera::analysis::detail

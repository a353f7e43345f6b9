#include "tessera/analysis/report/detail/http_answer.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <exception>
#include <optional>
#include <system_error>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kJson = "application/json";
constexpr std::string_view kText = "text/plain; charset=utf-8";

std::string answer(std::string_view status, std::string_view type, std::string_view body, std::string_view more = {}) {
  std::string text = fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
      "Cross-Origin-Resource-Policy: same-origin\r\n{}\r\n",
      status, type, body.size(), more);
  text += body;
  return text;
}

std::string refusal(std::string_view status, std::string_view why, std::string_view more = {}) {
  return answer(status, kText, fmt::format("{}: {}\n", status, why), more);
}

bool is_same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Returns true for an address or "localhost", with or without a port. DNS cannot redirect an address.
bool is_address(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos || end < 3) return false;
    return host.substr(1, end - 1).find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
  }
  host = host.substr(0, host.find(':'));
  if (is_same_word(host, "localhost")) return true;
  return std::count(host.begin(), host.end(), '.') == 3 &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

// Parsed header lines; unset if one is invalid.
struct Headers {
  std::optional<std::string_view> host;
  bool is_host_given_twice = false;
  std::vector<std::string_view> cookies;
};
std::optional<Headers> headers_of(std::string_view lines) {
  Headers headers;
  while (!lines.empty()) {
    const std::size_t end = lines.find("\r\n");
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end + 2);
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return std::nullopt;
    if (line.substr(0, colon).find_first_of(" \t") != std::string_view::npos) return std::nullopt;
    if (is_same_word(line.substr(0, colon), "cookie")) headers.cookies.push_back(line.substr(colon + 1));
    if (!is_same_word(line.substr(0, colon), "host")) continue;
    headers.is_host_given_twice = headers.host.has_value();
    headers.host = trimmed(line.substr(colon + 1));
  }
  return headers;
}

// Returns true if one of the items NAME=VALUE of a list has this name and the secret as its value.
bool has_secret(std::string_view list, char separator, std::string_view name, std::string_view secret) {
  bool is_found = false;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(separator), list.size());
    const std::string_view item = trimmed(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || item.substr(0, equals) != name) continue;
    is_found |= are_equal_secrets(item.substr(equals + 1), secret);
  }
  return is_found;
}

}  // namespace

std::string random_token() {
  std::array<unsigned char, 32> bytes{};
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::getrandom(bytes.data() + done, bytes.size() - done, 0);
    const int error = errno;
    if (got < 0 && error == EINTR) continue;
    TESSERA_CHECK_AS(IoError, got > 0, "getrandom: ", std::generic_category().message(error));
    done += static_cast<std::size_t>(got);
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

bool are_equal_secrets(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

std::string http_answer(std::string_view request, const PageAccess& access, const PageSource& source) {
  const std::size_t end = request.find("\r\n");
  if (end == std::string_view::npos) return refusal("400 Bad Request", "not an HTTP request");
  const std::string_view line = request.substr(0, end);
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos || !line.substr(second + 1).starts_with("HTTP/1."))
    return refusal("400 Bad Request", "the first line must be METHOD PATH HTTP/1.1");
  const auto headers = headers_of(request.substr(end + 2));
  if (!headers) return refusal("400 Bad Request", "a header must be NAME: VALUE");
  if (!headers->host || headers->is_host_given_twice)
    return refusal("400 Bad Request", "exactly one Host header is required");
  if (!is_address(*headers->host))
    return refusal("403 Forbidden", "use the address of this server or localhost as host; other names are rejected");
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::size_t question = std::min(target.find('?'), target.size());
  const std::string_view query = target.substr(std::min(question + 1, target.size()));
  const bool has_token = has_secret(query, '&', "token", access.token);
  const bool has_cookie = std::ranges::any_of(
      headers->cookies, [&](std::string_view each) { return has_secret(each, ';', access.cookie, access.token); });
  if (!has_token && !has_cookie)
    return refusal("403 Forbidden", "open the address that tessera view printed, with its token");
  if (line.substr(0, first) != "GET")
    return refusal("405 Method Not Allowed", "only GET is supported", "Allow: GET\r\n");
  const std::string_view path = target.substr(0, question);
  const bool is_page = path == "/" || path == "/report.html";
  const bool is_data = path == "/data.json" && source.data;
  const bool is_update = path == "/update.json" && source.update;
  if (!is_page && !is_data && !is_update) return refusal("404 Not Found", "the page is at /");
  try {
    if (is_data) return answer("200 OK", kJson, source.data());
    if (is_update) return answer("200 OK", kJson, source.update(query));
    std::string more = "Content-Security-Policy: frame-ancestors 'none'\r\n";
    if (has_token)
      more += fmt::format("Set-Cookie: {}={}; HttpOnly; SameSite=Strict; Path=/\r\n", access.cookie, access.token);
    return answer("200 OK", kHtml, source.page(), more);
  } catch (const InvalidArgument& error) {
    return refusal("400 Bad Request", error.message());
  } catch (const Error& error) {
    return refusal("500 Internal Server Error", error.message());
  } catch (const std::exception& error) {
    return refusal("500 Internal Server Error", error.what());
  }
}

}  // namespace tessera::analysis::detail

#include "tessera/analysis/report/detail/page.h"

#include <cstdint>

#include "tessera/base/error.h"
#include "tessera/base/fnv1a.h"

// The files under page/, embedded by the build (cmake/TesseraEmbed.cmake).
extern "C" {
extern const char tessera_embedded_page_html[];
extern const char tessera_embedded_page_html_end[];
extern const char tessera_embedded_page_css[];
extern const char tessera_embedded_page_css_end[];
extern const char tessera_embedded_page_js[];
extern const char tessera_embedded_page_js_end[];
}

namespace tessera::analysis::detail {
namespace {

std::string_view between(const char* begin, const char* end) { return {begin, static_cast<std::size_t>(end - begin)}; }

std::string digest_of(std::string_view text) {
  tessera::detail::Fnv1a128 hash;
  hash.add(text);
  return hash.hex();
}

// Escapes JSON, so that nothing in it can end the enclosing element.
std::string escaped(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char each : json) {
    if (each == '<') {
      text += "\\u003c";
    } else {
      text += each;
    }
  }
  return text;
}

}  // namespace

std::string page_of(std::string_view data, std::string_view base64, bool is_live) {
  const std::string_view frame = between(tessera_embedded_page_html, tessera_embedded_page_html_end);
  const std::string nonce = digest_of(data);
  std::string page;
  page.reserve(frame.size() + data.size() + base64.size() + (128 << 10));
  // Replaces {{name}} in the frame. Inserted text is not scanned again.
  for (std::size_t at = 0;;) {
    const std::size_t open = frame.find("{{", at);
    page += frame.substr(at, open == std::string_view::npos ? open : open - at);
    if (open == std::string_view::npos) return page;
    const std::size_t close = frame.find("}}", open);
    TESSERA_CHECK(close != std::string_view::npos, "report page: unterminated placeholder in the template");
    const std::string_view name = frame.substr(open + 2, close - open - 2);
    if (name == "nonce") page += nonce;
    if (name == "connect" && is_live) page += " connect-src 'self';";
    if (name == "style") page += between(tessera_embedded_page_css, tessera_embedded_page_css_end);
    if (name == "script") page += between(tessera_embedded_page_js, tessera_embedded_page_js_end);
    if (name == "data") page += escaped(data);
    if (name == "events") page += base64;
    at = close + 2;
  }
}

}  // namespace tessera::analysis::detail

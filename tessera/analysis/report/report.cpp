#include "tessera/analysis/report/report.h"

#include <filesystem>

#include "tessera/analysis/report/detail/page.h"
#include "tessera/analysis/report/detail/page_data.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"

namespace tessera::analysis {

ReportPage make_report_page(const std::string& directory, const ReportOptions& options) {
  const detail::PageData made = detail::page_data(directory, options.max_events);
  ReportPage page;
  page.data = made.json.dump(-1, ' ', true, detail::PageJson::error_handler_t::replace);
  page.html = detail::page_of(page.data, made.timeline.base64);
  page.events = made.timeline.events;
  for (const detail::MissingPart& part : made.missing) page.missing.push_back(part.what + ": " + part.why);
  return page;
}

std::string write_report_page(const std::string& directory, const std::string& path, const ReportOptions& options) {
  const ReportPage page = make_report_page(directory, options);
  std::string where = path.empty() ? directory + "/report.html" : path;
  write_file(where, page.html, path.empty() ? FileKind::kRun : FileKind::kUser);
  return where;
}

std::string leave_report_page(const std::string& directory) noexcept {
  try {
    try {
      return "report: " + std::filesystem::absolute(write_report_page(directory)).lexically_normal().string();
    } catch (const Error& failed) {
      return "no report: " + failed.message();
    } catch (const std::exception& failed) {
      return std::string("no report: ") + failed.what();
    }
  } catch (...) {  // out of memory
    return {};
  }
}

}  // namespace tessera::analysis

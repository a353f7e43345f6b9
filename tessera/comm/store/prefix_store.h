// A subset of another store: each key is stored under "prefix/". Its users cannot see or change other keys. Prefix
// stores nest.
#pragma once

#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm {

/// A store whose keys all begin with a prefix in another one.
class TESSERA_API PrefixStore final : public Store {
 public:
  /// Opens the keys of `under` that begin with "prefix/".
  PrefixStore(std::string prefix, std::shared_ptr<Store> under);

  void set(std::string_view key, std::string_view value) override;
  std::optional<std::string> find(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t by) override;
  std::optional<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                         std::string_view desired) override;
  void wait(std::span<const std::string> keys, std::chrono::nanoseconds timeout) override;
  bool remove(std::string_view key) override;
  std::vector<std::string> keys(std::string_view prefix) override;
  [[nodiscard]] std::string text() const override;

 private:
  [[nodiscard]] std::string full(std::string_view key) const;

  std::string prefix_;  // ends with a slash
  std::shared_ptr<Store> under_;
};

}  // namespace tessera::comm

// The environment table: defaults, values, malformed values and misspelled names.
#include "tessera/base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Sets a variable for the lifetime of the object.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

template <class F>
std::string message_of(F&& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  ADD_FAILURE() << "no InvalidArgument was thrown";
  return {};
}

env::VariableState entry(std::string_view name) {
  for (auto& entry : env::table()) {
    if (entry.name == name) return entry;
  }
  ADD_FAILURE() << name << " is not in the table";
  return {};
}

TEST(Env, FindsMisspeltNamesAndTheNearest) {
  const Setting misspelt("TESSERA_RECROD_BYTES", "1MiB");
  const Setting unrelated("TESSERA_ZZZZZZZZZZZZ", "1");
  const Setting selector("TESSERA_MUTANT", "host.something");
  const Setting known("TESSERA_RECORD", "on");
  const Setting foreign("TESSELLATE", "1");
  const auto unknown = env::unknown_names();
  ASSERT_EQ(unknown.size(), 2u);
  for (const auto& [name, near] : unknown) {
    EXPECT_EQ(near, name == "TESSERA_RECROD_BYTES" ? "TESSERA_RECORD_BYTES" : "") << name;
  }
}

TEST(Env, DefaultsHoldWhenNothingIsSet) {
  EXPECT_EQ(env::run_dir(), "");
  EXPECT_EQ(env::log_level(), "info");
  EXPECT_EQ(env::log_color(), "auto");
  EXPECT_EQ(env::record_mode(), "on");
  EXPECT_EQ(env::record_bytes(), 32u << 20);
  EXPECT_EQ(env::record_no_space(), "smaller");
  EXPECT_EQ(env::host_mode(), "inline");
  EXPECT_EQ(env::host_seed(), 0u);
  EXPECT_EQ(env::host_capacity(), 0u);
  EXPECT_FALSE(env::host_checked());
  EXPECT_EQ(env::cuda_connections(), 32);
  EXPECT_EQ(env::cuda_attention(), "auto");
  EXPECT_EQ(env::memory_policy(), "");
  EXPECT_EQ(env::store(), "");
  EXPECT_EQ(env::store_secret(), "");
  EXPECT_FALSE(env::store_insecure());
  EXPECT_EQ(env::store_bind(), "");
  EXPECT_EQ(env::store_bytes(), 256u << 20);
  EXPECT_EQ(env::store_client_bytes(), 64u << 20);
  EXPECT_EQ(env::deadline_seconds(), 300u);
}

TEST(Env, GettersReadTheirOwnVariable) {
  const Setting a("TESSERA_RUN_DIR", "/tmp/run");
  const Setting b("TESSERA_LOG", "error");
  const Setting c("TESSERA_LOG_COLOR", "never");
  const Setting d("TESSERA_RECORD", "off");
  const Setting e("TESSERA_RECORD_BYTES", "1.5MiB");
  const Setting f("TESSERA_RECORD_NO_SPACE", "fail");
  const Setting g("TESSERA_HOST_MODE", "seeded");
  const Setting h("TESSERA_HOST_SEED", "18446744073709551615");
  const Setting i("TESSERA_HOST_CAPACITY", "2GiB");
  const Setting j("TESSERA_HOST_CHECKED", "1");
  const Setting k("TESSERA_CUDA_CONNECTIONS", "8");
  const Setting attention("TESSERA_CUDA_ATTENTION", "tiled");
  const Setting l("TESSERA_MEMORY_POLICY", "granule_nbytes=4MiB,cross_stream=grow");
  const Setting m("TESSERA_STORE", "tcp://127.0.0.1:29500");
  const Setting n("TESSERA_STORE_SECRET", "sesame");
  const Setting o("TESSERA_STORE_INSECURE", "1");
  const Setting p("TESSERA_STORE_BIND", "10.0.0.1");
  const Setting q("TESSERA_STORE_BYTES", "1GiB");
  const Setting r("TESSERA_STORE_CLIENT_BYTES", "1MiB");
  const Setting s("TESSERA_DEADLINE", "30");
  EXPECT_TRUE(env::store_insecure());
  EXPECT_EQ(env::store_bind(), "10.0.0.1");
  EXPECT_EQ(env::store_bytes(), 1u << 30);
  EXPECT_EQ(env::store_client_bytes(), 1u << 20);
  EXPECT_EQ(env::deadline_seconds(), 30u);
  EXPECT_EQ(env::run_dir(), "/tmp/run");
  EXPECT_EQ(env::store(), "tcp://127.0.0.1:29500");
  EXPECT_EQ(env::store_secret(), "sesame");
  EXPECT_EQ(env::log_level(), "error");
  EXPECT_EQ(env::log_color(), "never");
  EXPECT_EQ(env::record_mode(), "off");
  EXPECT_EQ(env::record_bytes(), 1572864u);
  EXPECT_EQ(env::record_no_space(), "fail");
  EXPECT_EQ(env::host_mode(), "seeded");
  EXPECT_EQ(env::host_seed(), 18446744073709551615u);
  EXPECT_EQ(env::host_capacity(), std::uint64_t{2} << 30);
  EXPECT_TRUE(env::host_checked());
  EXPECT_EQ(env::cuda_connections(), 8);
  EXPECT_EQ(env::cuda_attention(), "tiled");
  EXPECT_EQ(env::memory_policy(), "granule_nbytes=4MiB,cross_stream=grow");
}

TEST(Env, AnEmptyValueIsNone) {
  const Setting setting("TESSERA_RECORD_BYTES", "");
  EXPECT_EQ(env::record_bytes(), 32u << 20);
  EXPECT_FALSE(entry("TESSERA_RECORD_BYTES").is_set);
}

TEST(Env, RefusalsNameVariableValueAndWhatIsAllowed) {
  {
    const Setting setting("TESSERA_HOST_MODE", "theraded");
    EXPECT_EQ(
        message_of([] { env::host_mode(); }),
        "environment variable TESSERA_HOST_MODE: must be one of inline|threaded|seeded, got 'theraded' (did you mean "
        "'threaded'?)");
  }
  {
    const Setting setting("TESSERA_CUDA_CONNECTIONS", "33");
    EXPECT_EQ(message_of([] { env::cuda_connections(); }),
              "environment variable TESSERA_CUDA_CONNECTIONS: must be an integer in [1, 32], got '33'");
  }
  {
    const Setting setting("TESSERA_RECORD_BYTES", "lots");
    EXPECT_EQ(
        message_of([] { env::record_bytes(); }),
        "environment variable TESSERA_RECORD_BYTES: size must be a number and a unit, as in 4096, 64KiB or 1.5 GiB, "
        "got 'lots'");
  }
  for (const char* bad : {"-1", "1.5", "0x1", "1 ", "18446744073709551616", "seed"}) {
    const Setting setting("TESSERA_HOST_SEED", bad);
    EXPECT_THROW(env::host_seed(), InvalidArgument) << bad;
  }
}

TEST(Env, TableHidesSecrets) {
  EXPECT_EQ(entry("TESSERA_STORE_SECRET").value, "");
  const Setting secret("TESSERA_STORE_SECRET", "sesame");
  EXPECT_EQ(entry("TESSERA_STORE_SECRET").value, "(hidden)");
  EXPECT_TRUE(entry("TESSERA_STORE_SECRET").is_set);
}

TEST(Env, TableShowsValuesDefaultsAndErrors) {
  const Setting good("TESSERA_RECORD", "off");
  const Setting bad("TESSERA_HOST_CHECKED", "yes");
  EXPECT_EQ(env::table().size(), 25u);
  const auto record = entry("TESSERA_RECORD");
  EXPECT_EQ(record.value, "off");
  EXPECT_EQ(record.default_value, "on");
  EXPECT_EQ(record.type, "on|off");
  EXPECT_TRUE(record.is_set);
  EXPECT_TRUE(record.error.empty());
  EXPECT_NE(entry("TESSERA_HOST_CHECKED").error.find("0|1"), std::string::npos);
  EXPECT_EQ(entry("TESSERA_CUDA_CONNECTIONS").type, "integer 1 to 32");
  EXPECT_EQ(entry("TESSERA_MEMORY_POLICY").type, "name=value,...");
  for (const auto& entry : env::table()) {
    EXPECT_FALSE(entry.meaning.empty()) << entry.name;
    EXPECT_TRUE(entry.is_set || entry.error.empty()) << "the default of " << entry.name << " is not allowed";
  }
}

}  // namespace
}  // namespace tessera

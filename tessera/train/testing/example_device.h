// A device of another kind than the host, with memory and streams but without operators.
#pragma once

#include <string>
#include <vector>

#include "tessera/device/backend.h"
#include "tessera/device/example/example_device.h"

namespace tessera::train::testing {

/// Adds the device "example" to this process, for the lifetime of the scope.
class ExampleDeviceScope {
 public:
  ExampleDeviceScope() {
    [[maybe_unused]] static const bool kIsRegistered =
        device::register_device_kind({"example", [](std::string& why_none) {
                                        static const device::Device kDevice = device::example::make_example_device();
                                        if (is_present()) return std::vector{kDevice};
                                        why_none = "it is part of another test";
                                        return std::vector<device::Device>();
                                      }});
    is_present() = true;
  }
  ~ExampleDeviceScope() { is_present() = false; }
  ExampleDeviceScope(const ExampleDeviceScope&) = delete;
  ExampleDeviceScope& operator=(const ExampleDeviceScope&) = delete;

 private:
  static bool& is_present() {
    static bool present = false;
    return present;
  }
};

}  // namespace tessera::train::testing

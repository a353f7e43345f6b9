// The kinds of devices of this build. Each registers itself at the end of the file that implements it.
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "tessera/base/error.h"
#include "tessera/device/backend.h"

namespace tessera::device {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<DeviceKind> kinds;
};

Registry& registry() {
  static auto* only = new Registry;  // never destroyed: devices are requested until the end of the process
  return *only;
}

std::vector<DeviceKind> known_kinds() {
  const std::lock_guard lock(registry().mutex);
  return registry().kinds;
}

std::string names_of(const std::vector<Device>& devices) {
  std::string text;
  for (const Device& device : devices) text += (text.empty() ? "" : ", ") + device.name();
  return text;
}

}  // namespace

bool register_device_kind(DeviceKind kind) {
  const std::lock_guard lock(registry().mutex);
  for (const DeviceKind& other : registry().kinds) {
    if (other.kind != kind.kind) continue;
    std::fprintf(stderr, "tessera: device kind '%s' is registered twice\n", kind.kind.c_str());
    std::abort();
  }
  // The host is first, whatever the link order.
  auto& kinds = registry().kinds;
  kinds.insert(kind.kind == "host" ? kinds.begin() : kinds.end(), std::move(kind));
  return true;
}

std::vector<Device> Device::all() {
  std::vector<Device> devices;
  for (const DeviceKind& kind : known_kinds()) {
    if (!kind.is_listed) continue;
    std::string why;
    for (Device& device : kind.devices(why)) devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<AbsentKind> Device::absent() {
  std::vector<AbsentKind> absent;
  for (const DeviceKind& kind : known_kinds()) {
    if (!kind.is_listed) continue;
    std::string why;
    if (kind.devices(why).empty()) absent.push_back({kind.kind, why});
  }
  return absent;
}

Device Device::get(std::string_view name) {
  const std::string_view wanted_kind = name.substr(0, name.find(':'));
  for (const DeviceKind& kind : known_kinds()) {
    if (kind.kind != wanted_kind) continue;
    std::string why;
    const std::vector<Device> devices = kind.devices(why);
    TESSERA_CHECK_AS(NotSupported, !devices.empty(), "device '", name, "' is not available: ", why,
                     "; devices: ", names_of(all()));
    if (name == wanted_kind) return devices.front();
    for (const Device& device : devices) {
      if (device.name() == name) return device;
    }
  }
  std::string absences;
  for (const AbsentKind& kind : absent()) absences += "; " + kind.kind + ": " + kind.reason;
  TESSERA_THROW(InvalidArgument, "unknown device '", name, "'; devices: ", names_of(all()), absences);
}

}  // namespace tessera::device

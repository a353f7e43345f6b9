// Marks symbols that the shared library exports. All other symbols are hidden.
#pragma once

/// Marks a class or function of the public API.
#define TESSERA_API __attribute__((visibility("default")))

// Marks what the shared library exports. Everything else is hidden.
#pragma once

/// Put on a class or function that people outside the library may use.
#define TESSERA_API __attribute__((visibility("default")))

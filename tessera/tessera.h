// Everything a user of Tessera needs, in one include.
#pragma once

#include "tessera/base/dtype.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/ids.h"
#include "tessera/base/log.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/base/shape.h"
#include "tessera/base/version.h"
#include "tessera/device/device.h"
#include "tessera/device/event.h"
#include "tessera/device/graph.h"
#include "tessera/device/memory.h"
#include "tessera/device/stream.h"

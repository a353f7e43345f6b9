// Everything a user of Tessera needs, in one include.
#pragma once

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/ids.h"
#include "tessera/base/log.h"
#include "tessera/base/rank.h"
#include "tessera/base/shape.h"
#include "tessera/base/version.h"

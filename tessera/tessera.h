// Everything a user of Tessera needs, in one include.
#pragma once

#include "tessera/base/error.h"
#include "tessera/base/ids.h"
#include "tessera/base/rank.h"

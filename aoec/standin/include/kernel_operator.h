// A stand-in for the header that Ascend C kernels include: the calls that our programs need, by their public documentation pages,
// on separate memories of a host process (docs/design.md, standin). Ours; no file or text of a vendor's header. It never ran on an NPU.
#pragma once
#include "standin_lacks.h"

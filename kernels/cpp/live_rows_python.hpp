// LiveRows as Python sees it: see module.cpp.
#pragma once

#include <nanobind/nanobind.h>

namespace gapless {

void define_live_rows(nanobind::module_& m);

}  // namespace gapless

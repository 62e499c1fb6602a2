// RunningSums as Python sees it: see module.cpp.
#pragma once

#include <nanobind/nanobind.h>

namespace gapless {

void define_running_sums(nanobind::module_& m);

}  // namespace gapless

// Scatters as Python sees them: a column of any number type comes as a buffer, and here it is given
// to the function of its own type.
//
//     add_at(acc, ids, values)     acc int64, values int16     add_at<int16_t>, false on overflow
//                                  acc double, values float    add_floats_at<float>
//
// Calls keep the GIL: the arrays that they change are the caller's, and no lock guards them.
#pragma once

#include <nanobind/nanobind.h>

namespace gapless {

void define_scatters(nanobind::module_& m);

}  // namespace gapless

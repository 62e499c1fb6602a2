// Some rows of a batch whose columns are plain: of a fixed width in bytes, and without nulls.
//
// Arrow's own `take` serves every type, and costs over a microsecond a column before its first row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arrow_abi.hpp"

namespace gapless {

// Fills `out` with the rows of `batch` at `positions`, and says whether it could: false where a
// column is not plain. `widths` has the bytes of a value for each column. Throws where a position
// is not a row's or the widths are not those of so many columns.
bool gather_rows(const ArrowArray& batch, const int64_t* positions, size_t count,
                 const int64_t* widths, size_t columns, ArrowArray& out);

}  // namespace gapless

// Builds an Arrow batch from stored rows: the way back from layout.hpp.
//
// Dictionary columns come out as their plain values; the Python side encodes them again, because a
// dictionary is a choice that the rows no longer know.
#pragma once

#include <cstdint>
#include <vector>

#include "arrow_abi.hpp"
#include "layout.hpp"
#include "row_store.hpp"

namespace gapless {

// Fills `out` with the rows of `ids`, all of which are live. The caller owns `out`.
void export_rows(const Layout& layout, const RowStore& store, const std::vector<uint32_t>& ids,
                 ArrowArray& out);

}  // namespace gapless

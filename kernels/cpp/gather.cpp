#include "gather.hpp"

#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "owned.hpp"

namespace gapless {
namespace {

bool is_plain(const ArrowArray& column) {
  return column.dictionary == nullptr && column.n_children == 0 && column.n_buffers == 2 &&
         (column.null_count == 0 || column.buffers[0] == nullptr);
}

Buffer values(const ArrowArray& column, size_t first, const int64_t* positions, size_t count,
              size_t width) {
  Buffer out = std::make_unique_for_overwrite<uint8_t[]>(count * width + 1);  // never null
  const auto* from = static_cast<const uint8_t*>(column.buffers[1]);
  const auto copy = [&](auto bytes) {
    const uint8_t* start = from + first * bytes;
    for (size_t i = 0; i < count; ++i)
      std::memcpy(&out[i * bytes], start + static_cast<size_t>(positions[i]) * bytes, bytes);
  };
  if (count == 0) return out;
  if (width == 8)
    copy(std::integral_constant<size_t, 8>{});
  else if (width == 4)
    copy(std::integral_constant<size_t, 4>{});
  else
    copy(width);
  return out;
}

}  // namespace

bool gather_rows(const ArrowArray& batch, const int64_t* positions, size_t count,
                 const int64_t* widths, size_t columns, ArrowArray& out) {
  if (static_cast<size_t>(batch.n_children) != columns)
    throw std::invalid_argument("gather: needs one width a column");
  bool good = true;
  for (size_t i = 0; i < count; ++i) good &= positions[i] >= 0 && positions[i] < batch.length;
  if (!good) throw std::invalid_argument("gather: a position that is not a row's");
  for (size_t c = 0; c < columns; ++c)
    if (widths[c] <= 0 || !is_plain(*batch.children[c])) return false;
  auto owned = std::make_unique<Owned>();
  owned->buffers.emplace_back();
  for (size_t c = 0; c < columns; ++c) {
    const ArrowArray& from = *batch.children[c];
    auto column = std::make_unique<Owned>();
    column->buffers.emplace_back();
    column->buffers.push_back(values(from, static_cast<size_t>(batch.offset + from.offset),
                                     positions, count, static_cast<size_t>(widths[c])));
    owned->children.push_back(std::make_unique<ArrowArray>());
    hand_over(std::move(column), count, 0, *owned->children.back());
  }
  hand_over(std::move(owned), count, 0, out);
  return true;
}

}  // namespace gapless

#include "gather.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace gapless {
namespace {

bool is_plain(const ArrowArray& column) {
  return column.dictionary == nullptr && column.n_children == 0 && column.n_buffers == 2 &&
         (column.null_count == 0 || column.buffers[0] == nullptr);
}

// One allocation for all columns: an array and the pointers to its buffers for each, then values.
// Moving a column out of the batch keeps the whole until that is released, too.
struct Gathered {
  explicit Gathered(size_t columns, size_t bytes)
      : arrays(columns),
        children(columns),
        buffers(columns),
        values(std::make_unique_for_overwrite<uint8_t[]>(bytes)),
        users(columns + 1) {}

  struct Buffers {
    const void* pointers[2];
  };
  std::vector<ArrowArray> arrays;
  std::vector<ArrowArray*> children;
  std::vector<Buffers> buffers;
  std::unique_ptr<uint8_t[]> values;
  std::atomic<size_t> users;
};

void release_gathered(ArrowArray* array) {
  auto* gathered = static_cast<Gathered*>(array->private_data);
  for (int64_t c = 0; c < array->n_children; ++c)
    if (array->children[c]->release != nullptr) array->children[c]->release(array->children[c]);
  array->release = nullptr;
  if (--gathered->users == 0) delete gathered;
}

void fill(ArrowArray& array, Gathered& gathered, size_t rows, const void** buffers) {
  array = ArrowArray{};
  array.length = static_cast<int64_t>(rows);
  array.buffers = buffers;
  array.release = release_gathered;
  array.private_data = &gathered;
}

void copy_values(const ArrowArray& column, size_t first, const int64_t* positions, size_t count,
                 size_t width, uint8_t* out) {
  const auto* from = static_cast<const uint8_t*>(column.buffers[1]);
  const auto copy = [&](auto bytes) {
    const uint8_t* start = from + first * bytes;
    for (size_t i = 0; i < count; ++i)
      std::memcpy(out + i * bytes, start + static_cast<size_t>(positions[i]) * bytes, bytes);
  };
  if (count == 0) return;
  if (width == 8)
    copy(std::integral_constant<size_t, 8>{});
  else if (width == 4)
    copy(std::integral_constant<size_t, 4>{});
  else
    copy(width);
}

// Room for a column's values, in the multiples of 64 bytes that Arrow asks for.
size_t padded(size_t bytes) { return (bytes / 64 + 1) * 64; }

}  // namespace

bool gather_rows(const ArrowArray& batch, const int64_t* positions, size_t count,
                 const int64_t* widths, size_t columns, ArrowArray& out) {
  if (static_cast<size_t>(batch.n_children) != columns)
    throw std::invalid_argument("gather: needs one width a column");
  bool good = true;
  for (size_t i = 0; i < count; ++i) good &= positions[i] >= 0 && positions[i] < batch.length;
  if (!good) throw std::invalid_argument("gather: a position that is not a row's");
  size_t bytes = 0;
  for (size_t c = 0; c < columns; ++c) {
    if (widths[c] <= 0 || !is_plain(*batch.children[c])) return false;
    bytes += padded(count * static_cast<size_t>(widths[c]));
  }
  auto gathered = std::make_unique<Gathered>(columns, bytes + 1);  // values are never null
  uint8_t* to = gathered->values.get();
  for (size_t c = 0; c < columns; ++c) {
    const ArrowArray& from = *batch.children[c];
    const auto width = static_cast<size_t>(widths[c]);
    copy_values(from, static_cast<size_t>(batch.offset + from.offset), positions, count, width, to);
    gathered->buffers[c] = {{nullptr, to}};
    fill(gathered->arrays[c], *gathered, count, gathered->buffers[c].pointers);
    gathered->arrays[c].n_buffers = 2;
    gathered->children[c] = &gathered->arrays[c];
    to += padded(count * width);
  }
  static const void* no_validity[1] = {nullptr};
  fill(out, *gathered, count, no_validity);
  out.n_buffers = 1;
  out.n_children = static_cast<int64_t>(columns);
  out.children = gathered->children.data();
  gathered.release();
  return true;
}

}  // namespace gapless

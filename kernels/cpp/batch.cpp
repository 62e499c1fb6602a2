#include "batch.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "lists.hpp"
#include "values.hpp"

namespace gapless {
namespace {

bool any_zero(const uint8_t* bits, size_t first, size_t count) {
  size_t i = 0;
  for (; i < count && (first + i) % 8 != 0; ++i)
    if (!bit(bits, first + i)) return true;
  for (; i + 64 <= count; i += 64)
    if (load<uint64_t>(bits + (first + i) / 8) != ~uint64_t{0}) return true;
  for (; i < count; ++i)
    if (!bit(bits, first + i)) return true;
  return false;
}

template <size_t N>
struct Bytes {
  uint8_t at[N];
};

// Writes `read(i)` to `to + i * stride` for every row that is not null; under nulls zeros remain.
template <class Read>
void scatter(uint8_t* to, size_t stride, size_t count, const uint8_t* mask, Read read) {
  if (mask == nullptr) {
    for (size_t i = 0; i < count; ++i, to += stride) {
      const auto value = read(i);
      std::memcpy(to, &value, sizeof value);
    }
  } else {
    for (size_t i = 0; i < count; ++i, to += stride) {
      if (!mask[i]) continue;
      const auto value = read(i);
      std::memcpy(to, &value, sizeof value);
    }
  }
}

size_t index_at(const Node& node, const uint8_t* indices, size_t at, size_t size) {
  int64_t index = 0;
  switch (node.dictionary_bits) {
    case 8: index = node.dictionary_signed ? load<int8_t>(indices + at) : indices[at]; break;
    case 16:
      index = node.dictionary_signed ? load<int16_t>(indices + at * 2)
                                     : load<uint16_t>(indices + at * 2);
      break;
    case 32:
      index = node.dictionary_signed ? int64_t{load<int32_t>(indices + at * 4)}
                                     : int64_t{load<uint32_t>(indices + at * 4)};
      break;
    default: index = load<int64_t>(indices + at * 8);
  }
  if (index < 0 || static_cast<size_t>(index) >= size)
    bad(node, "dictionary index " + std::to_string(index) + " of a dictionary of " +
                  std::to_string(size));
  return static_cast<size_t>(index);
}

// 4-byte length, then either up to 12 bytes, or 4 of them, the number of a buffer and an offset.
Span view_at(const Node& node, const ArrowArray& array, size_t at) {
  constexpr int32_t INLINE_MAX = 12;
  const uint8_t* view = buffer(array, 1) + at * 16;
  const auto size = load<int32_t>(view);
  if (size < 0) bad(node, "a view of negative length");
  if (size <= INLINE_MAX) return {view + 4, static_cast<uint32_t>(size)};
  const auto which = load<int32_t>(view + 8), offset = load<int32_t>(view + 12);
  const int64_t buffers = array.n_buffers - 3;  // except for validity, views and the lengths
  if (which < 0 || which >= buffers || offset < 0) bad(node, "a view into no buffer");
  const auto held = load<int64_t>(buffer(array, array.n_buffers - 1) + which * 8);
  if (int64_t{offset} + size > held) bad(node, "a view past the end of its buffer");
  return {buffer(array, 2 + which) + offset, static_cast<uint32_t>(size)};
}

Span span_at(const Node& node, const ArrowArray& array, size_t at) {
  switch (node.kind) {
    case Kind::text32: return text_at<int32_t>(node, array, at);
    case Kind::text64: return text_at<int64_t>(node, array, at);
    case Kind::view: return view_at(node, array, at);
    default: return {buffer(array, 1) + at * node.width, node.width};
  }
}

int64_t buffers_min(const Node& node) {
  switch (node.kind) {
    case Kind::structure: return 1;
    case Kind::text32:
    case Kind::text64:
    case Kind::view: return 3;
    default: return 2;
  }
}

}  // namespace

Block::Block(size_t key_words, size_t variables, size_t rows_max)
    : words(std::make_unique_for_overwrite<uint64_t[]>(key_words * rows_max)),
      spans(variables ? std::make_unique<Span[]>(variables * rows_max) : nullptr),
      tags(std::make_unique_for_overwrite<uint32_t[]>(rows_max)) {}

Batch::Batch(const Layout& layout, const ArrowArray& array)
    : layout_(layout), columns_(layout.nodes.size()), rows_(static_cast<size_t>(array.length)) {
  size_t node = 0, child = 0;
  for (; node < layout.nodes.size(); ++node) {
    if (layout.nodes[node].parent != NO_NODE) continue;
    if (static_cast<int64_t>(child) >= array.n_children)
      throw std::invalid_argument("the batch has fewer columns than the table");
    open(node, *array.children[child++], static_cast<size_t>(array.offset));
  }
  if (static_cast<int64_t>(child) != array.n_children)
    throw std::invalid_argument("the batch has more columns than the table");
}

// `first` is where row 0 of the parent lies, which a struct's own offset adds to.
void Batch::open(size_t index, const ArrowArray& array, size_t first) {
  const Node& node = layout_.nodes[index];
  Column& column = columns_[index];
  const bool is_dictionary = node.dictionary_bits > 0;
  if ((array.dictionary != nullptr) != is_dictionary) bad(node, "not the type of the table's");
  const ArrowArray& values = is_dictionary ? *array.dictionary : array;
  first += static_cast<size_t>(array.offset);
  column.node = &node;
  column.values = &values;
  column.first = is_dictionary ? static_cast<size_t>(values.offset) : first;
  column.indices = is_dictionary ? &array : nullptr;
  column.first_index = first;
  column.validity = validity_of(array);
  column.first_bit = first;
  if (values.n_buffers < buffers_min(node)) bad(node, "not the type of the table's");
  if (column.validity != nullptr && !any_zero(column.validity, first, rows_))
    column.validity = nullptr;
  column.masked = column.validity != nullptr ||
                  (node.parent != NO_NODE && columns_[static_cast<size_t>(node.parent)].masked) ||
                  (is_dictionary && validity_of(values) != nullptr);
  any_null_ |= column.masked;
  if (column.masked) column.mask.resize(std::min(rows_, BLOCK_ROWS));
  if (is_dictionary) column.positions.resize(std::min(rows_, BLOCK_ROWS));
  if (node.kind == Kind::list) check_list(node, array);
  if (node.kind != Kind::structure) return;
  size_t child = 0;
  for (size_t below = index + 1; below < layout_.nodes.size(); ++below) {
    if (layout_.nodes[below].parent != static_cast<int>(index)) continue;
    if (static_cast<int64_t>(child) >= array.n_children) bad(node, "not the type of the table's");
    open(below, *array.children[child++], first);
  }
}

void Batch::encode(size_t begin, size_t count, size_t key_words, Block& out,
                   bool hashed) {
  out.rows = count;
  if (layout_.padded || any_null_ || key_words > layout_.data_words)
    std::fill_n(out.words.get(), count * key_words, 0);
  for (size_t node = 0; node < columns_.size(); ++node) {
    Column& column = columns_[node];
    if (column.masked) fill_mask(column, begin, count);
    if (column.indices != nullptr) look_up(column, begin, count);
    if (column.masked) write_nulls(column, node, count, key_words, out);
    if (column.node->kind == Kind::list)
      write_lists(column, begin, count, key_words, out);
    else if (column.node->is_variable())
      write_spans(column, begin, count, key_words, out);
    else if (column.node->kind != Kind::structure)
      write_values(column, begin, count, key_words, out);
  }
  if (hashed) hash(key_words, out);
}

void Batch::fill_mask(Column& column, size_t begin, size_t count) {
  const int parent = column.node->parent;
  const Column* above = parent == NO_NODE ? nullptr : &columns_[static_cast<size_t>(parent)];
  if (above != nullptr && above->masked)
    std::copy_n(above->mask.begin(), count, column.mask.begin());
  else
    std::fill_n(column.mask.begin(), count, 1);
  if (column.validity == nullptr) return;
  for (size_t i = 0; i < count; ++i)
    column.mask[i] &= bit(column.validity, column.first_bit + begin + i);
}

void Batch::look_up(Column& column, size_t begin, size_t count) {
  const Node& node = *column.node;
  const uint8_t* indices = buffer(*column.indices, 1);
  const uint8_t* validity = validity_of(*column.values);
  const auto size = static_cast<size_t>(column.values->length);
  for (size_t i = 0; i < count; ++i) {
    if (column.masked && !column.mask[i]) continue;
    const size_t at = index_at(node, indices, column.first_index + begin + i, size);
    column.positions[i] = column.first + at;
    if (validity != nullptr && !bit(validity, column.first + at)) column.mask[i] = 0;
  }
}

// All fields of a null struct count as null too, whatever their own bitmaps say.
void Batch::write_nulls(const Column& column, size_t node, size_t count, size_t key_words,
                        Block& out) {
  uint64_t* word = out.words.get() + layout_.data_words + node / 64;
  for (size_t i = 0; i < count; ++i, word += key_words)
    if (!column.mask[i]) *word |= uint64_t{1} << (node % 64);
}

void Batch::write_values(const Column& column, size_t begin, size_t count, size_t key_words,
                         Block& out) {
  const Node& node = *column.node;
  const uint8_t* values = buffer(*column.values, 1);
  const uint8_t* mask = column.masked ? column.mask.data() : nullptr;
  auto* to = reinterpret_cast<uint8_t*>(out.words.get()) + node.offset;
  const size_t stride = key_words * 8;
  const auto write = [&](auto position) {
    const auto as = [&](auto sample, auto change) {
      using T = decltype(sample);
      scatter(to, stride, count, mask,
              [&](size_t i) { return change(load<T>(values + position(i) * sizeof(T))); });
    };
    const auto same = [](auto value) { return value; };
    const auto one = [](auto value) { return canonical(value); };
    switch (node.kind) {
      case Kind::boolean:
        return scatter(to, stride, count, mask,
                       [&](size_t i) { return uint8_t{bit(values, position(i))}; });
      case Kind::float16: return as(uint16_t{}, one);
      case Kind::float32: return as(uint32_t{}, one);
      case Kind::float64: return as(uint64_t{}, one);
      default: break;
    }
    switch (node.width) {
      case 1: return as(uint8_t{}, same);
      case 2: return as(uint16_t{}, same);
      case 4: return as(uint32_t{}, same);
      case 8: return as(uint64_t{}, same);
      case 16: return as(Bytes<16>{}, same);
      case 32: return as(Bytes<32>{}, same);
      default:
        for (size_t i = 0; i < count; ++i)
          if (node.width > 0 && (mask == nullptr || mask[i]))
            std::memcpy(to + i * stride, values + position(i) * node.width, node.width);
    }
  };
  if (column.indices != nullptr)
    write([&](size_t i) { return column.positions[i]; });
  else
    write([start = column.first + begin](size_t i) { return start + i; });
}

void Batch::write_spans(const Column& column, size_t begin, size_t count, size_t key_words,
                        Block& out) {
  const Node& node = *column.node;
  auto* length = reinterpret_cast<uint8_t*>(out.words.get()) + node.offset;
  Span* span = out.spans.get() + node.variable;
  for (size_t i = 0; i < count; ++i) {
    *span = {nullptr, 0};
    if (!column.masked || column.mask[i])
      *span = span_at(node, *column.values,
                      column.indices != nullptr ? column.positions[i] : column.first + begin + i);
    std::memcpy(length, &span->size, sizeof span->size);
    span += layout_.variables();
    length += key_words * 8;
  }
}

void Batch::write_lists(Column& column, size_t begin, size_t count, size_t key_words,
                        Block& out) {
  const Node& node = *column.node;
  auto* length = reinterpret_cast<uint8_t*>(out.words.get()) + node.offset;
  size_t starts[BLOCK_ROWS + 1];
  column.lists.clear();
  for (size_t i = 0; i < count; ++i) {
    starts[i] = column.lists.size();
    if (!column.masked || column.mask[i])
      encode_list(node, *column.values, column.first + begin + i, column.lists);
    if (column.lists.size() - starts[i] > UINT32_MAX) bad(node, "a value of more than 4 GB");
  }
  starts[count] = column.lists.size();  // only now are they where they stay
  Span* span = out.spans.get() + node.variable;
  for (size_t i = 0; i < count; ++i) {
    *span = {column.lists.data() + starts[i], static_cast<uint32_t>(starts[i + 1] - starts[i])};
    std::memcpy(length, &span->size, sizeof span->size);
    span += layout_.variables();
    length += key_words * 8;
  }
}

uint32_t row_tag(const Layout& layout, const uint64_t* row, size_t key_words, const Span* spans,
                 const Seeds& seed) {
  uint64_t state = hash_words(row, layout.data_words, seed);
  for (size_t v = 0; v < layout.variables(); ++v)
    state = fold(state ^ hash_bytes(spans[v].data, spans[v].size, seed), seed.d);
  for (size_t w = layout.data_words; w < key_words; ++w)
    if (row[w] != 0) state = fold(state ^ row[w], seed.a ^ w);
  return tag_of(state, seed);
}

void Batch::hash(size_t key_words, Block& out) const {
  const Seeds seed = seeds();
  const uint64_t* row = out.words.get();
  if (layout_.variables() > 0 || any_null_ || layout_.data_words > 4) {
    const Span* spans = out.spans.get();
    for (size_t i = 0; i < out.rows; ++i, row += key_words, spans += layout_.variables())
      out.tags[i] = row_tag(layout_, row, key_words, spans, seed);
    return;
  }
  const auto plain = [&](auto words) {
    for (size_t i = 0; i < out.rows; ++i, row += key_words)
      out.tags[i] = tag_of(hash_words(row, words(), seed), seed);
  };
  switch (layout_.data_words) {
    case 1: return plain([] { return size_t{1}; });
    case 2: return plain([] { return size_t{2}; });
    case 3: return plain([] { return size_t{3}; });
    default: return plain([] { return size_t{4}; });
  }
}

}  // namespace gapless

#include "key_table.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "export.hpp"

namespace gapless {

template <class Words>
bool KeyTable::equal(uint32_t id, const Block& block, size_t i, Words words) const {
  const uint64_t* stored = store_.row(id);
  const uint64_t* wanted = block.words.get() + i * words;
  uint64_t difference = 0;
  for (size_t w = 0; w < words; ++w) difference |= stored[w] ^ wanted[w];
  if (difference != 0) return false;
  const size_t variables = layout_.variables();
  if (variables == 0) return true;
  const uint8_t* bytes = store_.bytes(id);
  const Span* span = block.spans.get() + i * variables;
  for (size_t v = 0; v < variables; ++v, ++span) {
    if (span->size > 0 && std::memcmp(bytes, span->data, span->size) != 0) return false;
    bytes += span->size;
  }
  return true;
}

// `missing(i, at)` says what becomes of a row without an id, and may add it: its slot is `at`.
template <class Words, class Missing>
void KeyTable::look_up(const Block& block, Words words, int64_t* ids, Missing missing) {
  uint32_t candidates[BLOCK_ROWS];
  size_t ends[BLOCK_ROWS];
  const size_t moves = slots_.moves();
  const uint32_t* tags = block.tags.get();
  for (size_t i = 0; i < block.rows; ++i) slots_.prefetch(tags[i]);
  for (size_t i = 0; i < block.rows; ++i) {
    candidates[i] = slots_.candidate(tags[i], ends[i]);
    if (candidates[i] != NO_ID) __builtin_prefetch(store_.row(candidates[i]));
  }
  if (layout_.variables() > 0)
    for (size_t i = 0; i < block.rows; ++i)
      if (candidates[i] != NO_ID) __builtin_prefetch(store_.bytes(candidates[i]));
  for (size_t i = 0; i < block.rows; ++i) {
    uint32_t id = candidates[i];
    if (id == NO_ID || !equal(id, block, i, words)) {
      // Rows before this one may have filled the slot where the search ended, or moved all slots.
      size_t at = slots_.moves() == moves ? ends[i] : slots_.home(tags[i]);
      id = slots_.find(tags[i], at, [&](uint32_t other) { return equal(other, block, i, words); });
      if (id == NO_ID) {
        ids[i] = missing(i, at);
        continue;
      }
    }
    ids[i] = id;
  }
}

// `missing(block, i, row, at)`: row i of the block is row `row` of the batch.
template <class Missing>
void KeyTable::look_up_blocks(const ArrowArray& array, int64_t* ids, Missing missing) {
  Batch batch(layout_, array);
  if (batch.any_null() && !store_.has_null_words()) store_.add_null_words();
  const size_t words = store_.key_words();
  Block block(words, layout_.variables(), std::min(batch.rows(), BLOCK_ROWS));
  for (size_t begin = 0; begin < batch.rows(); begin += BLOCK_ROWS) {
    batch.encode(begin, std::min(BLOCK_ROWS, batch.rows() - begin), words, block);
    const auto one_block = [&](auto constant) {
      look_up(block, constant, ids + begin,
              [&](size_t i, size_t at) { return missing(block, i, begin + i, at); });
    };
    switch (words) {
      case 1: one_block(std::integral_constant<size_t, 1>{}); break;
      case 2: one_block(std::integral_constant<size_t, 2>{}); break;
      case 3: one_block(std::integral_constant<size_t, 3>{}); break;
      case 4: one_block(std::integral_constant<size_t, 4>{}); break;
      default: one_block(words);
    }
  }
}

void KeyTable::intern(const ArrowArray& batch, int64_t* ids, bool* first_seen,
                      const int64_t* times, int64_t since) {
  const auto rows = static_cast<size_t>(batch.length);
  std::fill_n(first_seen, rows, false);
  try {
    look_up_blocks(batch, ids, [&](const Block& block, size_t i, size_t row, size_t at) {
      if (times != nullptr && times[row] < since) return ABSENT;
      const int64_t id = add(block, i, at);
      first_seen[row] = true;
      ids[row] = id;  // so that the rollback below finds it
      return id;
    });
  } catch (...) {
    for (size_t at = 0; at < rows; ++at) {
      if (!first_seen[at]) continue;
      const auto id = static_cast<uint32_t>(ids[at]);
      ids_.unmark(id);
      remove(id);
    }
    trim();
    throw;
  }
}

void KeyTable::find(const ArrowArray& batch, int64_t* ids) {
  look_up_blocks(batch, ids, [](const Block&, size_t, size_t, size_t) { return ABSENT; });
}

uint32_t KeyTable::add(const Block& block, size_t i, size_t at) {
  const size_t moves = slots_.moves();
  slots_.reserve_one();
  const uint32_t id = ids_.take();
  try {
    store_.put(id, block.tags[i], block.words.get() + i * store_.key_words(),
               block.spans.get() + i * layout_.variables());
  } catch (...) {
    ids_.unmark(id);
    ids_.trim();
    throw;
  }
  if (slots_.moves() == moves)
    slots_.insert_at(at, block.tags[i], id);
  else
    slots_.insert(block.tags[i], id);
  return id;
}

void KeyTable::remove(uint32_t id) noexcept {
  slots_.erase(store_.tag(id), id);
  store_.drop(id);
}

void KeyTable::trim() {
  ids_.trim();
  slots_.trim();
  store_.trim(ids_.high());
}

void KeyTable::release(const int64_t* ids, size_t count) {
  ids_.release(ids, count);
  for (size_t begin = 0; begin < count; begin += BLOCK_ROWS) {
    const size_t end = std::min(count, begin + BLOCK_ROWS);
    for (size_t i = begin; i < end; ++i) slots_.prefetch(store_.tag(static_cast<uint32_t>(ids[i])));
    for (size_t i = begin; i < end; ++i) remove(static_cast<uint32_t>(ids[i]));
  }
  trim();
}

void KeyTable::rows(const int64_t* ids, size_t count, ArrowArray& out) const {
  std::vector<uint32_t> live(count);
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || !ids_.live(static_cast<size_t>(ids[i])))
      throw std::invalid_argument("rows: id " + std::to_string(ids[i]) + " is not live");
    live[i] = static_cast<uint32_t>(ids[i]);
  }
  export_rows(layout_, store_, live, out);
}

size_t KeyTable::nbytes() const {
  return sizeof *this + layout_.nbytes() + store_.nbytes() + slots_.nbytes() + ids_.nbytes();
}

std::vector<Span> KeyTable::spans_of(uint32_t id) const {
  std::vector<Span> spans;
  const auto* row = reinterpret_cast<const uint8_t*>(store_.row(id));
  const uint8_t* bytes = layout_.variables() > 0 ? store_.bytes(id) : nullptr;
  for (uint32_t offset : layout_.length_offsets) {
    spans.push_back({bytes, load<uint32_t>(row + offset)});
    bytes += spans.back().size;
  }
  return spans;
}

void KeyTable::validate() const {
  ids_.validate();
  slots_.validate();
  store_.validate([&](size_t id) { return ids_.live(id); });
  if (slots_.size() != ids_.size())
    throw std::runtime_error("key table: as many slots as live ids are needed");
  const size_t words = store_.key_words();
  for (size_t at = 0; at < ids_.high(); ++at) {
    if (!ids_.live(at)) continue;
    const auto id = static_cast<uint32_t>(at);
    const std::vector<Span> spans = spans_of(id);
    const uint32_t tag = row_tag(layout_, store_.row(id), words, spans.data(), seeds());
    if (tag != store_.tag(id)) throw std::runtime_error("key table: a row's hash is wrong");
    Block one(words, spans.size(), 1);
    std::copy_n(store_.row(id), words, one.words.get());
    std::copy(spans.begin(), spans.end(), one.spans.get());
    const uint32_t found =
        slots_.find(tag, [&](uint32_t other) { return equal(other, one, 0, words); });
    if (found != id)
      throw std::runtime_error("key table: id " + std::to_string(id) +
                               " is not found by its row, or a second id holds the same row");
  }
}

}  // namespace gapless

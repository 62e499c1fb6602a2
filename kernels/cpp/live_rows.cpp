#include "live_rows.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "export.hpp"

namespace gapless {
namespace {

// Rows that are looked up together, so that their cache misses overlap.
constexpr size_t TOGETHER = 256;

void check_rows(const Lives& rows) {
  for (size_t i = 0; i < rows.count; ++i) {
    if (rows.keys[i] < 0 || rows.keys[i] >= int64_t{LIVE_MAX})
      throw std::invalid_argument("add: key " + std::to_string(rows.keys[i]) +
                                  " is not an id of a KeyTable");
    if (rows.vs[i] >= rows.ve[i])
      throw std::invalid_argument("add: row " + std::to_string(i) + " ends before it starts");
  }
}

}  // namespace

uint32_t LiveRows::checked(const char* call, int64_t id) const {
  if (id >= 0 && ids_.live(static_cast<size_t>(id))) return static_cast<uint32_t>(id);
  throw std::invalid_argument(std::string(call) + ": id " + std::to_string(id) + " is not live");
}

// -- storing --------------------------------------------------------------------------------------

// First everything that may fail, then what cannot.
uint32_t LiveRows::put(const Block& block, size_t i, const Lives& rows, size_t row) {
  const auto key = static_cast<size_t>(rows.keys[row]);
  heads_.reserve(key);
  uint32_t id = NO_ROW;
  try {
    id = ids_.take();
    entries_.reserve(id);
    store_.put(id, 0, block.words.get() + i * store_.key_words(),
               block.spans.get() + i * layout_.variables());
  } catch (...) {
    if (id != NO_ROW) {
      entries_.drop_if_empty(id);
      ids_.unmark(id);
    }
    heads_.drop_if_empty(key);
    throw;
  }
  link(id, rows, row);
  return id;
}

void LiveRows::link(uint32_t id, const Lives& rows, size_t row) noexcept {
  const auto key = static_cast<uint32_t>(rows.keys[row]);
  Head& head = heads_[key];
  uint32_t previous = NO_ROW;
  if (head.count++ == 0) {
    heads_.open(key);
    head.first = id;
  } else {
    previous = head.last;
    entries_[previous].next = id;
  }
  head.last = id;
  entries_.open(id);
  entries_[id] = {rows.vs[row], rows.ve[row], key, NO_ROW, previous};
}

void LiveRows::add(const ArrowArray& array, const Lives& rows, int64_t since, int64_t* ids) {
  check_rows(rows);
  Batch batch(layout_, array);
  if (batch.any_null() && !store_.has_null_words()) store_.add_null_words();
  const size_t words = store_.key_words();
  Block block(words, layout_.variables(), std::min(batch.rows(), BLOCK_ROWS));
  size_t done = 0;
  try {
    for (size_t begin = 0; begin < batch.rows(); begin += BLOCK_ROWS) {
      const size_t count = std::min(BLOCK_ROWS, batch.rows() - begin);
      batch.encode(begin, count, words, block, false);
      fetch(rows.keys + begin, count);
      for (size_t i = 0; i < count; ++i, ++done)
        ids[done] = rows.ve[done] < since ? -1 : int64_t{put(block, i, rows, done)};
    }
  } catch (...) {
    while (done-- > 0) {
      if (ids[done] < 0) continue;
      ids_.unmark(static_cast<size_t>(ids[done]));
      remove(static_cast<uint32_t>(ids[done]));
    }
    trim();
    throw;
  }
}

// -- looking --------------------------------------------------------------------------------------

// Brings the heads of some keys near, and the two ends of their chains.
void LiveRows::fetch(const int64_t* keys, size_t count) const {
  for (size_t i = 0; i < count; ++i)
    if (const Head* head = head_of(keys[i])) __builtin_prefetch(head);
  for (size_t i = 0; i < count; ++i) {
    const Head* head = head_of(keys[i]);
    if (head == nullptr || head->count == 0) continue;
    __builtin_prefetch(&entries_[head->first]);
    if (head->count > 1) __builtin_prefetch(&entries_[head->last]);
  }
}

// `is_it(entry, vs, ve)`: whether a stored row is meant by one with that lifetime.
template <class IsIt>
size_t LiveRows::look(const Lives& rows, size_t from, size_t most, Met& met, IsIt is_it) const {
  for (size_t i = from; i < rows.count; ++i) {
    if ((i - from) % TOGETHER == 0) fetch(rows.keys + i, std::min(TOGETHER, rows.count - i));
    const Head* head = head_of(rows.keys[i]);
    if (head == nullptr || head->count == 0) continue;
    for (uint32_t id = head->first; id != NO_ROW; id = entries_[id].next) {
      const Entry& entry = entries_[id];
      if (!is_it(entry, rows.vs[i], rows.ve[i])) continue;
      met.asked.push_back(static_cast<int64_t>(i));
      met.id.push_back(id);
      met.vs.push_back(entry.vs);
      met.ve.push_back(entry.ve);
    }
    if (met.id.size() >= most) return i + 1;
  }
  return rows.count;
}

size_t LiveRows::meet(const Lives& rows, size_t from, size_t most, Met& met) const {
  return look(rows, from, most, met, [](const Entry& entry, int64_t vs, int64_t ve) {
    return entry.vs < ve && vs < entry.ve;
  });
}

size_t LiveRows::equals(const Lives& rows, size_t from, size_t most, Met& met) const {
  return look(rows, from, most, met, [](const Entry& entry, int64_t vs, int64_t ve) {
    return entry.vs == vs && entry.ve == ve;
  });
}

void LiveRows::lives(const int64_t* ids, size_t count, int64_t* keys, int64_t* vs,
                     int64_t* ve) const {
  for (size_t i = 0; i < count; ++i) {
    const Entry& entry = entries_[checked("lives", ids[i])];
    keys[i] = entry.key;
    vs[i] = entry.vs;
    ve[i] = entry.ve;
  }
}

void LiveRows::rows(const int64_t* ids, size_t count, ArrowArray& out) const {
  std::vector<uint32_t> live(count);
  for (size_t i = 0; i < count; ++i) live[i] = checked("rows", ids[i]);
  export_rows(layout_, store_, live, out);
}

// -- changing -------------------------------------------------------------------------------------

void LiveRows::set_ends(const int64_t* ids, const int64_t* ve, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (ve[i] <= entries_[checked("set_ends", ids[i])].vs)
      throw std::invalid_argument("set_ends: row " + std::to_string(ids[i]) +
                                  " would end before it starts");
  for (size_t i = 0; i < count; ++i) entries_[static_cast<size_t>(ids[i])].ve = ve[i];
}

void LiveRows::remove(uint32_t id) noexcept {
  const Entry gone = entries_[id];
  Head& head = heads_[gone.key];
  if (--head.count == 0) {
    heads_.close(gone.key);
  } else {
    (gone.previous == NO_ROW ? head.first : entries_[gone.previous].next) = gone.next;
    (gone.next == NO_ROW ? head.last : entries_[gone.next].previous) = gone.previous;
  }
  entries_.close(id);
  store_.drop(id);
}

void LiveRows::release(const int64_t* ids, size_t count) {
  ids_.release(ids, count);
  for (size_t begin = 0; begin < count; begin += TOGETHER) {
    const size_t end = std::min(count, begin + TOGETHER);
    for (size_t i = begin; i < end; ++i) {
      const Entry& entry = entries_[static_cast<size_t>(ids[i])];
      __builtin_prefetch(&heads_[entry.key]);
      if (entry.previous != NO_ROW) __builtin_prefetch(&entries_[entry.previous]);
      if (entry.next != NO_ROW) __builtin_prefetch(&entries_[entry.next]);
    }
    for (size_t i = begin; i < end; ++i) remove(static_cast<uint32_t>(ids[i]));
  }
  trim();
}

void LiveRows::trim() {
  ids_.trim();
  store_.trim(ids_.high());
  entries_.trim();
  heads_.trim();
}

// -- checking -------------------------------------------------------------------------------------

size_t LiveRows::nbytes() const {
  return sizeof *this + layout_.nbytes() + store_.nbytes() + ids_.nbytes() + entries_.nbytes() +
         heads_.nbytes();
}

void LiveRows::validate() const {
  const auto check = [](bool holds, const char* problem) {
    if (!holds) throw std::runtime_error(std::string("live rows: ") + problem);
  };
  ids_.validate();
  store_.validate([&](size_t id) { return ids_.live(id); });
  entries_.validate([&](size_t id) { return ids_.live(id); });
  heads_.validate([&](size_t key) { return heads_.get(key)->count > 0; });
  size_t linked = 0;
  for (size_t key = 0; key < heads_.high(); ++key) {
    const Head* head = heads_.get(key);
    if (head == nullptr || head->count == 0) continue;
    uint32_t previous = NO_ROW, count = 0;
    for (uint32_t id = head->first; id != NO_ROW; id = entries_[id].next, ++count) {
      check(count < head->count && ids_.live(id), "a chain leads to a row that is gone");
      const Entry& entry = entries_[id];
      check(entry.key == key, "a chain holds a row of another key");
      check(entry.previous == previous, "a chain's links disagree");
      check(entry.vs < entry.ve, "a row ends before it starts");
      previous = id;
    }
    check(count == head->count && previous == head->last, "a chain ends too early");
    linked += count;
  }
  check(linked == ids_.size(), "some rows are in no chain");
}

}  // namespace gapless

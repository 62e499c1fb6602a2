#include "row_store.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "hash.hpp"

namespace gapless {

namespace {
// Smaller arenas are not worth compacting.
constexpr size_t ARENA_BYTES_MIN = 256;
}  // namespace

RowStore::RowStore(const Layout& layout)
    : layout_(layout),
      key_words_(layout.data_words),
      stride_(layout.data_words + (layout.variables() > 0)) {}

RowStore::~RowStore() {
  for (Page*& page : pages_) free_page(page);
}

void RowStore::check(bool holds, const char* problem) {
  if (!holds) throw std::runtime_error(std::string("row store: ") + problem);
}

size_t RowStore::bytes_size(const uint64_t* row) const {
  size_t n = 0;
  for (uint32_t offset : layout_.length_offsets)
    n += load<uint32_t>(reinterpret_cast<const uint8_t*>(row) + offset);
  return n;
}

RowStore::Page* RowStore::new_page(size_t stride) const {
  Page* page = new (::operator new(page_bytes(stride))) Page;
  page->arena = nullptr;
  page->arena_used = page->arena_size = page->arena_dead = 0;
  page->live = 0;
  if (layout_.variables() > 0)
    for (size_t place = 0; place < PAGE_ROWS; ++place)
      words(page)[place * stride + stride - 1] = NOWHERE;
  return page;
}

void RowStore::free_page(Page*& page) noexcept {
  if (page == nullptr) return;
  bytes_held_ -= page_bytes(stride_) + page->arena_size;
  delete[] page->arena;
  ::operator delete(page);
  page = nullptr;
}

void RowStore::put(uint32_t id, uint32_t tag, const uint64_t* key, const Span* spans) {
  const size_t p = id / PAGE_ROWS, place = id % PAGE_ROWS;
  if (p >= pages_.size()) pages_.resize(p + 1, nullptr);
  size_t size = 0;
  for (size_t v = 0; v < layout_.variables(); ++v) size += spans[v].size;
  if (pages_[p] == nullptr) {
    pages_[p] = new_page(stride_);
    bytes_held_ += page_bytes(stride_);
  }
  Page& page = *pages_[p];
  if (page.arena_used + size > page.arena_size) {
    const size_t needed = page.arena_used + size;
    const size_t wanted = std::max(needed, page.arena_size + page.arena_size / 2);
    uint8_t* arena;
    try {
      arena = new uint8_t[wanted];
    } catch (...) {
      if (page.live == 0) free_page(pages_[p]);
      throw;
    }
    if (page.arena_used > 0) std::memcpy(arena, page.arena, page.arena_used);
    delete[] page.arena;
    page.arena = arena;
    bytes_held_ += wanted - page.arena_size;
    page.arena_size = wanted;
  }
  uint64_t* row = words(&page) + place * stride_;
  if (key_words_ == 2) {  // a time and one number, say: no call to copy them
    row[0] = key[0];
    row[1] = key[1];
  } else {
    std::memcpy(row, key, key_words_ * 8);
  }
  page.tags[place] = tag;
  ++page.live;
  if (layout_.variables() == 0) return;
  row[key_words_] = page.arena_used;
  for (size_t v = 0; v < layout_.variables(); ++v) {
    if (spans[v].size > 0)
      std::memcpy(page.arena + page.arena_used, spans[v].data, spans[v].size);
    page.arena_used += spans[v].size;
  }
}

void RowStore::drop(uint32_t id) noexcept {
  Page*& page = pages_[id / PAGE_ROWS];
  if (--page->live == 0) {
    free_page(page);
    return;
  }
  if (layout_.variables() == 0) return;
  uint64_t* row = words(page) + id % PAGE_ROWS * stride_;
  page->arena_dead += bytes_size(row);
  row[key_words_] = NOWHERE;
  if (page->arena_dead > ARENA_BYTES_MIN && page->arena_dead * 2 > page->arena_used) compact(*page);
}

// Where memory is so short that even the smaller arena cannot be had, the larger one stays.
void RowStore::compact(Page& page) noexcept {
  const size_t size = page.arena_used - page.arena_dead;
  uint8_t* arena = new (std::nothrow) uint8_t[size];
  if (arena == nullptr) return;
  size_t end = 0;
  for (size_t place = 0; place < PAGE_ROWS; ++place) {
    uint64_t* row = words(&page) + place * stride_;
    if (row[key_words_] == NOWHERE) continue;
    const size_t n = bytes_size(row);
    if (n > 0) std::memcpy(arena + end, page.arena + row[key_words_], n);
    row[key_words_] = end;
    end += n;
  }
  delete[] page.arena;
  bytes_held_ -= page.arena_size - size;
  page.arena = arena;
  page.arena_used = page.arena_size = size;
  page.arena_dead = 0;
}

void RowStore::trim(size_t high) {
  const size_t n = (high + PAGE_ROWS - 1) / PAGE_ROWS;
  if (n * 4 > pages_.capacity()) return;
  pages_.resize(n);
  pages_.shrink_to_fit();
}

void RowStore::add_null_words() {
  const size_t key_words = layout_.data_words + layout_.null_words;
  const size_t stride = stride_ + layout_.null_words;
  // All pages are made first, so that nothing has changed where memory runs out.
  std::vector<Page*> wider(pages_.size(), nullptr);
  try {
    for (size_t p = 0; p < pages_.size(); ++p)
      if (pages_[p] != nullptr) wider[p] = new_page(stride);
  } catch (...) {
    for (Page* page : wider) ::operator delete(page);
    throw;
  }
  for (size_t p = 0; p < pages_.size(); ++p) {
    if (pages_[p] == nullptr) continue;
    *wider[p] = *pages_[p];  // the header: tags, counts, and the arena, which only changes hands
    for (size_t place = 0; place < PAGE_ROWS; ++place) {
      const uint64_t* from = words(pages_[p]) + place * stride_;
      uint64_t* to = words(wider[p]) + place * stride;
      std::memcpy(to, from, key_words_ * 8);
      std::memset(to + key_words_, 0, layout_.null_words * 8);
      if (layout_.variables() > 0) to[key_words] = from[key_words_];
    }
    ::operator delete(pages_[p]);
    bytes_held_ += page_bytes(stride) - page_bytes(stride_);
  }
  pages_.swap(wider);
  key_words_ = key_words;
  stride_ = stride;
}

}  // namespace gapless

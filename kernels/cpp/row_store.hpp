// Rows by id, in pages of 256 that are freed when their last row goes.
//
//   directory   [page 0][page 1][  -   ][page 3]        id = page * 256 + place
//   page        tags[256] | 256 rows of `stride` words  + arena of its rows' variable bytes
//
// A page's arena is compacted when over half of it belongs to rows that are gone, so what is held
// stays in proportion to what is live, page by page, and nothing needs a collector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "layout.hpp"

namespace gapless {

// The bytes of one variable value, where they lie.
struct Span {
  const uint8_t* data;
  uint32_t size;
};

class RowStore {
 public:
  static constexpr size_t PAGE_ROWS = 256;

  explicit RowStore(const Layout& layout);
  ~RowStore();
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  // Words that decide equality: data words, and null words once a null was seen.
  size_t key_words() const { return key_words_; }
  bool has_null_words() const { return key_words_ > layout_.data_words; }

  const uint64_t* row(uint32_t id) const {
    const Page* page = pages_[id / PAGE_ROWS];
    return reinterpret_cast<const uint64_t*>(page + 1) + id % PAGE_ROWS * stride_;
  }
  uint32_t tag(uint32_t id) const { return pages_[id / PAGE_ROWS]->tags[id % PAGE_ROWS]; }

  // The row's variable bytes: all its values, one behind another.
  const uint8_t* bytes(uint32_t id) const {
    return pages_[id / PAGE_ROWS]->arena + row(id)[key_words_];
  }
  size_t bytes_size(const uint64_t* row) const;

  // Stores a row under an id that holds none. Changes nothing when it throws.
  void put(uint32_t id, uint32_t tag, const uint64_t* words, const Span* spans);
  // Forgets the row. Call `trim` when all that are to go are gone.
  void drop(uint32_t id) noexcept;
  // Shortens the directory to `high`, one above the largest id.
  void trim(size_t high);

  // Gives every row null words, all zero.
  void add_null_words();

  size_t nbytes() const { return bytes_held_ + pages_.capacity() * sizeof pages_[0]; }
  // Checks pages against `live(id)`.
  template <class Live>
  void validate(Live live) const {
    size_t held = 0;
    for (size_t p = 0; p < pages_.size(); ++p) held += validate_page(p, live);
    check(held == bytes_held_, "the count of held bytes is wrong");
  }

 private:
  struct Page {
    uint8_t* arena;
    size_t arena_used, arena_size, arena_dead;
    uint32_t live;
    uint32_t tags[PAGE_ROWS];
  };
  // Stands for "no row here" in the arena word.
  static constexpr uint64_t NOWHERE = ~uint64_t{0};

  static void check(bool holds, const char* problem);
  size_t page_bytes(size_t stride) const { return sizeof(Page) + PAGE_ROWS * stride * 8; }
  uint64_t* words(Page* page) const { return reinterpret_cast<uint64_t*>(page + 1); }
  Page* new_page(size_t stride) const;
  void free_page(Page*& page) noexcept;
  void compact(Page& page) noexcept;
  template <class Live>
  size_t validate_page(size_t p, Live live) const {
    Page* page = pages_[p];
    size_t rows = 0, bytes = 0;
    for (size_t place = 0; place < PAGE_ROWS; ++place) {
      const bool is_live = live(p * PAGE_ROWS + place);
      check(page != nullptr || !is_live, "a live row has no page");
      rows += is_live;
      if (page == nullptr || layout_.variables() == 0) continue;
      const uint64_t* row = words(page) + place * stride_;
      check(is_live == (row[key_words_] != NOWHERE), "a dead row still has bytes, or a live none");
      if (!is_live) continue;
      const size_t size = bytes_size(row);
      check(row[key_words_] + size <= page->arena_used, "a row's bytes lie outside its arena");
      bytes += size;
    }
    if (page == nullptr) return 0;
    check(rows == page->live && rows > 0, "a page's count of live rows is wrong");
    check(bytes + page->arena_dead == page->arena_used, "an arena's count of dead bytes is wrong");
    check(page->arena_used <= page->arena_size, "an arena is overfull");
    return page_bytes(stride_) + page->arena_size;
  }

  const Layout& layout_;
  std::vector<Page*> pages_;
  size_t key_words_;
  size_t stride_;
  size_t bytes_held_ = 0;
};

}  // namespace gapless

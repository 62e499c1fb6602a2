// Rows -> dense, recycled ids: hash slots, a pool of ids and a store of rows, kept in step.
//
// A lookup runs over blocks of rows in four passes, each a plain loop whose cache misses overlap:
//
//   encode and hash | fetch the slots | find a candidate by tag, fetch its row | compare
//
// and only rows without an equal candidate take the slow way. No method locks or knows of Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arrow_abi.hpp"
#include "batch.hpp"
#include "id_pool.hpp"
#include "layout.hpp"
#include "row_store.hpp"
#include "slots.hpp"

namespace gapless {

class KeyTable {
 public:
  explicit KeyTable(const ArrowSchema& schema) : layout_(schema), store_(layout_) {}

  // The id of each row; new ids, marked in `first_seen`, for rows that have none. Changes nothing
  // when it throws. With `times`, rows whose time lies below `since` get no new id but -1.
  void intern(const ArrowArray& batch, int64_t* ids, bool* first_seen,
              const int64_t* times = nullptr, int64_t since = 0);
  // The id of each row, or -1.
  void find(const ArrowArray& batch, int64_t* ids);
  // Forgets rows. Throws, and changes nothing, where an id is not live or comes twice.
  void release(const int64_t* ids, size_t count);
  // The rows of live ids; dictionary columns as plain values.
  void rows(const int64_t* ids, size_t count, ArrowArray& out) const;

  size_t size() const { return ids_.size(); }
  size_t capacity() const { return ids_.high(); }
  size_t nbytes() const;
  void validate() const;

 private:
  static constexpr int64_t ABSENT = -1;

  template <class Words, class Missing>
  void look_up(const Block& block, Words words, int64_t* ids, Missing missing);
  template <class Missing>
  void look_up_blocks(const ArrowArray& array, int64_t* ids, Missing missing);
  template <class Words>
  bool equal(uint32_t id, const Block& block, size_t i, Words words) const;
  uint32_t add(const Block& block, size_t i, size_t at);
  void remove(uint32_t id) noexcept;
  void trim();
  std::vector<Span> spans_of(uint32_t id) const;

  const Layout layout_;
  RowStore store_;
  Slots slots_;
  IdPool ids_;
};

}  // namespace gapless

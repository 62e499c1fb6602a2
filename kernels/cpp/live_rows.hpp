// Rows with a key and a lifetime each: one side of a temporal join.
//
//   ids_       which ids are in use, lowest first
//   store_     the rows themselves, by id
//   entries_   id -> key, [vs, ve), next and previous row of the key
//   heads_     key -> first and last row
//
// "Which stored rows have this key and are alive at some time in [vs, ve)?" is a walk along one
// chain, and every link has what decides it in one cache line. Keys are ids of a KeyTable. A chain
// keeps the order in which its rows came. Two equal rows are two: nothing is hashed here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arrow_abi.hpp"
#include "batch.hpp"
#include "id_pool.hpp"
#include "layout.hpp"
#include "paged.hpp"
#include "row_store.hpp"

namespace gapless {

// Keys and lifetimes of so many rows, column by column.
struct Lives {
  const int64_t *keys, *vs, *ve;
  size_t count;
};

// Stored rows that were found: for which of the rows that asked, and with which lifetime.
struct Met {
  std::vector<int64_t> asked, id, vs, ve;
};

class LiveRows {
 public:
  explicit LiveRows(const ArrowSchema& schema) : layout_(schema), store_(layout_) {}

  // Stores the rows of a batch that end at `since` or later; ids of the rows, -1 where a row was not
  // stored. Throws, and changes nothing, where a key is none or a row does not end after it starts.
  void add(const ArrowArray& batch, const Lives& rows, int64_t since, int64_t* ids);
  // Stored rows of the same key whose lifetime has an instant in common with that of rows[from]
  // and those after it. Stops behind the row with which there are `most` or more, and says where.
  size_t meet(const Lives& rows, size_t from, size_t most, Met& met) const;
  // The same for stored rows of the same key that have exactly the same lifetime.
  size_t equals(const Lives& rows, size_t from, size_t most, Met& met) const;
  // The keys and lifetimes of live ids. Throws where one is not.
  void lives(const int64_t* ids, size_t count, int64_t* keys, int64_t* vs, int64_t* ve) const;
  // Lets live rows end at other times, after they start. Throws, and changes nothing, where not.
  void set_ends(const int64_t* ids, const int64_t* ve, size_t count);
  // The rows of live ids; dictionary columns as plain values.
  void rows(const int64_t* ids, size_t count, ArrowArray& out) const;
  // Forgets rows. Throws, and changes nothing, where an id is not live or comes twice.
  void release(const int64_t* ids, size_t count);

  size_t size() const { return ids_.size(); }
  size_t capacity() const { return ids_.high(); }
  bool live(size_t id) const { return ids_.live(id); }
  size_t nbytes() const;
  void validate() const;

 private:
  static constexpr uint32_t NO_ROW = 0xffffffff;

  struct Head {
    uint32_t first, last, count;
  };
  struct Entry {
    int64_t vs, ve;
    uint32_t key, next, previous;
  };

  const Head* head_of(int64_t key) const {
    return key < 0 ? nullptr : heads_.get(static_cast<size_t>(key));
  }
  void fetch(const int64_t* keys, size_t count) const;
  template <class IsIt>
  size_t look(const Lives& rows, size_t from, size_t most, Met& met, IsIt is_it) const;
  uint32_t put(const Block& block, size_t i, const Lives& rows, size_t row);
  void link(uint32_t id, const Lives& rows, size_t row) noexcept;
  void remove(uint32_t id) noexcept;
  void trim();
  uint32_t checked(const char* call, int64_t id) const;

  const Layout layout_;
  RowStore store_;
  IdPool ids_;
  Paged<Entry> entries_;
  Paged<Head> heads_;
};

}  // namespace gapless

// Rows linked by id, for joins: "which stored rows have this id?"
//
//   heads[id]   first, last, count
//   entries     row, id, next, previous      dense and recycled, in pages
//   index       row -> its entry             for remove, in any order
//
// Rows may be any int64 numbers, growing for ever if need be; ids come from a KeyTable. A chain
// keeps the order in which its rows were added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "id_pool.hpp"
#include "paged.hpp"
#include "slots.hpp"

namespace gapless {

// Matching pairs: position in the probed ids, stored row.
struct Pairs {
  std::vector<int64_t> probe, stored;
};

class Chains {
 public:
  // Stores each row at the end of its id's chain. Throws, and changes nothing, where an id is
  // negative or too large, or a row is stored already or comes twice.
  void add(const int64_t* ids, const int64_t* rows, size_t count);
  // All pairs, in probe order, within one id in the order of `add`. Ids without rows give none.
  Pairs probe(const int64_t* ids, size_t count) const;
  // Forgets rows. Throws, and changes nothing, where one is not stored or comes twice.
  void remove(const int64_t* rows, size_t count);

  size_t size() const { return used_.size(); }
  size_t nbytes() const;
  void validate() const;

 private:
  struct Head {
    uint32_t first, last, count;
  };
  struct Entry {
    int64_t row;
    uint32_t id, next, previous;
  };

  const Head* head_of(int64_t id) const;
  uint32_t entry_of(int64_t row, uint32_t tag) const;
  void fetch(const int64_t* rows, size_t count, uint32_t* tags) const;
  void append(int64_t id, int64_t row, uint32_t tag);
  void unlink(uint32_t entry) noexcept;
  void trim();

  Paged<Head> heads_;
  Paged<Entry> entries_;
  IdPool used_;   // entries in use
  Slots index_;
};

}  // namespace gapless

// Reads an Arrow batch as rows of a layout, a block at a time.
//
// A batch may start anywhere in its buffers (slices), its bitmaps at any bit, its values at any
// address (bodies of IPC messages are not always aligned); it may lack validity bitmaps, and what
// lies under a null may be anything. What comes out is canonical (see layout.hpp).
//
// The offsets of plain strings are trusted as far as memory goes, for the C data interface does
// not say how long a buffer is: a batch from outside is validated before it gets here. Dictionary
// indices, views, lengths and where lists end, which can be checked, are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "arrow_abi.hpp"
#include "hash.hpp"
#include "layout.hpp"
#include "row_store.hpp"

namespace gapless {

// Rows that are encoded, hashed and looked up together: they and their slots fit the L1 cache.
constexpr size_t BLOCK_ROWS = 256;

// One block of encoded rows; its spans hold until the batch encodes the next one.
struct Block {
  size_t rows = 0;
  std::unique_ptr<uint64_t[]> words;  // row i starts at i * key_words
  std::unique_ptr<Span[]> spans;      // row i starts at i * variables
  std::unique_ptr<uint32_t[]> tags;

  Block(size_t key_words, size_t variables, size_t rows_max);
};

class Batch {
 public:
  Batch(const Layout& layout, const ArrowArray& array);

  size_t rows() const { return rows_; }
  // Whether any value is null, so that rows need null words.
  bool any_null() const { return any_null_; }

  // Encodes rows [begin, begin + count), and hashes them unless told not to; throws where a value
  // cannot be read.
  void encode(size_t begin, size_t count, size_t key_words, Block& out, bool hashed = true);

 private:
  struct Column {
    const Node* node;
    const ArrowArray* values;    // the array, or the dictionary behind its indices
    size_t first;                // of `values`, the position of row 0 (0 in a dictionary)
    const ArrowArray* indices;   // null where the column is no dictionary
    size_t first_index;
    const uint8_t* validity;     // of the rows; null where all are valid
    size_t first_bit;
    bool masked;                 // some row is null here or in a struct above
    std::vector<uint8_t> mask;   // this block's rows: 1 where not null here or above
    std::vector<size_t> positions;  // this block's positions in the dictionary
    std::vector<uint8_t> lists;     // this block's lists as bytes, which spans point to
  };

  void open(size_t node, const ArrowArray& array, size_t first);
  void look_up(Column& column, size_t begin, size_t count);
  void fill_mask(Column& column, size_t begin, size_t count);
  void write_nulls(const Column& column, size_t node, size_t count, size_t key_words, Block& out);
  void write_values(const Column& column, size_t begin, size_t count, size_t key_words,
                    Block& out);
  void write_spans(const Column& column, size_t begin, size_t count, size_t key_words, Block& out);
  void write_lists(Column& column, size_t begin, size_t count, size_t key_words, Block& out);
  void hash(size_t key_words, Block& out) const;

  const Layout& layout_;
  std::vector<Column> columns_;
  size_t rows_;
  bool any_null_ = false;
};

// The hash of a row whose spans are given; the same with and without null words that are zero.
uint32_t row_tag(const Layout& layout, const uint64_t* row, size_t key_words, const Span* spans,
                 const Seeds& seed);

}  // namespace gapless

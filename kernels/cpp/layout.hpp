// How a row of a schema is laid out in 64-bit words.
//
//   | data words                          | null words (once a null was seen) | arena word |
//   | 16- and 8-byte values, 4, 2, 1, pad | one bit a node                    | where the  |
//   | a 4-byte length per variable value  |                                   | bytes are  |
//
// Two rows are equal exactly when their data and null words are and, where the schema has columns
// of variable length, their bytes are. To make that so, what is stored is canonical: one NaN, one
// zero, zeros under a null, zeros in the padding. Values of variable length, and fixed-size binary
// wider than WIDE_BYTES_MIN, lie one behind another in the arena of their page.
//
// A schema is a flat list of nodes in pre-order: a struct comes before its fields. A dictionary
// column is laid out as its values. A list is a value of variable length, whose bytes are its
// elements one behind another (see lists.hpp), so what is in it has no nodes of its own here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "arrow_abi.hpp"

namespace gapless {

// Fixed-size binary above this goes to the arena, so that words a row stay few.
constexpr uint32_t WIDE_BYTES_MIN = 32;

enum class Kind : uint8_t {
  fixed,      // `width` bytes as they are
  boolean,    // one bit in Arrow, one byte here
  float16, float32, float64,
  text32, text64,  // 32- or 64-bit offsets and bytes
  view,       // Arrow's string view and binary view
  wide,       // fixed-size binary that lives in the arena
  structure,
  list,       // 32-bit offsets and elements; its bytes lie in the arena
};

constexpr int NO_NODE = -1;

struct Node {
  Kind kind;
  int parent;              // the struct that this is a field of, or NO_NODE
  int dictionary_bits;     // width of the index type; 0 where the column is no dictionary
  bool dictionary_signed;
  uint32_t width;          // bytes of the Arrow value
  uint32_t offset;         // byte in the row: of the value, or of its 4-byte length
  uint32_t variable;       // which of the row's variable values this is
  std::string path;        // a.b for field b of column a, a.item for what is in a list
  std::vector<Node> items;  // of a list: its element; of a struct in a list: its fields

  bool is_variable() const {
    return kind == Kind::text32 || kind == Kind::text64 || kind == Kind::view ||
           kind == Kind::wide || kind == Kind::list;
  }
  size_t nbytes() const;
};

struct Layout {
  std::vector<Node> nodes;
  std::vector<uint32_t> length_offsets;  // of each variable value, in row order
  size_t data_words = 1;
  size_t null_words = 1;  // how many there are once a null was seen
  bool padded = false;    // some data bytes belong to no value

  explicit Layout(const ArrowSchema& schema);

  size_t variables() const { return length_offsets.size(); }
  size_t nbytes() const;
};

}  // namespace gapless

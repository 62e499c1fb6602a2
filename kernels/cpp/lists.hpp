// A list as bytes that are equal exactly when the lists are, and back.
//
//   list     how many elements there are (4 bytes), then the elements
//   element  0 where it is null; else 1, and then
//              of a fixed width: the value, canonical (see layout.hpp); a bool is a byte
//              text and binary:  4 bytes of length, then the bytes
//              a struct:         its fields, each as an element is
//              a list:           as above
//
// So a list of no elements is 4 bytes, and a null one, of which the row's null word knows, none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "arrow_abi.hpp"
#include "layout.hpp"

namespace gapless {

// Appends the list that `array` holds at `at`, which counts from the beginning of its buffers.
void encode_list(const Node& list, const ArrowArray& array, size_t at, std::vector<uint8_t>& out);

// Throws unless `array`, and what is below it, has the buffers and children of the node.
void check_list(const Node& list, const ArrowArray& array);

// Gathers the elements of lists, to be handed over as the one child of their column.
class Elements {
 public:
  explicit Elements(const Node& node);

  // The next element, whose bytes begin at `from`; where they end.
  const uint8_t* append(const uint8_t* from);
  // The elements of the list whose bytes begin at `from`; where they end.
  const uint8_t* append_list(const uint8_t* from);
  size_t size() const { return rows_; }
  void hand_over(ArrowArray& out);

 private:
  void append_null();
  void append_offset(size_t end);

  const Node& node_;
  size_t rows_ = 0, nulls_ = 0;
  std::vector<uint8_t> validity_;  // one bit a row
  std::vector<uint8_t> offsets_;   // of text, binary and lists
  std::vector<uint8_t> data_;
  std::vector<Elements> children_;
};

}  // namespace gapless

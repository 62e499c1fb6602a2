// Values in Arrow's buffers: where they lie, whether they are there, and the one form of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "arrow_abi.hpp"
#include "hash.hpp"
#include "layout.hpp"
#include "row_store.hpp"

namespace gapless {

[[noreturn]] inline void bad(const Node& node, const std::string& problem) {
  throw std::invalid_argument("column '" + node.path + "': " + problem);
}

inline bool bit(const uint8_t* bits, size_t at) { return bits[at / 8] >> (at % 8) & 1; }

inline const uint8_t* buffer(const ArrowArray& array, int64_t i) {
  return static_cast<const uint8_t*>(array.buffers[i]);
}

// The validity bitmap, or null where the array says that nothing is null.
inline const uint8_t* validity_of(const ArrowArray& array) {
  return array.null_count == 0 ? nullptr : buffer(array, 0);
}

inline uint16_t canonical(uint16_t half) {
  const unsigned magnitude = half & 0x7fffu;
  if (magnitude > 0x7c00u) return 0x7e00u;
  return magnitude == 0 ? uint16_t{0} : half;
}
inline uint32_t canonical(uint32_t single) {
  const uint32_t magnitude = single & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fc00000u;
  return magnitude == 0 ? 0 : single;
}
inline uint64_t canonical(uint64_t number) {
  const uint64_t magnitude = number & 0x7fffffffffffffffu;
  if (magnitude > 0x7ff0000000000000u) return 0x7ff8000000000000u;
  return magnitude == 0 ? 0 : number;
}

template <class Offset>
Span text_at(const Node& node, const ArrowArray& array, size_t at) {
  const uint8_t* offsets = buffer(array, 1);
  const auto begin = load<Offset>(offsets + at * sizeof(Offset));
  const auto end = load<Offset>(offsets + (at + 1) * sizeof(Offset));
  if (begin < 0 || end < begin) bad(node, "string offsets that run backwards");
  if (static_cast<uint64_t>(end - begin) > UINT32_MAX) bad(node, "a value of more than 4 GB");
  return {buffer(array, 2) + begin, static_cast<uint32_t>(end - begin)};
}

}  // namespace gapless

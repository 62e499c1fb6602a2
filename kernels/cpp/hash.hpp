// Hashing: fold a 64 x 64 -> 128 bit product, after wyhash.
//
// The seeds are drawn once a process. Without them, an author of keys could choose ones
// that all collide and turn every lookup into a walk. Ids never depend on a hash, so nothing that
// a caller can see differs from one process to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

namespace gapless {

__extension__ typedef unsigned __int128 uint128;

struct Seeds {
  uint64_t a, b, c, d;
};

inline const Seeds& seeds() {
  static const Seeds drawn = [] {
    std::random_device device;
    auto odd = [&] { return (uint64_t{device()} << 32 | device()) | 1; };
    return Seeds{odd(), odd(), odd(), odd()};
  }();
  return drawn;
}

template <class T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline uint64_t fold(uint64_t x, uint64_t y) {
  const uint128 product = uint128{x} * y;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_bytes(const uint8_t* data, size_t size, const Seeds& seed) {
  uint64_t state = seed.c, x = 0, y = 0;
  if (size > 16) {
    const uint8_t* const last = data + size - 16;
    for (; data < last; data += 16)
      state = fold(load<uint64_t>(data) ^ seed.a, load<uint64_t>(data + 8) ^ state);
    x = load<uint64_t>(last);
    y = load<uint64_t>(last + 8);
  } else if (size >= 8) {
    x = load<uint64_t>(data);
    y = load<uint64_t>(data + size - 8);
  } else if (size >= 4) {
    x = load<uint32_t>(data);
    y = load<uint32_t>(data + size - 4);
  } else if (size > 0) {
    x = uint64_t{data[0]} << 16 | uint64_t{data[size / 2]} << 8 | data[size - 1];
  }
  return fold(seed.d ^ size, fold(x ^ seed.a, y ^ state));
}

// `words` is a constant where the caller knows it, and the loop unrolls.
inline uint64_t hash_words(const uint64_t* row, size_t words, const Seeds& seed) {
  uint64_t state = seed.b;
  size_t i = 0;
  for (; i + 1 < words; i += 2) state = fold(row[i] ^ seed.a, row[i + 1] ^ state);
  if (i < words) state = fold(row[i] ^ seed.a, state);
  return state;
}

// The 32 bits that the hash table works with: its high bits choose the slot.
inline uint32_t tag_of(uint64_t hash, const Seeds& seed) {
  return static_cast<uint32_t>((hash * seed.c) >> 32);
}

}  // namespace gapless

#include "scatter.hpp"

#include <stdexcept>
#include <string>
#include <type_traits>

#include "hash.hpp"  // uint128

namespace gapless {
namespace {

__extension__ typedef __int128 int128;

void check_ids(const char* call, const Targets& to) {
  // An id that is negative or too large makes the sign bit of one of the two.
  const auto last = static_cast<uint64_t>(to.room) - 1;
  uint64_t differences = 0;
  for (size_t i = 0; i < to.count; ++i) {
    const auto id = static_cast<uint64_t>(to.ids[i]);
    differences |= (last - id) | id;
  }
  if (to.count > 0 && (to.room == 0 || differences >> 63 != 0))
    throw std::invalid_argument(std::string(call) + ": an id has no place");
}

template <class T>
int64_t key_of(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    const double x = static_cast<double>(value) + 0.0;  // -0.0 + 0.0 is 0.0
    const int64_t bits = x != x ? INT64_C(0x7FF8000000000000) : std::bit_cast<int64_t>(x);
    return bits ^ ((bits >> 63) & INT64_MAX);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return static_cast<int64_t>(value ^ (uint64_t{1} << 63));
  } else {
    return static_cast<int64_t>(value);
  }
}

template <class T>
int64_t wrapped(T value) {
  return static_cast<int64_t>(static_cast<uint64_t>(value));
}

// Takes back rows [0, end): sums that wrap lose nothing.
template <class Undo>
bool taken_back(size_t end, Undo undo) {
  for (size_t i = end; i-- > 0;) undo(i);
  return false;
}

void add_words(int64_t* wide, size_t room, size_t id, uint64_t low, uint64_t middle,
               uint64_t high) {
  auto& word0 = wide[id];
  auto& word1 = wide[room + id];
  auto& word2 = wide[2 * room + id];
  const uint128 sum0 = uint128{static_cast<uint64_t>(word0)} + low;
  const uint128 sum1 = uint128{static_cast<uint64_t>(word1)} + middle + (sum0 >> 64);
  word0 = static_cast<int64_t>(static_cast<uint64_t>(sum0));
  word1 = static_cast<int64_t>(static_cast<uint64_t>(sum1));
  word2 = static_cast<int64_t>(static_cast<uint64_t>(word2) + high +
                               static_cast<uint64_t>(sum1 >> 64));
}

}  // namespace

void count_at(int64_t* acc, const Targets& to) {
  check_ids("count_at", to);
  for (size_t i = 0; i < to.count; ++i) ++acc[to.ids[i]];
}

template <class T>
bool add_at(int64_t* acc, const Targets& to, const T* values, bool subtract) {
  check_ids("add_at", to);
  if (subtract) {
    for (size_t i = 0; i < to.count; ++i) {
      int64_t& sum = acc[to.ids[i]];
      int64_t result;
      if (__builtin_sub_overflow(sum, values[i], &result)) [[unlikely]]
        return taken_back(i, [&](size_t j) {
          int64_t& at = acc[to.ids[j]];
          at = wrapped(static_cast<uint64_t>(at) + static_cast<uint64_t>(values[j]));
        });
      sum = result;
    }
    return true;
  }
  for (size_t i = 0; i < to.count; ++i) {
    int64_t& sum = acc[to.ids[i]];
    int64_t result;
    if (__builtin_add_overflow(sum, values[i], &result)) [[unlikely]]
      return taken_back(i, [&](size_t j) {
        int64_t& at = acc[to.ids[j]];
        at = wrapped(static_cast<uint64_t>(at) - static_cast<uint64_t>(values[j]));
      });
    sum = result;
  }
  return true;
}

template <class T>
void add_floats_at(double* acc, const Targets& to, const T* values, bool subtract) {
  check_ids("add_at", to);
  if (subtract) {
    for (size_t i = 0; i < to.count; ++i) acc[to.ids[i]] -= static_cast<double>(values[i]);
  } else {
    for (size_t i = 0; i < to.count; ++i) acc[to.ids[i]] += static_cast<double>(values[i]);
  }
}

template <class T>
bool square_at(int64_t* acc, const Targets& to, const T* values) {
  check_ids("square_at", to);
  for (size_t i = 0; i < to.count; ++i) {
    int64_t& sum = acc[to.ids[i]];
    int64_t square, result;
    if (__builtin_mul_overflow(values[i], values[i], &square) ||
        __builtin_add_overflow(sum, square, &result)) [[unlikely]]
      return taken_back(i, [&](size_t j) {
        int64_t& at = acc[to.ids[j]];
        const auto v = static_cast<uint64_t>(values[j]);
        at = wrapped(static_cast<uint64_t>(at) - v * v);
      });
    sum = result;
  }
  return true;
}

template <class T>
void add_wide_at(int64_t* wide, const Targets& to, const T* values, bool squared) {
  check_ids("add_wide_at", to);
  for (size_t i = 0; i < to.count; ++i) {
    const auto id = static_cast<size_t>(to.ids[i]);
    const T v = values[i];
    if (squared) {
      const uint64_t size = v < 0 ? uint64_t{0} - static_cast<uint64_t>(v)
                                  : static_cast<uint64_t>(v);
      const uint128 square = uint128{size} * size;
      add_words(wide, to.room, id, static_cast<uint64_t>(square),
                static_cast<uint64_t>(square >> 64), 0);
    } else {
      const uint64_t sign = v < 0 ? ~uint64_t{0} : 0;
      add_words(wide, to.room, id, static_cast<uint64_t>(v), sign, sign);
    }
  }
}

void merge_wide_at(int64_t* wide, const Targets& to, const int64_t* other, bool subtract) {
  check_ids("merge_wide_at", to);
  for (size_t i = 0; i < to.count; ++i) {
    const auto id = static_cast<size_t>(to.ids[i]);
    auto low = static_cast<uint64_t>(other[i]);
    auto middle = static_cast<uint64_t>(other[to.count + i]);
    auto high = static_cast<uint64_t>(other[2 * to.count + i]);
    if (subtract) {  // -x is ~x + 1
      low = ~low + 1;
      middle = ~middle + (low == 0);
      high = ~high + (low == 0 && middle == 0);
    }
    add_words(wide, to.room, id, low, middle, high);
  }
}

template <class T>
bool min_at(int64_t* acc, const Targets& to, const T* values) {
  check_ids("min_at", to);
  bool none = false;
  for (size_t i = 0; i < to.count; ++i) {
    const int64_t key = key_of(values[i]);
    int64_t& kept = acc[to.ids[i]];
    none |= key == INT64_MAX;
    if (key < kept) kept = key;
  }
  return none;
}

template <class T>
bool max_at(int64_t* acc, const Targets& to, const T* values) {
  check_ids("max_at", to);
  bool none = false;
  for (size_t i = 0; i < to.count; ++i) {
    const int64_t key = key_of(values[i]);
    int64_t& kept = acc[to.ids[i]];
    none |= key == INT64_MIN;
    if (key > kept) kept = key;
  }
  return none;
}

template <class T>
void first_at(int64_t* times, int64_t* keys, const Targets& to, const int64_t* when,
              const T* values) {
  check_ids("first_at", to);
  for (size_t i = 0; i < to.count; ++i) {
    const int64_t id = to.ids[i], t = when[i], key = key_of(values[i]);
    if (t > times[id] || (t == times[id] && key >= keys[id])) continue;
    times[id] = t;
    keys[id] = key;
  }
}

template <class T>
void last_at(int64_t* times, int64_t* keys, const Targets& to, const int64_t* when,
             const T* values) {
  check_ids("last_at", to);
  for (size_t i = 0; i < to.count; ++i) {
    const int64_t id = to.ids[i], t = when[i], key = key_of(values[i]);
    if (t < times[id] || (t == times[id] && key <= keys[id])) continue;
    times[id] = t;
    keys[id] = key;
  }
}

#define GAPLESS_ORDERED(T)                                                                \
  template bool min_at<T>(int64_t*, const Targets&, const T*);                            \
  template bool max_at<T>(int64_t*, const Targets&, const T*);                            \
  template void first_at<T>(int64_t*, int64_t*, const Targets&, const int64_t*, const T*); \
  template void last_at<T>(int64_t*, int64_t*, const Targets&, const int64_t*, const T*)
#define GAPLESS_INTEGER(T)                                               \
  template bool add_at<T>(int64_t*, const Targets&, const T*, bool);     \
  template bool square_at<T>(int64_t*, const Targets&, const T*);        \
  template void add_wide_at<T>(int64_t*, const Targets&, const T*, bool); \
  GAPLESS_ORDERED(T)
#define GAPLESS_FLOAT(T)                                                       \
  template void add_floats_at<T>(double*, const Targets&, const T*, bool);     \
  GAPLESS_ORDERED(T)

GAPLESS_INTEGER(int8_t);
GAPLESS_INTEGER(int16_t);
GAPLESS_INTEGER(int32_t);
GAPLESS_INTEGER(int64_t);
GAPLESS_INTEGER(uint8_t);
GAPLESS_INTEGER(uint16_t);
GAPLESS_INTEGER(uint32_t);
GAPLESS_INTEGER(uint64_t);
GAPLESS_FLOAT(float);
GAPLESS_FLOAT(double);

}  // namespace gapless

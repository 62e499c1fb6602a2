// Scatters: arrays of state by id, to which a call adds what many rows say. Ids may repeat.
//
//          ids  0  2  0  1          count_at        acc  2  1  1
//       values  5  7 -1  4          add_at               4  4  7
//
// Values are of any integer type, float or double, as they lie in their Arrow column. Every id is
// checked against the state before anything is written.
//
// Sums of integers are exact. Where an int64 does not hold one, if only on the way, `add_at` and
// `square_at` take back what they did and say false: the caller continues with sums of three words,
// for what overflows on the way depends on the order of the rows, which must not show.
//
// Smallest and largest are kept as keys, ordered as the values are: of floats NaN is above all and
// -0.0 is 0.0, of uint64 the highest bit is turned over.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace gapless {

constexpr size_t WIDE_WORDS = 3;

// Whose rows go where.
struct Targets {
  const int64_t* ids;
  size_t count;
  size_t room;  // every id is below
};

void count_at(int64_t* acc, const Targets& to);

template <class T>
bool add_at(int64_t* acc, const Targets& to, const T* values, bool subtract);

template <class T>
void add_floats_at(double* acc, const Targets& to, const T* values, bool subtract);

template <class T>
bool square_at(int64_t* acc, const Targets& to, const T* values);

// `wide` has WIDE_WORDS rows of `to.room` words, the lowest first; beyond 192 bits sums wrap.
template <class T>
void add_wide_at(int64_t* wide, const Targets& to, const T* values, bool squared);

// `other` has WIDE_WORDS rows of `to.count` words.
void merge_wide_at(int64_t* wide, const Targets& to, const int64_t* other, bool subtract);

// Whether some value has the key INT64_MAX (of max_at: INT64_MIN), which stands for none.
template <class T>
bool min_at(int64_t* acc, const Targets& to, const T* values);
template <class T>
bool max_at(int64_t* acc, const Targets& to, const T* values);

template <class T>
void first_at(int64_t* times, int64_t* keys, const Targets& to, const int64_t* when,
              const T* values);
template <class T>
void last_at(int64_t* times, int64_t* keys, const Targets& to, const int64_t* when,
             const T* values);

}  // namespace gapless

// When events end, by whom: a table with a column for each key's id and a row for each teller.
//
//             id   0    1    2
//   row 0  starts  6    7   INF      an end equal to the start says "no such event";
//   row 1  output 20   14   INF      a free id holds INF everywhere
//   row 2  input  30    7   INF
//   row 3  input  25   14   INF
//
// Element by element, as the paper's Algorithm R3 has it, so that a key that comes several times in
// one frame needs no care. Every id is checked against the table before anything is written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gapless {

constexpr int64_t TIME_BEGIN = INT64_MIN, TIME_INF = INT64_MAX;

struct EndsTable {
  int64_t* at;
  size_t rows, room;

  int64_t* operator[](size_t row) const { return at + row * room; }
};

// What one input says, row by row. `was` is TIME_BEGIN in an insert; id -1 is of a key that is
// settled.
struct Told {
  const int64_t* ids;
  const bool* first;
  const int64_t *vs, *ve, *was;
  size_t count;
};

// What may go out on arrival.
struct Leave {
  int64_t stable;   // inserts that start below it never go out, nor adjusts that touch it
  size_t quorum;    // so many inputs hold an event before it goes out; 0: no insert goes out
  bool adjusts;
};

// What came of it. The arrays are the caller's, as long as `Told`.
struct Taken {
  int64_t *chosen;   // rows that go out,
  int64_t *was;      // and the end that the output had: TIME_BEGIN where it had no event
  int64_t *settled;  // rows of settled keys
  size_t chosen_count = 0, settled_count = 0;
  size_t bad = 0;    // the first row that does not fit what its input has said, or `Told::count`
  int64_t held = 0;  // and the end that its input has
};

// Writes what is told to the row of its input, and to the output's what goes out. Where a row is
// bad nothing has changed afterwards.
void take_ends(const EndsTable& ends, size_t mine, const Told& told, const Leave& leave,
               Taken& taken);

// What a stable t of the input in row `mine` finds, over the ids below `count`.
struct Swept {
  int64_t *wrong;  // ids whose ends differ so that t would freeze the output wrong
  int64_t *gone;   // ids that t settles, once what can be put right has been
  size_t wrong_count = 0, gone_count = 0;
  bool contested = false;  // another input has told some of `gone` otherwise
};

// `stable` is the output's old one: no end below it can be put right. `follow`: the output also
// follows ends that t does not freeze, where both have the event and may still change it.
void sweep_ends(const EndsTable& ends, size_t count, size_t mine, int64_t t, int64_t stable,
                bool follow, Swept& swept);

// Sets whole columns to TIME_INF.
void clear_ends(const EndsTable& ends, const int64_t* ids, size_t count);

}  // namespace gapless

#include "ends.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace gapless {
namespace {

constexpr size_t STARTS = 0, OUTPUT = 1, INPUTS = 2;

void check_ids(const char* call, const EndsTable& ends, const int64_t* ids, size_t count,
               int64_t least) {
  const auto room = static_cast<int64_t>(ends.room);
  bool good = true;
  for (size_t i = 0; i < count; ++i) good &= ids[i] >= least && ids[i] < room;
  if (!good) throw std::invalid_argument(std::string(call) + ": an id has no column");
}

void check_input(const char* call, const EndsTable& ends, size_t row) {
  if (row < INPUTS || row >= ends.rows)
    throw std::invalid_argument(std::string(call) + ": row " + std::to_string(row) +
                                " is not an input's");
}

void set(const EndsTable& ends, size_t id, int64_t value) {
  for (size_t row = 0; row < ends.rows; ++row) ends[row][id] = value;
}

size_t holders(const EndsTable& ends, size_t mine, size_t id, int64_t vs) {
  size_t n = 1;
  for (size_t row = INPUTS; row < ends.rows; ++row) n += row != mine && ends[row][id] != vs;
  return n;
}

// Takes back rows [0, end), the last first. A good row found what it says that it found.
void undo(const EndsTable& ends, size_t mine, const Told& told, size_t end, const Taken& taken) {
  size_t chosen = taken.chosen_count;
  for (size_t i = end; i-- > 0;) {
    if (told.ids[i] < 0) continue;
    const auto id = static_cast<size_t>(told.ids[i]);
    const bool went_out = chosen > 0 && taken.chosen[chosen - 1] == static_cast<int64_t>(i);
    if (went_out) {
      --chosen;
      ends[OUTPUT][id] = taken.was[chosen] == TIME_BEGIN ? told.vs[i] : taken.was[chosen];
    }
    ends[mine][id] = told.was[i] == TIME_BEGIN ? told.vs[i] : told.was[i];
    if (told.first[i]) set(ends, id, TIME_INF);
  }
}

}  // namespace

void take_ends(const EndsTable& ends, size_t mine, const Told& told, const Leave& leave,
               Taken& taken) {
  check_input("take", ends, mine);
  check_ids("take", ends, told.ids, told.count, INT64_MIN);
  int64_t* const said = ends[mine];
  int64_t* const output = ends[OUTPUT];
  taken.bad = told.count;
  for (size_t i = 0; i < told.count; ++i) {
    if (told.ids[i] < 0) {
      taken.settled[taken.settled_count++] = static_cast<int64_t>(i);
      continue;
    }
    const auto id = static_cast<size_t>(told.ids[i]);
    const int64_t vs = told.vs[i], ve = told.ve[i];
    const bool insert = told.was[i] == TIME_BEGIN;
    if (told.first[i]) set(ends, id, vs);
    if (said[id] != (insert ? vs : told.was[i])) {
      taken.bad = i;
      taken.held = said[id];
      if (told.first[i]) set(ends, id, TIME_INF);
      undo(ends, mine, told, i, taken);
      taken.chosen_count = taken.settled_count = 0;
      return;
    }
    said[id] = ve;
    const int64_t now = output[id];
    const bool absent = now == vs;
    const bool goes =
        absent ? insert && leave.quorum > 0 && vs >= leave.stable &&
                     (leave.quorum == 1 || holders(ends, mine, id, vs) >= leave.quorum)
               : leave.adjusts && ve != now && std::min(now, ve) >= leave.stable;
    if (!goes) continue;
    taken.chosen[taken.chosen_count] = static_cast<int64_t>(i);
    taken.was[taken.chosen_count++] = absent ? TIME_BEGIN : now;
    output[id] = ve;
  }
}

void sweep_ends(const EndsTable& ends, size_t count, size_t mine, int64_t t, int64_t stable,
                bool follow, Swept& swept) {
  check_input("sweep", ends, mine);
  if (count > ends.room) throw std::invalid_argument("sweep: more ids than columns");
  const int64_t* const starts = ends[STARTS];
  const int64_t* const output = ends[OUTPUT];
  const int64_t* const said = ends[mine];
  for (size_t id = 0; id < count; ++id) {
    const int64_t out = output[id], end = said[id];
    // Nearly all ids leave here. Starts need no look: an end below t has its start below t.
    if (out >= t && end >= t && t != TIME_INF && !(follow && out != end)) continue;
    const int64_t start = starts[id];
    if (start == TIME_INF) continue;
    int64_t settles = out;
    if (out != end) {
      const int64_t lower = std::min(out, end);
      if (lower < t || (follow && lower >= stable && out != start && end != start)) {
        swept.wrong[swept.wrong_count++] = static_cast<int64_t>(id);
        if (lower >= stable) settles = end;
      }
    }
    if (settles >= t && t != TIME_INF) continue;
    swept.gone[swept.gone_count++] = static_cast<int64_t>(id);
    for (size_t row = INPUTS; row < ends.rows && !swept.contested; ++row) {
      const int64_t other = ends[row][id];
      swept.contested = row != mine && other != settles && other != start;
    }
  }
}

void clear_ends(const EndsTable& ends, const int64_t* ids, size_t count) {
  check_ids("clear", ends, ids, count, 0);
  for (size_t row = 0; row < ends.rows; ++row) {
    int64_t* const values = ends[row];
    for (size_t i = 0; i < count; ++i) values[ids[i]] = TIME_INF;
  }
}

}  // namespace gapless

#include "ends.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace gapless {
namespace {

constexpr size_t STARTS = 0, OUTPUT = 1, INPUTS = 2;
constexpr int64_t SETTLED = -1;

void check_ids(const char* call, const EndsTable& ends, const int64_t* ids, size_t count,
               int64_t least) {
  // What lies outside makes one of the two differences negative, whether or not it overflows.
  const auto last = static_cast<uint64_t>(ends.room) - 1, first = static_cast<uint64_t>(least);
  uint64_t differences = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<uint64_t>(ids[i]);
    differences |= (last - id) | (id - first);
  }
  if (differences >> 63 != 0)
    throw std::invalid_argument(std::string(call) + ": an id has no column");
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

constexpr size_t WORD_BITS = 64;

// Bit i: x[i] or y[i] lies below t. Without a branch, for which ids are meant is hard to predict.
[[gnu::always_inline]] inline uint64_t below_plain(const int64_t* x, const int64_t* y, size_t count,
                                                   int64_t t) {
  uint64_t bits = 0;
  for (size_t i = 0; i < count; ++i) bits |= static_cast<uint64_t>((x[i] < t) | (y[i] < t)) << i;
  return bits;
}

#if defined(__x86_64__)
// Wheels are built for any x86-64, whose instructions compare no 64-bit integers side by side.
[[gnu::target("avx2")]] uint64_t below_avx2(const int64_t* x, const int64_t* y, size_t count,
                                            int64_t t) {
  return count == WORD_BITS ? below_plain(x, y, WORD_BITS, t) : below_plain(x, y, count, t);
}

uint64_t below(const int64_t* x, const int64_t* y, size_t count, int64_t t) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return has_avx2 ? below_avx2(x, y, count, t) : below_plain(x, y, count, t);
}
#else
uint64_t below(const int64_t* x, const int64_t* y, size_t count, int64_t t) {
  return below_plain(x, y, count, t);
}
#endif

}  // namespace

void take_ends(const EndsTable& ends, size_t mine, const Told& told, const Leave& leave,
               Taken& taken) {
  check_input("take", ends, mine);
  check_ids("take", ends, told.ids, told.count, SETTLED);
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
  const auto look_at = [&](size_t id) {
    const int64_t out = output[id], end = said[id], start = starts[id];
    if (start == TIME_INF) return;
    int64_t settles = out;
    if (out != end) {
      const int64_t lower = std::min(out, end);
      if (lower < t || (follow && lower >= stable && out != start && end != start)) {
        swept.wrong[swept.wrong_count++] = static_cast<int64_t>(id);
        if (lower >= stable) settles = end;
      }
    }
    if (settles >= t && t != TIME_INF) return;
    swept.gone[swept.gone_count++] = static_cast<int64_t>(id);
    for (size_t row = INPUTS; row < ends.rows && !swept.contested; ++row) {
      const int64_t other = ends[row][id];
      swept.contested = row != mine && other != settles && other != start;
    }
  };
  if (t == TIME_INF || follow) {
    for (size_t id = 0; id < count; ++id) look_at(id);
    return;
  }
  // Few ids have an end below t. Starts need no look: they lie below their ends.
  for (size_t begin = 0; begin < count; begin += WORD_BITS) {
    const size_t n = std::min(WORD_BITS, count - begin);
    for (uint64_t some = below(output + begin, said + begin, n, t); some != 0; some &= some - 1)
      look_at(begin + static_cast<size_t>(std::countr_zero(some)));
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

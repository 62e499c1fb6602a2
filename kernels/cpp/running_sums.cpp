#include "running_sums.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "id_pool.hpp"

namespace gapless {
namespace {

__extension__ typedef __int128 Wide;

constexpr int64_t LEAST = std::numeric_limits<int64_t>::min();
constexpr int64_t MOST = std::numeric_limits<int64_t>::max();
// Rows to look at one by one before a range's end is searched for.
constexpr size_t NEAR = 8;
// Cells and ranges whose lines are brought near ahead of time.
constexpr size_t AHEAD = 12;
// A line is not laid out anew for fewer forgotten rows.
constexpr size_t GONE_MIN = 16;

int64_t plus(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
}

int64_t minus(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
}

uint64_t size_of(int64_t x) {
  return x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
}

}  // namespace

RunningSums::RunningSums(size_t columns) : width_(columns + 1), largest_(columns, 0) {
  if (columns == 0) throw std::invalid_argument("running sums: needs one column at least");
}

const RunningSums::Line* RunningSums::line_of(int64_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= lines_.size()) return nullptr;
  const Line& line = lines_[static_cast<size_t>(id)];
  return line.rows.empty() ? nullptr : &line;
}

// Brings the end of a line near: cells join it there, and most ranges end there.
void RunningSums::fetch(int64_t id) const {
  if (const Line* line = line_of(id)) __builtin_prefetch(&line->rows.back());
}

// The same of its beginning: what is forgotten, and where most ranges begin.
void RunningSums::fetch_base(int64_t id) const {
  if (const Line* line = line_of(id)) __builtin_prefetch(row(*line, line->base));
}

bool RunningSums::has(int64_t id) const { return line_of(id) != nullptr; }

// Whether all fit; throws where they are no cells.
bool RunningSums::check(const int64_t* ids, const int64_t* places, const int64_t* values,
                        size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= int64_t{LIVE_MAX})
      throw std::invalid_argument("add: id " + std::to_string(ids[i]) + " is not one of a KeyTable");
    if (places[i] == LEAST) throw std::invalid_argument("add: the least place is none");
    if (i > 0 && ids[i] == ids[i - 1]) {
      if (places[i] <= places[i - 1]) throw std::invalid_argument("add: places are out of order");
      continue;
    }
    if (i > 0 && ids[i] < ids[i - 1]) throw std::invalid_argument("add: ids are out of order");
    const Line* line = line_of(ids[i]);
    if (line == nullptr) continue;
    if (places[i] > line->last) continue;
    if (places[i] < line->last)
      throw std::invalid_argument("add: a place lies before the last one of its id");
    const size_t last = row_count(*line) - 1;
    for (size_t c = 0; c < columns(); ++c) {
      const int64_t there = minus(row(*line, last)[c + 1], row(*line, last - 1)[c + 1]);
      if (int64_t sum; __builtin_add_overflow(there, values[c * count + i], &sum)) return false;
    }
  }
  return true;
}

void RunningSums::append(const int64_t* ids, const int64_t* places, const int64_t* values,
                         size_t at, size_t count) {
  Line& line = lines_[static_cast<size_t>(ids[at])];
  const size_t held = line.rows.capacity();
  if (line.rows.empty()) {
    line.rows.reserve(2 * width_);
    line.rows.assign(width_, 0);
    line.rows[0] = LEAST;
  }
  size_t last = line.rows.size() - width_;
  const bool joins = last > line.base * width_ && line.last == places[at];
  if (!joins) {
    line.rows.resize(line.rows.size() + width_);
    std::copy_n(&line.rows[last], width_, &line.rows[last + width_]);
    last += width_;
    line.rows[last] = line.last = places[at];
    ++size_;
  }
  row_bytes_ += (line.rows.capacity() - held) * sizeof(int64_t);
  for (size_t c = 0; c < columns(); ++c) {
    int64_t& so_far = line.rows[last + c + 1];
    so_far = plus(so_far, values[c * count + at]);
    const uint64_t size = size_of(minus(so_far, line.rows[last - width_ + c + 1]));
    largest_[c] = std::max(largest_[c], size);
  }
}

bool RunningSums::add(const int64_t* ids, const int64_t* places, const int64_t* values,
                      size_t count) {
  if (count == 0) return true;
  if (!check(ids, places, values, count)) return false;
  const auto lines = static_cast<size_t>(ids[count - 1]) + 1;
  if (lines > lines_.size()) lines_.resize(lines);
  for (size_t i = 0; i < count; ++i) {
    if (i + AHEAD < count) fetch(ids[i + AHEAD]);
    append(ids, places, values, i, count);
  }
  return true;
}

// The last row from `from` on, or it, whose place lies below.
size_t RunningSums::last_below(const Line& line, size_t from, int64_t place) const {
  const size_t end = row_count(line);
  size_t at = from;
  for (size_t step = 0; step < NEAR; ++step, ++at)
    if (at + 1 >= end || row(line, at + 1)[0] >= place) return at;
  size_t low = at, high = end;  // row `low` is below, row `high` is not
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    (row(line, middle)[0] < place ? low : high) = middle;
  }
  return low;
}

// The same from the end, for ranges that end near it.
size_t RunningSums::last_below_end(const Line& line, size_t from, int64_t place) const {
  size_t at = row_count(line) - 1;
  for (size_t step = 1; at > from && row(line, at)[0] >= place; step *= 2)
    at = at - from > step ? at - step : from;
  return last_below(line, at, place);
}

bool RunningSums::sum(const Line& line, Range range, size_t column, int64_t& out) const {
  const size_t c = column + 1;
  out = minus(row(line, range.last)[c], row(line, range.before)[c]);
  const size_t cells = range.last - range.before;
  if (cells == 0 || largest_[column] <= static_cast<uint64_t>(MOST) / cells) return true;
  Wide exact = 0;
  for (size_t at = range.before; at < range.last; ++at)
    exact += minus(row(line, at + 1)[c], row(line, at)[c]);
  return exact >= LEAST && exact <= MOST;
}

bool RunningSums::sums(const int64_t* ids, const int64_t* low, const int64_t* high, size_t count,
                       int64_t* out) const {
  const Line* line = nullptr;
  Range range{0, 0};
  for (size_t i = 0; i < count; ++i) {
    if (i + AHEAD < count && ids[i + AHEAD] != ids[i]) {
      fetch(ids[i + AHEAD]);
      fetch_base(ids[i + AHEAD]);
    }
    const bool goes_on =
        i > 0 && ids[i] == ids[i - 1] && low[i] >= low[i - 1] && high[i] >= high[i - 1];
    if (!goes_on) {
      line = line_of(ids[i]);
      if (line != nullptr) range = {line->base, line->base};
    }
    if (line != nullptr) {
      range.before = last_below(*line, range.before, low[i]);
      const size_t from = std::max(range.last, range.before);
      range.last =
          goes_on ? last_below(*line, from, high[i]) : last_below_end(*line, from, high[i]);
    }
    for (size_t c = 0; c < columns(); ++c) {
      int64_t& found = out[c * count + i];
      if (line == nullptr) found = 0;
      else if (!sum(*line, range, c, found)) return false;
    }
  }
  return true;
}

void RunningSums::forget(Line& line, int64_t place) {
  const size_t held = line.rows.capacity();
  const size_t base = last_below(line, line.base, place);
  size_ -= base - line.base;
  line.base = base;
  const size_t left = row_count(line) - base;
  if (left == 1) {
    line = Line{};
  } else if (base >= GONE_MIN && base >= left) {
    line.rows.erase(line.rows.begin(), line.rows.begin() + static_cast<ptrdiff_t>(base * width_));
    line.base = 0;
    if (line.rows.size() * 4 <= line.rows.capacity()) line.rows.shrink_to_fit();
  }
  row_bytes_ -= (held - line.rows.capacity()) * sizeof(int64_t);
}

void RunningSums::drop(const int64_t* ids, const int64_t* places, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (i + AHEAD < count) fetch_base(ids[i + AHEAD]);
    if (has(ids[i])) forget(lines_[static_cast<size_t>(ids[i])], places[i]);
  }
}

void RunningSums::drop_before(int64_t place) {
  for (Line& line : lines_)
    if (!line.rows.empty()) forget(line, place);
  size_t high = lines_.size();
  while (high > 0 && lines_[high - 1].rows.empty()) --high;
  lines_.resize(high);
  if (high * 4 <= lines_.capacity()) lines_.shrink_to_fit();
}

void RunningSums::cells(int64_t* ids, int64_t* places, int64_t* values) const {
  size_t i = 0;
  for (size_t id = 0; id < lines_.size(); ++id) {
    const Line& line = lines_[id];
    for (size_t at = line.base + 1; at < row_count(line); ++at, ++i) {
      ids[i] = static_cast<int64_t>(id);
      places[i] = row(line, at)[0];
      for (size_t c = 0; c < columns(); ++c)
        values[c * size_ + i] = minus(row(line, at)[c + 1], row(line, at - 1)[c + 1]);
    }
  }
}

size_t RunningSums::nbytes() const {
  return sizeof *this + lines_.capacity() * sizeof(Line) + row_bytes_;
}

void RunningSums::validate() const {
  const auto check = [](bool holds, const char* problem) {
    if (!holds) throw std::runtime_error(std::string("running sums: ") + problem);
  };
  size_t cells = 0, bytes = 0;
  for (const Line& line : lines_) {
    bytes += line.rows.capacity() * sizeof(int64_t);
    if (line.rows.empty()) continue;
    check(line.rows.size() % width_ == 0, "a row is cut");
    check(line.base + 1 < row_count(line), "a line without cells was kept");
    check(line.last == row(line, row_count(line) - 1)[0], "a line ends at another place");
    for (size_t at = line.base + 1; at < row_count(line); ++at, ++cells) {
      check(row(line, at)[0] > row(line, at - 1)[0], "places of a line are out of order");
      for (size_t c = 1; c < width_; ++c)
        check(size_of(minus(row(line, at)[c], row(line, at - 1)[c])) <= largest_[c - 1],
              "a value is larger than the largest");
    }
  }
  check(cells == size_, "the count of cells is wrong");
  check(bytes == row_bytes_, "the count of bytes is wrong");
}

}  // namespace gapless

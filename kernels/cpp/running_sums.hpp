// Sums over ranges of places, by id, for windows whose aggregates add up.
//
//   line of id 3     place      base   2    5    9       values  4  1  6
//                    so far     10    14   15   21
//   sum of [3, 10)   21 - 14 = 7
//
// A cell keeps what its line has added up to so far, so a range costs a look at both of its ends.
// "So far" wraps around; a difference is right as long as it fits in an int64 itself, which is
// made sure of: by the largest value that any cell has had, or else by adding the range up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gapless {

class RunningSums {
 public:
  // So many values a cell, one at least.
  explicit RunningSums(size_t columns);

  // Adds cells, by id and then place, values column after column. A cell at the last place of its
  // line joins the one there. False, and nothing is changed, where that leaves int64. Throws, and
  // changes nothing, where cells are out of order or an id is none.
  bool add(const int64_t* ids, const int64_t* places, const int64_t* values, size_t count);
  // Of each range [low, high) of a line the sums, column after column. False where one leaves
  // int64. A line without cells gives 0.
  bool sums(const int64_t* ids, const int64_t* low, const int64_t* high, size_t count,
            int64_t* out) const;
  // Forgets the cells of lines before their places; of all lines before one.
  void drop(const int64_t* ids, const int64_t* places, size_t count);
  void drop_before(int64_t place);
  // All cells, by id and then place; `values` column after column. Each has room for `size()`.
  void cells(int64_t* ids, int64_t* places, int64_t* values) const;
  bool has(int64_t id) const;

  size_t columns() const { return largest_.size(); }
  size_t size() const { return size_; }
  size_t nbytes() const;
  void validate() const;

 private:
  // Rows of a place and what was added up by it. The one at `base` is the last that was forgotten.
  struct Line {
    std::vector<int64_t> rows;
    size_t base = 0;
    int64_t last = 0;  // the last place, beside what the rows are reached by
  };
  struct Range {
    size_t before, last;  // rows: the sum is what lies between them
  };

  const Line* line_of(int64_t id) const;
  size_t row_count(const Line& line) const { return line.rows.size() / width_; }
  const int64_t* row(const Line& line, size_t at) const { return &line.rows[at * width_]; }
  void fetch(int64_t id) const;
  void fetch_base(int64_t id) const;
  size_t last_below(const Line& line, size_t from, int64_t place) const;
  size_t last_below_end(const Line& line, size_t from, int64_t place) const;
  bool sum(const Line& line, Range range, size_t column, int64_t& out) const;
  bool check(const int64_t* ids, const int64_t* places, const int64_t* values, size_t count) const;
  void append(const int64_t* ids, const int64_t* places, const int64_t* values, size_t at,
              size_t count);
  void forget(Line& line, int64_t place);

  size_t width_;
  std::vector<uint64_t> largest_;  // by column, of any value so far, without its sign
  std::vector<Line> lines_;        // by id
  size_t size_ = 0;
  size_t row_bytes_ = 0;
};

}  // namespace gapless

// Which ids are live, and which is the lowest that is free.
//
//   level 1   .....1          bit w: word w of the level below is full
//   level 0   [1111..11] [1011..00]   bit i: id i is live
//
// The lowest free id is found from the top with one count-trailing-zeros a level, and the word that
// it was in is remembered, for the next one is likely to be there. Handing out the
// lowest first keeps the ids dense, so that a caller's arrays over them stay short, and means that
// `high()` only rises when every id below it is live.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace gapless {

// Ids fit an int32 with -1 to spare, and a hash slot's lower half.
constexpr uint32_t LIVE_MAX = 0x7fffffff;

class IdPool {
 public:
  size_t size() const { return size_; }
  // One above the largest live id.
  size_t high() const { return high_; }

  bool live(size_t id) const { return id < high_ && (levels_[0][id / 64] >> (id % 64) & 1); }

  uint32_t take() {
    size_t id = high_;
    if (size_ < high_) {
      if (levels_[0][low_] == ~uint64_t{0}) low_ = lowest_open();
      id = low_ * 64 + static_cast<size_t>(std::countr_one(levels_[0][low_]));
    } else {
      if (high_ == LIVE_MAX) throw std::length_error("more than 2**31 - 1 live ids");
      make_room(high_ + 1);
      ++high_;
    }
    mark(id);
    return static_cast<uint32_t>(id);
  }

  // Frees a live id. Call `trim` when all that are to go are gone; `mark` takes it back until then.
  void unmark(size_t id) {
    --size_;
    low_ = std::min(low_, id / 64);
    for (auto& level : levels_) {
      uint64_t& word = level[id / 64];
      const bool was_full = word == ~uint64_t{0};
      word &= ~(uint64_t{1} << (id % 64));
      if (!was_full) return;
      id /= 64;
    }
  }

  void mark(size_t id) {
    ++size_;
    for (auto& level : levels_) {
      uint64_t& word = level[id / 64];
      word |= uint64_t{1} << (id % 64);
      if (word != ~uint64_t{0}) return;
      id /= 64;
    }
  }

  // Unmarks ids that a caller names, all of them or none: throws where one is not live, as one that
  // comes twice is not the second time.
  void release(const int64_t* ids, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (ids[i] >= 0 && live(static_cast<size_t>(ids[i]))) {
        unmark(static_cast<size_t>(ids[i]));
        continue;
      }
      for (size_t j = 0; j < i; ++j) mark(static_cast<size_t>(ids[j]));
      const bool twice = std::find(ids, ids + i, ids[i]) != ids + i;
      throw std::invalid_argument("release: id " + std::to_string(ids[i]) +
                                  (twice ? " comes twice" : " is not live"));
    }
  }

  // Lowers `high()` to what is live and gives the memory above it back.
  void trim() {
    while (high_ > 0) {
      const size_t w = (high_ - 1) / 64;
      const uint64_t word = levels_[0][w];
      if (word != 0) {
        high_ = w * 64 + static_cast<size_t>(64 - std::countl_zero(word));
        break;
      }
      high_ = w * 64;
    }
    if (levels_.empty() || words(high_) * 4 > levels_[0].capacity()) return;
    size_t n = words(high_);
    size_t depth = 0;
    for (auto& level : levels_) {
      level.resize(n);
      level.shrink_to_fit();
      if (n == 0) break;
      ++depth;
      if (n == 1) break;
      n = words(n);
    }
    levels_.resize(depth);
    levels_.shrink_to_fit();
  }

  size_t nbytes() const {
    size_t n = levels_.capacity() * sizeof levels_[0];
    for (const auto& level : levels_) n += level.capacity() * sizeof level[0];
    return n;
  }

  void validate() const {
    size_t live = 0;
    for (size_t l = 0; l < levels_.size(); ++l) {
      const auto& level = levels_[l];
      for (size_t w = 0; w < level.size(); ++w) {
        if (l == 0) live += static_cast<size_t>(std::popcount(level[w]));
        if (l + 1 < levels_.size() &&
            (levels_[l + 1][w / 64] >> (w % 64) & 1) != (level[w] == ~uint64_t{0}))
          throw std::runtime_error("id pool: a summary bit is wrong");
      }
    }
    if (live != size_) throw std::runtime_error("id pool: the count of live ids is wrong");
    if (high_ > 0 && !this->live(high_ - 1))
      throw std::runtime_error("id pool: the largest id is not live");
    for (size_t w = 0; w < low_; ++w)
      if (levels_[0][w] != ~uint64_t{0})
        throw std::runtime_error("id pool: a free id lies below all that are");
    if (!levels_.empty() && levels_.back().size() != 1)
      throw std::runtime_error("id pool: the top level is not one word");
  }

 private:
  static size_t words(size_t bits) { return (bits + 63) / 64; }

  // The first word of level 0 that is not full; there is one.
  size_t lowest_open() const {
    size_t at = 0;
    for (size_t level = levels_.size(); level-- > 1;)
      at = at * 64 + static_cast<size_t>(std::countr_one(levels_[level][at]));
    return at;
  }

  void make_room(size_t ids) {
    size_t n = words(ids);
    for (size_t l = 0; n > 0; ++l) {
      if (l == levels_.size()) {
        std::vector<uint64_t> fresh(n, 0);
        if (l > 0)
          for (size_t w = 0; w < levels_[l - 1].size(); ++w)
            if (levels_[l - 1][w] == ~uint64_t{0}) fresh[w / 64] |= uint64_t{1} << (w % 64);
        levels_.push_back(std::move(fresh));
      } else if (levels_[l].size() < n) {
        levels_[l].resize(n, 0);
      } else if (l + 1 == levels_.size() || levels_[l + 1].size() >= words(n)) {
        return;
      }
      if (n == 1) return;
      n = words(n);
    }
  }

  std::vector<std::vector<uint64_t>> levels_;
  size_t size_ = 0;
  size_t high_ = 0;
  size_t low_ = 0;  // all words of level 0 below it are full
};

}  // namespace gapless

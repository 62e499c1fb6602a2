// An array over ids in pages of 256 that exist only where something lives.
//
// Each place is taken (`open`) and given back (`close`); a page goes with its last place. So the
// memory held follows what is live and not the highest number ever seen, except for one pointer a
// page in the directory, which `trim` shortens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

namespace gapless {

template <class T>
class Paged {
 public:
  static constexpr size_t PAGE = 256;

  // The place of `at`, or null where its page does not exist.
  T* get(size_t at) const {
    const size_t p = at / PAGE;
    return p < pages_.size() && pages_[p] ? &pages_[p]->places[at % PAGE] : nullptr;
  }
  T& operator[](size_t at) const { return pages_[at / PAGE]->places[at % PAGE]; }

  // Makes sure that `at` has a page. A fresh page holds T{} everywhere.
  void reserve(size_t at) {
    const size_t p = at / PAGE;
    if (p >= pages_.size()) pages_.resize(p + 1);
    if (pages_[p]) return;
    pages_[p] = std::make_unique<Page>();
    ++held_;
  }
  // Gives the page of `at` back if no place of it is open.
  void drop_if_empty(size_t at) noexcept {
    const size_t p = at / PAGE;
    if (p >= pages_.size() || !pages_[p] || pages_[p]->open > 0) return;
    pages_[p].reset();
    --held_;
  }
  void open(size_t at) noexcept { ++pages_[at / PAGE]->open; }
  void close(size_t at) noexcept {
    pages_[at / PAGE]->places[at % PAGE] = T{};
    --pages_[at / PAGE]->open;
    drop_if_empty(at);
  }

  // Shortens the directory to the last page that exists.
  void trim() {
    size_t n = pages_.size();
    while (n > 0 && !pages_[n - 1]) --n;
    pages_.resize(n);
    if (n * 4 <= pages_.capacity()) pages_.shrink_to_fit();
  }

  // One above the largest place that has a page.
  size_t high() const { return pages_.size() * PAGE; }

  size_t nbytes() const { return held_ * sizeof(Page) + pages_.capacity() * sizeof pages_[0]; }

  // `is_open(at)` says which places are open.
  template <class IsOpen>
  void validate(IsOpen is_open) const {
    size_t held = 0;
    for (size_t p = 0; p < pages_.size(); ++p) {
      if (!pages_[p]) continue;
      ++held;
      size_t open = 0;
      for (size_t i = 0; i < PAGE; ++i) open += is_open(p * PAGE + i);
      if (open != pages_[p]->open || open == 0)
        throw std::runtime_error("paged array: a page's count of open places is wrong");
    }
    if (held != held_) throw std::runtime_error("paged array: the count of pages is wrong");
  }

 private:
  struct Page {
    T places[PAGE]{};
    uint32_t open = 0;
  };

  std::vector<std::unique_ptr<Page>> pages_;
  size_t held_ = 0;
};

}  // namespace gapless

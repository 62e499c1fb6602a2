#include "chains.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "hash.hpp"

namespace gapless {
namespace {

// Rows and ids that are looked up together, so that their cache misses overlap.
constexpr size_t BLOCK = 256;

uint32_t row_tag(int64_t row) {
  const Seeds& seed = seeds();
  const auto word = static_cast<uint64_t>(row);
  return tag_of(hash_words(&word, 1, seed), seed);
}

}  // namespace

uint32_t Chains::entry_of(int64_t row, uint32_t tag) const {
  return index_.find(tag, [&](uint32_t entry) { return entries_[entry].row == row; });
}

const Chains::Head* Chains::head_of(int64_t id) const {
  return id < 0 ? nullptr : heads_.get(static_cast<size_t>(id));
}

void Chains::append(int64_t id, int64_t row, uint32_t tag) {
  if (id < 0 || id >= int64_t{LIVE_MAX})
    throw std::invalid_argument("add: id " + std::to_string(id) + " is not one of a KeyTable");
  if (entry_of(row, tag) != NO_ID)
    throw std::invalid_argument("add: row " + std::to_string(row) + " is stored already");
  // First everything that may fail, then what cannot.
  index_.reserve_one();
  const auto key = static_cast<uint32_t>(id);
  heads_.reserve(key);
  uint32_t entry = NO_ID;
  try {
    entry = used_.take();
    entries_.reserve(entry);
  } catch (...) {
    if (entry != NO_ID) used_.unmark(entry);
    heads_.drop_if_empty(key);
    throw;
  }
  entries_.open(entry);
  Head& head = heads_[key];
  if (head.count++ == 0) {
    heads_.open(key);
    head.first = entry;
    entries_[entry] = {row, key, NO_ID, NO_ID};
  } else {
    entries_[head.last].next = entry;
    entries_[entry] = {row, key, NO_ID, head.last};
  }
  head.last = entry;
  index_.insert(tag, entry);
}

void Chains::add(const int64_t* ids, const int64_t* rows, size_t count) {
  size_t done = 0;
  uint32_t tags[BLOCK];
  try {
    for (size_t begin = 0; begin < count; begin += BLOCK) {
      const size_t end = std::min(count, begin + BLOCK);
      for (size_t i = begin; i < end; ++i) {
        tags[i - begin] = row_tag(rows[i]);
        index_.prefetch(tags[i - begin]);
        if (const Head* head = head_of(ids[i])) __builtin_prefetch(head);
      }
      for (; done < end; ++done) append(ids[done], rows[done], tags[done - begin]);
    }
  } catch (...) {
    while (done-- > 0) {
      const uint32_t tag = row_tag(rows[done]);
      const uint32_t entry = entry_of(rows[done], tag);
      used_.unmark(entry);
      unlink(entry);
      index_.erase(tag, entry);
      entries_.close(entry);
    }
    trim();
    throw;
  }
}

Pairs Chains::probe(const int64_t* ids, size_t count) const {
  size_t total = 0;
  for (size_t i = 0; i < count; ++i)
    if (const Head* head = head_of(ids[i])) total += head->count;
  Pairs pairs;
  pairs.probe.resize(total);
  pairs.stored.resize(total);
  size_t at = 0;
  for (size_t begin = 0; begin < count; begin += BLOCK) {
    const size_t end = std::min(count, begin + BLOCK);
    for (size_t i = begin; i < end; ++i) {
      const Head* head = head_of(ids[i]);
      if (head != nullptr && head->count > 0) __builtin_prefetch(&entries_[head->first]);
    }
    for (size_t i = begin; i < end; ++i) {
      const Head* head = head_of(ids[i]);
      if (head != nullptr && head->count > 1)
        __builtin_prefetch(&entries_[entries_[head->first].next]);
    }
    for (size_t i = begin; i < end; ++i) {
      const Head* head = head_of(ids[i]);
      if (head == nullptr || head->count == 0) continue;
      for (uint32_t entry = head->first; entry != NO_ID; entry = entries_[entry].next, ++at) {
        pairs.probe[at] = static_cast<int64_t>(i);
        pairs.stored[at] = entries_[entry].row;
      }
    }
  }
  return pairs;
}

void Chains::unlink(uint32_t entry) noexcept {
  const Entry& gone = entries_[entry];
  Head& head = heads_[gone.id];
  if (--head.count == 0) {
    heads_.close(gone.id);
    return;
  }
  (gone.previous == NO_ID ? head.first : entries_[gone.previous].next) = gone.next;
  (gone.next == NO_ID ? head.last : entries_[gone.next].previous) = gone.previous;
}

// Hashes stored rows and brings their entries near.
void Chains::fetch(const int64_t* rows, size_t count, uint32_t* tags) const {
  for (size_t i = 0; i < count; ++i) {
    tags[i] = row_tag(rows[i]);
    index_.prefetch(tags[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    size_t end;
    const uint32_t entry = index_.candidate(tags[i], end);
    if (entry != NO_ID) __builtin_prefetch(&entries_[entry]);
  }
}

void Chains::remove(const int64_t* rows, size_t count) {
  std::vector<uint32_t> tags(count), entries(count);
  for (size_t i = 0; i < count; ++i) {
    if (i % BLOCK == 0) fetch(rows + i, std::min(BLOCK, count - i), &tags[i]);
    const uint32_t entry = entry_of(rows[i], tags[i]);
    // A row that comes twice is no longer in use the second time.
    if (entry != NO_ID && used_.live(entry)) {
      used_.unmark(entry);
      entries[i] = entry;
      continue;
    }
    for (size_t j = 0; j < i; ++j) used_.mark(entries[j]);
    throw std::invalid_argument("remove: row " + std::to_string(rows[i]) +
                                (entry == NO_ID ? " is not stored" : " comes twice"));
  }
  for (size_t i = 0; i < count; ++i) {
    unlink(entries[i]);
    index_.erase(tags[i], entries[i]);
    entries_.close(entries[i]);
  }
  trim();
}

void Chains::trim() {
  used_.trim();
  index_.trim();
  entries_.trim();
  heads_.trim();
}

size_t Chains::nbytes() const {
  return sizeof *this + heads_.nbytes() + entries_.nbytes() + used_.nbytes() + index_.nbytes();
}

void Chains::validate() const {
  const auto check = [](bool holds, const char* problem) {
    if (!holds) throw std::runtime_error(std::string("chains: ") + problem);
  };
  used_.validate();
  index_.validate();
  entries_.validate([&](size_t entry) { return used_.live(entry); });
  heads_.validate([&](size_t id) { return heads_.get(id)->count > 0; });
  check(index_.size() == size(), "as many index entries as rows are needed");
  size_t linked = 0;
  for (size_t id = 0; id < heads_.high(); ++id) {
    const Head* head = heads_.get(id);
    if (head == nullptr || head->count == 0) continue;
    uint32_t previous = NO_ID, count = 0;
    for (uint32_t at = head->first; at != NO_ID; at = entries_[at].next, ++count) {
      check(count < head->count && used_.live(at), "a chain leads to a row that is gone");
      const Entry& entry = entries_[at];
      check(entry.id == id, "a chain holds a row of another id");
      check(entry.previous == previous, "a chain's links disagree");
      check(entry_of(entry.row, row_tag(entry.row)) == at, "a row is not found by its number");
      previous = at;
    }
    check(count == head->count && previous == head->last, "a chain ends too early");
    linked += count;
  }
  check(linked == size(), "some rows are in no chain");
}

}  // namespace gapless

// gapless.kernels._native: the kernel as Python sees it.
//
// Raw on purpose. `native.py` checks schemas and arguments, makes the numpy arrays that results go
// into, and gives dictionaries back; here are the calls that must be fast, and nothing else.
// std::invalid_argument arrives as ValueError, std::runtime_error as RuntimeError.

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>

#include <utility>

#include "chains.hpp"
#include "ends.hpp"
#include "gather.hpp"
#include "key_table.hpp"
#include "live_rows_python.hpp"
#include "python_bridge.hpp"
#include "running_sums_python.hpp"
#include "scatter_python.hpp"

namespace gapless {
namespace {

class PyKeyTable {
 public:
  explicit PyKeyTable(nb::object schema) : table_(schema_of(schema, keep_)) { keep_.reset(); }

  void intern(nb::handle batch, nb::handle ids, nb::handle first_seen) {
    const Exported exported(batch);
    const ArrowArray& array = *exported;
    const View<int64_t> out(ids, true);
    const View<bool> first(first_seen, true);
    const auto rows = static_cast<size_t>(array.length);
    same_length(out.size(), rows);
    same_length(first.size(), rows);
    locked(mutex_, rows, [&] { table_.intern(array, out.data(), first.data()); });
  }

  void intern_since(nb::handle batch, nb::handle times, int64_t since, nb::handle ids,
                    nb::handle first_seen) {
    const Exported exported(batch);
    const ArrowArray& array = *exported;
    const View<const int64_t> when(times, false);
    const View<int64_t> out(ids, true);
    const View<bool> first(first_seen, true);
    const auto rows = static_cast<size_t>(array.length);
    same_length(when.size(), rows);
    same_length(out.size(), rows);
    same_length(first.size(), rows);
    locked(mutex_, rows,
           [&] { table_.intern(array, out.data(), first.data(), when.data(), since); });
  }

  void find(nb::handle batch, nb::handle ids) {
    const Exported exported(batch);
    const ArrowArray& array = *exported;
    const View<int64_t> out(ids, true);
    const auto rows = static_cast<size_t>(array.length);
    same_length(out.size(), rows);
    locked(mutex_, rows, [&] { table_.find(array, out.data()); });
  }

  void release(nb::handle ids) {
    const View<const int64_t> in(ids, false);
    locked(mutex_, in.size(), [&] { table_.release(in.data(), in.size()); });
  }

  nb::object rows(nb::handle ids) {
    const View<const int64_t> in(ids, false);
    ArrowArray* array;
    nb::object capsule = new_array_capsule(array);
    locked(mutex_, in.size(), [&] { table_.rows(in.data(), in.size(), *array); });
    return capsule;
  }

  size_t size() { return locked(mutex_, 0, [&] { return table_.size(); }); }
  size_t capacity() { return locked(mutex_, 0, [&] { return table_.capacity(); }); }
  size_t nbytes() { return locked(mutex_, 0, [&] { return table_.nbytes(); }); }
  void validate() { locked(mutex_, GIL_FREE_ROWS_MIN, [&] { table_.validate(); }); }

 private:
  nb::object keep_;
  std::mutex mutex_;
  KeyTable table_;
};

Ids as_numpy(std::vector<int64_t> values) {
  auto* held = new std::vector<int64_t>(std::move(values));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<int64_t>*>(p); });
  return Ids(held->data(), {held->size()}, owner);
}

class PyChains {
 public:
  void add(nb::handle ids, nb::handle rows) {
    const View<const int64_t> keys(ids, false), stored(rows, false);
    same_length(keys.size(), stored.size());
    locked(mutex_, keys.size(), [&] { chains_.add(keys.data(), stored.data(), keys.size()); });
  }

  std::pair<Ids, Ids> probe(nb::handle ids) {
    const View<const int64_t> keys(ids, false);
    Pairs pairs =
        locked(mutex_, keys.size(), [&] { return chains_.probe(keys.data(), keys.size()); });
    return {as_numpy(std::move(pairs.probe)), as_numpy(std::move(pairs.stored))};
  }

  void remove(nb::handle rows) {
    const View<const int64_t> stored(rows, false);
    locked(mutex_, stored.size(), [&] { chains_.remove(stored.data(), stored.size()); });
  }

  size_t size() { return locked(mutex_, 0, [&] { return chains_.size(); }); }
  size_t nbytes() { return locked(mutex_, 0, [&] { return chains_.nbytes(); }); }
  void validate() { locked(mutex_, GIL_FREE_ROWS_MIN, [&] { chains_.validate(); }); }

 private:
  std::mutex mutex_;
  Chains chains_;
};

nb::object py_gather(nb::handle batch, nb::handle positions, nb::handle widths) {
  const Exported exported(batch);
  const ArrowArray& array = *exported;
  const View<const int64_t> rows(positions, false), bytes(widths, false);
  ArrowArray* out;
  nb::object capsule = new_array_capsule(out);
  if (!gather_rows(array, rows.data(), rows.size(), bytes.data(), bytes.size(), *out))
    return nb::none();
  return nb::make_tuple(capsule, reinterpret_cast<uintptr_t>(out));
}

// -- ends -----------------------------------------------------------------------------------------

EndsTable table_of(const View<int64_t, 2>& ends) {
  return {ends.data(), ends.length(0), ends.length(1)};
}

nb::tuple py_take_ends(nb::handle ends, size_t mine, nb::handle ids, nb::handle first,
                       nb::handle vs, nb::handle ve, nb::handle was, int64_t stable,
                       size_t quorum, bool adjusts, nb::handle found) {
  const View<int64_t, 2> table(ends, true), out(found, true);
  const View<const int64_t> id(ids, false), start(vs, false), end(ve, false), before(was, false);
  const View<const bool> is_new(first, false);
  const size_t n = id.size();
  for (size_t other : {start.size(), end.size(), before.size(), is_new.size(), out.length(1)})
    same_length(other, n);
  if (out.length(0) != 3) throw nb::value_error("take finds three things of each row");
  Taken taken{out.data(), out.data() + n, out.data() + 2 * n};
  take_ends(table_of(table), mine,
            {id.data(), is_new.data(), start.data(), end.data(), before.data(), n},
            {stable, quorum, adjusts}, taken);
  return nb::make_tuple(taken.chosen_count, taken.settled_count, taken.bad, taken.held);
}

nb::tuple py_sweep_ends(nb::handle ends, size_t count, size_t mine, int64_t t, int64_t stable,
                        bool follow, nb::handle found) {
  const View<int64_t, 2> table(ends, false), out(found, true);
  if (out.length(0) != 2 || out.length(1) < count)
    throw nb::value_error("sweep finds two things of each id");
  Swept swept{out.data(), out.data() + out.length(1)};
  sweep_ends(table_of(table), count, mine, t, stable, follow, swept);
  return nb::make_tuple(swept.wrong_count, swept.gone_count, swept.contested);
}

void py_clear_ends(nb::handle ends, nb::handle ids) {
  const View<int64_t, 2> table(ends, true);
  const View<const int64_t> gone(ids, false);
  clear_ends(table_of(table), gone.data(), gone.size());
}

}  // namespace
}  // namespace gapless

NB_MODULE(_native, m) {
  using namespace gapless;
  m.doc() = "The native kernel. Use gapless.kernels, which checks what goes in here.";
  // A client's threads are daemons and may hold a table when Python ends: nothing users can mend.
  nb::set_leak_warnings(false);
  m.attr("GIL_FREE_ROWS_MIN") = GIL_FREE_ROWS_MIN;
  nb::class_<PyKeyTable>(m, "KeyTable")
      .def(nb::init<nb::object>(), nb::arg("schema"))
      .def("intern", &PyKeyTable::intern, nb::arg("batch"), nb::arg("ids"), nb::arg("first_seen"),
           "Fills `ids` and `first_seen`, one element a row.")
      .def("intern_since", &PyKeyTable::intern_since, nb::arg("batch"), nb::arg("times"),
           nb::arg("since"), nb::arg("ids"), nb::arg("first_seen"),
           "The same, but rows with a time below `since` get no new id: -1.")
      .def("find", &PyKeyTable::find, nb::arg("batch"), nb::arg("ids"),
           "Fills `ids`, one element a row, -1 where a row is absent.")
      .def("release", &PyKeyTable::release, nb::arg("ids"), "Forgets the rows of live ids.")
      .def("rows", &PyKeyTable::rows, nb::arg("ids"),
           "An Arrow array capsule of a batch; dictionary columns are plain values.")
      .def("validate", &PyKeyTable::validate, "Raises RuntimeError where an invariant is broken.")
      .def("__len__", &PyKeyTable::size)
      .def_prop_ro("capacity", &PyKeyTable::capacity, "One above the largest live id.")
      .def_prop_ro("nbytes", &PyKeyTable::nbytes, "Bytes held.");
  nb::class_<PyChains>(m, "Chains")
      .def(nb::init<>())
      .def("add", &PyChains::add, nb::arg("ids"), nb::arg("rows"),
           "Stores each row at the end of its id's chain.")
      .def("probe", &PyChains::probe, nb::arg("ids"),
           "Pairs (position in ids, stored row), in probe order.")
      .def("remove", &PyChains::remove, nb::arg("rows"), "Forgets stored rows.")
      .def("validate", &PyChains::validate, "Raises RuntimeError where an invariant is broken.")
      .def("__len__", &PyChains::size)
      .def_prop_ro("nbytes", &PyChains::nbytes, "Bytes held.");
  define_live_rows(m);
  define_running_sums(m);
  m.def("gather", &py_gather, nb::arg("batch"), nb::arg("positions"), nb::arg("widths"),
        "Rows of a batch of plain columns: an Arrow array capsule, and the array's address.");
  m.def("take_ends", &py_take_ends, nb::arg("ends"), nb::arg("mine"), nb::arg("ids"),
        nb::arg("first"), nb::arg("vs"), nb::arg("ve"), nb::arg("was"), nb::arg("stable"),
        nb::arg("quorum"), nb::arg("adjusts"), nb::arg("found"),
        "Fills `found`; how many go out, how many are settled, the first bad row, its end.");
  m.def("sweep_ends", &py_sweep_ends, nb::arg("ends"), nb::arg("count"), nb::arg("mine"),
        nb::arg("t"), nb::arg("stable"), nb::arg("follow"), nb::arg("found"),
        "Fills `found`; how many are wrong, how many gone, whether an input says otherwise.");
  m.def("clear_ends", &py_clear_ends, nb::arg("ends"), nb::arg("ids"), "Frees columns.");
  define_scatters(m);
}

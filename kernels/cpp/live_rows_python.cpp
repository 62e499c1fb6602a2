#include "live_rows_python.hpp"

#include <utility>

#include "live_rows.hpp"
#include "python_bridge.hpp"

namespace gapless {
namespace {

// The three columns of rows, held for the time of a call.
class PyLives {
 public:
  PyLives(nb::handle keys, nb::handle vs, nb::handle ve)
      : keys_(keys, false), vs_(vs, false), ve_(ve, false) {
    same_length(keys_.size(), vs_.size());
    same_length(keys_.size(), ve_.size());
  }
  Lives operator*() const { return {keys_.data(), vs_.data(), ve_.data(), keys_.size()}; }

 private:
  View<const int64_t> keys_, vs_, ve_;
};

// One allocation for the four columns of what was found.
nb::tuple as_columns(Met met) {
  auto* held = new Met(std::move(met));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<Met*>(p); });
  const auto column = [&](std::vector<int64_t>& values) {
    return Ids(values.data(), {values.size()}, owner);
  };
  return nb::make_tuple(column(held->asked), column(held->id), column(held->vs), column(held->ve));
}

class PyLiveRows {
 public:
  explicit PyLiveRows(nb::object schema) : rows_(schema_of(schema, keep_)) { keep_.reset(); }

  void add(nb::handle batch, nb::handle keys, nb::handle vs, nb::handle ve, int64_t since,
           nb::handle ids) {
    const Exported exported(batch);
    const ArrowArray& array = *exported;
    const PyLives lives(keys, vs, ve);
    const View<int64_t> out(ids, true);
    const auto count = static_cast<size_t>(array.length);
    same_length((*lives).count, count);
    same_length(out.size(), count);
    locked(mutex_, count, [&] { rows_.add(array, *lives, since, out.data()); });
  }

  nb::tuple meet(nb::handle keys, nb::handle vs, nb::handle ve, size_t from, size_t most) {
    return look(&LiveRows::meet, {keys, vs, ve}, from, most);
  }

  nb::tuple equals(nb::handle keys, nb::handle vs, nb::handle ve, size_t from, size_t most) {
    return look(&LiveRows::equals, {keys, vs, ve}, from, most);
  }

  void lives(nb::handle ids, nb::handle keys, nb::handle vs, nb::handle ve) {
    const View<const int64_t> in(ids, false);
    const View<int64_t> key(keys, true), start(vs, true), end(ve, true);
    for (size_t other : {key.size(), start.size(), end.size()}) same_length(other, in.size());
    locked(mutex_, in.size(),
           [&] { rows_.lives(in.data(), in.size(), key.data(), start.data(), end.data()); });
  }

  void set_ends(nb::handle ids, nb::handle ve) {
    const View<const int64_t> in(ids, false), ends(ve, false);
    same_length(in.size(), ends.size());
    locked(mutex_, in.size(), [&] { rows_.set_ends(in.data(), ends.data(), in.size()); });
  }

  nb::tuple rows(nb::handle ids) {
    const View<const int64_t> in(ids, false);
    ArrowArray* array;
    nb::object capsule = new_array_capsule(array);
    locked(mutex_, in.size(), [&] { rows_.rows(in.data(), in.size(), *array); });
    return nb::make_tuple(capsule, reinterpret_cast<uintptr_t>(array));
  }

  void release(nb::handle ids) {
    const View<const int64_t> in(ids, false);
    locked(mutex_, in.size(), [&] { rows_.release(in.data(), in.size()); });
  }

  void live(nb::handle mask) {
    const View<bool> out(mask, true);
    locked(mutex_, out.size(), [&] {
      for (size_t id = 0; id < out.size(); ++id) out.data()[id] = rows_.live(id);
    });
  }

  size_t size() { return locked(mutex_, 0, [&] { return rows_.size(); }); }
  size_t capacity() { return locked(mutex_, 0, [&] { return rows_.capacity(); }); }
  size_t nbytes() { return locked(mutex_, 0, [&] { return rows_.nbytes(); }); }
  void validate() { locked(mutex_, GIL_FREE_ROWS_MIN, [&] { rows_.validate(); }); }

 private:
  using Look = size_t (LiveRows::*)(const Lives&, size_t, size_t, Met&) const;

  nb::tuple look(Look question, const PyLives& lives, size_t from, size_t most) {
    Met met;
    const size_t end = locked(mutex_, (*lives).count,
                              [&] { return (rows_.*question)(*lives, from, most, met); });
    return nb::make_tuple(end, as_columns(std::move(met)));
  }

  nb::object keep_;
  std::mutex mutex_;
  LiveRows rows_;
};

}  // namespace

void define_live_rows(nb::module_& m) {
  nb::class_<PyLiveRows>(m, "LiveRows")
      .def(nb::init<nb::object>(), nb::arg("schema"))
      .def("add", &PyLiveRows::add, nb::arg("batch"), nb::arg("keys"), nb::arg("vs"),
           nb::arg("ve"), nb::arg("since"), nb::arg("ids"),
           "Stores rows; fills `ids`, -1 where a row ends before `since` and was not stored.")
      .def("meet", &PyLiveRows::meet, nb::arg("keys"), nb::arg("vs"), nb::arg("ve"),
           nb::arg("from_row"), nb::arg("most"),
           "How far it came, and (row, id, vs, ve) of what is alive with each.")
      .def("equals", &PyLiveRows::equals, nb::arg("keys"), nb::arg("vs"), nb::arg("ve"),
           nb::arg("from_row"), nb::arg("most"),
           "The same of what has exactly this key and lifetime.")
      .def("lives", &PyLiveRows::lives, nb::arg("ids"), nb::arg("keys"), nb::arg("vs"),
           nb::arg("ve"), "Fills keys and lifetimes of live ids.")
      .def("set_ends", &PyLiveRows::set_ends, nb::arg("ids"), nb::arg("ve"),
           "Lets rows end at other times.")
      .def("rows", &PyLiveRows::rows, nb::arg("ids"),
           "An Arrow array capsule of a batch, and the array's address.")
      .def("release", &PyLiveRows::release, nb::arg("ids"), "Forgets the rows of live ids.")
      .def("live", &PyLiveRows::live, nb::arg("mask"), "Fills `mask`: which ids are live.")
      .def("validate", &PyLiveRows::validate, "Raises RuntimeError where an invariant is broken.")
      .def("__len__", &PyLiveRows::size)
      .def_prop_ro("capacity", &PyLiveRows::capacity, "One above the largest live id.")
      .def_prop_ro("nbytes", &PyLiveRows::nbytes, "Bytes held.");
}

}  // namespace gapless

"""HyperLogLog: how many different values, from the rarest bit pattern among their hashes.

    hash   0110 000010...        the first `precision` bits name a register (6), and keeps the
                 rank 5          largest rank: zeros before the first one in the others, plus 1

Registers keep maxima, so neither order nor repeats show, and two sketches merge by the larger of
each register. The estimate is Ertl's (New cardinality estimation algorithms for HyperLogLog, 2017,
algorithm 6), which needs neither a table of corrections nor a logarithm: additions, products and
square roots, so every machine gives the same number. Its standard error is
1.04 / sqrt(2^precision).

Few ids see many values, so registers are kept one by one at first:

    sparse   (id, register) -> rank     a KeyTable and Chains, some fifty bytes for each that is set
    dense    2^precision bytes          a row of a matrix, from 1/64 of the registers on

In sub-aggregates all are dense.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.kernels import Chains, KeyTable
from gapless.kernels.columns import SPARE_SHARE, Column
from gapless.kernels.keys import Ids
from gapless.kernels.scatter import count_at, max_at
from gapless.operators.aggregates.hashing import hash_column
from gapless.operators.aggregates.parts import Part
from gapless.protocol.errors import Bug

PRECISION_MIN, PRECISION_MAX = 4, 16
"""16 registers, which say hardly more than the order of magnitude, to 64 KB a group: 0.4 % off."""
SPARSE_SHARE = 64
"""Registers set one by one take the memory of all of them at about 1/64 of their number."""

_KEY = pa.schema([pa.field("key", pa.int64(), nullable=False)])
_ALPHA = 0.7213475204444817
"""1 / (2 ln 2), the constant for very many registers."""
_FEW = 1.079
"""With m of them estimates are this by m too large (Flajolet et al., 2007): 2 % at 64."""

Bytes = npt.NDArray[np.uint8]


class Registers(Part):
    """2^precision registers by id."""

    def __init__(self, precision: int) -> None:
        self._precision = precision
        self._count = 1 << precision
        self.fields = [pa.field("registers", pa.binary(self._count), nullable=False)]
        self._sparse = KeyTable(_KEY)  # id * 2^precision + register -> entry
        self._keys = Column(-1)  # by entry; -1 where it is free
        self._ranks = Column(0)  # by entry
        self._of_id = Chains()  # id -> its entries
        self._sizes = Column(0)  # by id: how many entries it has
        self._dense = _Rows(self._count)

    def fit(self, capacity: int) -> None:
        """Makes room."""
        self._sizes.fit(capacity)
        self._dense.fit(capacity)

    def add(self, ids: Ids, values: pa.Array) -> None:
        """Hashes values into registers."""
        hashes = hash_column(values)
        registers = (hashes >> np.uint64(64 - self._precision)).view(np.int64)
        rest = hashes << np.uint64(self._precision)
        ranks = np.minimum(_leading_zeros(rest), 64 - self._precision) + 1
        self._offer(ids, registers, ranks)

    def _offer(self, ids: Ids, registers: Ids, ranks: Ids) -> None:
        """Keeps the largest ranks."""
        dense = self._dense.has(ids)
        self._dense.offer(ids[dense], registers[dense], ranks[dense])
        if np.count_nonzero(dense) == len(ids):
            return
        sparse = ~dense
        keys = (ids[sparse] << self._precision) | registers[sparse]
        entries, first = self._sparse.intern(_as_keys(keys))
        new = first.nonzero()[0]
        capacity = self._sparse.capacity
        self._keys.fit(capacity)[entries[new]] = keys[new]
        max_at(self._ranks.fit(capacity), entries, ranks[sparse])
        if len(new):
            owners = keys[new] >> self._precision
            self._of_id.add(owners, entries[new])
            count_at(self._sizes.values, owners)
            full = self._sizes.values[owners] > self._count // SPARSE_SHARE
            self._make_dense(np.unique(owners[full]))

    def _make_dense(self, ids: Ids) -> None:
        if not len(ids):
            return
        positions, entries = self._of_id.probe(ids)
        registers = self._keys.values[entries] & (self._count - 1)
        ranks = self._ranks.values[entries]
        self._forget_sparse(ids, entries)
        self._dense.start(ids)
        self._dense.offer(ids[positions], registers, ranks)

    def _forget_sparse(self, ids: Ids, entries: Ids) -> None:
        self._sizes.values[ids] = 0
        if not len(entries):
            return
        self._of_id.remove(entries)
        self._sparse.release(entries)
        self._keys.values[entries] = -1
        self._ranks.values[entries] = 0
        capacity = self._sparse.capacity
        self._keys.fit(capacity)
        self._ranks.fit(capacity)

    # -- sub-aggregates ---------------------------------------------------------------------------

    def take(self, ids: Ids) -> list[pa.Array]:
        """All registers, a byte each."""
        rows = np.zeros((len(ids), self._count), np.uint8)
        positions, entries = self._of_id.probe(ids)
        registers = self._keys.values[entries] & (self._count - 1)
        rows[positions, registers] = self._ranks.values[entries]
        dense = self._dense.has(ids)
        rows[dense] = self._dense.rows(ids[dense])
        data = pa.py_buffer(rows)
        return [pa.FixedSizeBinaryArray.from_buffers(self.fields[0].type, len(ids), [None, data])]

    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Keeps the larger of each register."""
        (column,) = columns
        n = self._count
        rows = np.frombuffer(column.buffers()[1], np.uint8, len(ids) * n, column.offset * n)
        places = rows.nonzero()[0]
        ranks = rows[places].astype(np.int64)
        self._offer(ids[places >> self._precision], places & (n - 1), ranks)

    def clear(self, ids: Ids) -> None:
        """Back to no values."""
        _, entries = self._of_id.probe(ids)
        self._forget_sparse(ids, entries)
        self._dense.stop(ids[self._dense.has(ids)])

    # -- answers ----------------------------------------------------------------------------------

    def estimates(self, ids: Ids) -> Ids:
        """How many different values these ids have seen, rounded."""
        levels = 64 - self._precision + 2  # ranks, and 0 for a register that nothing has set
        counts = np.zeros((len(ids), levels), np.int64)
        positions, entries = self._of_id.probe(ids)
        count_at(counts.reshape(-1), positions * levels + self._ranks.values[entries])
        counts[:, 0] = self._count - counts.sum(axis=1)
        dense = self._dense.has(ids)
        for i in dense.nonzero()[0].tolist():  # a pass over all registers of one: no loop over rows
            counts[i] = np.bincount(self._dense.row(int(ids[i])), minlength=levels)
        return np.rint(_estimates(counts, self._count)).astype(np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of both kinds."""
        tables = int(self._sparse.nbytes) + int(self._of_id.nbytes) + self._dense.nbytes
        return tables + self._keys.nbytes + self._ranks.nbytes + self._sizes.nbytes

    def validate(self) -> None:
        """Every entry is in its chain and its id's size, and no id has both kinds."""
        self._sparse.validate()
        self._of_id.validate()
        self._dense.validate()
        live = (self._keys.values >= 0).nonzero()[0]
        owners = self._keys.values[live] >> self._precision
        sizes = np.bincount(owners, minlength=len(self._sizes.values))
        if not len(live) == len(self._sparse) == len(self._of_id):
            raise Bug(f"{len(live)} registers, {len(self._sparse)} keys, {len(self._of_id)} linked")
        if (sizes != self._sizes.values).any():
            raise Bug("an id has more or fewer registers than are counted")
        if np.count_nonzero(self._dense.has(owners)):
            raise Bug("an id has registers of both kinds")


class _Rows:
    """A row of bytes for some ids: the first `used` rows of a matrix, in no order."""

    def __init__(self, width: int) -> None:
        self._matrix = np.zeros((0, width), np.uint8)
        self._row_of = Column(-1)  # by id
        self._owners = np.zeros(0, np.int64)  # by row
        self._used = 0

    def fit(self, capacity: int) -> None:
        """Makes room for ids below `capacity`."""
        self._row_of.fit(capacity)

    def has(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which ids have a row."""
        has: npt.NDArray[np.bool_] = self._row_of.values[ids] >= 0
        return has

    def row(self, id: int) -> Bytes:
        """The row of an id that has one."""
        row: Bytes = self._matrix[self._row_of.values[id]]
        return row

    def rows(self, ids: Ids) -> Bytes:
        """The rows of ids that have one."""
        rows: Bytes = self._matrix[self._row_of.values[ids]]
        return rows

    def offer(self, ids: Ids, places: Ids, values: Ids) -> None:
        """Keeps the largest values."""
        if len(ids):
            at = self._row_of.values[ids] * self._matrix.shape[1] + places
            np.maximum.at(self._matrix.reshape(-1), at, values.astype(np.uint8))

    def start(self, ids: Ids) -> None:
        """Gives each of these ids a row of zeros."""
        begin = self._used
        self._used += len(ids)
        self._resize()
        self._owners[begin : self._used] = ids
        self._row_of.values[ids] = np.arange(begin, self._used)

    def stop(self, ids: Ids) -> None:
        """Takes the rows of these ids away; the last rows move into the holes."""
        if not len(ids):
            return
        rows = self._row_of.values[ids]
        self._row_of.values[ids] = -1
        left = self._used - len(ids)
        holes = rows[rows < left]
        moves = np.setdiff1d(np.arange(left, self._used), rows)
        self._matrix[holes] = self._matrix[moves]
        self._owners[holes] = self._owners[moves]
        self._row_of.values[self._owners[holes]] = holes
        self._matrix[left : self._used] = 0
        self._used = left
        self._resize()

    def _resize(self) -> None:
        room = len(self._matrix)
        if self._used <= room <= SPARE_SHARE * self._used:
            return
        wanted = self._used + self._used // SPARE_SHARE
        kept = min(room, self._used)
        matrix = np.zeros((wanted, self._matrix.shape[1]), np.uint8)
        owners = np.zeros(wanted, np.int64)
        matrix[:kept], owners[:kept] = self._matrix[:kept], self._owners[:kept]
        self._matrix, self._owners = matrix, owners

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix and of what finds a row in it."""
        return self._matrix.nbytes + self._owners.nbytes + self._row_of.nbytes

    def validate(self) -> None:
        """Rows and ids name each other."""
        rows = np.arange(self._used)
        if (self._row_of.values[self._owners[rows]] != rows).any():
            raise Bug("a row of registers is not its owner's")
        if np.count_nonzero(self._row_of.values >= 0) != self._used:
            raise Bug("an id names a row that is not in use")


def _as_keys(keys: Ids) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(keys)], schema=_KEY)


def _leading_zeros(words: npt.NDArray[np.uint64]) -> Ids:
    """Zeros before the first one, of 64 bits; 64 where there is none."""
    high = (words >> np.uint64(32)).astype(np.float64)  # 32 bits are a float64 exactly, and
    low = (words & np.uint64(0xFFFFFFFF)).astype(np.float64)  # its exponent says how many there are
    bits = np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1])
    return 64 - bits.astype(np.int64)


def _estimates(counts: Ids, registers: int) -> npt.NDArray[np.float64]:
    """Ertl's algorithm 6: from how many registers have each rank, row by row."""
    m = float(registers)
    z = m * _tau(1.0 - counts[:, -1] / m)
    for k in range(counts.shape[1] - 2, 0, -1):
        z = 0.5 * (z + counts[:, k])
    with np.errstate(divide="ignore"):
        z = z + m * _sigma(counts[:, 0] / m)  # infinite where no register is set: 0
        return _ALPHA / (1.0 + _FEW / m) * m * m / z


def _sigma(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The sum of x^(2^k) * 2^(k-1) over k >= 1, plus x."""
    z = np.where(x == 1.0, np.inf, x)
    x, y = np.where(x == 1.0, 0.0, x), 1.0
    before = np.full_like(z, np.nan)
    while (z != before).any():
        x = x * x
        before, z = z, z + x * y
        y += y
    return z


def _tau(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(1 - x - the sum of (1 - x^(2^-k))^2 * 2^-k over k >= 1) / 3."""
    z, y = 1.0 - x, 1.0
    before = np.full_like(z, np.nan)
    while (z != before).any():
        x = np.sqrt(x)
        y *= 0.5
        rest = 1.0 - x
        before, z = z, z - rest * rest * y
    return z / 3.0

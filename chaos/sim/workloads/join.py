"""Two sources, joined: orders and payments of one account that are alive together.

An order lives for a while, a payment for another; a pair lives as long as both. Equal pairs are
common, so the output has no key and is merged by R4.
"""

from __future__ import annotations

import random

from gapless.chaos.sim.workloads.rows import SourcePace, below, draw, fronts, rows
from gapless.chaos.sim.workloads.workload import Batches, Workload
from gapless.engine.plan import Plan
from gapless.engine.source import source
from gapless.journal.layout import Layout
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb

ORDER_LIVES, PAYMENT_LIVES = 8, 5
PACE = SourcePace(batches=120, rows=(1, 3), advance=(2, 5), lateness=5)
"""Of both together: their batches come in turn, so neither runs ahead."""
ORDERS = StreamSchema({"ts": "int64", "account": "int32", "item": "int32"})
PAYMENTS = StreamSchema({"ts": "int64", "account": "int32", "paid": "int32"})

_orders = source("orders", ORDERS.payload, time="ts")
_payments = source("payments", PAYMENTS.payload, time="ts")
_query = (
    _orders.window(range=ORDER_LIVES)
    .join(_payments.lifetime(duration=PAYMENT_LIVES), on="account")
    .select("account", "item", "paid")
)
_spare = (
    _orders.select("account", "item")
    .lifetime(duration=ORDER_LIVES)
    .join(_payments.select("account", "paid").window(range=PAYMENT_LIVES), on="account")
)


def batches(rng: random.Random) -> Batches:
    """Both sources in turn; few accounts and items, so that pairs meet and repeat."""
    front = fronts(rng, PACE)
    account, few = below(3), below(2)
    orders = draw(rng, ORDERS, PACE, front[::2], {"account": account, "item": few})
    payments = draw(rng, PAYMENTS, PACE, front[1::2], {"account": account, "paid": few})
    turns = zip(orders, payments, strict=True)
    return [each for o, p in turns for each in (("orders", o), ("payments", p))]


def expected(batches: Batches) -> Tdb:
    """Each pair of one account whose lifetimes overlap."""
    payments = list(rows(batches, "payments"))
    pairs = [
        Event(
            (account, item, paid), max(ordered, at), min(ordered + ORDER_LIVES, at + PAYMENT_LIVES)
        )
        for ordered, account, item in rows(batches, "orders")
        for at, payer, paid in payments
        if payer == account and at < ordered + ORDER_LIVES and ordered < at + PAYMENT_LIVES
    ]
    return Tdb(_query.schema, pairs)


JOIN = Workload(
    name="join",
    plans={"plan": Plan(_query)},
    layouts={
        "orders": Layout(ORDERS, "ts", ("account",), 1, PACE.lateness),
        "payments": Layout(PAYMENTS, "ts", ("account",), 1, PACE.lateness),
    },
    batches=batches,
    expected=expected,
    case="r4",
    key=False,
    spare_plan=Plan(_spare),
)

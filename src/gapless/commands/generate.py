"""`gapless generate`: streams of events from a seed, into files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from gapless.commands.generate_run import DEFAULT_START, run, start_ms
from gapless.commands.option_groups import grouped
from gapless.commands.options import count, ms
from gapless.commands.terminal import AsJson

generate = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@generate.callback()
def group() -> None:
    """Make streams of test events from a seed.

    The same seed and options give the same rows; a shorter stream is the beginning of a longer one.
    """


# -- options ---------------------------------------------------------------------------------------

Out = Annotated[
    str,
    typer.Argument(
        metavar="OUT",
        help="A file (.parquet, .csv, .jsonl, .arrow), a folder, or - for standard output.",
    ),
]
Exponent = Annotated[
    float, typer.Option(help="Exponent of Zipf's law: 0 (uniform) to 10 (one has nearly all).")
]


@dataclass(frozen=True, kw_only=True)
class EventOptions:
    """Which events: how many, how fast, from when on."""

    events: Annotated[
        str,
        typer.Option(
            "--events", metavar="N", help="Number of events: 200, 10k, 5M, 2G; up to 1000G."
        ),
    ] = "1M"
    seed: Annotated[int, typer.Option(help="Random seed: 0 to 2**63 - 1.")] = 0
    rate: Annotated[
        str, typer.Option(metavar="N", help="Events per second of event time: 1 to 1G.")
    ] = "10k"
    start: Annotated[str, typer.Option(metavar="TIME", help="The first event's time, in UTC.")] = (
        DEFAULT_START
    )

    def for_stream(self) -> dict[str, int]:
        """The arguments of a stream that these are."""
        return {
            "seed": self.seed,
            "events": count("--events", self.events),
            "rate": count("--rate", self.rate),
            "start_ms": start_ms(self.start),
        }


LEASES = EventOptions(rate="100")
"""A lease takes minutes: of more a second there would be no addresses."""


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """The files that events go into."""

    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="For a folder: parquet (default), csv, jsonl, arrow; for -: jsonl, csv.",
        ),
    ] = None
    files: Annotated[
        int,
        typer.Option(
            help="In a folder: split each stream into this many files, in order: 1 to 10000."
        ),
    ] = 1
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False


class DisorderChoice(StrEnum):
    """Values of `--disorder`."""

    NONE = "none"
    BAND = "band"
    BLOCK = "block"


class KindChoice(StrEnum):
    """Values of `--kind`."""

    PERSON = "person"
    AUCTION = "auction"
    BID = "bid"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class DisorderOptions:
    """In which order flows are recorded."""

    disorder: Annotated[
        DisorderChoice,
        typer.Option(
            help=(
                "band: some rows are delayed; block: a router empties its cache from time to "
                "time, in random order."
            )
        ),
    ] = DisorderChoice.BAND
    lateness: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="No row is more than this below the largest time before it; up to 1d.",
        ),
    ] = "5s"
    late_share: Annotated[
        float, typer.Option(help="Band disorder: the share of delayed rows, 0 to 1.")
    ] = 0.2


@dataclass(frozen=True, kw_only=True)
class LullOptions:
    """When there are no flows."""

    lull: Annotated[str, typer.Option(metavar="TIME", help="Length of a pause without events.")] = (
        "0s"
    )
    lull_every: Annotated[
        str, typer.Option(metavar="TIME", help="One lull in each period of this length.")
    ] = "60s"


# -- the kinds ------------------------------------------------------------------------------------


@generate.command()
@grouped
def netflow(
    *,
    out: Out = "-",
    stream: EventOptions,
    hosts: Annotated[
        str, typer.Option(metavar="N", help="Number of hosts, 2 to 16777216.")
    ] = "10k",
    exponent: Exponent = 1.1,
    order: DisorderOptions,
    links: Annotated[int, typer.Option(help="Number of links that see flows, 1 to 100.")] = 1,
    skew: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help=(
                "How far the last link's clock is behind the first's, the others in between; "
                "uses part of the lateness."
            ),
        ),
    ] = "0s",
    pauses: LullOptions,
    to: FileOptions,
    as_json: AsJson = False,
) -> None:
    """Network flow records: busy hosts, bounded disorder, lulls, links.

    Columns: ts, src, dst, len, link.
    """
    from gapless.journal.generate import Netflow

    made = Netflow(
        **stream.for_stream(),
        hosts=count("--hosts", hosts),
        exponent=exponent,
        disorder=order.disorder.value,
        lateness_ms=ms("--lateness", order.lateness),
        late_share=order.late_share,
        links=links,
        skew_ms=ms("--skew", skew),
        lull_ms=ms("--lull", pauses.lull),
        lull_every_ms=ms("--lull-every", pauses.lull_every),
    )
    run("netflow", {"out": made}, out, to.format_, to.files, to.overwrite, as_json)


@generate.command()
@grouped
def nexmark(
    *,
    out: Out = "-",
    stream: EventOptions,
    kind: Annotated[
        KindChoice,
        typer.Option(help="The stream; all: persons, auctions and bids, in a folder."),
    ] = KindChoice.ALL,
    hot_auctions: Annotated[
        int, typer.Option(help="A bid is for the hot auction with probability 1 - 1 / this.")
    ] = 2,
    hot_bidders: Annotated[
        int, typer.Option(help="A bid is the hot bidder's with probability 1 - 1 / this.")
    ] = 4,
    hot_sellers: Annotated[
        int, typer.Option(help="An auction is the hot seller's with probability 1 - 1 / this.")
    ] = 4,
    in_flight: Annotated[
        int, typer.Option(help="Other bids go to one of this many newest auctions.")
    ] = 100,
    active: Annotated[
        int, typer.Option(help="Other bidders and sellers are among this many newest persons.")
    ] = 1000,
    to: FileOptions,
    as_json: AsJson = False,
) -> None:
    """Nexmark: persons, auctions and bids, 1 : 3 : 46 of all events.

    \b
    person   id, name, emailAddress, creditCard, city, state, dateTime
    auction  id, itemName, description, initialBid, reserve, dateTime, expires, seller, category
    bid      auction, bidder, price, channel, url, dateTime

    --events and --rate count the events of all three streams, whichever is made. The ratios are
    from 1 (nothing is hot) to 1000000; so are --in-flight and --active.
    """  # noqa: D301  # the mark \b keeps the lines below it as they are
    from gapless.journal.generate import Nexmark
    from gapless.journal.generate.nexmark import KINDS

    made = {
        f"{each}s": Nexmark(
            kind=each,
            **stream.for_stream(),
            hot_auctions=hot_auctions,
            hot_bidders=hot_bidders,
            hot_sellers=hot_sellers,
            in_flight=in_flight,
            active=active,
        )
        for each in KINDS
        if kind in (KindChoice.ALL, each)
    }
    run("nexmark", made, out, to.format_, to.files, to.overwrite, as_json)


@generate.command()
@grouped
def dhcp(
    *,
    out: Out = "-",
    stream: EventOptions = LEASES,
    lease: Annotated[
        str, typer.Option(metavar="TIME", help="Length of a lease: 1s to 30d.")
    ] = "10m",
    early: Annotated[
        float, typer.Option(help="The share of leases that end early instead of being renewed.")
    ] = 0.1,
    silent: Annotated[
        float, typer.Option(help="The share of leases that expire without a release.")
    ] = 0.1,
    clients: Annotated[
        int, typer.Option(help="Clients that share an address, one at a time: 1 to 4.")
    ] = 3,
    to: FileOptions,
    as_json: AsJson = False,
) -> None:
    """Address leases, whose ends are known only later.

    Columns: ts, mac, ip, event (lease, renew or release), expires.

    The number of addresses, 64 to 1048576, is about half the product of rate and lease time. None
    is leased at the start, so the rate is reached after about one lease time.
    """
    from gapless.journal.generate import Dhcp

    made = Dhcp(
        **stream.for_stream(),
        lease_ms=ms("--lease", lease),
        early_share=early,
        silent_share=silent,
        clients=clients,
    )
    run("dhcp", {"out": made}, out, to.format_, to.files, to.overwrite, as_json)


@generate.command()
@grouped
def quotes(
    *,
    out: Out = "-",
    stream: EventOptions,
    symbols: Annotated[
        str, typer.Option(metavar="N", help="Number of symbols, 1 to 100000.")
    ] = "1k",
    exponent: Exponent = 1.1,
    burst: Annotated[str, typer.Option(metavar="TIME", help="Length of a burst.")] = "500ms",
    burst_every: Annotated[
        str, typer.Option(metavar="TIME", help="One burst in each period of this length.")
    ] = "10s",
    burst_factor: Annotated[
        int, typer.Option(help="Rate of a burst, as a multiple of --rate: 1 to 10000.")
    ] = 20,
    to: FileOptions,
    as_json: AsJson = False,
) -> None:
    """Price updates: a few symbols have most of them, in bursts.

    Columns: ts, symbol, bid, ask (both in cents), size, seq (counts the symbol's updates).
    """
    from gapless.journal.generate import Quotes

    made = Quotes(
        **stream.for_stream(),
        symbols=count("--symbols", symbols),
        exponent=exponent,
        burst_ms=ms("--burst", burst),
        burst_every_ms=ms("--burst-every", burst_every),
        burst_factor=burst_factor,
    )
    run("quotes", {"out": made}, out, to.format_, to.files, to.overwrite, as_json)

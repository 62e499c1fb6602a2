"""`gapless generate`: streams of events from a seed, into files."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gapless.commands.generating import DEFAULT_START, run, start_ms
from gapless.commands.options import count, ms
from gapless.commands.terminal import AsJson

generate = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@generate.callback()
def group() -> None:
    """Make streams of test events from a seed.

    The same seed and options give the same rows; a shorter stream is the beginning of a longer one.
    """


# -- options that all have ------------------------------------------------------------------------

Out = Annotated[
    str,
    typer.Argument(
        metavar="OUT",
        help="A file (.parquet, .csv, .jsonl, .arrow), a folder, or - for standard output.",
    ),
]
EventCount = Annotated[
    str,
    typer.Option("--events", metavar="N", help="Number of events: 200, 10k, 5M, 2G; up to 1000G."),
]
Seed = Annotated[int, typer.Option(help="Random seed: 0 to 2**63 - 1.")]
Rate = Annotated[str, typer.Option(metavar="N", help="Events per second of event time: 1 to 1G.")]
Start = Annotated[str, typer.Option(metavar="TIME", help="The first event's time, in UTC.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", help="For a folder: parquet (default), csv, jsonl, arrow; for -: jsonl, csv."
    ),
]
Files = Annotated[
    int,
    typer.Option(help="In a folder: split each stream into this many files, in order: 1 to 10000."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
Exponent = Annotated[
    float, typer.Option(help="Exponent of Zipf's law: 0 (uniform) to 10 (one has nearly all).")
]


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


# -- the kinds ------------------------------------------------------------------------------------


@generate.command()
def netflow(
    out: Out = "-",
    events: EventCount = "1M",
    seed: Seed = 0,
    rate: Rate = "10k",
    start: Start = DEFAULT_START,
    hosts: Annotated[
        str, typer.Option(metavar="N", help="Number of hosts, 2 to 16777216.")
    ] = "10k",
    exponent: Exponent = 1.1,
    disorder: Annotated[
        DisorderChoice,
        typer.Option(
            help=(
                "band: some rows are delayed; block: a router empties its cache from time to "
                "time, in random order."
            )
        ),
    ] = DisorderChoice.BAND,
    lateness: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="No row is more than this below the largest time before it; up to 1d.",
        ),
    ] = "5s",
    late_share: Annotated[
        float, typer.Option(help="Band disorder: the share of delayed rows, 0 to 1.")
    ] = 0.2,
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
    lull: Annotated[
        str, typer.Option(metavar="TIME", help="Length of a pause without events.")
    ] = "0s",
    lull_every: Annotated[
        str, typer.Option(metavar="TIME", help="One lull in each period of this length.")
    ] = "60s",
    format_: Format = None,
    files: Files = 1,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Network flow records: busy hosts, bounded disorder, lulls, links.

    Columns: ts, src, dst, len, link.
    """
    from gapless.journal.generate import Netflow

    made = Netflow(
        seed=seed,
        events=count("--events", events),
        rate=count("--rate", rate),
        start_ms=start_ms(start),
        hosts=count("--hosts", hosts),
        exponent=exponent,
        disorder=disorder.value,
        lateness_ms=ms("--lateness", lateness),
        late_share=late_share,
        links=links,
        skew_ms=ms("--skew", skew),
        lull_ms=ms("--lull", lull),
        lull_every_ms=ms("--lull-every", lull_every),
    )
    run("netflow", {"out": made}, out, format_, files, overwrite, as_json)


@generate.command()
def nexmark(
    out: Out = "-",
    events: EventCount = "1M",
    seed: Seed = 0,
    rate: Rate = "10k",
    start: Start = DEFAULT_START,
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
    format_: Format = None,
    files: Files = 1,
    overwrite: Overwrite = False,
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
            seed=seed,
            events=count("--events", events),
            rate=count("--rate", rate),
            start_ms=start_ms(start),
            hot_auctions=hot_auctions,
            hot_bidders=hot_bidders,
            hot_sellers=hot_sellers,
            in_flight=in_flight,
            active=active,
        )
        for each in KINDS
        if kind in (KindChoice.ALL, each)
    }
    run("nexmark", made, out, format_, files, overwrite, as_json)


@generate.command()
def dhcp(
    out: Out = "-",
    events: EventCount = "1M",
    seed: Seed = 0,
    rate: Rate = "100",
    start: Start = DEFAULT_START,
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
    format_: Format = None,
    files: Files = 1,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Address leases, whose ends are known only later.

    Columns: ts, mac, ip, event (lease, renew or release), expires.

    The number of addresses, 64 to 1048576, is about half the product of rate and lease time. None
    is leased at the start, so the rate is reached after about one lease time.
    """
    from gapless.journal.generate import Dhcp

    made = Dhcp(
        seed=seed,
        events=count("--events", events),
        rate=count("--rate", rate),
        start_ms=start_ms(start),
        lease_ms=ms("--lease", lease),
        early_share=early,
        silent_share=silent,
        clients=clients,
    )
    run("dhcp", {"out": made}, out, format_, files, overwrite, as_json)


@generate.command()
def quotes(
    out: Out = "-",
    events: EventCount = "1M",
    seed: Seed = 0,
    rate: Rate = "10k",
    start: Start = DEFAULT_START,
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
    format_: Format = None,
    files: Files = 1,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Price updates: a few symbols have most of them, in bursts.

    Columns: ts, symbol, bid, ask (both in cents), size, seq (counts the symbol's updates).
    """
    from gapless.journal.generate import Quotes

    made = Quotes(
        seed=seed,
        events=count("--events", events),
        rate=count("--rate", rate),
        start_ms=start_ms(start),
        symbols=count("--symbols", symbols),
        exponent=exponent,
        burst_ms=ms("--burst", burst),
        burst_every_ms=ms("--burst-every", burst_every),
        burst_factor=burst_factor,
    )
    run("quotes", {"out": made}, out, format_, files, overwrite, as_json)

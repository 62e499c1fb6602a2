"""Polars over the Parquet files, as one lazy query: WORKLOAD FORMAT DATA OUT CORES."""

import json
import os
import sys
import time

workload, _format, data, out, cores = sys.argv[1:]
os.environ["POLARS_MAX_THREADS"] = cores  # read as it is imported

import polars as pl  # noqa: E402  # only now


def windows(slides: int) -> pl.LazyFrame:
    """Windows of so many panes of 1 s."""
    panes = (
        pl.scan_parquet(f"{data}/flows.parquet")
        .group_by((pl.col("ts") // 1000).alias("pane"), "src")
        .agg(pl.len().cast(pl.Int64).alias("cnt"), pl.col("len").cast(pl.Int64).sum().alias("slen"))
    )
    if slides == 1:
        return panes.select((pl.col("pane") * 1000).alias("w"), "src", "cnt", "slen")
    moved = [panes.with_columns(w=(pl.col("pane") - i) * 1000) for i in range(slides)]
    totals = pl.col("cnt").sum(), pl.col("slen").sum()
    return pl.concat(moved).group_by("w", "src").agg(*totals)


def pairs() -> pl.LazyFrame:
    """W3."""
    left = pl.scan_parquet(f"{data}/a.parquet").rename({"id": "aid"})
    right = pl.scan_parquet(f"{data}/b.parquet").rename({"id": "bid", "ts": "bts"})
    near = (pl.col("ts") - pl.col("bts")).abs() <= 2000
    return left.join(right, on="key").filter(near).select("aid", "bid")


start = time.perf_counter()
query = {"w1": lambda: windows(10), "w2": lambda: windows(1), "w3": pairs}[workload]()
query.sink_parquet(f"{out}/result.parquet", engine="streaming")
seconds = time.perf_counter() - start
sys.stdout.write(json.dumps({"seconds": seconds, "version": pl.__version__}) + "\n")

"""Settings: which of flag, environment and file counts, and what is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.protocol.errors import Misuse
from gapless.sidecar.options import is_loopback
from gapless.sidecar.server.settings import SidecarSettings, load, shown

FILE = """
listen = "127.0.0.1:1"
retain_s = 60

[limits]
streams_max = 5

[[token]]
name = "spark"
sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
push = ["talkers"]

[[stream]]
name = "talkers"
columns = { src = "string", n = "int64" }
key = true
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "sidecar.toml"
    path.write_text(FILE)
    return path


def test_a_flag_counts_before_the_environment_before_the_file(config: Path) -> None:
    environment = {"GAPLESS_SIDECAR_LISTEN": "127.0.0.1:2", "GAPLESS_SIDECAR_RETAIN_S": "70"}
    told = load({"listen": "127.0.0.1:3", "data": None}, environment, config)
    settings = told.settings
    assert (settings.listen, settings.retain_s, settings.limits.streams_max) == (
        "127.0.0.1:3",
        70,
        5,
    )
    assert settings.data == SidecarSettings().data
    assert told.origins["listen"] == "flag"
    assert told.origins["retain_s"] == "GAPLESS_SIDECAR_RETAIN_S"
    assert told.origins["streams_max"] == str(config)
    assert told.origins["data"] == "default"


def test_tokens_and_streams_come_from_the_file(config: Path) -> None:
    settings = load({}, {}, config).settings
    (grant,) = settings.tokens
    assert grant.allows("push", "talkers")
    (definition,) = settings.streams
    assert definition.schema.names == ["src", "n"]
    assert definition.case == "r3"


def test_what_is_shown_says_where_each_is_from_and_no_secret(config: Path) -> None:
    rows = shown(load({"drain_s": "5"}, {}, config))
    assert ("drain_s", "5", "flag") in rows
    assert ("token", "spark", "file") in rows
    assert not any("9f86" in value for _, value, _ in rows)


WRONG = {
    "an invalid name": 'lissten = "x"',
    "a number for a text": "listen = 7070",
    "a text for a number": 'retain_s = "60"',
    "an address without a port": 'listen = "127.0.0.1"',
    "a port beyond all": 'listen = "127.0.0.1:99999"',
    "half of a pair": 'tls_certificate = "x"',
    "a limit of nothing": "[limits]\nstreams_max = 0",
    "bytes below none": "retain_bytes = -5",
    "seconds below none": "retain_s = -1",
    "seconds of a thousand years": "retain_s = 99_999_999_999",
    "no time to close": "drain_s = 0",
    "time to close below none": "drain_s = -3",
    "a limit that gRPC does not know": "[limits]\nframe_bytes_max = 4_294_967_296",
    "a limit below none": "[limits]\nabsent_s = -1",
    "fewer streams of a token than none": (
        f'[[token]]\nname = "a"\nsha256 = "{"00" * 32}"\nstreams = -1'
    ),
    "no TOML": "listen",
    "a token that is a text": 'token = "x"',
    "a stream without columns": '[[stream]]\nname = "s"',
    "a stream of no type": '[[stream]]\nname = "s"\ncolumns = { x = "list" }',
    "a stream with a bad name": '[[stream]]\nname = "../s"\ncolumns = { x = "int64" }',
}


@pytest.mark.parametrize("what", WRONG)
def test_what_means_nothing_is_an_error(tmp_path: Path, what: str) -> None:
    path = tmp_path / "sidecar.toml"
    path.write_text(WRONG[what])
    with pytest.raises(Misuse):
        load({}, {}, path)


def test_an_unknown_name_in_the_environment_is_an_error() -> None:
    with pytest.raises(Misuse, match="lissten"):
        load({}, {"GAPLESS_SIDECAR_LISSTEN": "x"}, None)
    with pytest.raises(Misuse, match="whole number"):
        load({}, {"GAPLESS_SIDECAR_RETAIN_S": "soon"}, None)
    with pytest.raises(Misuse, match="true or false"):
        load({}, {"GAPLESS_SIDECAR_REFLECTION": "maybe"}, None)


TLS = {"tls_certificate": "a.pem", "tls_key": "a.key"}


def test_beyond_this_machine_nothing_is_open_by_accident() -> None:
    with pytest.raises(Misuse, match="nothing is encrypted"):
        load({"listen": "0.0.0.0:7070"}, {}, None)
    with pytest.raises(Misuse, match="anybody may push"):
        load({"listen": "0.0.0.0:7070", **TLS}, {}, None)
    load({"listen": "0.0.0.0:7070", **TLS, "tls_client_ca": "ca.pem"}, {}, None)
    load({"listen": "0.0.0.0:7070", "insecure": True}, {}, None)
    load({"listen": "127.0.0.1:7070"}, {}, None)


@pytest.mark.parametrize(
    ("address", "is_here"),
    [
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("example.org:1", False),
        ("localhost.example.org:1", False),
        ("127.0.0.1.example.org:1", False),
        ("unix.example.org:1", False),
    ],
)
def test_what_can_be_reached_from_elsewhere_is_told(address: str, *, is_here: bool) -> None:
    assert is_loopback(address) is is_here

"""Access: who may push to which stream, who may read it, who may look and drain.

    [[token]]                        a caller says   authorization: Bearer <secret>
    sha256 = "9f86d0..."             of the secret: the file itself gives nobody access
    name = "spark"
    push = ["talkers", "flows-*"]    names of streams, or how they begin
    producers = ["spark-*"]          as which producers it may push: no other token may that does
                                     not list them
    streams = 100                    how many streams that fit its `push` there may be for it to
                                     make one more
    subscribe = ["*"]
    admin = false                    Status of all streams, Drain, Remove

With mutual TLS a grant may be of a certificate instead: `certificate` is its common name.

Without any grant everybody who can connect may do everything; so a sidecar without tokens and
without client certificates listens on loopback only (settings.py). A secret is compared by its
hash, in a time that does not depend on what it is.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gapless.protocol.errors import Misuse
from gapless.sidecar.server.refusals import Refusal

Right = Literal["push", "subscribe", "admin"]
TOKENS_MAX = 1_000
"""Of one sidecar: each call looks at all of them."""
STREAMS_MAX = 100
"""Streams that fit what one token may push to, for it to make one more: a tenth of `streams_max`,
so that a program that makes up names leaves others room.
"""
SECRET_CHARS_MAX = 4_096
"""Of a secret: what a header holds. A longer one is refused: where it was cut, all that begin alike
would be one."""
_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class Grant:
    """What the holder of one secret may do."""

    name: str
    sha256: bytes = b""
    """Of the secret; empty where a certificate is shown."""
    certificate: str = ""
    """The common name of the certificate; empty where a secret is shown."""
    push: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    admin: bool = False
    producers: tuple[str, ...] = ()
    """As which producers it may push; empty for any that no other token lists, or came with."""
    streams: int | None = STREAMS_MAX
    """How many streams that fit `push` it may fill up; None for as many as there may be."""

    def names_producer(self, producer: str) -> bool:
        """Whether it lists this producer."""
        return any(_fits(pattern, producer) for pattern in self.producers)

    def owns_producer(self, stream: str, producer: str) -> bool:
        """Whether a producer's name on a stream is for those who list it. `*` names nobody."""
        owned = any(p != "*" and _fits(p, producer) for p in self.producers)
        return owned and self.allows("push", stream)

    def may(self, right: Right) -> bool:
        """Whether it has a right on any stream at all."""
        return self.admin if right == "admin" else bool(getattr(self, right))

    def allows(self, right: Right, stream: str) -> bool:
        """Whether it has a right on a stream."""
        if right == "admin":
            return self.admin
        patterns = self.push if right == "push" else self.subscribe
        return any(_fits(pattern, stream) for pattern in patterns)


EVERYBODY = Grant("", push=("*",), subscribe=("*",), admin=True, streams=None)
"""Where there are no grants."""


class Access:
    """All tokens of a sidecar."""

    def __init__(self, grants: Sequence[Grant] = ()) -> None:
        if len(grants) > TOKENS_MAX:
            raise Misuse(f"{len(grants)} tokens: {TOKENS_MAX} are the most")
        self._grants = tuple(grants)

    @property
    def is_open(self) -> bool:
        """Whether no token is asked for."""
        return not self._grants

    def grant(self, metadata: Mapping[str, str], certificate: str = "") -> Grant:
        """Who calls; `certificate` is the common name that TLS has verified. Raises `Refusal` where
        that is nobody we know.
        """
        if self.is_open:
            return EVERYBODY
        for grant in self._grants:
            if certificate and grant.certificate == certificate:
                return grant
        said = metadata.get("authorization", "")
        if not said.lower().startswith(_SCHEME):
            raise Refusal(
                "UNAUTHENTICATED",
                "a token is asked for: token= of a Producer or Consumer, GAPLESS_TOKEN at a shell, "
                "else `authorization: Bearer <token>`",
            )
        secret = said[len(_SCHEME) :]
        if len(secret) > SECRET_CHARS_MAX:
            raise Refusal(
                "UNAUTHENTICATED",
                f"a token of {len(secret)} characters: {SECRET_CHARS_MAX} are the most",
            )
        hashed = hashlib.sha256(secret.encode()).digest()
        found: Grant | None = None
        for grant in self._grants:
            if grant.sha256 and hmac.compare_digest(grant.sha256, hashed):
                found = grant
        if found is None:
            raise Refusal("UNAUTHENTICATED", "nobody knows this token")
        return found

    def check_producer(self, grant: Grant, stream: str, producer: str) -> None:
        """Raises `Refusal` where a caller may not push to a stream as this producer: a name that
        the settings of others list is theirs, also before they come.
        """
        if grant.names_producer(producer):
            return
        if grant.producers:
            raise Refusal(
                "PERMISSION_DENIED",
                f"the token {grant.name!r} may not push as {producer!r:.70}: its producers are "
                f"{', '.join(grant.producers):.200}",
            )
        if any(each.owns_producer(stream, producer) for each in self._grants):
            raise Refusal(
                "PERMISSION_DENIED",
                f"other tokens list {producer!r:.70} among their `producers`: use another name, or "
                f"have it listed in those of {grant.name!r}",
            )


def check(grant: Grant, right: Right, stream: str = "") -> None:
    """Raises `Refusal` where a caller may not."""
    if grant.allows(right, stream):
        return
    what = "drain, or remove anything" if right == "admin" else f"{right} {stream!r:.70}"
    if not stream and right != "admin":
        what = f"{right} anything"
    raise Refusal("PERMISSION_DENIED", f"the token {grant.name!r} may not {what}")


def check_quota(grant: Grant, streams: Iterable[str]) -> None:
    """Raises `Refusal` where a caller may not make one more stream beside these."""
    if grant.streams is None:
        return
    fit = sum(grant.allows("push", stream) for stream in streams)
    if fit >= grant.streams:
        raise Refusal(
            "RESOURCE_EXHAUSTED",
            f"{fit} streams fit what the token {grant.name!r} may push to, and it may fill up "
            f"{grant.streams}: push to one of them, remove one (gapless sidecar remove), or raise "
            "`streams` of its [[token]]",
        )


def parse_grant(document: Mapping[str, object]) -> Grant:
    """A grant as a settings file has it. Raises `Misuse`."""
    known = {"name", "sha256", "certificate", "push", "subscribe", "admin", "producers", "streams"}
    unknown = set(document) - known
    if unknown:
        there = ", ".join(sorted(known))
        raise Misuse(f"token: {min(unknown)!r} is not a setting; there are {there}")
    name, digest = document.get("name", ""), document.get("sha256", "")
    certificate = document.get("certificate", "")
    admin = document.get("admin", False)
    if not isinstance(name, str) or not name:
        raise Misuse("token: it needs a name, for those who read the log")
    try:
        hashed = bytes.fromhex(digest) if isinstance(digest, str) else b""
    except ValueError:
        hashed = b""
    if not isinstance(certificate, str) or bool(certificate) == bool(digest):
        raise Misuse(f"token {name}: it has a sha256, or a certificate's common name")
    if digest and len(hashed) != hashlib.sha256().digest_size:
        raise Misuse(f"token {name}: sha256 is 64 hexadecimal digits: printf %s SECRET | sha256sum")
    if not isinstance(admin, bool):
        raise Misuse(f"token {name}: admin is true or false")
    streams = document.get("streams", STREAMS_MAX)
    if type(streams) is not int or streams < 0:
        raise Misuse(f"token {name}: streams = {streams!r}: a whole number, 0 or more")
    return Grant(
        name,
        hashed,
        certificate,
        _patterns(document, name, "push"),
        _patterns(document, name, "subscribe"),
        admin,
        _patterns(document, name, "producers"),
        streams,
    )


def _patterns(document: Mapping[str, object], name: str, right: str) -> tuple[str, ...]:
    listed = document.get(right, [])
    if not isinstance(listed, list) or not all(isinstance(p, str) for p in listed):
        raise Misuse(f"token {name}: {right} is a list of names, a * may end each")
    patterns = tuple(str(p) for p in listed)
    wrong = [p for p in patterns if "*" in p[:-1] or not p]
    if wrong:
        raise Misuse(f"token {name}: {wrong[0]!r}: a * stands at the end of a name only")
    return patterns


def _fits(pattern: str, stream: str) -> bool:
    if pattern.endswith("*"):
        return stream.startswith(pattern[:-1])
    return pattern == stream

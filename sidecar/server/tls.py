"""TLS: a server's credentials from files, read again when the files change.

    tls_certificate, tls_key      who this is
    tls_client_ca                 whose signature a client's certificate needs; mutual TLS with it

Certificates are replaced on disk by those who renew them; each new connection is shown the newest
that reads. A file that does not read, or a certificate whose key is not there yet, leaves the one
before in place, and that is said in the log.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import grpc

from gapless.protocol.errors import Misuse

FILE_BYTES_MAX = 1 << 20
"""Of a file with certificates: chains are a few kilobytes."""

_log = logging.getLogger("gapless.sidecar")


class Certificates:
    """The files, and what was read of them last."""

    def __init__(self, certificate: str, key: str, client_ca: str = "") -> None:
        """Raises `Misuse` where they do not read now."""
        self._paths = [Path(certificate), Path(key), *([Path(client_ca)] if client_ca else [])]
        try:
            self._stamp = self._stamps()
            self._config = self._read()
        except (OSError, ValueError) as e:
            raise Misuse(f"TLS: {e}") from None

    def credentials(self) -> Any:
        """For a server's port."""
        return grpc.dynamic_ssl_server_credentials(
            self._config, self.newest, require_client_authentication=len(self._paths) > 2
        )

    def newest(self) -> Any:
        """What a new connection is shown; None: as before. Called by gRPC's threads."""
        try:
            stamp = self._stamps()
            if stamp == self._stamp:
                return None
            config = self._read()
        except (OSError, ValueError) as e:
            _log.warning("TLS: the certificate stays as it was: %s", e)
            return None
        self._stamp, self._config = stamp, config
        _log.warning("TLS: certificate read again")
        return config

    def _stamps(self) -> list[tuple[int, int, int]]:
        stats = [path.stat() for path in self._paths]
        return [(s.st_ino, s.st_mtime_ns, s.st_size) for s in stats]

    def _read(self) -> Any:
        data = []
        for path in self._paths:
            if path.stat().st_size > FILE_BYTES_MAX:
                raise ValueError(f"{path} has over {FILE_BYTES_MAX} bytes")
            data.append(path.read_bytes())
        certificate, key, *client_ca = data
        _check_pair(self._paths[0], self._paths[1])
        return grpc.ssl_server_certificate_configuration(
            [(key, certificate)], client_ca[0] if client_ca else None
        )


def _check_pair(certificate: Path, key: Path) -> None:
    """Raises `ValueError` where a key is not that of a certificate, or either is none."""
    import ssl

    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password="")  # without one OpenSSL asks a person
    except ssl.SSLError as e:
        raise ValueError(f"{certificate} and {key} are no pair: {e}") from None

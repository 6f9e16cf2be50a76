"""Hashes and checksums: known answers, and equality with a slow, obvious form."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import _core


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0x2D06800538D394C2),
        (b"", 1, 0x4DC5B0CC826F6703),
        (b"abc", 0, 0x78AF5F94892F3950),
        (b"a" * 240, 0, 0x993C46D96A01B5C6),
        (b"a" * 241, 0, 0xF6CFEF5C5ACA1930),
    ],
)
def test_xxh3_64_known_answers(data: bytes, seed: int, expected: int) -> None:
    assert _core.xxh3_64(data, seed) == expected


def test_crc32c_known_answers() -> None:
    # RFC 3720, appendix B.4
    assert _core.crc32c(b"123456789") == 0xE3069283
    assert _core.crc32c(bytes(32)) == 0x8A9136AA
    assert _core.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert _core.crc32c(bytes(range(32))) == 0x46DD794E


def slow_crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@given(st.binary(max_size=2000), st.integers(0, 2000))
def test_crc32c_equals_the_bitwise_form_in_pieces_too(data: bytes, cut: int) -> None:
    assert _core.crc32c(data) == slow_crc32c(data)
    assert _core.crc32c(data[cut:], _core.crc32c(data[:cut])) == slow_crc32c(data)


@pytest.mark.parametrize("size", [767, 768, 769, 12287, 12288, 12289, 13056, 100_003])
def test_crc32c_around_the_three_streams(size: int) -> None:
    data = bytes(i * 7 % 251 for i in range(size))
    assert _core.crc32c(data) == slow_crc32c(data)


def test_openssl_without_hmac_is_one_sentence(tmp_path: Path) -> None:
    configuration = tmp_path / "openssl.cnf"
    configuration.write_text(
        "openssl_conf = all\n[all]\nalg_section = algorithms\n"
        "[algorithms]\ndefault_properties = provider=none\n"
    )
    ask = """
from holdfast import _core, errors
try:
    _core.hmac_sha256(b"key", b"data")
except errors.HoldfastError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", ask],
        env={**os.environ, "OPENSSL_CONF": str(configuration)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("OpenSSL has no HMAC-SHA256 (")
    assert "OPENSSL_CONF" in ran.stdout

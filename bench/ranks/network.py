"""A network of namespaces for bench/ddp.py: one a rank, and a bridge in one of its own.

Each rank's link is limited by tbf in both directions. Traffic stays on this machine. Everything is removed at
the end, also after a failure: a namespace takes its links along.
"""
from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

BURST, QUEUE = "32kb", "16mb"


@dataclass(frozen=True)
class Network:
    """How ranks reach each other. `prefixes`: the words in front of each rank's command. `how`: in words."""

    prefixes: tuple[tuple[str, ...], ...]
    host: str
    interface: str
    how: str


@contextmanager
def make_network(ranks: int, mbit: int) -> Iterator[Network]:
    """Give a network of `ranks` ranks whose links carry `mbit` * 10^6 bits a second; where the system refuses, loopback without limit."""
    made: list[str] = []
    try:
        why = _make(ranks, mbit, made)
        if why:
            yield Network(((),) * ranks, "127.0.0.1", "lo", f"loopback, not limited ({why})")
        else:
            prefixes = tuple(("ip", "netns", "exec", f"{_name()}r{r}") for r in range(ranks))
            yield Network(prefixes, "10.77.0.1", "eth0", f"network namespaces, each link limited to {mbit} Mbit/s by tbf")
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False, timeout=30)


def _name() -> str:
    return f"aoec{os.getpid()}"


def _make(ranks: int, mbit: int, made: list[str]) -> str:
    """Make the namespaces, whose names are put into `made`; return why it cannot be, or nothing."""
    lacks = [tool for tool in ("ip", "tc") if not shutil.which(tool)]
    if lacks:
        return f"no {' and no '.join(lacks)} here"
    hub = f"{_name()}h"
    words = []
    for name in (hub, *(f"{_name()}r{r}" for r in range(ranks))):
        words += [f"ip netns add {name}", f"ip -n {name} link set lo up"]
    words += [f"ip -n {hub} link add br0 type bridge", f"ip -n {hub} link set br0 up"]
    for r in range(ranks):
        own = f"{_name()}r{r}"
        words += [f"ip -n {own} link add eth0 type veth peer name p{r} netns {hub}", f"ip -n {hub} link set p{r} master br0 up",
                  f"ip -n {own} addr add 10.77.0.{r + 1}/24 dev eth0", f"ip -n {own} link set eth0 up"]
        words += [f"ip netns exec {n} tc qdisc add dev {device} root tbf rate {mbit}mbit burst {BURST} limit {QUEUE}"
                  for n, device in ((own, "eth0"), (hub, f"p{r}"))]
    for line in words:
        done = subprocess.run(line.split(), capture_output=True, text=True, check=False, timeout=30)
        if done.returncode:
            for name in made:
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False, timeout=30)
            made.clear()
            return f"{line.split()[0]} refused: {(done.stderr.strip().splitlines() or ['no reason given'])[0]}"
        if line.startswith("ip netns add"):
            made.append(line.split()[3])
    return ""

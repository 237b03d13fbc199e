"""`aoec systems`: what collectives cost."""
from __future__ import annotations

from pathlib import Path

from aoec.base.errors import CheckError
from aoec.base.files.files import read_text, write_text
from aoec.cli.command import Command, as_json
from aoec.options import readers
from aoec.options.option import File, argument, option, options
from aoec.options.shared import JsonOption


@options
class SystemsOptions(JsonOption):
    name: str | None = argument("NAME|FILE", default=None, file=File.READ,
                                help="a system to show, by name or as FILE.toml, or what hccl_test printed; none: all that come with aoec")
    ranks: int | None = option("--ranks", default=None, metavar="N", read=readers.positive,
                               help="ranks of a table of hccl_test, where the text does not say them")


def run(options: SystemsOptions) -> int:
    """Lists systems, or shows one."""
    from aoec.collectives import hccl_test, show_systems
    from aoec.collectives.system import load, names
    if options.name is None:
        if options.ranks:
            raise CheckError("--ranks goes with a table of hccl_test: aoec systems FILE --ranks 8")
        systems = [load(name) for name in names()]
        write_text("-", as_json([show_systems.facts_of(s) for s in systems]) if options.json else show_systems.show_all(systems))
        return 0
    is_table = options.name == "-" or (".toml" not in options.name and ("/" in options.name or Path(options.name).exists()))
    if options.ranks and not is_table:
        raise CheckError("--ranks goes with a table of hccl_test; a system says its own (FILE.toml:RANKS where it has several)")
    system = hccl_test.read(read_text(options.name), options.name, ranks=options.ranks or 0) if is_table else load(options.name)
    write_text("-", as_json(show_systems.facts_of(system)) if options.json else show_systems.show_system(system))
    return 0


COMMAND = Command(
    "systems", "list what collectives cost on systems of several devices, show one with its sources, or read what hccl_test printed",
    SystemsOptions, run, "collectives", 305, "aoec systems 910b-8")

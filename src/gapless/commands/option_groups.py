"""Options that belong together are one parameter of a command: a dataclass, its fields the options.

    @dataclass(frozen=True, kw_only=True)
    class Lull:                                  a group, used by one command or by several
        every: Annotated[str, typer.Option("--lull-every", ...)] = "60s"
        length: Annotated[str, typer.Option("--lull", ...)] = "0s"

    @app.command()
    @grouped                                     below Typer's own decorator
    def netflow(*, seed: Seed = 0, lull: Lull, as_json: AsJson = False) -> None:
        ... lull.every ...

    gapless netflow --seed 3 --lull 1s           --help has --seed, --lull-every, --lull, --json

Typer makes an option of each parameter that a function says it has. `grouped` lets the function say
that it has the fields of its groups, each group's in the place of the group. A group that is given
as the parameter's default gives its values as the options' defaults. Options keep the names of
their fields, so no two groups of a command have a field of one name: Python refuses that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer is to see it: without groups, with all of their options."""
    groups: dict[str, type[Any]] = {}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            options += _options_of(kind, parameter.default)
        else:
            options.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def with_groups(**given: Any) -> None:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        command(**given, **made)

    with_groups.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # inspect looks for it
    return with_groups


def _options_of(group: type[Any], given: Any) -> Iterator[inspect.Parameter]:
    """A parameter for each field; its default is the given group's, or else the field's own."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = field.default if given is inspect.Parameter.empty else getattr(given, field.name)
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=hints[field.name],
        )

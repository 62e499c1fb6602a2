"""Groups of options: what Typer sees of them, and what the command gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from gapless.commands.option_groups import grouped


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large."""

    width: Annotated[int, typer.Option("--width", help="How wide.")] = 3
    height: Annotated[int, typer.Option("--height", help="How high.")] = 4


@dataclass(frozen=True, kw_only=True)
class Paint:
    """How it looks, which has to be said."""

    colors: Annotated[list[str], typer.Argument(help="Its colors.")]
    gloss: Annotated[bool, typer.Option("--gloss")] = False


TALL = Size(height=40)


def app(command: object) -> typer.Typer:
    made = typer.Typer(rich_markup_mode=None, add_completion=False)
    made.command()(command)  # type: ignore[type-var]  # a command of any parameters
    return made


def ran(command: object, *words: str) -> str:
    outcome = CliRunner().invoke(app(command), words)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


@grouped
def draw(
    *, first: Annotated[int, typer.Option("--first")] = 1, size: Size, paint: Paint, last: int = 2
) -> None:
    """Draw it."""
    typer.echo(f"{first} {size} {paint} {last}")


def test_a_command_gets_its_groups_made_of_what_was_given() -> None:
    size, paint = Size(width=9), Paint(colors=["red", "blue"], gloss=True)
    assert ran(draw, "--width", "9", "red", "blue", "--gloss") == f"1 {size} {paint} 2\n"


def test_the_options_of_a_group_are_listed_in_the_place_of_the_group() -> None:
    said = ran(draw, "--help")
    names = ["Draw it.", "--first", "--width", "--height", "--gloss", "--last"]
    places = [said.index(name) for name in names]
    assert places == sorted(places)
    assert "How wide.  [default: 3]" in said


def test_what_a_group_has_no_default_for_has_to_be_given() -> None:
    outcome = CliRunner().invoke(app(draw), [])
    assert outcome.exit_code == 2
    assert "Missing argument 'colors'" in outcome.output


def test_a_group_that_is_the_default_gives_its_values_as_defaults() -> None:
    @grouped
    def stand(*, size: Size = TALL) -> None:
        typer.echo(f"{size}")

    assert ran(stand) == f"{TALL}\n"
    assert ran(stand, "--height", "5") == f"{Size(height=5)}\n"
    assert "How high.  [default: 40]" in ran(stand, "--help")


def test_a_context_is_no_group() -> None:
    @grouped
    def ask(*, context: typer.Context, size: Size) -> None:
        typer.echo(f"{context.invoked_subcommand} {size}")

    assert ran(ask) == f"None {Size()}\n"


def test_two_groups_with_a_field_of_one_name_are_refused() -> None:
    def twice(*, one: Size, other: Size) -> None:
        typer.echo(f"{one} {other}")

    with pytest.raises(ValueError, match="duplicate parameter name: 'width'"):
        grouped(twice)

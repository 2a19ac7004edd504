"""`runnel user list|create|delete`: users with passwords, for SASL/SCRAM."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Sequence
from typing import IO

import click

from runnel.cli.options import Decorated, bootstrap_options, json_option, yes_option
from runnel.cli.outcomes import complain, confirm, error_fields, tell
from runnel.cli.output import note, print_json, print_table
from runnel.cli.session import run
from runnel.cli.verbs import Verbs
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.scram import (
    ITERATIONS_DEFAULT,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    Credential,
    Mechanism,
    delete_user,
    describe_users,
    set_password,
    user_subject,
)

PASSWORD_BYTES = 18
MECHANISMS = {mechanism.word: mechanism for mechanism in Mechanism}


@click.group(cls=Verbs, short_help="Create and delete users with passwords (SCRAM).")
@bootstrap_options
def user() -> None:
    """Users with passwords, for SASL/SCRAM."""


@user.command("list")
@click.argument("names", metavar="[USER]...", nargs=-1)
@json_option
@bootstrap_options
def list_verb(names: tuple[str, ...], as_json: bool) -> int:
    """Users, and how they may log in."""
    found = run(lambda cluster: describe_users(cluster, names or None))
    known = {name: each for name, each in found.items() if not isinstance(each, ClientError)}
    if as_json:
        print_json(
            [
                {"user": name, "mechanisms": [_credential_document(credential) for credential in credentials]}
                for name, credentials in known.items()
            ]
        )
    elif known:
        rows = [(name, each.mechanism.word, each.iterations) for name, all_of in known.items() for each in all_of]
        print_table(["user", "mechanism", "iterations"], rows)
    elif not found:
        note("no users; `runnel user create NAME` makes one")
    return complain(found.values())


def _credential_document(credential: Credential) -> dict[str, object]:
    return {"mechanism": credential.mechanism.word, "iterations": credential.iterations}


def _mechanisms(_: click.Context, __: click.Parameter, words: Sequence[str]) -> list[Mechanism]:
    return [MECHANISMS[word] for word in dict.fromkeys(words)]


def _mechanism_option(default_help: str) -> Callable[[Decorated], Decorated]:
    return click.option(
        "-m",
        "--mechanism",
        "mechanisms",
        multiple=True,
        type=click.Choice(list(MECHANISMS), case_sensitive=False),
        callback=_mechanisms,
        help=f"{default_help}; may be repeated.",
    )


@user.command()
@click.argument("name", metavar="USER")
@click.option("-p", "--password", help="Others on this machine can see it; the next two are better.")
@click.option("--password-file", type=click.File("r"), help="Its first line is the password; - is stdin.")
@click.option("--random", "random_password", is_flag=True, help="Make a password and print it.")
@click.option("-i", "--iterations", type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX), default=ITERATIONS_DEFAULT,
              show_default=True, help="How costly a guess is.")  # fmt: skip
@_mechanism_option("[default: both]")
@json_option
@bootstrap_options
def create(
    name: str,
    password: str | None,
    password_file: IO[str] | None,
    random_password: bool,
    iterations: int,
    mechanisms: list[Mechanism],
    as_json: bool,
) -> int:
    """Create a user, or give one another password. Asks for the password at a terminal."""
    if sum((password is not None, password_file is not None, random_password)) > 1:
        raise click.UsageError("give one of --password, --password-file and --random")
    secret = secrets.token_urlsafe(PASSWORD_BYTES) if random_password else _password(password, password_file)
    chosen = mechanisms or list(Mechanism)
    error = run(lambda cluster: set_password(cluster, name, secret, chosen, iterations))
    if as_json:
        shown = secret if random_password and error is None else None
        print_json({"user": name, "password": shown, **error_fields(error)})
    lines = [f"set the password of {user_subject(name)} ({', '.join(each.word for each in chosen)})"]
    lines += [secret] if random_password else []
    return tell([("\n".join(lines), error)], as_json=as_json)


def _password(given: str | None, file: IO[str] | None) -> str:
    if file is not None:
        given = file.readline().rstrip("\r\n")
    elif given is None:
        if not sys.stdin.isatty():
            raise click.UsageError("give --password-file (- is stdin) or --random: nobody is there to be asked")
        given = str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    if not given:
        raise click.UsageError("the password is empty")
    return given


@user.command("delete")
@click.argument("name", metavar="USER")
@_mechanism_option("[default: all that it has]")
@yes_option
@json_option
@bootstrap_options
def delete_verb(name: str, mechanisms: list[Mechanism], yes: bool, as_json: bool) -> int:
    """Delete a user."""
    confirm(f"Delete {user_subject(name)}?", yes)
    error = run(lambda cluster: _delete(cluster, name, mechanisms))
    if as_json:
        print_json({"user": name, **error_fields(error)})
    return tell([(f"deleted {user_subject(name)}", error)], as_json=as_json)


async def _delete(cluster: Cluster, name: str, mechanisms: Sequence[Mechanism]) -> ClientError | None:
    if not mechanisms:
        found = (await describe_users(cluster, [name])).get(name, [])
        if isinstance(found, ClientError):
            return found
        mechanisms = [each.mechanism for each in found]
    return await delete_user(cluster, name, mechanisms)

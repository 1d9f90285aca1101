"""`longturn chat`: talk to a model in the terminal, with a window that never overflows and a session that stays."""

from typing import Annotated

import typer

from longturn.cli.extras import loaded
from longturn.cli.places import store_to_write
from longturn.cli.sessions import StorePlace
from longturn.cli.sizes import tokens_of

MODEL = "LONGTURN_MODEL"


def chat(
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            envvar=MODEL,
            show_default=False,
            help="Any model that Pydantic AI knows, as openai:gpt-5.2; local is a small one on this machine that needs "
            "no key, local:FILE.gguf any other weights. Without it, the session's.",
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", "-s", metavar="ID", show_default=False, help="Go on with this session."),
    ] = None,
    store: StorePlace = None,
    instructions: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the model is told before everything else.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TOKENS", help="What may be sent; without it, three quarters of the model's window."),
    ] = None,
    capacity: Annotated[
        str | None,
        typer.Option(metavar="TOKENS", help="The model's window, where it is not to be looked up; of local, its size."),
    ] = None,
    max_output: Annotated[str | None, typer.Option(metavar="TOKENS", help="How long an answer may be at most.")] = None,
    summarize: Annotated[
        bool, typer.Option(help="Let a summary stand for what would be left out, instead of leaving it out.")
    ] = True,
) -> None:
    """Talk to a model; on a terminal with a prompt, else each line of standard input is a message.

    Inside: /meter, /compact, /trim, /fork, /export, /help, /quit. Ctrl-C stops an answer, Ctrl-D ends the chat.
    """
    sizes = {
        "budget": tokens_of("--budget", budget),
        "capacity": tokens_of("--capacity", capacity, least=1),
        "max_output": tokens_of("--max-output", max_output, least=1),
    }
    chatting = loaded("longturn.cli.chatting", command="chat", extras="agent,stores")
    options = chatting.Options(model, store_to_write(store), session, instructions, summarize=summarize, **sizes)
    raise typer.Exit(chatting.chat(options))

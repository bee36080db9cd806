# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram induce``: learn a grammar from sentences, from one start or many."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyrogram.cli.commands.choices import Format, Heads, Init, Knowledge, Method, Model, Stops, Unknown, tags_or_classes
from pyrogram.cli.commands.options import Quiet
from pyrogram.cli.io.errors import CommandError, Interrupted, note
from pyrogram.cli.io.lock import only_run
from pyrogram.cli.runs.forks import import_all, prepare_workers
from pyrogram.cli.runs.processes import check_method, check_shared, processes
from pyrogram.cli.runs.settings import DEFAULT_ALPHA, Settings
from pyrogram.printable import plural

if TYPE_CHECKING:
    from pyrogram.cli.runs.dmv_induction import Corpora, Outcome
    from pyrogram.cli.runs.pcfg_induction import EncodedCorpora
    from pyrogram.infer import Reduce

_DATA, _START, _STOP = "Sentences", "Where it starts", "When it stops"
DEMO_SENTENCES, DEMO_STARTS, DEMO_TEST_SEED = 1000, 5, 1


def induce(
    train: Annotated[
        Path | None, typer.Argument(metavar="TRAIN", help="Sentences to learn from.", show_default=False)
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(
            help="Held-out sentences: stop when those of at most --max-length words get no more likely.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(help="Sentences to evaluate on; else those of --dev, else TRAIN.", rich_help_panel=_DATA),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Use the built-in English corpus; no file is needed.")] = False,
    model: Annotated[
        Model, typer.Option(help="dmv: dependencies with valence; pcfg: the rules in --grammar.")
    ] = Model.dmv,
    grammar: Annotated[
        Path | None,
        typer.Option(
            help="Rules for --model pcfg, as nltk writes them: S -> NP VP [1.0] | 'word' ...; probabilities may lack."
        ),
    ] = None,
    method: Annotated[
        Method, typer.Option(help="em: maximum likelihood; the others with Dirichlet priors; hastings, gibbs sample.")
    ] = Method.vb,
    knowledge: Annotated[
        Knowledge,
        typer.Option(
            help="What is assumed besides the text; discovered: by statistics of the text; rules: of universal tags; "
            "languages: a prior over the grammars of other languages. Punctuation counts with all but none."
        ),
    ] = Knowledge.none,
    prior: Annotated[
        Path | None,
        typer.Option(help="Of --knowledge languages: a file of pyrogram prior.", show_default="the one that ships"),
    ] = None,
    heads: Annotated[
        Heads,
        typer.Option(
            help="Of --knowledge rules, discovered: which words are heads, content as in UD or function words."
        ),
    ] = Heads.content,
    starts: Annotated[
        int | None, typer.Option(min=1, max=999, help="Runs from different starts.", show_default="1")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Start i has random numbers of seed + i.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for weights, parses, curves, tables.")] = None,
    resume: Annotated[
        bool, typer.Option(help="Go on with an interrupted run in --out, or replace what is there.")
    ] = True,
    tags: Annotated[
        str | None,
        typer.Option(
            parser=tags_or_classes,
            metavar="[upos|xpos|form|induced:K]",
            help="What is a word; induced:K learns K classes from the words of TRAIN, no tags are read.",
            show_default="upos of CoNLL-U, else xpos",
            rich_help_panel=_DATA,
        ),
    ] = None,
    format: Annotated[
        Format, typer.Option(help="auto: by the file's extension, else its text.", rich_help_panel=_DATA)
    ] = Format.auto,
    max_length: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2**31,
            help="Learn from sentences of at most so many words.",
            show_default="10; with --knowledge 15, or 40 of a short text",
            rich_help_panel=_DATA,
        ),
    ] = None,
    unknown: Annotated[
        Unknown, typer.Option(help="What becomes of symbols that TRAIN lacks.", rich_help_panel=_DATA)
    ] = Unknown.most_frequent,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Concentration of the priors.",
            show_default="1.1 for em-map; else 0.25, or 1 of a short text with --knowledge",
        ),
    ] = None,
    valences: Annotated[
        int,
        typer.Option(
            min=1, max=9, help="A head counts its children on a side up to one less; 2: it tells none from some."
        ),
    ] = 2,
    valence_attach: Annotated[
        bool, typer.Option("--valence-attach", help="First and later children have distributions of their own.")
    ] = False,
    smoothing: Annotated[
        float, typer.Option(help="Share of the uniform in every multinomial when parsing and on held-out sentences.")
    ] = 1e-4,
    init: Annotated[
        Init | None,
        typer.Option(
            help="Weights of the first start; supervised: the supervised DMV's, see the table.",
            show_default="harmonic; uniform with --knowledge; of a pcfg its own, else uniform",
            rich_help_panel=_START,
        ),
    ] = None,
    stops: Annotated[
        Stops, typer.Option(help="How harmonic sets stops; this matters.", rich_help_panel=_START)
    ] = Stops.expected,
    distance: Annotated[float, typer.Option(help="c in harmonic's 1 / (distance + c).", rich_help_panel=_START)] = 0.0,
    noise: Annotated[
        float,
        typer.Option(help="Spread of the noise on the logs of the other starts' weights.", rich_help_panel=_START),
    ] = 0.3,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most iterations of a start; sweeps of a sampler.",
            show_default="1000; 50 with --knowledge",
            rich_help_panel=_STOP,
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="Stop when an iteration gains less than this share; 0: never.", rich_help_panel=_STOP)
    ] = 1e-6,
    patience: Annotated[
        int,
        typer.Option(min=1, help="Stop when --dev has had no new best for so many iterations.", rich_help_panel=_STOP),
    ] = 5,
    jobs: Annotated[
        int, typer.Option(min=1, max=999, help="Processes, each with one thread, that share the starts.")
    ] = 1,
    quiet: Quiet = False,
) -> None:
    """Learn a grammar from sentences alone, and see how right its trees are.

    TRAIN is CoNLL-U, bracketed trees (.mrg, .ptb, .brackets) or tagged text, packed (.gz) or not; - is standard input,
    as for all files of sentences. Its gold heads, if any, serve for scores and for the row "supervised" only.
    Punctuation is left out. With --model pcfg it learns the probabilities of the rules in --grammar, whose words are
    the tags of TRAIN, or its words with --tags form.
    """
    if demo and any(path is not None for path in (train, dev, test)):
        raise CommandError("--demo brings its own sentences; leave out TRAIN, --dev and --test")
    if not demo and train is None:
        raise CommandError("give a file of sentences to learn from, or --demo; see pyrogram induce --help")
    if jobs > 1 and (demo or (starts or 1) > 1):
        prepare_workers()
    from pyrogram.cli.io.corpora import default_tags, digests

    builtin: dict[str, str | int] = {} if train is not None else {"builtin": DEMO_SENTENCES}
    informed = knowledge is not Knowledge.none
    if informed and dev is not None:
        raise CommandError(
            "--dev stops by likelihood, which is none with --knowledge; leave it out, or give it as --test"
        )
    if prior is not None and knowledge is not Knowledge.languages:
        raise CommandError("--prior is for --knowledge languages; leave it out, or give that")
    if heads is Heads.function and knowledge not in (Knowledge.rules, Knowledge.discovered):
        raise CommandError("--heads is for --knowledge rules and discovered; leave it out, or give one of these")
    if alpha is not None and knowledge is Knowledge.languages:
        raise CommandError("--alpha is not for --knowledge languages, whose prior has concentrations; leave it out")
    check_method(method.value)
    import_all()
    check_shared(train, dev, test, grammar, prior)
    kind = "xpos" if train is None else default_tags(train, format.value)
    settings = Settings(
        method=method.value,
        tags=kind if tags is None else tags,
        max_length=max_length or (0 if informed else 10),
        starts=starts or (DEMO_STARTS if demo else 1),
        seed=seed,
        alpha=DEFAULT_ALPHA.get(method.value) if alpha is None and not informed else alpha,
        init=_init(init, model, grammar, informed),
        stops=stops.value,
        distance=distance,
        noise=noise,
        steps=steps or (50 if informed else 1000),
        tolerance=tolerance,
        patience=patience,
        valences=valences,
        valence_attach=valence_attach,
        smoothing=smoothing,
        unknown=unknown.value,
        knowledge=knowledge.value,
        heads=heads.value,
        data=builtin | digests(train=train, dev=dev, test=test, grammar=grammar, prior=prior),
    )
    if model is Model.pcfg:
        if train is None or grammar is None:
            raise CommandError("--model pcfg needs TRAIN and --grammar, a file of rules")
        of_dmv = {
            "--valences": valences != 2,
            "--valence-attach": valence_attach,
            "--stops": stops is not Stops.expected,
            "--distance": distance != 0.0,
            "--unknown": unknown is not Unknown.most_frequent,
            "--tags induced": settings.num_classes is not None,
            "--knowledge": informed,
        }
        for option, is_given in of_dmv.items():
            if is_given:
                raise CommandError(f"{option} is for --model dmv; leave it out")
        _run_pcfg(settings, grammar, (train, dev, test), format.value, out, resume, jobs)
    else:
        _run(settings, (train, dev, test), format.value, prior, out, resume, jobs)


def _init(init: Init | None, model: Model, grammar: Path | None, informed: bool) -> str:
    """The name of the start; what does not go with the model is refused."""
    if model is Model.dmv:
        if grammar is not None:
            raise CommandError("--grammar is for --model pcfg; the dmv has its own rules")
        if init is Init.grammar:
            raise CommandError("--init grammar is for --model pcfg")
        return str((init or (Init.uniform if informed else Init.harmonic)).value)
    if init in (Init.harmonic, Init.supervised):
        raise CommandError(f"--init {init.value} is for --model dmv; a pcfg has grammar, uniform and random")
    return str((init or Init.grammar).value)


def _with_all_digests(
    settings: Settings, files: tuple[Path | None, Path | None, Path | None], **others: Path | None
) -> Settings:
    """Settings with the digests of standard input and pipes as well, which are read by now."""
    from pyrogram.cli.io.corpora import all_digests

    train, dev, test = files
    return replace(settings, data=all_digests(settings.data, train=train, dev=dev, test=test, **others))


def _run_pcfg(
    settings: Settings,
    grammar_file: Path,
    files: tuple[Path, Path | None, Path | None],
    format: str,
    out: Path | None,
    resume: bool,
    jobs: int,
) -> None:
    from rich.text import Text

    from pyrogram.cli.io.grammars import read_grammar
    from pyrogram.cli.io.output import console
    from pyrogram.cli.runs import pcfg_induction as pcfg
    from pyrogram.infer.running.reduce import together

    with processes(jobs) as reduce:
        grammar = together(reduce, lambda: read_grammar(grammar_file))

        def read() -> tuple[EncodedCorpora, Settings]:
            texts = pcfg.read_texts(settings, grammar, *files, format)
            return texts, _with_all_digests(settings, files, grammar=grammar_file)

        texts, settings = together(reduce, read)
        with _folder_of_run(settings, out, resume, reduce):
            outcome = pcfg.run_pcfg(settings, grammar, texts, out, jobs, reduce)
    if outcome is None:
        return
    screen = console()
    for part in pcfg.report(settings, texts, outcome):
        screen.print(part)
    for tree in [tree for tree in outcome.trees if tree is not None][:1]:
        screen.print("\nThe most probable tree of the first sentence:\n")
        screen.print(Text(tree.pformat(margin=76)))
    _tell(out)


def _run(
    settings: Settings,
    files: tuple[Path | None, Path | None, Path | None],
    format: str,
    prior: Path | None,
    out: Path | None,
    resume: bool,
    jobs: int,
) -> None:
    from pyrogram.cli.runs.dmv_induction import run_induction
    from pyrogram.cli.runs.knowledge import decided
    from pyrogram.infer.running.reduce import together

    train, dev, test = files

    def read() -> tuple[Corpora, Settings]:
        corpora = _demo_corpora(settings) if train is None else _corpora(settings, train, dev, test, format)
        return replace(corpora, prior=prior), _with_all_digests(settings, files, prior=prior)

    with processes(jobs) as reduce:
        corpora, settings = together(reduce, read)
        settings = decided(settings, corpora.train)
        with _folder_of_run(settings, out, resume, reduce):
            outcome = run_induction(settings, corpora, out, jobs, reduce)
            if outcome is not None:
                _show(outcome, corpora, out, draw=train is None)


@contextmanager
def _folder_of_run(settings: Settings, out: Path | None, resume: bool, reduce: Reduce | None) -> Iterator[None]:
    """The folder, which this run alone writes to; of several processes, the first one alone."""
    from pyrogram.infer.running.reduce import is_first

    if not is_first(reduce):
        yield
        return
    with only_run(out), _interruptible(out):
        _open(settings, out, resume)
        yield


def _open(settings: Settings, out: Path | None, resume: bool) -> None:
    from pyrogram.cli.runs.folder import open_folder

    if out is not None:
        count = open_folder(out, settings, resume)
        if count:
            note(f"going on in {out}, which has {count} of {plural(settings.starts, 'start')}")


@contextmanager
def _interruptible(out: Path | None) -> Iterator[None]:
    """Say on Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        again = shlex.join(["pyrogram", *sys.argv[1:]])
        how = f"what was done is in {out}, and the same command goes on from there: {again}"
        raise Interrupted(f"interrupted; {how if out else 'with --out it could be taken up again'}") from None


def _corpora(settings: Settings, train: Path, dev: Path | None, test: Path | None, format: str) -> Corpora:
    from pyrogram.cli.io.corpora import name_of, note_unknown, read_corpus
    from pyrogram.cli.runs.dmv_induction import Corpora
    from pyrogram.cli.runs.word_classes import induced_tags

    whole = read_corpus(train, format=format, tags=settings.alphabet)
    tagger = None if settings.num_classes is None else induced_tags(whole, settings.num_classes)
    whole = whole if tagger is None else tagger(whole)
    others = {}
    for path in {dev, test} - {None}:
        assert path is not None
        if tagger is not None:
            others[path] = tagger(read_corpus(path, format=format, tags=settings.alphabet), whole.vocab)
            continue
        others[path] = read_corpus(path, format=format, tags=settings.tags, vocab=whole.vocab, unknown=settings.unknown)
        note_unknown(others[path], path)
    held_out = None if dev is None else others[dev]
    if test is not None:
        return Corpora(whole, held_out, others[test], name_of(test), tagger)
    if dev is not None and held_out is not None:
        return Corpora(whole, held_out, held_out, name_of(dev), tagger)
    return Corpora(whole, None, whole, name_of(train), tagger)


def _demo_corpora(settings: Settings) -> Corpora:
    from pyrogram.cli.runs.dmv_induction import Corpora
    from pyrogram.data import Corpus

    if settings.tags != "xpos":
        raise CommandError("--demo has Penn tags; leave out --tags, or give --tags xpos")
    train = Corpus.builtin(DEMO_SENTENCES)
    test = Corpus.builtin(DEMO_SENTENCES // 4, seed=DEMO_TEST_SEED, vocab=train.vocab)
    return Corpora(train, None, test, "other sentences of the built-in grammar")


def _show(outcome: Outcome, corpora: Corpora, out: Path | None, draw: bool) -> None:
    """The table on stdout, and below it where everything is."""
    from rich.text import Text

    from pyrogram.cli.io.output import console, footnotes
    from pyrogram.cli.runs.report import terminal

    screen = console()
    screen.print(Text(outcome.report.title, style="bold"))
    screen.print(terminal(outcome.report))
    screen.print(footnotes(outcome.report.notes))
    if draw:
        _show_sentence(outcome, corpora, out)
    _tell(out)


def _tell(out: Path | None) -> None:
    """Where everything is."""
    from rich.text import Text

    from pyrogram.cli.io.output import console

    screen = console()
    if out is None:
        screen.print("\nNothing was written; --out DIR keeps weights, parses, curves and all scores.")
    else:
        names = sorted(path.name for path in out.glob("[!.]*") if path.is_file())
        screen.print(Text(f"\nWritten to {out}: {', '.join(names)}."))
        screen.print(Text(f"Parse with it: pyrogram parse {out} FILE"))


def _show_sentence(outcome: Outcome, corpora: Corpora, out: Path | None) -> None:
    """The first sentence of seven to ten words, with its tree."""
    from pyrogram.cli.io.files import write_file
    from pyrogram.cli.io.output import console, print_tree
    from pyrogram.viz import draw_tree

    corpus, heads = corpora.evaluation, outcome.evaluation.heads["mbr"]
    assert corpus.heads is not None
    i = int(((corpus.lengths >= 7) & (corpus.lengths <= 10)).nonzero()[0])
    n = int(corpus.lengths[i])
    record = corpus.sentences[i]
    console().print(f'\nHow it parses "{" ".join(record.forms)}":\n')
    print_tree(heads[i, :n].tolist(), record.forms, record.tags, corpus.heads[i, :n].tolist())
    if out is not None:
        drawing = draw_tree(heads[i, :n], record.forms, record.tags, gold=corpus.heads[i, :n])
        write_file(out / "sentence.svg", drawing.svg.encode())

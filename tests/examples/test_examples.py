# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Every example runs, in a small form; every model has an example, and every example is listed here."""

import importlib.util
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrogram import models

FOLDER = Path(__file__).resolve().parents[2] / "examples"

#: By example: what it is run with, in the slow stage again for other options, and what it must print.
EXAMPLES: dict[str, tuple[list[str], str]] = {
    "bilingual": (["--num-sentences 40 --max-length 5 --num-steps 2"], r"second: \d+ sentences, \d+.\d% of heads"),
    "compound_pcfg": (
        ["--num-sentences 40 --max-length 5 --num-epochs 1 --num-nonterminals 2 --num-preterminals 3 --size 4"],
        r"compound: \d+.\d\d s an epoch; of \d other sentences at least -\d+.\d{3} nats a word, unlabelled F1 \d+.\d%",
    ),
    "constituency_crf": (
        ["--num-sentences 40 --max-length 6 --num-steps 3"],
        r"log p\(tree\) -\d+.\d{3} nats each\nF1 of constituents: Viterbi \d+.\d%, MBR \d+.\d%, to the end \d+.\d%",
    ),
    "constraints": (
        ["--num-sentences 40 --max-length 5 --num-steps 2"],
        r"both: bound -\d+.\d, multipliers \d+.\d\d, \d+.\d\d; heads that are right: \d+.\d%\n(.*\n)*of 99.9%: "
        r"constraint 0, AtLeast 0.999, cannot hold, for the greatest share that these sentences have is 0.\d+;",
    ),
    "dirichlet": (
        [f"--num-sentences 40 --max-length 5 --num-steps 2 --inference {name}" for name in ("vb", "cvb", "hastings")],
        r"heads that are right: \d+.\d%",
    ),
    "hdp_pcfg": (
        ["--num-sentences 40 --max-length 7 --num-symbols 3 --num-steps 4"],
        r"HDP-PCFG: log joint -\d+.\d, -\d.\d{3} nats a word of \d other sentences,\n +\d of 3 symbols",
    ),
    "labelled_trees": (
        [f"--num-sentences 40 --max-length 6 --num-steps 2 {more}" for more in ("", "--crossing")],
        r"\d+ labels\nbest trees: \d+.\d% of heads are right, \d+.\d% with .*\nmost expected right arcs: \d+.\d% of",
    ),
    "knowledge": (
        [f"--num-sentences 40 --max-length 5 --num-steps 4 --knowledge {name}" for name in ("rules", "discovered")],
        r"decaying, annealed: bound -\d+.\d, heads that are right: \d+.\d%\nattach-right: \d+.\d%",
    ),
    "languages": (
        ["--num-sentences 40 --max-length 5 --num-steps 2"],
        r"english: -\d.\d{3} nats a word, \d+% of the grammar\n(.*\n)*  ROOT: \d+% english, \d+% english-mirrored\n"
        r"(.*\n)*shares and weights together: heads that are right: \d+.\d%",
    ),
    "large_vocabulary": (
        [f"--num-sentences 60 --max-length 6 --num-steps 3 --classes {name}" for name in ("5", "upos --seed 1")],
        r"\d+ sentences, \d+ words, \d+ of \d+ pairs\nclasses: heads that are right: \d+.\d%\n"
        r"words, backing off to classes: heads that are right: \d+.\d%\nwords alone: heads that are right: \d+.\d%",
    ),
    "latent_annotation_pcfg": (["--num-trees 20 --num-steps 2"], r"labelled F1 of 2 other sentences: \d+.\d%"),
    "lexicalised_pcfg": (
        [
            f"--num-sentences 60 --max-length 5 --num-nonterminals 1 --num-steps 2 --inference {name}"
            for name in ("vb", "cvb", "hastings")
        ],
        r"LexicalisedPCFG\(1, \d+\): -\d.\d{3} nats a word, \d+.\d% of heads are right\nunlabelled F1 \d+.\d%; for ex",
    ),
    "log_linear_dmv": (
        ["--num-sentences 40 --max-length 5 --num-steps 2 --m-steps 3"],
        r"families: the greatest weight of a feature is \d.\d\d\nheads that are right: \d+.\d%",
    ),
    "logistic_normal": (
        [f"--num-sentences 40 --max-length 5 --num-steps 2 {more}" for more in ("", "--once", "--diagonal")],
        r"heads that are right: \d+.\d%",
    ),
    "maximum_likelihood": (["--num-sentences 40 --num-steps 2"], r"heads that are right: \d+.\d%; attach-right: \d+"),
    "mixture_of_grammars": (
        ["--num-sentences 40 --max-length 5 --num-steps 3"],
        r"grammars: 2, log likelihood -\d+.\d, heads that are right: \d+.\d%\n  grammar 0: \d+ sentences, {",
    ),
    "morphology": (["--num-words 20 --num-steps 2"], r"F1 of morphemes \d+.\d%, of boundaries \d+.\d%"),
    "network_scorer": (
        ["--num-sentences 30 --num-epochs 1 --num-bits 10 --size 4"],
        r"30 sentences of target: right heads\ngrammar: \d+.\d%\n(.*\n)*network, SVI: \d+.\d%, \d+.\d\d nats a tree",
    ),
    "neural_dmv": (
        ["--num-sentences 40 --max-length 5 --num-steps 2 --m-steps 3"],
        r"neural: log-likelihood -\d+.\d, heads that are right: \d+.\d%",
    ),
    "nonprojective_trees": (
        ["--num-sentences 60 --max-length 7 --num-steps 2 --known 0.4"],
        r"\d+ sentences, \d+ with crossing arcs\nprojective: \d+ sentences, .*\ncrossing arcs: \d+ sentences, log "
        r"joint from -\d+.\d to -\d+.\d; right heads of other sentences: \d+.\d%, of arcs that cross: (\d+.\d%|-)",
    ),
    "optima_of_logistic_normals": (
        ["--num-sentences 40 --max-length 5 --num-steps 2 --restarts 2 --num-draws 10"],
        r"in \d+.\d% of sentences, there by \d+.\d{3} nats\nbound -\d+.\d, log evidence -\d+.\d ± \d+.\d",
    ),
    "orders_of_dependency_trees": (
        ["--num-sentences 40 --max-length 5 --num-steps 2"],
        r"order 3: \d+.\d% of heads are right, log p\(tree\) -\d+.\d{3} nats, \d+.\d\d s a step",
    ),
    "own_grammar": (
        ["--num-sentences 30 --max-length 4 --num-classes 2 --num-steps 2"],
        r"NUTS +Dirichlet +-\d+.\d{3}",
    ),
    "pitman_yor_dependency": (
        ["--num-sentences 40 --num-steps 2", "--num-sentences 40 --num-steps 1 --prior dirichlet-fixed"],
        r"4 other sentences: -\d+.\d\d nats a word",
    ),
    "semi_supervised": (
        [
            f"--num-sentences 40 --max-length 5 --num-steps 2 --shares 0 0.5 1 --inference {name}"
            for name in ("map", "vb", "cvb", "gibbs")
        ],
        r"words +100% +100.0% +- +\d+.\d%",
    ),
    "second_order_tagger": (
        ["--num-sentences 40 --max-length 5 --num-steps 2"],
        r"order 2: \d+.\d% of tags are right, -\d+.\d{3} nats a word, \d+.\d\d s a step",
    ),
    "semi_markov_segmenter": (
        ["--num-utterances 40 --num-steps 3"],
        r"\d+ utterances to learn from, \d+ others: F1 of words \d+.\d%, of boundaries \d+.\d%",
    ),
    "shared_logistic_normal": (
        [f"--num-sentences 40 --max-length 5 --num-steps 2 {more}" for more in ("", "--once --ties V&N")],
        r"tied by \S+: bound -\d+",
    ),
    "syntactic_topics": (
        ["--num-sentences 30 --num-states 3 --num-steps 5 --num-svi-steps 3"],
        r"states summed out: log joint from -\d+",
    ),
    "tensor_pcfg": (
        [
            f"--num-sentences 40 --max-length 5 --num-epochs 1 --num-nonterminals 2 --num-preterminals 3 {more}"
            for more in ("--rank 2 --size 4", "--grammar simple --size 4 --words", "--rank 2 --prior dirichlet")
        ],
        r"sentences, \d+.\d\d s an epoch\nbound -\d+.\d{3} nats a word; of \d other sentences -\d+.\d{3} nats a word, "
        r"perplexity \d+.\d\nunlabelled F1 \d+.\d%",
    ),
    "tree_classifier": (
        ["--num-sentences 60 --max-length 6 --num-steps 2 --num-runs 2"],
        r"\d+ sentences, of which \d+.\d% have the same label\n(.*\n)*trees of the DMV: \d+.\d ± \d+.\d % of "
        r"other labels are right; tree marginals -?\d+.\d ± \d+.\d % more",
    ),
    "valences_and_distances": (
        [
            f"--num-sentences 40 --max-length 5 --num-steps 2 --valences 1 3 --widths 1 2 {more}"
            for more in ("", "--attach")
        ],
        r"DistanceDMV\(\d+, widths=\(1, 2\).*\): bound -\d+.\d; of the others -\d.\d{3} nats a word, \d+.\d% of heads",
    ),
    "word_segmentation": (
        [
            f"--num-utterances 30 --num-steps 10 {more}"
            for more in ("", "--model unigram --prior dirichlet --fixed --starts 2", "--no-annealing")
        ],
        r"seed 0: log joint -\d+, F1 of tokens \d+.\d%, of boundaries \d+.\d%, of lexicon \d+.\d% \(\d.\d\d s a step",
    ),
    "words_of_heads": (
        ["--num-sentences 40 --max-length 5 --num-steps 2 --num-svi-steps 2 --num-words 10"],
        r"tags and words: log joint from .*\ntags and words: heads that are right: \d+.\d%",
    ),
    "zero_shot": (
        ["--num-sentences 30", "--num-sentences 20 --leave-out en fr"],
        r"It draws on .*\n(.*\n)*self-trained: \d+.\d% of heads are right",
    ),
}
RUNS = [(name, options) for name, (runs, _) in EXAMPLES.items() for options in runs]


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_model(value: Any) -> bool:
    """A function that samples and returns nothing."""
    return (
        inspect.isfunction(value)
        and inspect.signature(value).return_annotation is None
        and "pyro.sample(" in inspect.getsource(inspect.getmodule(value))  # type: ignore[arg-type]
    )


def all_models() -> dict[str, Callable[..., None]]:
    modules = [value for value in vars(models).values() if inspect.ismodule(value)]
    return {
        name: f for module in modules for name in getattr(module, "__all__", ()) if is_model(f := getattr(module, name))
    }


def test_every_example_is_listed() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(EXAMPLES)


def test_models_are_recognised() -> None:
    assert {"dirichlet", "morphology", "bilingual", "corpus_logistic_normal"} <= set(all_models())
    assert not {"initial_experts", "observed_events", "annotated_treebank"} & set(all_models())


@pytest.mark.parametrize("name", all_models())
def test_every_model_has_an_example(name: str) -> None:
    users = [path.stem for path in FOLDER.glob("*.py") if all_models()[name] in vars(load(path.stem)).values()]
    assert users, f"no program in examples/ uses models.{name}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_say_what_they_are(name: str) -> None:
    """The reference, and how to call it."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert f"python examples/{name}.py" in text and re.search(r"^References?: .*\(\d{4}\)", text, re.MULTILINE)


@pytest.mark.one_in(40)
@pytest.mark.parametrize(
    "name, options",
    [pytest.param(*run, marks=() if run[1] == EXAMPLES[run[0]][0][0] else pytest.mark.slow) for run in RUNS],
    ids=[f"{name} {options}".strip() for name, options in RUNS],
)
def test_runs(name: str, options: str, capsys: pytest.CaptureFixture[str]) -> None:
    load(name).main(options.split())
    out, err = capsys.readouterr()
    assert re.search(EXAMPLES[name][1], out), out
    assert not err

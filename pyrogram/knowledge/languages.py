# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Treebanks of other languages as knowledge of a grammar: counts of their trees, and a prior that they make.

The judge of a source is the likelihood of the target's raw text under its grammar. Each head of the target, on each
side, has a mixture of its own of the sources' multinomials, whose shares EM finds on the raw text; the grammar of these
mixtures is the mean of a prior. The nearest published system is Cohen, Das and Smith (2011), who interpolate
multinomials of a few helper languages. :func:`pyrogram.models.languages.languages` is the same as a Pyro model.

**Reference:** Cohen, S. B., Das, D. and Smith, N. A. (2011). Unsupervised structure prediction with non-parallel
multilingual guidance. EMNLP. https://aclanthology.org/D11-1005/
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from pyrogram.atomic import write_atomically
from pyrogram.checks import checked_words
from pyrogram.data import Corpus, Vocabulary
from pyrogram.distributions import Gaussian
from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.grammars import DMV
from pyrogram.infer.running.checkpoint import read_tensors
from pyrogram.printable import plural

__all__ = ["UNIVERSAL_TAGS", "Shares", "Sources", "read_treebanks"]

#: Universal tags of words, punctuation left out: the alphabet of treebanks that are compared.
UNIVERSAL_TAGS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN"),
    *("NUM", "PART", "PRON", "PROPN", "SCONJ", "SYM", "VERB", "X"),
)
_FORMAT = "pyrogram sources 1"


@dataclass(frozen=True)
class Shares:
    """How much of a grammar is taken from each of K sources.

    :param root: of the root, shape ``(K,)``.
    :param heads: of each head on each side, its children and its stops alike, shape ``(V, 2, K)``.
    """

    root: Tensor
    heads: Tensor

    def mean(self, weights: Mapping[str, Tensor]) -> Weights:
        """The mixture of multinomials by block, of a :class:`.DMV`.

        :param weights: of the sources, ``(K, *block.shape)``.
        """
        return {
            "root": torch.einsum("k,kc->c", self.root, weights["root"]),
            "attach": torch.einsum("hdk,khdc->hdc", self.heads, weights["attach"]),
            "stop": torch.einsum("hdk,khdvs->hdvs", self.heads, weights["stop"]),
        }


@dataclass(frozen=True, eq=False)
class Sources:
    """Counts of the events of a :class:`.DMV` in the trees of K treebanks.

    >>> english = Corpus.from_sentences([["DET", "NOUN", "VERB"]], heads=[[2, 3, 0]], tags="upos")
    >>> sources = Sources.count({"en_tiny": english}, licences={"en_tiny": "CC BY-SA 4.0"})
    >>> sources
    Sources(1 treebank of 1 language)
    >>> sources.over(english.vocab).weights()["root"].argmax() == english.vocab.index("VERB")
    tensor(True)

    :param tags: the alphabet, V symbols.
    :param names: of the treebanks, a language, an underscore and more: ``en_ewt``.
    :param licences: as many.
    :param counts: by block, shape ``(K, *block.shape)``.
    """

    tags: tuple[str, ...]
    names: tuple[str, ...]
    licences: tuple[str, ...]
    counts: Mapping[str, Tensor]

    @classmethod
    def count(
        cls,
        treebanks: Mapping[str, Corpus],
        *,
        licences: Mapping[str, str] | None = None,
        tags: tuple[str, ...] = UNIVERSAL_TAGS,
    ) -> Sources:
        """The events of all trees, projective or not.

        :param treebanks: by name; corpora with heads.
        :param licences: by name.
        :param tags: the alphabet of the counts; words with others count as ``X``, or as the last one.
        :raises ValueError: if there is no treebank, or one has no sentences or no heads.
        """
        if not treebanks:
            raise ValueError("sources need at least one treebank, and there is none; give a corpus with heads")
        grammar, number = DMV(len(tags)), {tag: i for i, tag in enumerate(tags)}
        other, rows = number.get("X", len(tags) - 1), []
        for name, corpus in treebanks.items():
            if corpus.heads is None:
                raise ValueError(f"treebank {name!r} has no heads; give one whose trees are known")
            if not len(corpus):
                raise ValueError(f"treebank {name!r} has no sentence; give one that has, or leave it out")
            tag_of = torch.tensor([number.get(tag, other) for tag in corpus.vocab.symbols] + [-1])
            totals = {block: torch.zeros(shape.shape) for block, shape in grammar.blocks.items()}
            for some in corpus.lengths.argsort().split(200):  # of about the same length, for tables grow as its square
                n = int(corpus.lengths[some].max())
                for block, table in grammar.counts(tag_of[corpus.words[some, :n]], corpus.heads[some, :n]).items():
                    totals[block] += table.sum(0)
            rows.append(totals)
        counts = {block: torch.stack([row[block] for row in rows]) for block in grammar.blocks}
        return cls(tags, tuple(treebanks), tuple((licences or {}).get(name, "") for name in treebanks), counts)

    @classmethod
    def shipped(cls) -> Sources:
        """Those that come with the package, all CC BY-SA; ``pyrogram/knowledge/shipped/SOURCES.md`` names them."""
        return cls.load(Path(str(files("pyrogram.knowledge") / "shipped" / "languages.safetensors")))

    def save(self, path: str | Path) -> None:
        """Write a file of safetensors: a tensor for each block, names and licences beside them."""
        told = {"tags": self.tags, "names": self.names, "licences": self.licences}
        metadata = {"format": _FORMAT, **{key: json.dumps(value) for key, value in told.items()}}
        counts = {block: table.to(torch.int32).contiguous() for block, table in self.counts.items()}
        write_atomically(path, save(counts, metadata))

    @classmethod
    def load(cls, path: str | Path) -> Sources:
        """Read what :meth:`save` wrote.

        :raises ValueError: if it is another file.
        """
        advice = "; give a file that Sources.save wrote, or pyrogram prior"
        told, tables = read_tensors(Path(path), "a file of counts of sources", advice)
        if told.get("format") != _FORMAT:
            raise ValueError(f"{path} holds no counts of sources{advice}")
        counts = {block: table.to(torch.get_default_dtype()) for block, table in tables.items()}
        tags, names, licences = (tuple(json.loads(told[key])) for key in ("tags", "names", "licences"))
        return cls(tags, names, licences, counts)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        K, L = len(self), len(set(self.languages))
        return f"Sources({plural(K, 'treebank')} of {plural(L, 'language')})"

    @property
    def languages(self) -> tuple[str, ...]:
        """The language of each treebank: its name up to the underscore."""
        return tuple(name.split("_")[0] for name in self.names)

    @property
    def grammar(self) -> DMV:
        """The grammar whose events are counted."""
        return DMV(len(self.tags))

    def without(self, *languages: str) -> Sources:
        """The treebanks of all other languages.

        :param languages: such as ``"de"``; one that no treebank has leaves nothing out.
        :raises ValueError: for the name of a treebank, and if none is left.
        """
        for language in languages:
            if language in self.names and language not in self.languages:
                raise ValueError(f"{language!r} is a treebank; give its language, {language.split('_')[0]!r}")
        kept = [k for k, language in enumerate(self.languages) if language not in languages]
        if not kept:
            raise ValueError(f"no source is left without {', '.join(languages)}; give treebanks of other languages")
        names, licences = (tuple(old[k] for k in kept) for old in (self.names, self.licences))
        return replace(
            self, names=names, licences=licences, counts={block: table[kept] for block, table in self.counts.items()}
        )

    def over(self, vocab: Vocabulary) -> Sources:
        """The same counts over the tags of a corpus, in its order; a tag that the sources lack has none.

        :raises ValueError: if no tag is known.
        """
        known = {tag: i for i, tag in enumerate(self.tags)}
        index = torch.tensor([known.get(tag, len(self.tags)) for tag in vocab.symbols])
        if bool((index == len(self.tags)).all()):
            raise ValueError(f"the corpus has none of the tags {', '.join(self.tags)}; read it with tags='upos'")

        def renumbered(table: Tensor, *dims: int) -> Tensor:
            for dim in dims:
                zero = torch.zeros_like(table.narrow(dim, 0, 1))
                table = torch.cat([table, zero], dim).index_select(dim, index)
            return table

        root, attach, stop = (self.counts[block] for block in ("root", "attach", "stop"))
        counts = {"root": renumbered(root, 1), "attach": renumbered(attach, 1, 3), "stop": renumbered(stop, 1)}
        return replace(self, tags=tuple(vocab.symbols), counts=counts)

    def weights(self, back_off: float = 10.0) -> Weights:
        """The grammar of each source, shape ``(K, *block.shape)``: posterior means about what all have together.

        :param back_off: how many events of all sources together every multinomial is given; these in turn are given one
            event, spread evenly.
        """
        weights = {}
        for name, block in self.grammar.blocks.items():
            pooled = block.normalize(self.counts[name].sum(0) + 1 / block.shape[-1])
            weights[name] = block.normalize(self.counts[name] + back_off * pooled)
        return weights

    def log_likelihood(self, words: Tensor) -> Tensor:
        """log p(words) / number of words under the grammar of each source, in nats, shape ``(K,)``; trees summed out.

        :param words: raw text of the target, shape ``(N, n)``, padded with -1.
        :raises ValueError: if there is none.
        """
        words, weights, grammar = checked_words(words, len(self.tags)), self.weights(), self.grammar
        if not len(words):
            raise ValueError("words must have a sentence, for the likelihood of its text is asked for, but have none")
        log_weights = {name: safe_log(w) for name, w in weights.items()}
        each = [{name: w[k] for name, w in log_weights.items()} for k in range(len(self))]
        totals = [grammar.log_partition(w, words).sum() for w in each]
        return torch.stack(totals) / (words >= 0).sum()

    def shares(self, words: Tensor, *, temperature: float = 20.0, alpha: float = 50.0, num_steps: int = 20) -> Shares:
        """What the target takes from whom: MAP shares by EM on its raw text, for the root and every head and side.

        Shares have the prior Dirichlet(1 + α softmax(T l)), l the likelihoods per word of :meth:`log_likelihood`.

        :param words: raw text of the target, shape ``(N, n)``, padded with -1.
        :param temperature: T.
        :param alpha: how many events the likelihood of the whole text counts as.
        :param num_steps: steps of EM; 0 gives softmax(T l) everywhere.
        :raises ValueError: for a negative or infinite number.
        """
        _check_sizes(temperature=temperature, alpha=alpha)
        prior = torch.softmax(temperature * self.log_likelihood(words), 0)
        weights, grammar, V = self.weights(), self.grammar, len(self.tags)
        shares = Shares(prior, prior.expand(V, 2, len(self)))
        for _ in range(num_steps):
            mean = shares.mean(weights)
            _, counts = grammar.expected_counts({name: safe_log(w) for name, w in mean.items()}, words)
            # of each event the share that source k had in it: pi_k w_kv / sum over k, times its expected count
            ratio = {name: counts[name] / mean[name].clamp_min(1e-300) for name in counts}
            root = shares.root * torch.einsum("c,kc->k", ratio["root"], weights["root"])
            heads = torch.einsum("hdc,khdc->hdk", ratio["attach"], weights["attach"])
            heads = shares.heads * (heads + torch.einsum("hdvs,khdvs->hdk", ratio["stop"], weights["stop"]))
            root, heads = root + alpha * prior, heads + alpha * prior
            shares = Shares(root / root.sum(), heads / heads.sum(-1, keepdim=True))
        return shares

    def concentration(
        self, words: Tensor, *, strength: float = 1000.0, shares: Shares | None = None, floor: float = 0.1
    ) -> Weights:
        """Dirichlet concentrations of every block: strength times the mean of the shares, plus a floor.

        They are what :func:`pyrogram.models.dirichlet.dirichlet` takes as ``concentration``.

        :param words: raw text of the target, shape ``(N, n)``, padded with -1.
        :param strength: how many events the prior counts as, in each multinomial.
        :param shares: :meth:`shares` by default.
        :raises ValueError: for a negative or infinite number.
        """
        _check_sizes(strength=strength, floor=floor)
        mean = (self.shares(words) if shares is None else shares).mean(self.weights())
        return {name: strength * w + floor for name, w in mean.items()}

    def gaussians(self, back_off: float = 10.0, floor: float = 0.1) -> dict[str, Gaussian]:
        """Mean and covariance over the sources of the log weights of each multinomial, as priors of logistic normals.

        They are what :func:`pyrogram.models.logistic_normal.corpus_logistic_normal` takes as ``prior``: the languages'
        likeness of Cohen and Smith (2009), over all of them.

        :param back_off: as in :meth:`weights`.
        :param floor: variance that is added to every coordinate.
        """
        gaussians = {}
        for name, w in self.weights(back_off).items():
            eta = w.log() - w.log().mean(-1, keepdim=True)
            loc = eta.mean(0)
            away = (eta - loc).movedim(0, -1)
            Sigma = away @ away.mT / max(len(self) - 1, 1) + floor * torch.eye(w.shape[-1], dtype=w.dtype)
            gaussians[name] = Gaussian(loc, Sigma)
        return gaussians

    def table(self, shares: Shares) -> tuple[list[str], Tensor]:
        """What :func:`.plot_shares` draws: names of multinomials, and their shares of the sources, ``(1 + 2 V, K)``."""
        rows = ["ROOT"] + [f"{tag} {side}" for tag in self.tags for side in ("left", "right")]
        return rows, torch.cat([shares.root[None], shares.heads.flatten(0, 1)])

    def drawn_on(self, shares: Shares, counts: Mapping[str, Tensor] | None = None) -> Tensor:
        """The share of each source in the whole grammar, shape ``(K,)``: heads weigh as their events in ``counts``.

        :param counts: expected counts by block of the target; None: all heads weigh the same.
        """
        if counts is None:
            return shares.heads.mean((0, 1))
        weight = counts["attach"].sum(-1) + counts["stop"].sum((-1, -2))
        total = torch.einsum("hd,hdk->k", weight, shares.heads) + counts["root"].sum() * shares.root
        return total / total.sum()


def _check_sizes(**numbers: float) -> None:
    for name, number in numbers.items():
        if not 0 <= number < float("inf"):
            raise ValueError(f"{name} must be a number of at least 0, not {number!r}")


def read_treebanks(paths: Iterable[str | Path]) -> dict[str, Corpus]:
    """Treebanks by name, which is the start of a file's name: ``en_ewt-ud-train.conllu`` belongs to ``en_ewt``."""
    by_name: dict[str, list[Path]] = {}
    for path in map(Path, paths):
        name = path.name.split("-ud-")[0].removesuffix(".gz").removesuffix(".conllup").removesuffix(".conllu")
        by_name.setdefault(name, []).append(path)
    return {name: Corpus.from_conllu(group, tags="upos", heads="required") for name, group in sorted(by_name.items())}

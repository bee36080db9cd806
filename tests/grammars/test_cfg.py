# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""CFG: notation, numbering, matches, words; log Z and draws against rewriting by hand."""

import copy
import itertools
import pickle
import time

import pytest
import torch
from nltk import CFG as NltkCFG
from nltk import PCFG as NltkPCFG
from nltk import Nonterminal, Production
from nltk.parse import InsideChartParser
from nltk.tree import Tree
from rewriting import derivations

from pyrogram import CFG
from pyrogram.distributions import Sentence
from pyrogram.grammar import PackedBlock
from pyrogram.grammars import Word

TEXT = """
    # a comment
    S -> NP VP [0.9] | VP [0.1]
    NP -> DT N [0.5] | NP PP [0.3] | 'she' [0.2]   # another
    VP -> V NP [0.6] | VP PP [0.3] \\
        | V [0.1]
    PP -> "with" NP [1.0]
    DT -> 'the' [1.0]
    N -> 'dog' [.5] | 'hot' 'dog' [0.5]
    V -> 'saw' [0.7] | N [0.3]
"""


def test_rules_words_and_blocks_of_a_text() -> None:
    grammar = CFG.from_string(TEXT)
    assert grammar.start == "S"
    assert grammar.nonterminals == ("S", "NP", "VP", "PP", "DT", "N", "V")
    assert grammar.words == ("she", "with", "the", "dog", "hot", "saw") and grammar.num_words == 6
    assert grammar.rules[:2] == (("S", ("NP", "VP")), ("S", ("VP",)))
    assert grammar.rules[11] == ("N", (Word("hot"), Word("dog")))
    assert dict(grammar.blocks) == {"rules": PackedBlock(torch.Size([14]), (2, 3, 3, 1, 1, 2, 2))}
    assert grammar.weights is not None
    expected = [0.9, 0.1, 0.5, 0.3, 0.2, 0.6, 0.3, 0.1, 1.0, 1.0, 0.5, 0.5, 0.7, 0.3]
    torch.testing.assert_close(grammar.weights["rules"], torch.tensor(expected))
    assert repr(grammar) == "CFG(14 rules, 7 nonterminals, 6 words)"
    assert CFG.from_string("A -> 'a'\nS -> A A\n%start S").start == "S"
    assert CFG.from_string("A -> 'a'\nS -> A A", start="S").start == "S"


def test_rules_of_one_left_side_come_together() -> None:
    rules = [("S", ("A", "S")), ("A", ("a",)), ("S", ("A",)), ("B", ("b",)), ("A", ("B", "b"))]
    grammar = CFG(rules, weights=[1.0, 2.0, 3.0, 4.0, 5.0])
    assert [lhs for lhs, _ in grammar.rules] == ["S", "S", "A", "A", "B"]
    assert grammar.block_order.tolist() == [0, 2, 1, 4, 3]
    for i, (lhs, rhs) in enumerate(rules):
        event = grammar.rules[int(grammar.block_order[i])]
        assert event == (lhs, tuple(Word(s) if s in "ab" else s for s in rhs))
    assert grammar.weights is not None and grammar.weights["rules"].tolist() == [1, 3, 2, 5, 4]


def test_a_word_may_have_the_name_of_a_nonterminal() -> None:
    grammar = CFG([("S", ("S", ",")), ("S", (",",)), (",", (Word(","),))])
    assert grammar.rules[2] == (",", (Word(","),)) != (",", (",",))
    assert grammar.words == (",",)
    assert Word("a") != "a" and hash(Word("a")) == hash("a") and repr(Word("a")) == "Word('a')"
    assert len({Word("a"), "a", Word("a")}) == 2
    assert isinstance(pickle.loads(pickle.dumps(grammar)).rules[2][1][0], Word)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("sentence", ["she saw the hot dog", "saw the dog with the hot dog", "dog", "hot dog she"])
def test_log_z_is_nltks(sentence: str) -> None:
    lines = [line.partition("#")[0] for line in TEXT.replace("\\\n", " ").replace("[.5]", "[0.5]").splitlines()]
    ours, theirs = CFG.from_string(TEXT), NltkPCFG.fromstring("\n".join(lines))
    assert [str(r[0]) for r in CFG.from_nltk(theirs).rules] == [r[0] for r in ours.rules]
    assert ours.weights is not None
    for grammar in (ours, CFG.from_nltk(theirs)):
        words = grammar.encode([sentence])[0]
        assert grammar.weights is not None
        log_z = Sentence(grammar, grammar.weights).log_prob(words)
        parses = list(InsideChartParser(theirs).parse(sentence.split()))
        total = sum(tree.prob() for tree in parses)
        assert float(log_z.exp()) == pytest.approx(total, rel=1e-12)
        if parses:
            posterior = grammar.derivation(grammar.weights, words)
            trees = [grammar.tree(words, d) for d in posterior.enumerate_support()]
            assert sorted(map(str, trees)) == sorted(str(Tree.convert(t)) for t in parses)


def test_from_nltk_without_probabilities() -> None:
    grammar = CFG.from_nltk(NltkCFG.fromstring("S -> A 'b' | A\nA -> 'a'"))
    assert grammar.weights is None and grammar.start == "S"
    assert grammar.rules == (("S", ("A", Word("b"))), ("S", ("A",)), ("A", (Word("a"),)))
    assert "given" not in grammar.initialisers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S -> A", "nonterminal 'A' in S -> A has no rules; quote it if it is a terminal"),
        ("S -> 'a' |", "rule 1, S -> , has an empty right side"),
        ("S -> 'a'\nS -> S 'b' | 'a'", "rules 0 and 2 are both S -> 'a'; give it once"),
        ("S -> A | 'a'\nA -> B\nB -> S", "the unary rules S -> A -> B -> S form a cycle"),
        ("S -> S | 'a'", "the unary rules S -> S form a cycle"),
        ("S -> S S", "no terminals"),
        ("", "at least one rule"),
        ("S -> 'a' [0.5] | 'b'", "rule S -> 'b' has no probability though others have one"),
        ("S -> 'a' [0.5] | 'b' [0.4]", "the probabilities of the rules of 'S' sum to 0.9, not 1"),
        ("S -> 'a' [1.5]", r"line 1 has \[1.5\], which is no probability"),
        ("S -> 'a' [x]", r"line 1 has \[x\], which is no probability"),
        ("S -> [0.5] 'a'", r"line 1 has a symbol after \[0.5\]"),
        ("\nS = 'a'", "line 2 is \"S = 'a'\", not a rule"),
        ("S -> 'a", 'line 1 cannot be read from "\'a" on; is a quote missing'),
        ("S T -> 'a'", "line 1 is .* not a rule"),
        ("%begin S", "the only directive is '%start SYMBOL'"),
        ("%start T\nS -> 'a'", "start symbol 'T' has no rules"),
        ("S -> 'a' \\", "line 1 ends in a backslash"),
    ],
)
def test_errors_of_texts(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CFG.from_string(text)


def test_errors_of_rules() -> None:
    with pytest.raises(
        ValueError, match=r"the right side of rule 1 must be a sequence of symbols, not the string 'aa'"
    ):
        CFG([("S", ("a",)), ("S", "aa")])
    with pytest.raises(ValueError, match="the left side of rule 0 must be a nonterminal"):
        CFG([(Word("S"), ("a",))])
    with pytest.raises(ValueError, match="the right side of rule 0 has 3, which is no string"):
        CFG([("S", ("a", 3))])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"weights must have shape \(2,\), one for each rule, not \(1,\)"):
        CFG([("S", ("a",)), ("S", ("b",))], weights=[1.0])
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="non-negative and finite, but that of rule 1 is"):
            CFG([("S", ("a",)), ("S", ("b",))], weights=[1.0, bad])
    with pytest.raises(ValueError, match=r"the derivation must be one, of shape \(L,\), not \(1, 1\)"):
        CFG([("S", ("a",))]).tree(None, torch.tensor([[0]]))
    with pytest.raises(ValueError, match="has an empty right side"):
        CFG.from_nltk(NltkCFG(Nonterminal("S"), [Production(Nonterminal("S"), [])]))
    grammar = CFG.from_string(TEXT)
    with pytest.raises(ValueError, match="sentence 1 has 'cat', which is no terminal of the grammar"):
        grammar.encode(["the dog", "the cat"])
    with pytest.raises(ValueError, match="sentence 1 is empty"):
        grammar.encode(["the dog", ""])


def test_encode() -> None:
    grammar = CFG.from_string(TEXT)
    assert grammar.encode(["the dog", ["she", "saw", "the"]]).tolist() == [[2, 3, -1], [0, 5, 2]]
    assert grammar.encode([]).shape == (0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_matches_are_all_places_of_lexical_rules(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    strings = {tuple("abc"[i] for i in row[: 1 + n % 3]) for n, row in enumerate(torch.randint(3, (12, 3)).tolist())}
    rules = [("S", ("A", "x", "S")), ("S", ("A",))] + [(lhs, s) for lhs in "AS" for s in sorted(strings)]
    grammar = CFG(rules)
    letters = ["".join("abcx"[int(i)] for i in torch.randint(4, (n,), generator=generator)) for n in (1, 6, 4)]
    known = ["".join(c for c in s if c in grammar.words) or grammar.words[0] for s in letters]
    known.append("".join(w for s in sorted(strings, key=len)[-2:] for w in s))  # long matches, for certain
    matches = grammar.matches(grammar.encode([list(s) for s in known]))
    assert matches.lengths.tolist() == [len(s) for s in known]
    for b, s in enumerate(known):
        expected = set()
        for i, k in itertools.combinations(range(len(s) + 1), 2):
            for event, (lhs, rhs) in enumerate(grammar.rules):
                if all(isinstance(w, Word) for w in rhs) and "".join(rhs) == s[i:k]:
                    expected.add((i, k, grammar.nonterminals.index(lhs), event))
            if s[i:k] == "x":
                (auxiliary,) = {m[2] for m in matches.table.tolist() if m[3] == -1}
                expected.add((i, k, auxiliary, -1))
        rows = matches.table[matches.offsets[b] : matches.offsets[b + 1]].tolist()
        assert {tuple(row) for row in rows} == expected and len(rows) == len(expected)


def test_matches_are_kept_but_not_for_other_sentences() -> None:
    grammar = CFG.from_string("S -> S S | 'a' | 'b'")
    words = torch.tensor([[0, 1], [1, -1]])
    first = grammar.matches(words)
    assert grammar.matches(words.clone()) is first
    words[0, 0] = 1
    assert grammar.matches(words) is not first
    assert grammar.matches(words).table[0].tolist() == [0, 1, 0, 2]
    assert grammar.matches(torch.tensor([[1, 1, 1, -1]])).lengths.tolist() == [3]
    for n in range(1, 30):
        grammar.matches(torch.zeros(1, n).long())
    assert len(grammar._matches) == grammar.KEPT


def test_long_rules_need_no_events_of_their_own() -> None:
    """The binarisation is inside: every rule of a tree has its event, auxiliary symbols have none."""
    grammar = CFG.from_string("S -> A 'x' B A | 'x' A B A\nA -> 'a'\nB -> 'b' | 'b' 'b'")
    for sentence in ("a x b a", "x a b b a"):
        words = grammar.encode([sentence])[0]
        posterior = grammar.derivation({"rules": torch.ones(5)}, words)
        found = [[r for r in row.tolist() if r >= 0] for row in posterior.enumerate_support()]
        assert found == derivations(grammar, sentence.split())
        assert len(found[0]) == 4
    # The suffix "B A" is one symbol for both rules.
    assert grammar.table.num_symbols == 3 + 4


def test_dense() -> None:
    grammar = CFG.dense(2, 3, 4)
    assert len(grammar.rules) == 5 + 2 * 25 + 3 * 4 and grammar.num_words == 4
    assert grammar.blocks["rules"].sizes == (5, 25, 25, 4, 4, 4)
    weights = grammar.initial_weights(torch.zeros(1, 1), "uniform")
    words = torch.tensor([[0, -1], [1, 2]])
    expected = torch.tensor([3 / 5 / 4, 2 / 5 * 9 / 25 / 16]).log()
    torch.testing.assert_close(Sentence(grammar, weights).log_prob(words), expected)
    with pytest.raises(ValueError, match="must be at least 1, not 2, 0, 4"):
        CFG.dense(2, 0, 4)


def test_draws_refuse_what_they_cannot_do() -> None:
    grammar = CFG.from_string("S -> S S | 'a'")
    with pytest.raises(ValueError, match="the rules of 'S' do not sum to one"):
        grammar.sample({"rules": torch.tensor([0.5, 0.6])}, torch.Size([]), 5)
    with pytest.raises(ValueError, match="10,000 sampled sentences in a row had more than 5 words"):
        grammar.sample({"rules": torch.tensor([1.0, 0.0])}, torch.Size([]), 5)
    never = grammar.sample({"rules": torch.tensor([0.0, 1.0])}, torch.Size([7]), 2)
    assert never.tolist() == [[0, -1]] * 7


def test_the_weights_that_came_with_it_are_a_start() -> None:
    grammar = CFG.from_string("S -> S S [0.33] | 'a' [0.67]")
    start = grammar.initial_weights(torch.zeros(1, 1), "given")["rules"]
    torch.testing.assert_close(start, torch.tensor([0.33, 0.67]))
    rounded = CFG.from_string("S -> 'a' [0.33] | 'b' [0.33] | 'c' [0.33]").weights
    assert rounded is not None
    torch.testing.assert_close(rounded["rules"], torch.full((3,), 1 / 3))


def test_copies_are_small_and_work() -> None:
    grammar = CFG.from_string(TEXT)
    words = grammar.encode(["she saw the dog"])
    before = len(pickle.dumps(grammar))
    log_z = grammar.log_partition({"rules": torch.zeros(14)}, words)
    assert grammar.derivation(None, words, log_weights={"rules": torch.zeros(14)}).argmax().shape
    grammar.derivation_of(Tree.fromstring("(S (VP (V saw)))"))
    assert len(pickle.dumps(grammar)) <= before  # what was computed does not travel
    for twin in (copy.deepcopy(grammar), pickle.loads(pickle.dumps(grammar))):
        assert twin.rules == grammar.rules and repr(twin) == repr(grammar)
        torch.testing.assert_close(twin.log_partition({"rules": torch.zeros(14)}, words), log_z)


def test_fifty_thousand_rules_take_a_second_or_two() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    strings = list(itertools.islice(itertools.product(letters, repeat=4), 25_000))
    rules = [("W", ("P", "S"))] + [(lhs, s) for lhs in "PS" for s in strings]
    started = time.process_time()
    grammar = CFG(rules)
    words = grammar.encode([list("aaabaaac")])
    assert time.process_time() - started < 5  # 0.5 s on an idle machine
    weights = {"rules": torch.ones(len(rules))}
    assert float(grammar.derivation(weights, words).log_partition) == 0.0


def test_torchs_transforms_of_weights() -> None:
    grammar = CFG.from_string("S -> A S | A\nA -> 'a' | 'b' | A 'b' A")
    words, logs = grammar.encode(["a b a", "b"]), torch.randn(3, 5)

    def total(w: torch.Tensor) -> torch.Tensor:
        return grammar.log_partition({"rules": w}, words).sum()

    found = torch.func.vmap(torch.func.grad(total))(logs)
    expected = torch.stack([grammar.expected_counts({"rules": w}, words)[1]["rules"] for w in logs])
    torch.testing.assert_close(found, expected)
    hessian = torch.autograd.functional.hessian(total, logs[0])
    torch.testing.assert_close(torch.func.jacrev(torch.func.jacrev(total))(logs[0]), hessian)
    by_words = torch.func.vmap(lambda x: grammar.log_partition({"rules": logs[0]}, x))(words)
    torch.testing.assert_close(by_words, grammar.log_partition({"rules": logs[0]}, words))


def test_the_gradient_of_one_sentence_in_float32() -> None:
    """Alone, without a batch, and as the only one of its length."""
    grammar = CFG([("S", ("S", "S")), ("S", ("a",)), ("S", ("b",))])
    words = torch.tensor([[0, 1, 0, 1, 1, 0], [1, -1, -1, -1, -1, -1]])
    for sentences in (words[0], words[:1], words):
        leaf = torch.tensor([0.3, 0.4, 0.3], dtype=torch.float32).log().requires_grad_()
        log_z = grammar.log_partition({"rules": leaf}, sentences)
        (found,) = torch.autograd.grad(log_z.sum(), leaf)
        rows = sentences.reshape(-1, sentences.shape[-1])
        expected = grammar.expected_counts({"rules": leaf.detach().double()}, rows)[1]["rules"]
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)

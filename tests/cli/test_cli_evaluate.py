# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""evaluate, on files made by hand."""

import csv
import io
import json
from itertools import product

import pytest

COLUMNS = "{}\t{}\t_\t{}\t_\t_\t{}\t_\t_\t_\n"


def conllu(*sentences):
    """Sentences of (form, universal tag, head)."""
    rows = ["".join(COLUMNS.format(i, f, t, h) for i, (f, t, h) in enumerate(s, 1)) for s in sentences]
    return "".join(row + "\n" for row in rows)


@pytest.fixture
def file(tmp_path):
    def write(text, name="file.conllu"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


LONG = [(w, "A", h) for w, h in zip("cdefghijklm", [0, *range(1, 11)], strict=True)]
GOLD = [[("a", "A", 2), ("b", "B", 0)], LONG]
# first sentence reversed: both arcs wrong, one right as an undirected one; second: the last head is wrong
PREDICTED = [[("a", "A", 0), ("b", "B", 1)], [*LONG[:-1], ("m", "A", 1)]]
# with punctuation that hangs on the first word, the last word, and the root
MARKED = [("a", "X", 3), (",", "PUNCT", 1), ("b", "Y", 0), (".", "PUNCT", 3)]
LEFT = [("a", "X", 3), (",", "PUNCT", 3), ("b", "Y", 0), (".", "PUNCT", 3)]


def tables(text):
    """The lines of each part of the report by their first word."""
    parts = {part.splitlines()[0]: part.splitlines()[1:] for part in text.split("\n\n") if " is below " not in part}
    return {name: {line.split()[0]: line.split()[1:] for line in lines} for name, lines in parts.items()}


def test_by_length(call, file):
    gold, predicted = file(conllu(*GOLD), "gold.conllu"), file(conllu(*PREDICTED))
    done = call("evaluate", gold, predicted)
    assert done.status == 0 and done.err == ""
    found = tables(done.out)
    assert list(found) == ["without punctuation", "with punctuation", "directed, by tag"]
    for table in (found["without punctuation"], found["with punctuation"]):
        assert table["<=10"] == ["1", "2", "0.0", "50.0", "0.0"]
        # 13 words: 10 of 11 right in the second, where 11/13 are right undirected
        assert table["<=20"] == table["all"] == ["2", "13", f"{1000 / 13:.1f}", f"{1100 / 13:.1f}", "50.0"]
    assert found["directed, by tag"]["A"] == ["12", f"{1000 / 12:.1f}", f"{1000 / 12:.1f}"]
    assert found["directed, by tag"]["B"] == ["1", "0.0", "0.0"]


def test_with_punctuation_and_without(call, file):
    gold, predicted = file(conllu(MARKED), "gold.conllu"), file(conllu(LEFT))
    found = tables(call("evaluate", gold, predicted).out)
    assert found["without punctuation"]["all"] == ["1", "2", "100.0", "100.0", "100.0"]
    assert found["with punctuation"]["all"] == ["1", "4", "75.0", "75.0", "100.0"]
    assert found["directed, by tag"]["PUNCT"] == ["2", "-", "50.0"]
    assert found["directed, by tag"]["X"] == ["1", "100.0", "100.0"]


def test_punctuation_that_is_not_in_both(call, file):
    """As in what induce writes, which was scored without it."""
    gold, predicted = file(conllu(MARKED), "gold.conllu"), file(conllu([("a", "X", 2), ("b", "Y", 0)]))
    done = call("evaluate", gold, predicted)
    assert "without punctuation, for the files differ in it" in done.err
    found = tables(done.out)
    assert list(found) == ["without punctuation", "directed, by tag"]
    assert found["without punctuation"]["all"] == ["1", "2", "100.0", "100.0", "100.0"]
    assert [row["punctuation"] for row in json.loads(call("evaluate", gold, predicted, "--json").out)["scores"]] == (
        6 * [False]
    )


def test_json_and_csv_are_the_table(call, refused, file):
    gold, predicted = file(conllu(*GOLD, MARKED), "gold.conllu"), file(conllu(*PREDICTED, LEFT))
    told = json.loads(call("evaluate", gold, predicted, "--json").out)
    assert (told["gold"], told["differences"]) == (str(gold), [])
    rows = list(csv.DictReader(io.StringIO(call("evaluate", gold, predicted, "--csv").out)))
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in told["scores"]] == rows
    by_key = {(row["punctuation"], row["group"], row["name"]): row for row in told["scores"]}
    whole = by_key[True, "length", "all"]
    assert whole == {
        "file": str(predicted),
        "punctuation": True,
        "group": "length",
        "name": "all",
        "sentences": 3,
        "words": 17,
        "directed": 13 / 17,
        "undirected": 14 / 17,
        "root": 2 / 3,
    }
    assert by_key[False, "length", "all"]["directed"] == 12 / 15
    assert by_key[True, "tag", "PUNCT"]["directed"] == 1 / 2 and (False, "tag", "PUNCT") not in by_key
    for punctuation in (False, True):
        tags = [row for key, row in by_key.items() if key[:2] == (punctuation, "tag")]
        assert sum(row["words"] for row in tags) == by_key[punctuation, "length", "all"]["words"]
    assert "--json and --csv" in refused("evaluate", gold, predicted, "--json", "--csv")


def test_two_predicted_files(call, refused, file):
    """The bootstrap, against all 27 samples of three sentences."""
    gold, first = file(conllu(*GOLD, MARKED), "gold.conllu"), file(conllu(*PREDICTED, LEFT), "first.conllu")
    second = file(conllu(*GOLD, [("a", "X", 0), (",", "PUNCT", 1), ("b", "Y", 1), (".", "PUNCT", 3)]), "second.conllu")
    options = ["--against", second, "--samples", 20_000, "--seed", 4]
    (bare, full) = json.loads(call("evaluate", gold, first, *options, "--json").out)["differences"]
    assert (bare["punctuation"], full["punctuation"]) == (False, True)
    assert (bare["samples"], bare["seed"], bare["confidence"]) == (20_000, 4, 0.95)
    for found, gains, words in ((bare, [-2, -1, 2], [2, 11, 2]), (full, [-2, -1, 1], [2, 11, 4])):
        assert found["difference"] == sum(gains) / sum(words)
        samples = [(sum(gains[i] for i in s) / sum(words[i] for i in s)) for s in product(range(3), repeat=3)]
        # the outermost samples have probability 1/27, more than the 2.5 % beyond the interval
        assert (found["low"], found["high"]) == (min(samples), max(samples))
        far = sum(abs(d - found["difference"]) >= abs(found["difference"]) - 1e-12 for d in samples) / 27
        assert found["p_value"] == pytest.approx(far, abs=0.015)
    # words that either file alone has right, and sentences of which it has more; with two or three to one, p is 1
    signs = ["words_better", "words_worse", "words_p_value", "sentences_better", "sentences_worse", "sentences_p_value"]
    assert [bare[name] for name in signs] == [2, 3, 1.0, 1, 2, 1.0]
    assert [full[name] for name in signs] == [2, 4, pytest.approx(44 / 64), 1, 2, 1.0]
    text = call("evaluate", gold, first, *options).out
    assert text == call("evaluate", gold, first, *options).out != call("evaluate", gold, first, *options[:-1], 5).out
    assert f"{first} minus {second}, without punctuation: -6.67 points" in text and "20,000 samples" in text
    assert "better in 2 words and worse in 3, p = 1; better in 1 sentence and worse in 2, p = 1 (sign test)" in text
    assert text.count("with punctuation\nlength") == 2
    rows = list(csv.DictReader(io.StringIO(call("evaluate", gold, first, *options, "--csv").out)))
    assert [float(row["difference"]) for row in rows if row["group"] == "difference"] == [-1 / 15, -2 / 17]
    assert [row["words_worse"] for row in rows if row["group"] == "difference"] == ["3", "4"]
    assert {row["file"] for row in rows} == {str(first), str(second), ""}
    other = file(conllu(*GOLD), "other.conllu")
    assert "sentence 3 is missing" in refused("evaluate", gold, first, "--against", other)
    assert "--against compares heads" in refused("evaluate", gold, first, "--against", second, "--score", "brackets")


def test_brackets(call, refused, file):
    gold = file("(S (NP (DT the) (NN dog)) (VP (VB barks)) (. .))\n(S (NP (NN it)) (VP (VB is)))\n", "gold.mrg")
    predicted = file("(S (NP (DT the) (NN dog)) (VB barks) (. .))\n()\n", "predicted.mrg")
    done = call("evaluate", gold, predicted, "--score", "brackets")
    # of the parsed sentence's 3 gold brackets S and NP are found, and nothing else; the other one counts in no score
    assert done.out.splitlines()[-1].split()[:6] == ["all", "2", "1", "100.0", "66.7", "80.0"]
    (*_, whole) = json.loads(call("evaluate", gold, predicted, "--score", "brackets", "--json").out)["scores"]
    assert (whole["max_length"], whole["sentences"], whole["skipped"]) == (None, 2, 1)
    assert (whole["precision"], whole["recall"]) == (1, 2 / 3)
    rows = list(csv.DictReader(io.StringIO(call("evaluate", gold, predicted, "--score", "brackets", "--csv").out)))
    assert float(rows[-1]["recall"]) == 2 / 3 and rows[-1]["file"] == str(predicted)
    other = file("(S (NP (DT a) (NN dog)) (VP (VB barks)) (. .))\n()\n", "other.mrg")
    assert "sentence 1 differs: word 1 is 'the' in" in refused("evaluate", gold, other, "--score", "brackets")
    short = file("()\n", "short.mrg")
    assert "has 2 sentences and" in refused("evaluate", gold, short, "--score", "brackets")
    assert "gold.mrg, line 1: " in refused("evaluate", file("()", "gold.mrg"), short, "--score", "brackets")

# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A small English phrase grammar with head rules: data of `pyrogram.data.builtin`.

The words are in `pyrogram/data/_english_words.py`.

**Rules.** A line that is not indented is a left-hand side; the indented lines after it are its rules: a
weight, and the children, the head child marked with a star. Weights are relative; they are added up and
normalised once every line is expanded, so one left-hand side may collect rules from several paragraphs.

**Symbols.** What stands before the first hyphen is printed in the brackets; the rest carries number (SG, PL),
case (NOM, ACC; LEX: a common noun with nothing after it; IND: indefinite; PRD: predicate), the form of a verb
(SG, PL, PST, BAS, ING, EN; LEX: no auxiliary) and the kind of thing meant (ANI: animate, OBJ: a thing,
LOC: a place). A symbol that gives words is printed as its Penn tag.

**Variables.** A variable of the left-hand side makes a copy of the rule for each of its values; one that
stands only among the children shares the rule's weight among its values, in the proportions of `VARIABLES`.
"""

_NUMBER = {"SG": 0.65, "PL": 0.35}

VARIABLES: dict[str, dict[str, float]] = {
    "$n": _NUMBER,
    "$m": _NUMBER,
    "$o": _NUMBER,
    "$k": {"ANI": 0.5, "OBJ": 0.5},
    "$q": {"ANI": 0.4, "OBJ": 0.4, "LOC": 0.2},
    "$a": {"ANI": 0.5, "LEX": 0.5},
    "$c": {"NOM": 0.4, "ACC": 0.4, "LEX": 0.2},
    "$d": {"NOM": 0.5, "ACC": 0.5},
    "$f": {"SG": 0.2, "PL": 0.2, "PST": 0.3, "BAS": 0.1, "ING": 0.1, "EN": 0.1},
    "$h": {"SG": 0.3, "PL": 0.3, "PST": 0.4},
}

RULES = """
S
  28  NP-NOM-$n-ANI *VP-$n-ANI
  24  NP-NOM-$n-ANI *VP-PST-ANI
  11  NP-NOM-$n-OBJ *VP-$n-OBJ
   5  NP-NOM-$n-OBJ *VP-PST-OBJ
   5  NP-NOM-$n-ANI ADVP-FRQ *VP-$n-LEX
   4  NP-NOM-$n-ANI ADVP-FRQ *VP-PST-LEX
   3  NP-EX *VP-EX
   5  PP-TIM NP-NOM-$n-ANI *VP-PST-ANI
   3  SBAR-ADV NP-NOM-$n-ANI *VP-PST-ANI
   2  SBAR-ADV NP-NOM-$n-ANI *VP-WAS-$n-ANI
   5  S-FIN CC-S *S-FIN
   3  *VP-BAS-LEX
S-FIN
  40  NP-NOM-$n-ANI *VP-$n-ANI
  35  NP-NOM-$n-ANI *VP-PST-ANI
  15  NP-NOM-$n-OBJ *VP-$n-OBJ
   6  NP-NOM-$n-OBJ *VP-PST-OBJ
   4  NP-EX *VP-EX
S-PST
   8  NP-NOM-$n-ANI *VP-PST-ANI
   2  NP-NOM-$n-OBJ *VP-PST-OBJ
   5  NP-NOM-$n-$k *VP-WAS-$n-$k
S-INF
   1  *VP-INF
S-ING
   1  *VP-ING-LEX
S-SUB-$n-$k
   6  *VP-$n-$k
   4  *VP-PST-$k
S-GAP-$k
   5  NP-NOM-$n-ANI *VP-GAP-$n-$k
   5  NP-NOM-$n-ANI *VP-GAP-PST-$k

SBAR-THAT
   6  *IN-THAT S-FIN
   4  *S-FIN
SBAR-ADV
   6  *IN-SUB S-PST
   4  *WHADVP S-PST
SBAR-REL-$n-$k
   6  *WHNP-$k S-SUB-$n-$k
   4  *WHNP-OBJ S-GAP-$k
WHNP-ANI
   1  *WP
WHNP-OBJ
   1  *WDT
WHADVP
   1  *WRB

NP-$c-SG-$q
  32  DT-SG *NN-SG-$q
  13  DT-SG JJ-$q *NN-SG-$q
   2  DT-SG JJ-SIZE JJ-$q *NN-SG-$q
   1  DT-SG ADJP-DEG-$q *NN-SG-$q
   1  DT-THE JJS-$q *NN-SG-$q
   8  PRPS *NN-SG-$q
   2  PRPS JJ-$q *NN-SG-$q
   4  NP-POSS *NN-SG-$q
NP-$c-PL-$q
  20  DT-PL *NN-PL-$q
   8  DT-PL JJ-$q *NN-PL-$q
  10  *NN-PL-$q
   6  JJ-$q *NN-PL-$q
   6  CD *NN-PL-$q
   2  CD JJ-$q *NN-PL-$q
   2  DT-THE CD *NN-PL-$q
   1  PDT DT-THE *NN-PL-$q
   5  PRPS *NN-PL-$q
   3  NP-POSS *NN-PL-$q
NP-$d-SG-ANI
  16  *NNP-ANI
   4  NNP-ANI *NNP-FAM
NP-$c-SG-OBJ
   8  *NN-MASS
   2  JJ-MASS *NN-MASS
   3  DT-SG NN-CMP *NN-SG-OBJ
NP-$d-SG-LOC
  14  *NNP-LOC
NP-$d-$n-ANI
  34  *PRP-$d-$n-ANI
   4  *NP-LEX-$n-ANI PP-LOC
   3  *NP-LEX-$n-ANI PP-WITH
   4  *NP-LEX-$n-ANI SBAR-REL-$n-ANI
NP-$d-$n-OBJ
   6  *PRP-$d-$n-OBJ
   4  *NP-LEX-$n-OBJ PP-LOC
   3  *NP-LEX-$n-OBJ PP-OF
   4  *NP-LEX-$n-OBJ SBAR-REL-$n-OBJ
NP-$d-$n-LOC
   5  *NP-LEX-$n-LOC PP-LOC
   2  *NP-LEX-$n-LOC PP-OF
NP-$d-PL-$k
   7  NP-LEX-$m-$k CC-NP *NP-LEX-$o-$k
NP-$d-PL-ANI
   4  NP-NAME CC-NP *NP-LEX-$m-ANI
NP-NAME
   1  *NNP-ANI
NP-POSS
   6  NNP-ANI *POS
   4  DT-SG NN-SG-ANI *POS
   1  PRPS NN-SG-ANI *POS
NP-PRD-SG
   6  DT-A *NN-SG-ANI
   4  DT-A JJ-ANI *NN-SG-ANI
   2  PRPS *NN-SG-ANI
NP-PRD-PL
   5  JJ-ANI *NN-PL-ANI
   5  *NN-PL-ANI
NP-IND-SG-$k
   6  DT-A *NN-SG-$k
   4  DT-A JJ-$k *NN-SG-$k
NP-IND-PL-$k
   5  CD *NN-PL-$k
   3  DT-SOME *NN-PL-$k
   3  JJ-$k *NN-PL-$k
NP-EX
   1  *EX
NP-EVT
   6  DT-THE *NN-EVT
   4  *NNP-DAY

VP-$f-ANI
   4  *VP-$f-LEX CC-VP VP-$f-LEX
VP-$f-$k
   6  *V-$f-IV-$k
   5  *V-$f-IV-$k ADVP-MAN
   5  *V-$f-IV-$k PP-LOC
   3  *V-$f-IV-$k PP-TIM
   1  *V-$f-IV-$k SBAR-ADV
VP-$f-LEX
   6  *V-$f-IV-ANI
   5  *V-$f-IV-ANI ADVP-MAN
   5  *V-$f-IV-ANI PP-LOC
VP-$f-ANI
   4  *V-$f-TR-OBJ NP-ACC-$n-OBJ PP-LOC
   2  *V-$f-TR-OBJ NP-ACC-$n-OBJ ADVP-MAN
   2  *V-$f-TR-OBJ NP-ACC-$n-OBJ PP-TIM
   1  *V-$f-TR-OBJ NP-ACC-$n-OBJ SBAR-ADV
   3  *V-$f-TR-ANI NP-ACC-$n-ANI PP-LOC
   3  *V-$f-MO PP-DIR PP-TIM
VP-$f-$a
  16  *V-$f-TR-OBJ NP-ACC-$n-OBJ
  12  *V-$f-TR-ANI NP-ACC-$n-ANI
   6  *V-$f-MO PP-DIR
   4  *V-$f-DI NP-ACC-$n-ANI NP-LEX-$m-OBJ
   4  *V-$f-DI NP-ACC-$n-OBJ PP-TO
   3  *V-$f-PT PRT NP-LEX-$n-OBJ
   5  *V-$f-AB PP-ABT
   6  *V-$f-CL SBAR-THAT
   6  *V-$f-WI S-INF
   2  *V-$f-GE S-ING
VP-$n-$k
   7  *MD VP-BAS-$k
   2  *MD RB-NOT VP-BAS-$k
   4  *HAVE-$n VP-EN-$k
VP-$n-ANI
   8  *BE-$n VP-ING-LEX
   2  *BED-$n VP-ING-LEX
   4  *DO-$n RB-NOT VP-BAS-LEX
   4  *BE-$n NP-PRD-$n
   2  *BED-$n NP-PRD-$n
VP-$n-OBJ
   2  *DO-$n RB-NOT VP-BAS-OBJ
VP-$n-$k
   8  *BE-$n ADJP-$k
   4  *BED-$n ADJP-$k
   2  *BE-$n RB-NOT ADJP-$k
   1  *BE-$n ADVP-FRQ ADJP-$k
   3  *BE-$n PP-LOC
   2  *BED-$n PP-LOC
   2  *BE-$n VP-PAS-$k
   4  *BED-$n VP-PAS-$k
VP-PST-$k
   3  *HAVE-PST VP-EN-$k
   4  *DO-PST RB-NOT VP-BAS-$k
VP-BAS-$k
   5  *BE-BAS ADJP-$k
   3  *BE-BAS VP-PAS-$k
VP-EN-$k
   3  *BE-EN ADJP-$k
   4  *BE-EN VP-PAS-$k
VP-INF
   1  TO *VP-BAS-LEX
VP-PAS-$k
   5  *V-EN-TR-$k
   5  *V-EN-TR-$k PP-BY
   4  *V-EN-TR-$k PP-LOC
VP-WAS-$n-$k
   1  *BED-$n ADJP-$k
VP-GAP-$h-$k
   1  *V-$h-TR-$k
VP-EX
   6  *BE-$n NP-IND-$n-$k PP-LOC
   3  *BED-$n NP-IND-$n-$k PP-LOC

PP-LOC
   1  *IN-LOC NP-ACC-$n-LOC
PP-DIR
   6  *TO NP-ACC-$n-LOC
   4  *IN-DIR NP-ACC-$n-LOC
PP-TO
   1  *TO NP-ACC-$n-ANI
PP-WITH
   1  *IN-WITH NP-ACC-$n-OBJ
PP-OF
   1  *IN-OF NP-ACC-$n-ANI
PP-BY
   1  *IN-BY NP-ACC-$n-ANI
PP-ABT
   1  *IN-ABT NP-ACC-$n-$k
PP-THAN-$k
   1  *IN-THAN NP-ACC-$n-$k
PP-TIM
   1  *IN-TIM NP-EVT
PRT
   1  *RP
ADVP-FRQ
   1  *RB-FRQ
ADVP-MAN
   1  *RB-MAN
ADJP-DEG-$q
   1  RB-DEG *JJ-$q
ADJP-$k
   9  *JJ-$k
   4  RB-DEG *JJ-$k
   2  JJ-SIZE CC-NP *JJ-$k
   3  *JJR-$k PP-THAN-$k
ADJP-ANI
   2  *JJ-EMO S-INF
   1  *JJ-EMO SBAR-THAT
"""

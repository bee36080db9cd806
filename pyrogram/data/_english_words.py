# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The words of the grammar in `pyrogram/data/_english.py`, by symbol.

The words of a list stand in order of how common they are here: the r-th has weight 1 / (r + 1). What may
follow "a" begins with a consonant, so that no rule of spelling is needed outside the grammar.
"""

# Form -> Penn tag and column in VERBS.
VERB_FORMS = {
    "BAS": ("VB", 0),
    "PL": ("VBP", 0),
    "SG": ("VBZ", 1),
    "PST": ("VBD", 2),
    "ING": ("VBG", 3),
    "EN": ("VBN", 4),
}

# Symbol -> Penn tag and words.
WORDS: dict[str, tuple[str, str]] = {
    "DT-SG": ("DT", "the a this every that another"),
    "DT-PL": ("DT", "the some these those"),
    "DT-THE": ("DT", "the"),
    "DT-SOME": ("DT", "some"),
    "DT-A": ("DT", "a"),
    "PDT": ("PDT", "all"),
    "CD": ("CD", "two three four five ten twelve"),
    "PRPS": ("PRP$", "her his their my our your"),
    "POS": ("POS", "'s"),
    "PRP-NOM-SG-ANI": ("PRP", "she he"),
    "PRP-NOM-PL-ANI": ("PRP", "they we you"),
    "PRP-ACC-SG-ANI": ("PRP", "him her"),
    "PRP-ACC-PL-ANI": ("PRP", "them us you"),
    "PRP-NOM-SG-OBJ": ("PRP", "it"),
    "PRP-ACC-SG-OBJ": ("PRP", "it"),
    "PRP-NOM-PL-OBJ": ("PRP", "they"),
    "PRP-ACC-PL-OBJ": ("PRP", "them"),
    "NNP-ANI": ("NNP", "Mary John Anna Peter Clara Oscar"),
    "NNP-FAM": ("NNP", "Baker Miller Green Hill"),
    "NNP-LOC": ("NNP", "London Paris Rome Lisbon Cairo"),
    "NNP-DAY": ("NNP", "Monday Friday Christmas"),
    "NN-MASS": ("NN", "bread music water gold paper"),
    "NN-CMP": ("NN", "kitchen garden winter silver school"),
    "NN-EVT": ("NN", "party concert storm lesson wedding"),
    "EX": ("EX", "there"),
    "WP": ("WP", "who"),
    "WDT": ("WDT", "that"),
    "WRB": ("WRB", "when where"),
    "JJ-SIZE": ("JJ", "small big little"),
    "JJ-ANI": ("JJ", "young happy tired clever brave hungry famous polite"),
    "JJ-OBJ": ("JJ", "new red heavy broken beautiful cheap wooden strange"),
    "JJ-LOC": ("JJ", "quiet dark cold crowded green"),
    "JJ-MASS": ("JJ", "fresh good old expensive"),
    "JJ-EMO": ("JJ", "glad sure ready afraid"),
    "JJR-ANI": ("JJR", "taller older kinder"),
    "JJR-OBJ": ("JJR", "heavier older cheaper"),
    "JJS-ANI": ("JJS", "oldest tallest"),
    "JJS-OBJ": ("JJS", "largest oldest"),
    "JJS-LOC": ("JJS", "nearest largest"),
    "RB-NOT": ("RB", "not"),
    "RB-FRQ": ("RB", "often never always sometimes usually"),
    "RB-MAN": ("RB", "slowly quietly again suddenly loudly"),
    "RB-DEG": ("RB", "very rather"),
    "RP": ("RP", "up down out away"),
    "IN-LOC": ("IN", "in near behind at"),
    "IN-DIR": ("IN", "into through from"),
    "IN-TIM": ("IN", "after before until"),
    "IN-WITH": ("IN", "with without"),
    "IN-OF": ("IN", "of"),
    "IN-BY": ("IN", "by"),
    "IN-ABT": ("IN", "about"),
    "IN-THAN": ("IN", "than"),
    "IN-THAT": ("IN", "that"),
    "IN-SUB": ("IN", "because while if although"),
    "CC-S": ("CC", "and but"),
    "CC-NP": ("CC", "and"),
    "CC-VP": ("CC", "and or but"),
    "MD": ("MD", "will can must should may could"),
    "TO": ("TO", "to"),
    "BE-BAS": ("VB", "be"),
    "BE-EN": ("VBN", "been"),
    "BE-SG": ("VBZ", "is"),
    "BE-PL": ("VBP", "are"),
    "BED-SG": ("VBD", "was"),
    "BED-PL": ("VBD", "were"),
    "HAVE-SG": ("VBZ", "has"),
    "HAVE-PL": ("VBP", "have"),
    "HAVE-PST": ("VBD", "had"),
    "DO-SG": ("VBZ", "does"),
    "DO-PL": ("VBP", "do"),
    "DO-PST": ("VBD", "did"),
}

# Kind -> nouns, singular and plural. Their symbols are NN-SG-kind and NN-PL-kind.
NOUNS = {
    "ANI": """
        man men
        woman women
        child children
        dog dogs
        teacher teachers
        cat cats
        friend friends
        sister sisters
        doctor doctors
        farmer farmers
        horse horses
        singer singers
        baker bakers
        king kings
        neighbour neighbours
        sailor sailors
        bear bears
    """,
    "OBJ": """
        book books
        letter letters
        hat hats
        door doors
        picture pictures
        key keys
        table tables
        boat boats
        song songs
        clock clocks
        cake cakes
        lamp lamps
        box boxes
        violin violins
    """,
    "LOC": """
        house houses
        city cities
        garden gardens
        station stations
        shop shops
        village villages
        forest forests
        market markets
        hotel hotels
    """,
}

# Class -> verbs: base, third person, past, present participle, past participle. Symbols: V-form-class.
VERBS = {
    "IV-ANI": """
        sleep sleeps slept sleeping slept
        sing sings sang singing sung
        wait waits waited waiting waited
        laugh laughs laughed laughing laughed
        dance dances danced dancing danced
        smile smiles smiled smiling smiled
        work works worked working worked
        swim swims swam swimming swum
    """,
    "IV-OBJ": """
        fall falls fell falling fallen
        disappear disappears disappeared disappearing disappeared
        burn burns burned burning burned
        arrive arrives arrived arriving arrived
    """,
    "TR-OBJ": """
        find finds found finding found
        read reads read reading read
        buy buys bought buying bought
        open opens opened opening opened
        paint paints painted painting painted
        break breaks broke breaking broken
        hide hides hid hiding hidden
        sell sells sold selling sold
    """,
    "TR-ANI": """
        see sees saw seeing seen
        love loves loved loving loved
        follow follows followed following followed
        help helps helped helping helped
        meet meets met meeting met
        remember remembers remembered remembering remembered
        visit visits visited visiting visited
    """,
    "MO": """
        go goes went going gone
        walk walks walked walking walked
        run runs ran running run
        travel travels travelled travelling travelled
        return returns returned returning returned
    """,
    "DI": """
        give gives gave giving given
        send sends sent sending sent
        show shows showed showing shown
        bring brings brought bringing brought
        offer offers offered offering offered
    """,
    "PT": """
        take takes took taking taken
        carry carries carried carrying carried
        throw throws threw throwing thrown
    """,
    "AB": """
        talk talks talked talking talked
        dream dreams dreamed dreaming dreamed
        complain complains complained complaining complained
    """,
    "CL": """
        say says said saying said
        think thinks thought thinking thought
        know knows knew knowing known
        believe believes believed believing believed
    """,
    "WI": """
        want wants wanted wanting wanted
        try tries tried trying tried
        hope hopes hoped hoping hoped
        forget forgets forgot forgetting forgotten
    """,
    "GE": """
        stop stops stopped stopping stopped
        start starts started starting started
        enjoy enjoys enjoyed enjoying enjoyed
    """,
}

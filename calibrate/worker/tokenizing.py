"""What a tokenizer costs: seconds to turn a text into token ids.

Enters: a job with `tokenizer` (a tokenizer.json), `lengths` (token counts to aim at), `texts` (how many of each), `seed`.
Texts are words of the tokenizer's own vocabulary, joined by spaces, each text another one: the library keeps what it has
seen and would answer a second time from memory. Leaves: a `tokenized` record a length, with the tokens that came out.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List

import numpy as np

SPACES = "\u0120\u2581"
"""How byte-level and SentencePiece vocabularies mark a token that begins a word."""
LEAST_WORDS = 50


def tokenize(job: Dict[str, Any], send: Callable[[Dict[str, Any]], None]) -> None:
    """Encode every text once, lengths in turns so that drift meets all alike."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(job["tokenizer"])
    tokenizer.no_truncation()
    tokenizer.no_padding()
    words = words_of(tokenizer.get_vocab(with_added_tokens=False))
    generator = np.random.default_rng([int(job["seed"]), 11])
    for _ in range(3):
        tokenizer.encode(_text(words, 32, generator))  # what the first calls set up is not the cost of a text
    ns = {length: [] for length in job["lengths"]}  # type: Dict[int, List[int]]
    counts = {length: [] for length in job["lengths"]}  # type: Dict[int, List[int]]
    for _ in range(int(job["texts"])):
        for length in ns:
            text = _text(words, length, generator)
            start = time.perf_counter_ns()
            encoding = tokenizer.encode(text)
            ns[length].append(time.perf_counter_ns() - start)
            counts[length].append(len(encoding.ids))
    for length in ns:
        send({"kind": "tokenized", "tokens": int(np.median(counts[length])), "ns": ns[length]})


def words_of(vocabulary: Dict[str, int]) -> List[str]:
    """Whole words of the vocabulary, in order of their ids; every alphabetic token where it does not mark whole words."""
    ordered = sorted(vocabulary, key=lambda token: vocabulary[token])
    marked = [t[1:] for t in ordered if t[:1] in SPACES and t[1:].isascii() and t[1:].isalpha()]
    words = marked if len(marked) >= LEAST_WORDS else [t for t in ordered if t.isascii() and t.isalpha()]
    if not words:
        raise ValueError("the tokenizer's vocabulary has no word of letters to make a text of")
    return words


def _text(words: List[str], length: int, generator: Any) -> str:
    return " ".join(words[i] for i in generator.integers(0, len(words), length))

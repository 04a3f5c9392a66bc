"""Random inputs for fuzzing: pieces of valid texts, hostile texts, and mutations of both; one seed, one sequence."""

from __future__ import annotations

import random
from collections.abc import Sequence

NUMBERS = [
    "0", "1", "-1", "0.3", "1/3", "1e-4", "1e308", "1e309", "1e-320", "-0.0", "inf", "-inf", "nan", "oo", "pi",
    "sqrt(2)",
    "exp(1000)", "log(0)", "1/0", "0**0", "2**0.5", "9**9**9", "1e9999999", "10**400", "0x10", "1_000", "1j",
    "True", "None",
    "sqrt(" * 90 + "2" + ")" * 90, "٣", "½", "1,5", "1e", ".", "--1", "+-1", "1 2", "0.1.2", "1e-400", "(((1)))", "",
]  # fmt: skip
LAWS = [
    "Bernoulli(0.1)", "Bernoulli(2)", "Bernoulli()", "Bernoulli(nan)", "Normal(0, 1)", "Normal(0, -1)", "Point(1)",
    "Uniform(1, 0)",
    "Discrete([1, 2], [0.5, 0.5])", "Discrete([], [])", "Discrete([1], [0.5])", "Mixture(0.5, Point(1))", "Laplace(0)",
    "StudentT(1)", "Rademacher(0.5)", "GaussBernoulli(0.1, 1)", "Empirical('nothing.txt')",
    "Empirical('/etc/passwd')", "Normal",
    "Bernoulli(0.1)(0.2)", "Bernoulli(p=0.1)", "Bernoulli(*[0.1])", "normal(0,1)",
    "Discrete([1e308, -1e308], [0.5, 0.5])",
]  # fmt: skip
HOSTILE = [
    "__import__('os').system('touch hacked')", "open('hacked','w')", "eval('1')", "exec('x=1')",
    "().__class__.__bases__",
    "lambda: 0", "[x for x in (1,)]", "{1: 2}", "f'{1}'", "b'1'", "...", "a := 1", "k if k else k", "print(1)",
    "@", "#", "\x00",
    "\n", "\\", "'", '"', "$(touch hacked)", "`touch hacked`", "; touch hacked", "../../etc/passwd", "%s%n", "{0}",
    "\u202e1", "\ud800",
    "𝟏", "é" * 50, "(" * 200, "[" * 3000, "1+" * 900 + "1", "-" * 1500 + "1", "9" * 1900,
    "A" * 5000,
    "2**2**2**2**2**2", "1e308*1e308", "((1e300)**9)**9", "sys.exit()", "exit()", "import os",
]  # fmt: skip
NAMES = ["k", "b", "a", "w", "t", "K", "kk", "alpha", "", " ", "k ", "__class__", "size", "=", "é"]
LETTERS = "0123456789.eE+-*/()[],:;= '\"abckntsqrlogpiBN_\\\n\t\0é∞"


def text(rng: random.Random) -> str:
    """Return one value as somebody might type it, or might wish he had not."""
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(NUMBERS)
    if kind < 0.45:
        return rng.choice(LAWS)
    if kind < 0.6:
        return rng.choice(HOSTILE)
    if kind < 0.75:
        return "".join(rng.choice(LETTERS) for _ in range(rng.randrange(20)))
    if kind < 0.85:
        return f"{rng.choice(NUMBERS)}{rng.choice('+-*/,:;=()')}{rng.choice(NUMBERS)}"
    return mutate(rng, rng.choice([*NUMBERS, *LAWS]))


def setting(rng: random.Random) -> str:
    """Return a NAME=VALUE."""
    name = rng.choice(["k", "b", "a"]) if rng.random() < 0.8 else rng.choice(NAMES)
    return f"{name}={text(rng)}" if rng.random() < 0.95 else text(rng)


def grid(rng: random.Random) -> str:
    """Return the values of an axis."""
    kind = rng.random()
    if kind < 0.4:
        parts = [rng.choice(NUMBERS), rng.choice(NUMBERS), rng.choice(["3", "0", "-1", "x", "1e9", "99999999999", "2.5", ""])]
        return ":".join(parts + ([rng.choice(["log", "lin", "exp", ""])] if rng.random() < 0.5 else []))
    if kind < 0.7:
        return ",".join(text(rng) for _ in range(rng.randrange(1, 4)))
    return mutate(rng, rng.choice(["0.1:1:3:log", "0.3,0.5,2", "Bernoulli(0.1),Normal(0,1)"]))


def moments(rng: random.Random) -> str:
    """Return a list of times, or of pairs of them."""
    separators = rng.choice([",", ";", ",;"])
    made = [rng.choice([rng.choice(NUMBERS), text(rng)]) for _ in range(rng.randrange(1, 4))]
    return "".join(entry + rng.choice(separators) for entry in made[:-1]) + made[-1]


def mutate(rng: random.Random, whole: str, alphabet: Sequence[str] = LETTERS) -> str:
    """Return a text with a few letters dropped, doubled, exchanged or put in."""
    letters = list(whole)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(letters) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            letters.insert(place, rng.choice(alphabet))
        elif letters and kind == 1:
            del letters[place % len(letters)]
        elif letters and kind == 2:
            letters[place % len(letters)] = rng.choice(alphabet)
        elif letters:
            letters.insert(place, letters[rng.randrange(len(letters))])
    return "".join(letters)


_WORDS = [
    "k", "b", "a", "w", "t", "s", "w(t)", "w(s)", "w(0)", "w(t, t)", "E", "E(w(t))", "Int(w(s), (s, 0, t))",
    "Int(w(s), (s, t, 0))", "None",
    "0", "1e400", "'x'", "[]", "{}", "model", "System", "param('q')", "w", "w(t).diff(t)", "k.diff(t)", "Eq",
    "exp", "sqrt(-1)", "1/0",
    "lambda: 0", "...", "E(E(a))", "a**a", "Bernoulli", "Bernoulli(k)", "float('nan')", "float('inf')",
    "10**10000", "w(k)", "w(t + 1)", "w(2*t)",
]  # fmt: skip


def model_text(rng: random.Random, whole: str) -> str:
    """Return a model file with something wrong: words exchanged, lines dropped or doubled, letters mutated."""
    kind = rng.random()
    if kind < 0.5:
        pieces = whole.split(" ")
        for _ in range(rng.randrange(1, 3)):
            pieces[rng.randrange(len(pieces))] = rng.choice(_WORDS)
        return " ".join(pieces)
    if kind < 0.8:
        lines = whole.split("\n")
        place = rng.randrange(len(lines))
        if rng.random() < 0.6:
            del lines[place]
        else:
            lines.insert(rng.randrange(len(lines)), lines[place])
        return "\n".join(lines)
    return mutate(rng, whole)

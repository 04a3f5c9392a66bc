"""Captions as LaTeX: names and symbols as mathematics, everything else as text."""

import re

_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "η": "eta", "θ": "theta", "κ": "kappa",
    "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "χ": "chi",
    "ψ": "psi", "ω": "omega", "Δ": "Delta", "Σ": "Sigma", "∞": "infty",
    "≤": "le", "≥": "ge", "≈": "approx", "×": "times", "·": "cdot",
    "±": "pm", "∫": "int", "→": "to", "√": "surd", "∂": "partial", "ℓ": "ell", "∼": "sim", "′": "prime",
}  # fmt: skip
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵀ", [*"0123456789-", r"\top"], strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉ₖ", [*"0123456789", "k"], strict=True))
_FORMULA = (
    {letter: rf"\{word} " for letter, word in _GREEK.items()}
    | {letter: f"^{{{above}}}" for letter, above in _RAISED.items()}
    | {letter: f"_{{{below}}}" for letter, below in _LOWERED.items()}
)
_ESCAPED = {letter: rf"\{letter}" for letter in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
_NAME = re.compile(r"(?<![A-Za-z_])([A-Za-z]|[α-ω])_([A-Za-z0-9]+|\*)(?![A-Za-z0-9_])")
_POWER = re.compile(r"\^\(([^()]*)\)|\^(-?[A-Za-z0-9]+)")
_MARK = "\x00"


def latex_caption(caption: str, name: str) -> str:
    """Return ``\\caption{...}`` and ``\\label{fig:NAME}`` for a plain text."""
    return f"\\caption{{{_latex(caption)}}}\n\\label{{fig:{name}}}\n"


def _latex(text: str) -> str:
    kept: list[str] = []

    def keep(math: str) -> str:
        kept.append(f"${math}$")
        return f"{_MARK}{len(kept) - 1}{_MARK}"

    def name(found: re.Match[str]) -> str:
        below = found[2] if len(found[2]) == 1 else rf"\mathrm{{{found[2]}}}"
        return keep(f"{_symbols(found[1])}_{{{below}}}")

    text = _NAME.sub(name, text)
    text = _POWER.sub(lambda found: keep(f"^{{{_symbols((found[1] or found[2]).replace('−', '-'))}}}"), text)
    alone = _ESCAPED | {"−": "$-$", "^": r"\textasciicircum{}"} | {key: f"${said.rstrip()}$" for key, said in _FORMULA.items()}
    made = "".join(alone.get(letter, letter) for letter in text)
    whole = re.sub(_MARK + r"(\d+)" + _MARK, lambda found: kept[int(found[1])], made)
    return whole.replace("$$", "")  # symbols side by side are one formula


def _symbols(text: str) -> str:
    """Return the inside of a formula: Greek letters by name, powers, and nothing that LaTeX would take amiss."""
    return "".join((_ESCAPED | _FORMULA).get(letter, letter) for letter in text)

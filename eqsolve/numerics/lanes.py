"""Pointwise functions as machine code over lanes of paths: the text of a lowered function, translated to LLVM's vectors.

The text (assignments, then ``return [...]``) is walked once; every operation becomes one on a
vector of eight doubles. exp is written out (range reduction by ln 2 and a Taylor polynomial of
degree 13, relative error 2e-16), others in terms of it; the rest calls the C library lane by lane.
Functions that this does not know are left to the caller, who evaluates on arrays.
"""

import ast
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding, ir

from eqsolve.numerics.compiled import DOUBLE, INT, LANES, VECTOR, spread

_WHOLE = ir.VectorType(INT, LANES)
_POINTER = DOUBLE.as_pointer()
_FAST = ("contract", "nsz", "arcp")
LIBRARY = {
    "sin": "sin", "cos": "cos", "tan": "tan", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arcsin": "asin", "arccos": "acos", "log": "log", "log1p": "log1p", "erf": "erf", "erfc": "erfc", "plain_erfc": "erfc",
    "gammaln": "lgamma", "log_gamma": "lgamma", "cbrt": "cbrt",
}  # fmt: skip
_INTRINSIC = {
    "sqrt": "sqrt", "abs": "fabs", "absolute": "fabs", "fabs": "fabs", "copysign": "copysign", "rint": "rint",
    "minnum": "minnum", "maxnum": "maxnum",
}  # fmt: skip
COMPARE = {"less": "<", "greater": ">", "less_equal": "<=", "greater_equal": ">=", "equal": "==", "not_equal": "!="}
_OPERATIONS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Lt: "less", ast.Gt: "greater",
    ast.LtE: "less_equal", ast.GtE: "greater_equal", ast.Eq: "equal", ast.NotEq: "not_equal",
}  # fmt: skip
_BUILDER = {
    "add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv", "where": "select", "logical_and": "and_",
    "logical_or": "or_",
}  # fmt: skip


def _taylor(last: int, first: int) -> str:
    """Return Σ x^(k − first)/k! from the first power to the last, as text in the variable x."""
    powers = range(last - 1, first - 1, -1)
    return functools.reduce(
        lambda made, k: f"({made} * x + {1 / math.factorial(k)!r})", powers, repr(1 / math.factorial(last))
    )


# e^x = 2^k e^r with |r| ≤ ln 2 / 2, ln 2 in two parts; beyond ±708 the limits, infinity by overflow
# of a doubled exponent. e^x − 1 by the series near zero, where the difference would cancel.
_DEFINED = {
    item.name: item
    for item in ast.parse(f"""
def exp(y):
    bounded = maxnum(minnum(y, 720.0), -740.0)
    k = rint(bounded * {1 / math.log(2)!r})
    x = bounded - k * 0.693145751953125 - k * 1.42860682030941723212e-6
    return scaled({_taylor(13, 0)}, k, y)
def expm1(x):
    return choose(0.5 - abs(x), {_taylor(15, 1)} * x, exp(x) - 1.0)
def tanh(x):
    small = expm1(-2.0 * abs(x))
    return copysign(-(small / (small + 2.0)), x)
def sinh(x):
    small = expm1(abs(x))
    return copysign(0.5 * (small + small / (small + 1.0)), x)
def cosh(x):
    grown = exp(abs(x))
    return 0.5 * (grown + 1.0 / grown)
def sech2(x):
    small = exp(-2.0 * abs(x))
    return 4.0 * small / (1.0 + small)**2
def expit(x):
    return 1.0 / (1.0 + exp(-x))
def sign(x):
    return choose(x, 1.0, choose(-x, -1.0, x))
def heaviside(x, middle):
    return choose(x, 1.0, choose(-x, 0.0, middle))
""").body
    if isinstance(item, ast.FunctionDef)
}


class UnknownFunctionError(Exception):
    """The text holds something that has no translation."""


class Walker:
    """Walks over the expressions of a lowered function's text; a subclass writes numbers, powers and functions."""

    number: Callable[..., Any]
    power: Callable[..., Any]
    function: Callable[..., Any]

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}

    def value(self, node: ast.expr) -> Any:
        if (constant := constant_of(node)) is not None:
            return self.number(constant)
        match node:
            case ast.Name(id=name):
                return self.names.get(name, name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.function("negative", self.value(operand))
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self.power(self.value(left), right)
            case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.function(_OPERATIONS.get(type(op), ""), self.value(left), self.value(right))
            case ast.Call(func=function, args=[operation, ast.List(elts=items) | ast.Tuple(elts=items)], keywords=[]) if (
                _name_of(function) == "reduce"
            ):
                return functools.reduce(functools.partial(self.function, _name_of(operation)), map(self.value, items))
            case ast.Call(args=[ast.List(elts=conditions), ast.List(elts=choices)], keywords=[]):  # of piecewise
                made = self.number(math.nan)
                for condition, item in zip(reversed(conditions), reversed(choices), strict=True):
                    known = isinstance(condition, ast.Constant) and condition.value is True
                    made = self.value(item) if known else self.function("where", self.value(condition), self.value(item), made)
                return made
            case ast.Call(func=function, args=arguments, keywords=[]):
                return self.function(_name_of(function), *map(self.value, arguments))
        raise UnknownFunctionError(ast.dump(node)[:80])


class _Writer(Walker):
    """Translates expressions; every value is a vector, conditions are vectors of bits."""

    def __init__(self, builder: Any, module: Any) -> None:
        super().__init__()
        self.builder, self.module = builder, module

    # --- values
    def number(self, value: float) -> Any:
        return ir.Constant(VECTOR, [float(value)] * LANES)

    def inverse(self, a: Any) -> Any:
        return self.builder.fdiv(self.number(1.0), a)

    def intrinsic(self, name: str, *values: Any) -> Any:
        kind = ir.FunctionType(VECTOR, [VECTOR] * len(values))
        function = self.module.declare_intrinsic(f"llvm.{name}.v{LANES}f64", fnty=kind)
        return self.builder.call(function, values)

    def library(self, name: str, *values: Any) -> Any:
        """Call a function of the C library lane by lane."""
        kind = ir.FunctionType(DOUBLE, [DOUBLE] * len(values))
        known = self.module.globals.get(name)
        function = known if known is not None else ir.Function(self.module, kind, name)
        made: Any = ir.Constant(VECTOR, ir.Undefined)
        for lane in range(LANES):
            place = ir.IntType(32)(lane)
            result = self.builder.call(function, [self.builder.extract_element(value, place) for value in values])
            made = self.builder.insert_element(made, result, place)
        return made

    # --- functions
    def scaled(self, value: Any, k: Any, x: Any) -> Any:
        """Return value × 2^k, in two steps, so that the exponent of each is in range; x where that is no number."""
        whole = self.builder.fptosi(k, _WHOLE)
        half = self.builder.ashr(whole, ir.Constant(_WHOLE, [1] * LANES))
        for part in (half, self.builder.sub(whole, half)):
            bits = self.builder.shl(
                self.builder.add(part, ir.Constant(_WHOLE, [1023] * LANES)), ir.Constant(_WHOLE, [52] * LANES)
            )
            value = self.function("multiply", value, self.builder.bitcast(bits, VECTOR))
        return self.builder.select(self.builder.fcmp_unordered("uno", x, x), x, value)

    def power(self, base: Any, exponent: ast.expr) -> Any:
        value = constant_of(exponent)
        if value is None:
            return self.library("pow", base, self.value(exponent))
        if value == 0.5:
            return self.intrinsic("sqrt", base)
        if value == -0.5:
            return self.inverse(self.intrinsic("sqrt", base))
        if value == int(value) and abs(value) <= 16:
            made, square, count = None, base, abs(int(value))
            while count:
                if count & 1:
                    made = square if made is None else self.function("multiply", made, square)
                count >>= 1
                square = self.function("multiply", square, square) if count else square
            made = self.number(1.0) if made is None else made
            return made if value >= 0 else self.inverse(made)
        if value == 1.5:
            return self.function("multiply", base, self.intrinsic("sqrt", base))
        return self.library("pow", base, self.number(value))

    def function(self, name: str, *values: Any) -> Any:
        if name in _BUILDER:
            flags = {"flags": _FAST} if name in ("add", "subtract", "multiply") else {}
            return getattr(self.builder, _BUILDER[name])(*values, **flags)
        if name in LIBRARY:
            return self.library(LIBRARY[name], *values)
        if name in _INTRINSIC:
            return self.intrinsic(_INTRINSIC[name], *values)
        if name in COMPARE:
            return self.builder.fcmp_ordered(COMPARE[name], *values)
        if name in _DEFINED:
            outside = self.names
            self.names = dict(zip((item.arg for item in _DEFINED[name].args.args), values, strict=True))
            (made,) = self.run(_DEFINED[name].body)
            self.names = outside
            return made
        match name:
            case "negative":
                return self.builder.fsub(self.number(-0.0), *values, flags=_FAST)
            case "scaled":
                return self.scaled(*values)
            case "choose":
                condition = self.builder.fcmp_ordered(">", values[0], self.number(0.0))
                return self.builder.select(condition, values[1], values[2])
            case "minimum" | "maximum":
                return self.builder.select(self.builder.fcmp_unordered("<" if name == "minimum" else ">", *values), *values)
        raise UnknownFunctionError(name)

    # --- the text
    def run(self, body: Sequence[ast.stmt]) -> list[Any]:
        """Return the values that a function's body returns."""
        for statement in body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names[name] = self.value(value)
                case ast.Return(value=ast.List(elts=items)):
                    return [self.value(item) for item in items]
                case ast.Return(value=ast.expr() as item):
                    return [self.value(item)]
                case _:
                    raise UnknownFunctionError(ast.dump(statement)[:80])
        raise UnknownFunctionError("nothing is returned")


def _name_of(node: ast.expr) -> str:
    """Return the last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def constant_of(node: ast.expr) -> float | None:
    """Return the value of an expression of numbers; None where it is none."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Attribute(attr="pi"):
            return math.pi
        case ast.Attribute(attr="e"):
            return math.e
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = constant_of(operand)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=ast.Div() | ast.Mult() as op, right=right):
            first, second = constant_of(left), constant_of(right)
            if first is not None and second is not None:
                return first / second if isinstance(op, ast.Div) else first * second
    return None


@functools.lru_cache(maxsize=512)
def translate(text: str, kinds: str, lane_count: int) -> int:
    """Return the address of the machine code of a lowered function, 0 where it has no translation.

    ``kinds`` tells where each argument is: ``p`` a parameter, ``t`` the same for all paths, ``u``
    an unknown, ``z`` a noise, ``c`` a constant of the paths. The code is ``f(unknowns, noises,
    constants, shared, parameters, nodes, out)``: unknowns and noises (entry, node, lane), constants
    (entry, lane), shared (entry, node), out (entry, node, lane), ``lane_count`` lanes.
    """
    try:
        return _compile(text, kinds, lane_count)
    except UnknownFunctionError:
        return 0


def _compile(text: str, kinds: str, lane_count: int) -> int:
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    module = ir.Module(name="lanes")
    kind = ir.FunctionType(ir.VoidType(), [_POINTER] * 5 + [INT, _POINTER])
    made = ir.Function(module, kind, "evaluate")
    entry, head, body, after = (made.append_basic_block() for _ in range(4))
    builder = ir.IRBuilder(entry)
    unknowns, noises, constants, shared, parameters, nodes, out = made.args
    size = builder.mul(nodes, INT(lane_count))
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(INT)  # of all nodes and lanes
    index.add_incoming(INT(0), entry)
    builder.cbranch(builder.icmp_signed("<", index, size), body, after)
    builder.position_at_end(body)
    node, lane = builder.udiv(index, INT(lane_count)), builder.urem(index, INT(lane_count))
    writer = _Writer(builder, module)
    counts = dict.fromkeys("ptuzc", 0)

    def place(entry: int) -> Any:
        """Return where an entry's vector of this node and these lanes begins."""
        return builder.add(builder.mul(INT(entry), size), index)

    def vector(base: Any, index: Any) -> Any:
        address = builder.bitcast(builder.gep(base, [index]), VECTOR.as_pointer())
        return builder.load(address, align=8)

    def everywhere(base: Any, index: Any) -> Any:
        return spread(builder, builder.load(builder.gep(base, [index])))

    for argument, letter in zip(function.args.args, kinds, strict=True):
        number = counts[letter]
        counts[letter] += 1
        match letter:
            case "p":
                value = everywhere(parameters, INT(number))
            case "t":
                value = everywhere(shared, builder.add(builder.mul(INT(number), nodes), node))
            case "u":
                value = vector(unknowns, place(number))
            case "z":
                value = vector(noises, place(number))
            case _:
                value = vector(constants, builder.add(INT(number * lane_count), lane))
        writer.names[argument.arg] = value
    for number, item in enumerate(writer.run(function.body)):
        address = builder.bitcast(builder.gep(out, [place(number)]), VECTOR.as_pointer())
        builder.store(item, address, align=8)
    index.add_incoming(builder.add(index, INT(LANES)), builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    builder.ret_void()
    return _finish(str(module))


_ENGINES: list[Any] = []  # the code lives as long as they do


@functools.cache
def _machine() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features().flatten()
    return binding.Target.from_default_triple(), binding.get_host_cpu_name(), features


def _finish(text: str) -> int:
    """Return the address of the compiled function."""
    target, cpu, features = _machine()
    machine = target.create_target_machine(cpu=cpu, features=features, opt=3, jit=True)
    module = binding.parse_assembly(text)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _ENGINES.append(engine)
    return int(engine.get_function_address("evaluate"))

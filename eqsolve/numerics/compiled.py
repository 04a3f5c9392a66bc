"""Machine code by numba: block forward substitution for responses, Newton's method in a block.

Both are loops over *lanes*: eight paths side by side in one vector of the processor, written in
LLVM's vector type, since the automatic vectoriser does not keep the accumulators of such short
loops in registers. The linearised equations of a path, X = S + O (diag(D) X), are solved block
column by block column; the sum over the past is a matrix product with O, which all paths share, as
a tile of accumulators in registers.
Cost: nodes³/6 multiply-adds per path for every pair of an unknown and a signal.

Compiled at first use, some seconds once per machine, and kept in numba's cache on disk.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LANES = 8
_ROWS, _COLUMNS = 6, 4  # largest tile of accumulators: 24 of the 32 vector registers of AVX-512
DOUBLE, INT = ir.DoubleType(), ir.IntType(64)
VECTOR = ir.VectorType(DOUBLE, LANES)
_FAST = ("contract", "reassoc", "nsz")


def _load(builder: Any, address: Any, kind: Any = VECTOR) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=8)


def _store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=8)


def _bytes(builder: Any, address: Any, index: Any, size: int) -> Any:
    """Return the address of an entry of so many bytes."""
    return builder.add(address, builder.mul(index, INT(size)))


def spread(builder: Any, scalar: Any) -> Any:
    """Return a scalar in every lane."""
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), scalar, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(VECTOR, ir.Undefined), zeros)


def _emit_tile(builder: Any, rows: int, columns: int, shared: bool, arguments: Any) -> None:
    """Emit target[i, j] (+)= Σ_k left[k, i] right[k, j] for one size of a tile; strides count scalars or vectors."""
    left, left_by_row, left_by_term, right, right_by_term, terms, target, target_by_row, add = arguments
    entry = builder.block
    head, body, done = (builder.append_basic_block(name) for name in ("head", "body", "done"))
    unit = 8 if shared else 8 * LANES
    begin = []
    for i in range(rows):
        at = _bytes(builder, target, builder.mul(INT(i), target_by_row), 8 * LANES)
        for j in range(columns):
            old = _load(builder, builder.add(at, INT(8 * LANES * j)))
            begin.append(builder.select(add, old, ir.Constant(VECTOR, [0.0] * LANES)))
    builder.branch(head)
    builder.position_at_end(head)
    place = builder.phi(INT)
    place.add_incoming(INT(0), entry)
    sums = []
    for first in begin:
        total = builder.phi(VECTOR)
        total.add_incoming(first, entry)
        sums.append(total)
    builder.cbranch(builder.icmp_signed("<", place, terms), body, done)
    builder.position_at_end(body)
    here = _bytes(builder, right, builder.mul(place, right_by_term), 8 * LANES)
    values = [_load(builder, builder.add(here, INT(8 * LANES * j))) for j in range(columns)]
    row = _bytes(builder, left, builder.mul(place, left_by_term), unit)
    made = []
    for i in range(rows):
        at = _bytes(builder, row, builder.mul(INT(i), left_by_row), unit)
        factor = spread(builder, _load(builder, at, DOUBLE)) if shared else _load(builder, at)
        for j in range(columns):
            product = builder.fmul(factor, values[j], flags=_FAST)
            made.append(builder.fadd(sums[i * columns + j], product, flags=_FAST))
    place.add_incoming(builder.add(place, INT(1)), body)
    for total, new in zip(sums, made, strict=True):
        total.add_incoming(new, body)
    builder.branch(head)
    builder.position_at_end(done)
    for i in range(rows):
        at = _bytes(builder, target, builder.mul(INT(i), target_by_row), 8 * LANES)
        for j in range(columns):
            _store(builder, sums[i * columns + j], builder.add(at, INT(8 * LANES * j)))


def _make_tile(shared: bool) -> Any:
    """Return a product of tiles whose left factor all lanes share, or have each for itself."""

    @intrinsic
    def tile(typing, rows, columns, left, left_by_row, left_by_term, right, right_by_term, terms, target, target_by_row, add):
        signature = types.void(*(types.int64,) * 10, types.boolean)

        def generate(context, builder, signature, arguments):
            rows, columns, *rest, add = arguments
            flag = builder.trunc(add, ir.IntType(1)) if add.type != ir.IntType(1) else add
            after = builder.append_basic_block("after")
            size = builder.add(builder.mul(rows, INT(16)), columns)
            switch = builder.switch(size, after)
            for i in range(1, (_ROWS if shared else 3) + 1):
                for j in range(1, _COLUMNS + 1):
                    case = builder.append_basic_block(f"tile_{i}_{j}")
                    switch.add_case(INT(16 * i + j), case)
                    builder.position_at_end(case)
                    _emit_tile(builder, i, j, shared, (*rest, flag))
                    builder.branch(after)
            builder.position_at_end(after)
            return context.get_dummy_value()

        return signature, generate

    return tile


_tile_shared, _tile_own = _make_tile(True), _make_tile(False)


@intrinsic
def _multiply(typing, target, first, second, add):
    """target (+)= first × second, lane by lane; addresses."""

    def generate(context, builder, signature, arguments):
        target, first, second, add = arguments
        flag = builder.trunc(add, ir.IntType(1)) if add.type != ir.IntType(1) else add
        product = builder.fmul(_load(builder, first), _load(builder, second), flags=_FAST)
        old = builder.select(flag, _load(builder, target), ir.Constant(VECTOR, [0.0] * LANES))
        _store(builder, builder.fadd(old, product, flags=_FAST), target)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.boolean), generate


@intrinsic
def _add_lanes(typing, target, first, second):
    """Add Σ over lanes of first × second to one number; addresses."""

    def generate(context, builder, signature, arguments):
        product = builder.fmul(_load(builder, arguments[1]), _load(builder, arguments[2]), flags=_FAST)
        width = LANES
        while width > 1:  # halves onto each other
            width //= 2
            low, high = (
                ir.Constant(ir.VectorType(ir.IntType(32), width), [place + shift for place in range(width)])
                for shift in (0, width)
            )
            parts = [
                builder.shuffle_vector(product, ir.Constant(product.type, ir.Undefined), places) for places in (low, high)
            ]
            product = builder.fadd(*parts, flags=_FAST)
        total = builder.extract_element(product, ir.IntType(32)(0))
        _store(builder, builder.fadd(_load(builder, arguments[0], DOUBLE), total, flags=_FAST), arguments[0])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})
def _invert(matrix, size, scratch):
    """Invert matrices (row, column, lane) in place by Gauss–Jordan elimination without pivoting."""
    for pivot in range(size):
        for lane in range(8):
            scratch[0, lane] = 1.0 / matrix[pivot, pivot, lane]
        for column in range(size):
            if column != pivot:
                for lane in range(8):
                    matrix[pivot, column, lane] *= scratch[0, lane]
        for other in range(size):
            if other == pivot:
                continue
            for lane in range(8):
                scratch[1, lane] = matrix[other, pivot, lane]
            for column in range(size):
                if column == pivot:
                    for lane in range(8):
                        matrix[other, column, lane] = -scratch[1, lane] * scratch[0, lane]
                else:
                    for lane in range(8):
                        matrix[other, column, lane] -= scratch[1, lane] * matrix[pivot, column, lane]
        for lane in range(8):
            matrix[pivot, pivot, lane] = scratch[0, lane]


@intrinsic
def _call(typing, address, unknowns, noises, constants, shared, parameters, nodes, out):
    """Call the machine code of a pointwise function (see ``lanes.translate``); all but ``nodes`` are addresses."""

    def generate(context, builder, signature, arguments):
        pointer = DOUBLE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer] * 5 + [INT, pointer])
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        places = [builder.inttoptr(item, pointer) for item in arguments[1:6]]
        builder.call(function, [*places, arguments[6], builder.inttoptr(arguments[7], pointer)])
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 8), generate


GROUP = 2 * LANES  # paths that Newton's method takes together: until the last of them has converged


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})
def _eliminate(matrix, right, factor):
    """Solve the systems of a group in place by elimination without pivoting: matrices near one, as implicit steps have."""
    size = right.shape[0]
    for pivot in range(size):
        for lane in range(GROUP):
            factor[lane] = 1.0 / matrix[pivot, pivot, lane]
        for column in range(pivot + 1, size):
            for lane in range(GROUP):
                matrix[pivot, column, lane] *= factor[lane]
        for lane in range(GROUP):
            right[pivot, lane] *= factor[lane]
        for row in range(pivot + 1, size):
            for lane in range(GROUP):
                factor[lane] = matrix[row, pivot, lane]
            for column in range(pivot + 1, size):
                for lane in range(GROUP):
                    matrix[row, column, lane] -= factor[lane] * matrix[pivot, column, lane]
            for lane in range(GROUP):
                right[row, lane] -= factor[lane] * right[pivot, lane]
    for pivot in range(size - 1, -1, -1):
        for column in range(pivot + 1, size):
            for lane in range(GROUP):
                right[pivot, lane] -= matrix[pivot, column, lane] * right[column, lane]


@njit(nogil=True, cache=True, error_model="numpy")
def _assemble(own, slopes, first, matrix):
    """Write 1 − Σ own diag(slopes) of a group; ``slopes`` (signal × unknown, node, lane) begin at row ``first``."""
    count, many, nodes = own.shape[0], own.shape[1], own.shape[2]
    for a in range(count):
        for i in range(nodes):
            row = a * nodes + i
            for b in range(count):
                for j in range(nodes):
                    column = b * nodes + j
                    start = 1.0 if row == column else 0.0
                    for lane in range(GROUP):
                        matrix[row, column, lane] = start
                    for k in range(many):
                        weight = own[a, k, i, j]
                        if weight != 0.0:
                            for lane in range(GROUP):
                                matrix[row, column, lane] -= weight * slopes[first + k * count + b, j, lane]


@njit(nogil=True, cache=True, error_model="numpy")
def linear_block(own, slopes, right):
    """Solve (1 − Σ own diag(slopes)) x = right on one block for every path, in place: ``right`` (unknown, node, path)."""
    count, nodes, paths = right.shape
    many, size = own.shape[1], count * nodes
    matrix, values, factor = np.empty((size, size, GROUP)), np.empty((size, GROUP)), np.empty(GROUP)
    local = np.empty((many * count, nodes, GROUP))
    for begin in range(0, paths, GROUP):
        width = min(GROUP, paths - begin)
        for lane in range(GROUP):
            path = min(begin + lane, paths - 1)
            for i in range(nodes):
                for a in range(count):
                    values[a * nodes + i, lane] = right[a, i, path]
                    for k in range(many):
                        local[k * count + a, i, lane] = slopes[k, a, i, path]
        _assemble(own, local, 0, matrix)
        _eliminate(matrix, values, factor)
        for a in range(count):
            for i in range(nodes):
                for lane in range(width):
                    right[a, i, begin + lane] = values[a * nodes + i, lane]


@njit(nogil=True, cache=True, error_model="numpy")
def newton_block(
    address, parameters, shared, noises, constants, history, own, first, enough, most, shorter, shortest,
    unknowns, signals, slopes,
):  # fmt: skip
    """Solve x = history + Σ own signals(x) on one block for every path by damped Newton; return the last relative step.

    All arrays begin with the ensemble; ``history`` and ``own`` are those of the block, the others
    of all nodes, of which the block begins at ``first``.

    A step that makes a path's residual larger is shortened by the factor ``shorter``, down to
    ``shortest``; the method ends when a step is below ``enough``, or after ``most`` of them.
    ``unknowns`` (ensemble, unknown, node, path) hold a guess and then the solution; ``signals`` and
    ``slopes`` are filled. Returned is the largest last step of all groups, infinite where it
    failed.
    """
    ensembles, count, nodes, paths = history.shape
    many = signals.shape[1]
    size = count * nodes
    matrix, right, factor = np.empty((size, size, GROUP)), np.empty((size, GROUP)), np.empty(GROUP)
    x, settled, step = np.empty((count, nodes, GROUP)), np.empty((count, nodes, GROUP)), np.zeros((count, nodes, GROUP))
    past, made = np.empty((count, nodes, GROUP)), np.empty((many * (1 + count), nodes, GROUP))
    read, held = noises.shape[1], constants.shape[1]
    noise, constant = np.empty((max(read, 1), nodes, GROUP)), np.empty((max(held, 1), GROUP))
    common = np.empty((shared.shape[1], nodes))
    scale = np.empty(count)
    norm, before, reach = np.empty(GROUP), np.empty(GROUP), np.empty(GROUP)
    worst = 0.0
    groups = (paths + GROUP - 1) // GROUP
    for number in range(ensembles * groups):
        e, begin = number // groups, number % groups * GROUP
        for a in range(len(common)):
            for i in range(nodes):
                common[a, i] = shared[e, a, first + i]
        for lane in range(GROUP):
            path = min(begin + lane, paths - 1)  # lanes beyond the last path repeat it
            for a in range(count):
                for i in range(nodes):
                    x[a, i, lane], past[a, i, lane] = unknowns[e, a, first + i, path], history[e, a, i, path]
            for a in range(read):
                for i in range(nodes):
                    noise[a, i, lane] = noises[e, a, first + i, path]
            for a in range(held):
                constant[a, lane] = constants[e, a, path]
            before[lane], reach[lane] = np.inf, 1.0
        for a in range(count):
            scale[a] = 1.0
            for i in range(nodes):
                for lane in range(GROUP):
                    scale[a] = max(scale[a], 1.0 + abs(past[a, i, lane]))
        change, failed = np.inf, False
        for _ in range(most):
            _call(address, x.ctypes.data, noise.ctypes.data, constant.ctypes.data, common.ctypes.data,
                  parameters[e].ctypes.data, nodes, made.ctypes.data)  # fmt: skip
            for lane in range(GROUP):
                norm[lane] = 0.0
            for a in range(count):
                for i in range(nodes):
                    row = a * nodes + i
                    for lane in range(GROUP):
                        right[row, lane] = x[a, i, lane] - past[a, i, lane]
                    for k in range(many):
                        for j in range(nodes):
                            weight = own[e, a, k, i, j]
                            if weight != 0.0:
                                for lane in range(GROUP):
                                    right[row, lane] -= weight * made[k, j, lane]
                    for lane in range(GROUP):
                        value = abs(right[row, lane]) / scale[a]
                        norm[lane] = value if not value <= norm[lane] else norm[lane]
            finite, worse = True, False
            for lane in range(GROUP):
                finite = finite and np.isfinite(norm[lane])
                worse = worse or not norm[lane] <= max(before[lane], 1e-9)
            if change < enough and finite:
                break
            if worse:
                least = 1.0
                for lane in range(GROUP):
                    if not norm[lane] <= max(before[lane], 1e-9):
                        reach[lane] *= shorter
                        least = min(least, reach[lane])
                        for a in range(count):
                            for i in range(nodes):
                                x[a, i, lane] = settled[a, i, lane] - reach[lane] * step[a, i, lane]
                change = np.inf
                if least < shortest:
                    failed = True
                    break
                continue
            _assemble(own[e], made, many, matrix)
            _eliminate(matrix, right, factor)
            change = 0.0
            for a in range(count):
                largest, moved = 0.0, 0.0
                for i in range(nodes):
                    for lane in range(GROUP):
                        settled[a, i, lane], step[a, i, lane] = x[a, i, lane], right[a * nodes + i, lane]
                        x[a, i, lane] -= right[a * nodes + i, lane]
                        largest = max(largest, abs(x[a, i, lane]))
                        size_of = abs(right[a * nodes + i, lane])
                        moved = size_of if not size_of <= moved else moved
                change = max(change, moved / (scale[a] + largest))
            for lane in range(GROUP):
                before[lane], reach[lane] = norm[lane], 1.0
            if not np.isfinite(change):
                failed = True
                break
        for lane in range(min(GROUP, paths - begin)):
            for i in range(nodes):
                for a in range(count):
                    unknowns[e, a, first + i, begin + lane] = x[a, i, lane]
                for k in range(many):
                    signals[e, k, first + i, begin + lane] = made[k, i, lane]
                    for b in range(count):
                        slopes[e, k, b, first + i, begin + lane] = made[many + k * count + b, i, lane]
        worst = np.inf if failed else max(worst, change)
    return worst


@njit(nogil=True, cache=True)
def _by_tiles(shared, left, by_row, by_term, right, right_by_term, terms, target, by_target, rows, columns):
    """Add leftᵀ right, the left factor ``shared`` by all lanes; or set left right, lane by lane.

    Everything is an address or a stride.
    """
    tallest, unit = (6, 8) if shared else (3, 64)
    i, high = 0, (rows + tallest - 1) // tallest
    for part in range(high):
        tall = (rows - i + high - part - 1) // (high - part)
        j, many = 0, (columns + 3) // 4
        for piece in range(many):
            wide = (columns - j + many - piece - 1) // (many - piece)
            first, to = left + unit * i * by_row, target + 64 * (i * by_target + j)
            if shared:
                _tile_shared(tall, wide, first, 1, by_term, right + 64 * j, right_by_term, terms, to, by_target, True)
            else:
                _tile_own(tall, wide, first, by_row, 1, right + 64 * j, right_by_term, terms, to, by_target, False)
            j += wide
        i += tall


@njit(nogil=True, cache=True, error_model="numpy")
def mean_tangents(operators, starts, unknowns, signals, slopes, source, direct, left, right, begin, end):
    """Return Σ over paths ``begin`` … ``end`` of left[job, unknown](t) X[unknown](t, t') right[job](t') for every job.

    X solves the linearised equations X = source + O (diag(slopes) X + diag(direct)).

    Parameters
    ----------
    operators
        O transposed: (signal rows, unknown rows), rows by block, then signal or unknown, then node.
    starts
        First node of every block, and the number of nodes.
    slopes
        Of the signals by the unknowns, (signal, unknown, node, path).
    source
        How the noise enters, the same for all paths: (unknown rows, nodes).
    direct
        How it enters the signals, (signal, node, path); empty where it does not.
    left, right
        Factors with the weights of the paths, (job, unknown, node, path) and (job, node, path); ``right`` is empty where they
        are one.
    """
    nodes, jobs, blocks = starts[-1], left.shape[0], len(starts) - 1
    widest = 0
    for p in range(blocks):
        widest = max(widest, starts[p + 1] - starts[p])
    high = unknowns * widest
    inverses = np.empty((blocks, high, high, 8))
    slope = np.empty((nodes, signals, unknowns, 8))
    effects, tangent = np.empty((signals * nodes, widest, 8)), np.empty((high, widest, 8))
    sums = np.empty((high, widest, 8))
    factors, columns = np.empty((nodes, jobs, unknowns, 8)), np.empty((nodes, jobs, 8))
    entering = np.zeros((nodes, signals, 8))
    product = np.empty(8)
    scratch = np.empty((2, 8))
    out = np.zeros((jobs, nodes, nodes))
    stride, paired = operators.shape[1], right.size > 0
    for first in range(begin, end, 8):
        width = min(8, end - first)
        for t in range(nodes):
            for k in range(signals):
                for b in range(unknowns):
                    for lane in range(8):
                        slope[t, k, b, lane] = slopes[k, b, t, first + lane] if lane < width else 0.0
                if direct.size:
                    for lane in range(8):
                        entering[t, k, lane] = direct[k, t, first + lane] if lane < width else 0.0
            for job in range(jobs):
                for b in range(unknowns):
                    for lane in range(8):
                        factors[t, job, b, lane] = left[job, b, t, first + lane] if lane < width else 0.0
                if right.size:
                    for lane in range(8):
                        columns[t, job, lane] = right[job, t, first + lane] if lane < width else 0.0
        for p in range(blocks):
            low, size = starts[p], starts[p + 1] - starts[p]
            matrix = inverses[p]
            for a in range(unknowns):
                for i in range(size):
                    row = a * size + i
                    for b in range(unknowns):
                        for j in range(size):
                            column = b * size + j
                            for lane in range(8):
                                matrix[row, column, lane] = 1.0 if row == column else 0.0
                            for k in range(signals):
                                weight = operators[signals * low + k * size + j, unknowns * low + row]
                                if weight != 0.0:
                                    for lane in range(8):
                                        matrix[row, column, lane] -= weight * slope[low + j, k, b, lane]
            _invert(matrix, unknowns * size, scratch)
        for q in range(blocks):
            low, wide = starts[q], starts[q + 1] - starts[q]
            for p in range(q, blocks):
                top, size = starts[p], starts[p + 1] - starts[p]
                rows = unknowns * size
                for i in range(rows):
                    for j in range(wide):
                        value = source[unknowns * top + i, low + j]
                        for lane in range(8):
                            sums[i, j, lane] = value
                if p > q:
                    _by_tiles(True, operators.ctypes.data + 8 * (signals * low * stride + unknowns * top), 1, stride,
                              effects.ctypes.data + 64 * signals * low * widest, widest, signals * (top - low),
                              sums.ctypes.data, widest, rows, wide)  # fmt: skip
                elif direct.size:
                    for i in range(rows):
                        for j in range(wide):
                            for k in range(signals):
                                weight = operators[signals * low + k * size + j, unknowns * low + i]
                                if weight != 0.0:
                                    for lane in range(8):
                                        sums[i, j, lane] += weight * entering[low + j, k, lane]
                _by_tiles(False, inverses.ctypes.data + 64 * p * high * high, high, 1, sums.ctypes.data, widest, rows,
                          tangent.ctypes.data, widest, rows, wide)  # fmt: skip
                for i in range(size):
                    for k in range(signals):
                        to = effects.ctypes.data + 64 * (signals * top + k * size + i) * widest
                        for b in range(unknowns):
                            by = slope.ctypes.data + 64 * (((top + i) * signals + k) * unknowns + b)
                            of = tangent.ctypes.data + 64 * (b * size + i) * widest
                            for j in range(wide):
                                _multiply(to + 64 * j, by, of + 64 * j, b > 0)
                        if p == q and direct.size:
                            for lane in range(8):
                                effects[signals * top + k * size + i, i, lane] += entering[low + i, k, lane]
                    for job in range(jobs):
                        to = out.ctypes.data + 8 * ((job * nodes + top + i) * nodes + low)
                        for b in range(unknowns):
                            by = factors.ctypes.data + 64 * (((top + i) * jobs + job) * unknowns + b)
                            of = tangent.ctypes.data + 64 * (b * size + i) * widest
                            if paired:
                                for j in range(wide):
                                    _multiply(product.ctypes.data, of + 64 * j,
                                              columns.ctypes.data + 64 * ((low + j) * jobs + job), False)  # fmt: skip
                                    _add_lanes(to + 8 * j, by, product.ctypes.data)
                            else:
                                for j in range(wide):
                                    _add_lanes(to + 8 * j, by, of + 64 * j)
    return out

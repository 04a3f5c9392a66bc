// Kernels of the engine of paths (see cuda.py): COUNT unknowns, MANY signals, blocks of at most WIDE nodes, HIGH = COUNT * WIDE.
// Rows and columns of the operators are sorted by block, then signal or unknown, then node. The functions of a model,
// `evaluate(unknowns, noises, constants, shared, parameters, out)`, stand before this text.

#define AT(entry, node) (((long long)(entry) * nodes + (node)) * paths + path)

#ifdef NOISES
// Newton's method: each thread follows one path through all blocks, so that a whole window is one launch.
extern "C" __global__ void newton(
    int nodes, int blocks, long long paths, const int* starts, const double* parameters, const double* shared,
    const double* noises, const double* constants, const double* operators, const double* base, int guessed,
    double enough, int most, double shorter, double shortest, double* unknowns, double* signals, double* slopes,
    double* changes
) {
    long long path = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (path >= paths) return;
    double matrix[HIGH][HIGH], right[HIGH], x[HIGH], past[HIGH], settled[HIGH], step[HIGH];
    double made[MANY * (1 + COUNT)][WIDE], out[MANY * (1 + COUNT)];
    double own[CONSTANTS + 1], noise[NOISES + 1], level[SHARED + 1], here[COUNT], worst = 0.0;
    long long stride = (long long)COUNT * nodes;
    for (int c = 0; c < CONSTANTS; ++c) own[c] = constants[c * paths + path];
    for (int p = 0; p < blocks; ++p) {
        int low = starts[p], size = starts[p + 1] - low, rows = COUNT * size;
        for (int a = 0; a < COUNT; ++a)
            for (int i = 0; i < size; ++i) past[a * size + i] = base[AT(a, low + i)];
        for (int q = 0; q < p; ++q) {
            int start = starts[q], wide = starts[q + 1] - start;
            for (int k = 0; k < MANY; ++k)
                for (int j = 0; j < wide; ++j) {
                    double signal = signals[AT(k, start + j)];
                    const double* weights = operators + (MANY * start + k * wide + j) * stride + COUNT * low;
                    for (int r = 0; r < rows; ++r) past[r] += weights[r] * signal;
                }
        }
        double scale[COUNT];
        for (int a = 0; a < COUNT; ++a) {
            scale[a] = 1.0;
            for (int i = 0; i < size; ++i) {
                int r = a * size + i;
                scale[a] = fmax(scale[a], 1.0 + fabs(past[r]));
                x[r] = guessed ? unknowns[AT(a, low + i)] : low ? unknowns[AT(a, low - 1)] : past[r];
            }
        }
        double before = INFINITY, reach = 1.0, change = INFINITY;
        bool failed = false;
        for (int turn = 0; turn < most; ++turn) {
            for (int i = 0; i < size; ++i) {
                for (int a = 0; a < COUNT; ++a) here[a] = x[a * size + i];
                for (int z = 0; z < NOISES; ++z) noise[z] = noises[AT(z, low + i)];
                for (int s = 0; s < SHARED; ++s) level[s] = shared[s * nodes + low + i];
                evaluate(here, noise, own, level, parameters, out);
                for (int m = 0; m < MANY * (1 + COUNT); ++m) made[m][i] = out[m];
            }
            double norm = 0.0;
            for (int a = 0; a < COUNT; ++a)
                for (int i = 0; i < size; ++i) {
                    int r = a * size + i;
                    double value = x[r] - past[r];
                    for (int k = 0; k < MANY; ++k)
                        for (int j = 0; j < size; ++j)
                            value -= operators[(MANY * low + k * size + j) * stride + COUNT * low + r] * made[k][j];
                    right[r] = value;
                    value = fabs(value) / scale[a];
                    if (!(value <= norm)) norm = value;
                }
            if (change < enough && isfinite(norm)) break;
            if (!(norm <= fmax(before, 1e-9))) {  // the step was too long
                reach *= shorter;
                for (int r = 0; r < rows; ++r) x[r] = settled[r] - reach * step[r];
                change = INFINITY;
                if (reach < shortest) { failed = true; break; }
                continue;
            }
            for (int a = 0; a < COUNT; ++a)
                for (int i = 0; i < size; ++i)
                    for (int b = 0; b < COUNT; ++b)
                        for (int j = 0; j < size; ++j) {
                            int r = a * size + i, c = b * size + j;
                            double value = r == c ? 1.0 : 0.0;
                            for (int k = 0; k < MANY; ++k)
                                value -= operators[(MANY * low + k * size + j) * stride + COUNT * low + r] *
                                         made[MANY + k * COUNT + b][j];
                            matrix[r][c] = value;
                        }
            for (int r = 0; r < rows; ++r) {
                double factor = 1.0 / matrix[r][r];
                for (int c = r + 1; c < rows; ++c) matrix[r][c] *= factor;
                right[r] *= factor;
                for (int s = r + 1; s < rows; ++s) {
                    double below = matrix[s][r];
                    for (int c = r + 1; c < rows; ++c) matrix[s][c] -= below * matrix[r][c];
                    right[s] -= below * right[r];
                }
            }
            for (int r = rows - 1; r >= 0; --r)
                for (int c = r + 1; c < rows; ++c) right[r] -= matrix[r][c] * right[c];
            change = 0.0;
            for (int a = 0; a < COUNT; ++a) {
                double largest = 0.0, moved = 0.0;
                for (int i = 0; i < size; ++i) {
                    int r = a * size + i;
                    settled[r] = x[r];
                    step[r] = right[r];
                    x[r] -= right[r];
                    largest = fmax(largest, fabs(x[r]));
                    if (!(fabs(right[r]) <= moved)) moved = fabs(right[r]);
                }
                change = fmax(change, moved / (scale[a] + largest));
            }
            before = norm;
            reach = 1.0;
            if (!isfinite(change)) { failed = true; break; }
        }
        for (int i = 0; i < size; ++i) {
            for (int a = 0; a < COUNT; ++a) unknowns[AT(a, low + i)] = x[a * size + i];
            for (int k = 0; k < MANY; ++k) {
                signals[AT(k, low + i)] = made[k][i];
                for (int b = 0; b < COUNT; ++b) slopes[AT(k * COUNT + b, low + i)] = made[MANY + k * COUNT + b][i];
            }
        }
        worst = failed ? INFINITY : fmax(worst, change);
        if (!(worst < INFINITY)) {
            changes[path] = p + 1;
            return;
        }
    }
    changes[path] = -worst;
}

#else
// Inverses of the linearised equations within the blocks: a thread per path and block.
extern "C" __global__ void invert(
    int nodes, int blocks, long long paths, long long begin, long long end, const int* starts, const double* operators,
    const double* slopes, double* inverses
) {
    long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= (end - begin) * blocks) return;
    long long path = begin + thread % (end - begin);
    int p = thread / (end - begin), low = starts[p], size = starts[p + 1] - low, rows = COUNT * size;
    long long stride = (long long)COUNT * nodes;
    double matrix[HIGH][HIGH];
    for (int r = 0; r < rows; ++r)
        for (int b = 0; b < COUNT; ++b)
            for (int j = 0; j < size; ++j) {
                double value = r == b * size + j ? 1.0 : 0.0;
                for (int k = 0; k < MANY; ++k)
                    value -= operators[(MANY * low + k * size + j) * stride + COUNT * low + r] *
                             slopes[AT(k * COUNT + b, low + j)];
                matrix[r][b * size + j] = value;
            }
    for (int pivot = 0; pivot < rows; ++pivot) {
        double factor = 1.0 / matrix[pivot][pivot];
        for (int c = 0; c < rows; ++c) if (c != pivot) matrix[pivot][c] *= factor;
        for (int r = 0; r < rows; ++r) {
            if (r == pivot) continue;
            double entry = matrix[r][pivot];
            for (int c = 0; c < rows; ++c)
                if (c == pivot) matrix[r][c] = -entry * factor;
                else matrix[r][c] -= entry * matrix[pivot][c];
        }
        matrix[pivot][pivot] = factor;
    }
    double* to = inverses + ((path - begin) * blocks + p) * HIGH * HIGH;
    for (int r = 0; r < rows; ++r)
        for (int c = 0; c < rows; ++c) to[r * HIGH + c] = matrix[r][c];
}

// Means of tangents: a thread per time of the noise; a group of threads takes one path after the other, and each thread
// owns its columns of what the group writes.
extern "C" __global__ void tangents(
    int nodes, int blocks, long long paths, long long begin, long long end, const int* starts, const double* operators,
    const double* slopes, const double* inverses, const double* source, int directly, const double* direct, int jobs,
    const double* left, int paired, const double* right, double* effects, double* sums
) {
    long long stride = (long long)COUNT * nodes, square = (long long)nodes * nodes;
    effects += blockIdx.x * MANY * square;
    sums += blockIdx.x * jobs * square;
    for (long long path = begin + blockIdx.x; path < end; path += gridDim.x)
        for (int column = threadIdx.x; column < nodes; column += blockDim.x) {
            int first = 0;
            while (starts[first + 1] <= column) ++first;
            for (int p = first; p < blocks; ++p) {
                int low = starts[p], size = starts[p + 1] - low, rows = COUNT * size;
                double total[HIGH], x[HIGH];
#pragma unroll
                for (int r = 0; r < HIGH; ++r)
                    total[r] = r < rows ? source[(COUNT * low + r) * (long long)nodes + column] : 0.0;
                for (int row = MANY * starts[first]; row < MANY * low; ++row) {
                    double effect = effects[(long long)row * nodes + column];
                    const double* weights = operators + row * stride + COUNT * low;
#pragma unroll
                    for (int r = 0; r < HIGH; ++r) if (r < rows) total[r] += weights[r] * effect;
                }
                if (directly && p == first)
                    for (int k = 0; k < MANY; ++k) {
                        double effect = direct[AT(k, column)];
                        const double* weights = operators + (MANY * low + k * size + column - low) * stride + COUNT * low;
#pragma unroll
                        for (int r = 0; r < HIGH; ++r) if (r < rows) total[r] += weights[r] * effect;
                    }
                const double* inverse = inverses + ((path - begin) * blocks + p) * HIGH * HIGH;
#pragma unroll
                for (int r = 0; r < HIGH; ++r) {
                    double value = 0.0;
                    if (r < rows) {
#pragma unroll
                        for (int c = 0; c < HIGH; ++c) if (c < rows) value += inverse[r * HIGH + c] * total[c];
                    }
                    x[r] = value;
                }
                for (int i = 0; i < size; ++i) {
                    double here[COUNT];
                    for (int b = 0; b < COUNT; ++b) here[b] = x[b * size + i];
                    for (int k = 0; k < MANY; ++k) {
                        double effect = directly && low + i == column ? direct[AT(k, column)] : 0.0;
                        for (int b = 0; b < COUNT; ++b) effect += slopes[AT(k * COUNT + b, low + i)] * here[b];
                        effects[(long long)(MANY * low + k * size + i) * nodes + column] = effect;
                    }
                    for (int job = 0; job < jobs; ++job) {
                        double value = 0.0;
                        for (int b = 0; b < COUNT; ++b) value += left[AT(job * COUNT + b, low + i)] * here[b];
                        if (paired) value *= right[AT(job, column)];
                        sums[(job * (long long)nodes + low + i) * nodes + column] += value;
                    }
                }
            }
        }
}
#endif

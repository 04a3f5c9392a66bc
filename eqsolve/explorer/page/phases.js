// What the long run is over two parameters: a map of classes with boundaries as lines. A click on it sets both sliders.
const CELLS = [16, 12];
const KINDS = { stability: 'stability lost', lyapunov: 'Lyapunov exponent zero', grows: 'grows without bound', vanishes: 'correlations vanish', ends: 'fixed point ends' };

const mappable = () => page.controls.filter((item) => item.slider && !item.spec.whole);

function buildPhases() {
  $('mapped').textContent = page.model.timed ? 'What the dynamics ends in' : 'How many fixed points there are';
  $('run-map').textContent = page.model.timed ? 'Map the long run' : 'Map the fixed points';
  const names = mappable().map((item) => item.name);
  ['across', 'up'].forEach((id, k) => {
    const options = names.map((name) => make('option', { value: name }, name));
    const choice = make('select', { id, 'aria-label': `parameter ${id}`, onchange: drawPhases }, ...options);
    choice.value = names[k] ?? '';
    $(id).replaceWith(choice);
  });
}

// The question that a map answers: everything but what it runs over.
function mapQuestion() {
  const chosen = ['across', 'up'].map((id) => mappable().find((item) => item.name === $(id).value));
  if (chosen.includes(undefined) || chosen[0] === chosen[1]) return null;
  const over = Object.fromEntries(chosen.map(({ name, spec }, k) => [name, `${spec.low}:${spec.high}:${CELLS[k]}:${spec.scale}`]));
  const fixed = Object.fromEntries(Object.entries(settings()).filter(([name]) => !(name in over)));
  return { settings: fixed, stamp: page.model.stamp, over };
}

function runPhases() {
  const asked = mapQuestion();
  if (asked === null) { $('map-note').textContent = 'choose two different parameters'; return; }
  order({ kind: 'phases', asked });
}

// Pieces of lines between points of one kind that lie in or beside one cell, with no other point between them.
function linesOf(points) {
  const far = (a, b) => Math.hypot(a.u - b.u, a.v - b.v);
  return points.flatMap((a, i) => points.slice(i + 1).filter((b) => Math.abs(a.u - b.u) <= 1.001 && Math.abs(a.v - b.v) <= 1.001
    && !points.some((c) => c !== a && c !== b && Math.max(far(a, c), far(b, c)) < far(a, b) - 1e-9)).map((b) => [a, b]));
}

// Where a value lies among those of an axis, in cells.
function cellOf(values, value) {
  const k = Math.max(0, Math.min(values.length - 2, values.findLastIndex((other) => other <= value)));
  return k + (value - values[k]) / (values[k + 1] - values[k]);
}

function drawPhases() {
  const known = page.map;
  $('map').classList.toggle('stale', !known || !same(known.asked, mapQuestion()));
  if (!known) return;
  if (known.error) { $('map').replaceChildren(); $('map-note').textContent = known.error.problems.join('\n'); return; }
  const colours = theme();
  const [across, up] = Object.keys(known.asked.over);
  const [xs, ys] = [known.axes[across], known.axes[up]];
  const width = Math.max(320, Math.round($('phases').clientWidth || 700));
  const height = Math.round(Math.min(520, Math.max(320, width * 0.62)));
  const [right, bottom] = [width - EDGE.right, height - EDGE.bottom];
  const isLog = (name) => page.controls.find((item) => item.name === name).spec.scale === 'log';
  const x = axisOf(xs[0], xs.at(-1), isLog(across), EDGE.left, right, 6);
  const y = axisOf(ys[0], ys.at(-1), isLog(up), bottom, EDGE.top, 6);
  const root = drawn('svg', { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `classes over ${across} and ${up}` });
  root.append(drawn('rect', { width, height, fill: colours.paper }));
  const edges = (values, axis) => values.map((value, k) => [k ? (axis.place(values[k - 1]) + axis.place(value)) / 2 : axis.place(value), k + 1 < values.length ? (axis.place(values[k + 1]) + axis.place(value)) / 2 : axis.place(value)]);
  const [columns, rows] = [edges(xs, x), edges(ys, y)];
  const classes = [...new Set(known.classes.flat())];
  const colour = (name) => COLOURS[classes.indexOf(name) % COLOURS.length];
  known.classes.forEach((line, i) => line.forEach((name, j) => {
    const [[x1, x2], [y1, y2]] = [columns[i], rows[j]];
    const cell = drawn('rect', { x: x1, y: Math.min(y1, y2), width: x2 - x1 + 0.3, height: Math.abs(y2 - y1) + 0.3, fill: colour(name), 'fill-opacity': 0.3, class: 'cell', 'data-class': name });
    cell.append(drawn('title', {}));
    cell.firstChild.textContent = `${name}${known.messages[i][j] ? `: ${known.messages[i][j]}` : ''}`;
    root.append(cell);
  }));
  const found = known.boundaries.kind.map((kind, k) => ({ kind, px: x.place(known.boundaries[across][k]), py: y.place(known.boundaries[up][k]), u: cellOf(xs, known.boundaries[across][k]), v: cellOf(ys, known.boundaries[up][k]) }));
  const kinds = Object.keys(KINDS).filter((kind) => found.some((item) => item.kind === kind));
  kinds.forEach((kind, k) => {
    const dashes = k ? { 'stroke-dasharray': `${6 / k} 4` } : {};
    for (const [a, b] of linesOf(found.filter((item) => item.kind === kind))) root.append(drawn('line', { x1: a.px, y1: a.py, x2: b.px, y2: b.py, stroke: colours.ink, 'stroke-width': 2, class: 'boundary', 'data-kind': kind, ...dashes }));
  });
  for (const [value, label] of x.ticks) root.append(written(x.place(value), bottom + 19, label, { fill: colours.soft, 'text-anchor': 'middle' }));
  for (const [value, label] of y.ticks) root.append(written(EDGE.left - 8, y.place(value) + 4, label, { fill: colours.soft, 'text-anchor': 'end' }));
  root.append(drawn('rect', { x: EDGE.left, y: EDGE.top, width: right - EDGE.left, height: bottom - EDGE.top, fill: 'none', stroke: colours.soft }));
  root.append(written((EDGE.left + right) / 2, height - 8, namedParts(across), { fill: colours.ink, 'text-anchor': 'middle', 'font-size': 15 }));
  root.append(written(16, (EDGE.top + bottom) / 2, namedParts(up), { fill: colours.ink, 'text-anchor': 'middle', 'font-size': 15 }));
  const here = [across, up].map((name) => readNumber(settings()[name] ?? ''));
  if (here.every(Number.isFinite)) root.append(drawn('circle', { cx: x.place(here[0]), cy: y.place(here[1]), r: 5, fill: 'none', stroke: colours.ink, 'stroke-width': 2, class: 'here' }));
  root.addEventListener('click', (event) => {
    const box = root.getBoundingClientRect();
    const shares = [((event.clientX - box.left) / box.width * width - EDGE.left) / (right - EDGE.left), (bottom - (event.clientY - box.top) / box.height * height) / (bottom - EDGE.top)];
    [[across, x], [up, y]].forEach(([name, axis], k) => {
      const share = Math.min(1, Math.max(0, shares[k]));
      const value = axis.logarithmic ? axis.low * (axis.high / axis.low) ** share : axis.low + share * (axis.high - axis.low);
      page.controls.find((item) => item.name === name).text = short(value, 4);
    });
    moved();
  });
  $('map').replaceChildren(root);
  const swatches = classes.map((name) => { const swatch = make('span', { class: 'swatch' }); swatch.style.background = colour(name); return make('span', {}, swatch, ` ${name} `); });
  $('map-note').replaceChildren(...swatches, kinds.length ? `. Lines: ${kinds.map((kind) => KINDS[kind]).join('; ')}. ` : '', 'A click sets both parameters.');
}

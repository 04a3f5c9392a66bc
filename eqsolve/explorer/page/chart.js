// Curves with error bands, points with error bars, on linear or logarithmic axes, as one SVG.
const SVG = 'http://www.w3.org/2000/svg';
const COLOURS = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#8a6d3b', '#7f7f7f'];
const LIGHT = { paper: '#ffffff', ink: '#1b1f24', soft: '#5b6570', line: '#d5dae0' };
const DARK = { paper: '#14181d', ink: '#e6eaee', soft: '#9aa5b1', line: '#343c46' };
const EDGE = { left: 66, right: 18, top: 12, bottom: 48 };

function drawn(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function written(x, y, parts, attributes) {
  const text = drawn('text', { x, y, 'font-family': 'system-ui, sans-serif', 'font-size': 13, ...attributes });
  for (const [words, shift, size, italic] of parts) {
    const span = drawn('tspan', {});
    if (shift) span.setAttribute('dy', shift);
    if (size) span.setAttribute('font-size', size);
    if (italic) span.setAttribute('font-style', 'italic');
    span.textContent = words;
    text.append(span);
  }
  return text;
}

function namedParts(name) {
  const [head, lower] = nameParts(name);
  return [[head, 0, 0, head.length === 1], ...(lower ? [[lower, 4, 10, false]] : [])];
}

function niceSteps(low, high, count) {
  const raw = (high - low) / count;
  const decade = 10 ** Math.floor(Math.log10(raw));
  const step = decade * [1, 2, 5, 10].find((factor) => factor * decade >= raw * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

// An axis: where a value lies (pixels), its ticks with labels, and fine lines between them.
function axisOf(low, high, logarithmic, first, last, count) {
  if (!logarithmic) {
    const place = (value) => first + ((value - low) / (high - low)) * (last - first);
    return { low, high, place, logarithmic, fine: [], ticks: niceSteps(low, high, count).map((value) => [value, [[short(value, 6)]]]) };
  }
  const [from, to] = [Math.log10(low), Math.log10(high)];
  const place = (value) => first + ((Math.log10(value) - from) / (to - from)) * (last - first);
  const [start, end] = [Math.ceil(from - 1e-9), Math.floor(to + 1e-9)];
  if (end - start < 1) {
    const ticks = niceSteps(low, high, count).filter((value) => value > 0);
    return { low, high, place, logarithmic, fine: [], ticks: ticks.map((value) => [value, [[short(value, 6)]]]) };
  }
  const every = Math.ceil((end - start + 1) / count);
  const ticks = [];
  const fine = [];
  for (let power = start - 1; power <= end; power += 1) {
    if (power >= start && (power - start) % every === 0) ticks.push([10 ** power, [['10'], [String(power).replace('-', '−'), -6, 10]]]);
    if (every === 1) for (let k = 2; k < 10; k += 1) if (k * 10 ** power >= low && k * 10 ** power <= high) fine.push(k * 10 ** power);
  }
  return { low, high, place, logarithmic, fine, ticks };
}

function span(values, logarithmic) {
  const kept = values.filter((value) => Number.isFinite(value) && (!logarithmic || value > 0));
  if (!kept.length) return [logarithmic ? 0.1 : 0, 1];
  let low = kept.reduce((a, b) => Math.min(a, b));
  let high = kept.reduce((a, b) => Math.max(a, b));
  if (logarithmic) {
    low = Math.max(low, high * 1e-14);
    if (high / low < 1.2) [low, high] = [low / 1.2, high * 1.2];
    const room = (high / low) ** 0.04;
    return [low / room, high * room];
  }
  if (high - low < 1e-9 * Math.max(Math.abs(high), 1e-300)) {
    const room = Math.abs(high) * 0.1 || 1;
    [low, high] = [low - room, high + room];
  }
  const room = 0.05 * (high - low);
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

// series: [{name, colour, x, y, e, dashed}]; points: the same with error bars. Returns the SVG and how to find a place on it.
function drawChart({ series, points, xName, logX, logY, width, height, theme, mark }) {
  const inside = (value) => Number.isFinite(value) && value !== null;
  const all = [...series, ...points];
  const onX = (value) => inside(value) && (!logX || value > 0);
  const onY = (value) => inside(value) && (!logY || value > 0);
  const xs = all.flatMap((item) => item.x.filter(onX));
  const [xLow, xHigh] = xs.length ? [Math.min(...xs), Math.max(...xs)] : [logX ? 0.1 : 0, 1];
  const clear = (item, k) => !logY || item.y[k] > (item.e[k] || 0); // what drowns in its error does not stretch a logarithmic axis
  let ys = all.flatMap((item) => item.y.filter((value, k) => onX(item.x[k]) && onY(value) && clear(item, k)));
  if (!ys.length) ys = all.flatMap((item) => item.y.filter((value, k) => onX(item.x[k]) && onY(value)));
  const [yLow, yHigh] = span(ys, logY);
  const right = width - EDGE.right;
  const bottom = height - EDGE.bottom;
  const x = axisOf(xLow, xHigh > xLow ? xHigh : xLow + 1, logX, EDGE.left, right, Math.max(3, Math.floor(width / 110)));
  const y = axisOf(yLow, yHigh, logY, bottom, EDGE.top, 6);
  const root = drawn('svg', { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height, role: 'img' });
  root.setAttribute('aria-label', `${series.map((item) => item.name).join(', ')} against ${xName}`);
  root.append(drawn('rect', { width, height, fill: theme.paper }));
  const clip = drawn('clipPath', { id: 'inside' });
  clip.append(drawn('rect', { x: EDGE.left, y: EDGE.top, width: right - EDGE.left, height: bottom - EDGE.top }));
  root.append(drawn('defs', {}, clip));
  for (const value of x.fine) root.append(drawn('line', { x1: x.place(value), x2: x.place(value), y1: EDGE.top, y2: bottom, stroke: theme.line, 'stroke-opacity': 0.35 }));
  for (const value of y.fine) root.append(drawn('line', { y1: y.place(value), y2: y.place(value), x1: EDGE.left, x2: right, stroke: theme.line, 'stroke-opacity': 0.35 }));
  for (const [value, label] of x.ticks) {
    root.append(drawn('line', { x1: x.place(value), x2: x.place(value), y1: EDGE.top, y2: bottom, stroke: theme.line }));
    root.append(written(x.place(value), bottom + 19, label, { fill: theme.soft, 'text-anchor': 'middle' }));
  }
  for (const [value, label] of y.ticks) {
    root.append(drawn('line', { y1: y.place(value), y2: y.place(value), x1: EDGE.left, x2: right, stroke: theme.line }));
    root.append(written(EDGE.left - 8, y.place(value) + 4, label, { fill: theme.soft, 'text-anchor': 'end' }));
  }
  root.append(drawn('rect', { x: EDGE.left, y: EDGE.top, width: right - EDGE.left, height: bottom - EDGE.top, fill: 'none', stroke: theme.soft }));
  root.append(written((EDGE.left + right) / 2, height - 8, namedParts(xName), { fill: theme.ink, 'text-anchor': 'middle', 'font-size': 15 }));
  const plot = drawn('g', { 'clip-path': 'url(#inside)' });
  root.append(plot);
  const yPlace = (value) => (onY(value) ? y.place(value) : bottom + 50);
  for (const item of series) {
    for (const run of runs(item, onX, (value) => inside(value))) {
      const upper = run.map((k) => `${x.place(item.x[k]).toFixed(2)},${yPlace(item.y[k] + (item.e[k] || 0)).toFixed(2)}`);
      const lower = run.map((k) => `${x.place(item.x[k]).toFixed(2)},${yPlace(item.y[k] - (item.e[k] || 0)).toFixed(2)}`).reverse();
      plot.append(drawn('path', { d: `M${[...upper, ...lower].join('L')}Z`, fill: item.colour, 'fill-opacity': 0.22, class: 'band' }));
    }
  }
  for (const item of series) {
    for (const run of runs(item, onX, onY)) {
      const line = run.map((k) => `${x.place(item.x[k]).toFixed(2)},${y.place(item.y[k]).toFixed(2)}`).join('L');
      plot.append(drawn('path', {
        d: `M${line}`, fill: 'none', stroke: item.colour, 'stroke-width': 2, 'stroke-linejoin': 'round', class: 'curve', 'data-name': item.name,
        ...(item.dashed ? { 'stroke-dasharray': '7 4' } : {}),
      }));
    }
  }
  for (const item of points) {
    item.x.forEach((value, k) => {
      if (!onX(value) || !onY(item.y[k])) return;
      const [cx, error] = [x.place(value), item.e[k] || 0];
      plot.append(drawn('line', { x1: cx, x2: cx, y1: yPlace(item.y[k] + error), y2: yPlace(item.y[k] - error), stroke: item.colour, 'stroke-width': 1.5 }));
      root.append(drawn('circle', { cx, cy: y.place(item.y[k]), r: 3.6, fill: theme.paper, stroke: item.colour, 'stroke-width': 1.8, class: 'point' }));
    });
  }
  if (mark !== null && onX(mark)) plot.append(drawn('line', { x1: x.place(mark), x2: x.place(mark), y1: EDGE.top, y2: bottom, stroke: theme.ink, 'stroke-dasharray': '2 4' }));
  root.append(legend(series, points, theme, right, bottom, x, y));
  const value = (pixel) => {
    const share = (pixel - EDGE.left) / (right - EDGE.left);
    return logX ? x.low * (x.high / x.low) ** share : x.low + share * (x.high - x.low);
  };
  return { root, value, place: x.place };
}

// Pieces of a curve without gaps, as lists of places in it.
function* runs(item, onX, onY) {
  let run = [];
  for (let k = 0; k < item.x.length; k += 1) {
    if (onX(item.x[k]) && onY(item.y[k])) run.push(k);
    else if (run.length) { yield run; run = []; }
  }
  if (run.length) yield run;
}

// Where a box hides least of curves and points: in a corner, or at the middle of a side.
function freePlace(items, x, y, right, bottom, width, height) {
  const [middle, centre] = [(EDGE.left + right - width) / 2, (EDGE.top + bottom - height) / 2];
  const [east, south] = [right - width - 8, bottom - height - 8];
  const [west, north] = [EDGE.left + 8, EDGE.top + 8];
  const places = [[east, north], [west, north], [west, south], [east, south], [middle, north], [middle, south], [east, centre], [west, centre]].map(([left, top]) => ({ left, top, hidden: 0 }));
  const see = (px, py) => { for (const place of places) if (px > place.left - 6 && px < place.left + width + 6 && py > place.top - 6 && py < place.top + height + 6) place.hidden += 1; };
  for (const item of items) {
    let before = null;
    item.x.forEach((value, k) => {
      if (item.y[k] === null || (x.logarithmic && !(value > 0)) || (y.logarithmic && !(item.y[k] > 0))) { before = null; return; }
      const here = [x.place(value), y.place(item.y[k])];
      const from = before ?? here;
      const steps = Math.min(400, Math.max(1, Math.ceil(Math.hypot(here[0] - from[0], here[1] - from[1]) / 3)));
      for (let n = 1; n <= steps; n += 1) see(from[0] + ((here[0] - from[0]) * n) / steps, from[1] + ((here[1] - from[1]) * n) / steps);
      before = here;
    });
  }
  return places.reduce((best, place) => (place.hidden < best.hidden ? place : best));
}

function legend(series, points, theme, right, bottom, x, y) {
  const group = drawn('g', { class: 'legend' });
  const longest = Math.max(30, ...series.map((item) => 7.4 * nameParts(item.name).join('').length));
  const width = points.length ? Math.max(38 + longest, 104) : 38 + longest;
  const height = 20 * series.length + (points.length ? 20 : 0) + 8;
  if (!series.length) return group;
  const { left, top } = freePlace([...series, ...points], x, y, right, bottom, width, height);
  group.append(drawn('rect', { x: left, y: top, width, height, rx: 4, fill: theme.paper, 'fill-opacity': 0.85, stroke: theme.line }));
  series.forEach((item, k) => {
    const y = top + 18 + 20 * k;
    group.append(drawn('line', { x1: left + 7, x2: left + 25, y1: y - 4, y2: y - 4, stroke: item.colour, 'stroke-width': 2.4 }));
    group.append(written(left + 31, y, namedParts(item.name), { fill: theme.ink }));
  });
  if (points.length) {
    const y = top + 18 + 20 * series.length;
    group.append(drawn('circle', { cx: left + 16, cy: y - 4, r: 3.6, fill: theme.paper, stroke: theme.soft, 'stroke-width': 1.8 }));
    group.append(written(left + 31, y, [['finite size']], { fill: theme.ink }));
  }
  return group;
}

function toPng(root, scale, done) {
  const [width, height] = [Number(root.getAttribute('width')), Number(root.getAttribute('height'))];
  const image = new Image();
  image.onload = () => {
    const canvas = make('canvas', { width: width * scale, height: height * scale });
    canvas.getContext('2d').drawImage(image, 0, 0, width * scale, height * scale);
    canvas.toBlob(done, 'image/png');
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(root))}`;
}

// The page: state from the address, questions to the server (or to the sweep inside the page), answers into pictures.
const config = JSON.parse($('config').textContent);
const LIVE = config.mode === 'live';
const COARSE = { rtol: 0.05, count: 9 }; // at once; finer when the hand rests
const FINE_COUNT = 49;
const REST = { slider: 350, typing: 700 }; // milliseconds without a change
const page = { session: crypto.randomUUID?.() ?? String(Math.random()), model: null, controls: [], options: {}, shown: null, answer: null, points: null, rest: null, tab: 'curves', version: 0, busy: null, cursor: null };
window.explorer = page;

// --- talking to the server -------------------------------------------------------------------------------------------
function body(request) {
  return JSON.stringify({ ...request, word: config.word, session: page.session });
}

async function ask(verb, request, report) {
  let response;
  try {
    response = await fetch(`/api/${verb}`, { method: 'POST', body: body(request) });
  } catch {
    return { error: { kind: 'gone', problems: ['the explorer does not answer; was `eqsolve explore` ended? Start it again and reload this page'] } };
  }
  if (!response.ok) return { error: { kind: 'refused', problems: [await response.text()] } };
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let last = { error: { kind: 'gone', problems: ['the answer broke off'] } };
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return last;
    text += decoder.decode(value, { stream: true });
    const lines = text.split('\n');
    text = lines.pop();
    for (const line of lines) {
      const message = JSON.parse(line);
      if (message.progress) report?.(message.progress);
      else last = message;
    }
  }
}

// --- state and address -----------------------------------------------------------------------------------------------
function settings() {
  return Object.fromEntries(page.controls.filter((control) => control.isSent).map((control) => [control.name, control.text]));
}

function option(name) {
  const element = page.options[name];
  return element.type === 'checkbox' ? element.checked : element.value.trim();
}

function writeAddress() {
  const words = new URLSearchParams();
  for (const control of page.controls) if (!control.isDefault) words.set(control.name, control.text);
  for (const [name, element] of Object.entries(page.options)) {
    const value = element.type === 'checkbox' ? String(Number(element.checked)) : element.value.trim();
    if (value !== element.dataset.first) words.set(`.${name}`, value);
  }
  if (page.shown) words.set('.show', page.shown.join(','));
  if (page.tab !== 'curves') words.set('.tab', page.tab);
  try { history.replaceState(null, '', `#${words}`); } catch { /* a browser that allows so many per minute only */ }
}

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  for (const control of page.controls) {
    if (words.has(control.name)) control.text = words.get(control.name);
    else control.text = control instanceof LawControl ? config.begin.settings?.[control.name] ?? '' : control.spec.value;
  }
  for (const [name, element] of Object.entries(page.options)) {
    const value = words.get(`.${name}`) ?? element.dataset.first;
    if (element.type === 'checkbox') element.checked = value === '1';
    else element.value = value;
  }
  page.shown = words.get('.show')?.split(',').filter(Boolean) ?? null;
  page.tab = words.get('.tab') === 'rest' ? 'rest' : 'curves';
}

// --- building the page -----------------------------------------------------------------------------------------------
function build(model) {
  page.model = { related: null, ...model };
  $('tabs').hidden = true;
  $('name').textContent = model.name;
  $('kind').textContent = model.kind;
  $('title').textContent = model.title;
  $('doc').textContent = model.doc.replace(/([^\n])\n(?!\n)/g, '$1 '); // its lines were broken for a file
  $('lines').replaceChildren(...model.equations.map(line));
  $('footer').textContent = `eqsolve ${model.version}` + (LIVE ? '' : ' · a page over a sweep that was solved beforehand: sliders interpolate, and the error of that is part of the bands');
  page.controls = (LIVE ? model.controls : model.controls.flatMap(exported)).map(control);
  $('parameters').replaceChildren(...page.controls.map((item) => item.element));
  if (!LIVE) $('parameters').append(...fixedLines());
  buildOptions();
  $('finite').hidden = !(LIVE && model.finite);
  readAddress();
}

const line = (row) => make('tr', { title: row.latex }, make('td', {}, math(row.left)), make('td', {}, math(row.right)));

function related() {
  const kinds = page.model.related.map((item) => item.kind);
  const words = [kinds.some((kind) => kind !== 'Singularity') ? 'Fixed point' : '', kinds.includes('Singularity') ? 'rate' : ''].filter(Boolean).join(' and ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function control(spec) {
  const value = spec.kind !== 'law' ? config.begin.settings?.[spec.name] ?? spec.value : spec.value;
  if (spec.kind === 'law') return new LawControl(spec, page.model.laws, moved, typed);
  if (spec.kind === 'choice') return new ChoiceControl({ ...spec, value }, moved);
  return new NumberControl({ ...spec, value }, moved, typed);
}

// Of an exported page only the axes of its sweep can be moved.
function exported(spec) {
  const axis = config.data.axes.find((item) => item.name === spec.name);
  if (!axis) return [];
  if (axis.kind === 'choice') return [{ ...spec, kind: 'choice', labels: axis.labels, value: axis.labels.includes(spec.value) ? spec.value : axis.labels[0] }];
  const [low, high] = [axis.nodes[0], axis.nodes[axis.nodes.length - 1]].map((node) => Number((axis.scale === 'log' ? Math.exp(node) : node).toPrecision(12)));
  const given = readNumber(spec.value);
  const middle = axis.scale === 'log' ? Math.sqrt(low * high) : (low + high) / 2;
  return [{ ...spec, low, high, scale: axis.scale, domain: `${short(low)} to ${short(high)}`, value: given >= low && given <= high ? spec.value : short(middle, 3) }];
}

function fixedLines() {
  const free = new Set(page.controls.map((item) => item.name));
  const others = page.model.controls.filter((spec) => !free.has(spec.name));
  return others.map((spec) => make('p', { class: 'note' }, math(spec.label), spec.kind === 'law' ? ' ~ ' : ' = ', config.begin.settings?.[spec.name] ?? spec.value));
}

function buildOptions() {
  const rows = [];
  page.options = {};
  const add = (name, label, element, first) => {
    element.dataset.first = first;
    element.id = `option-${name}`;
    page.options[name] = element;
    rows.push(make('div', { class: 'control' }, make('div', { class: 'row' }, make('label', { for: element.id }, label), element)));
  };
  const text = () => make('input', { type: 'text', oninput: () => typed(null) });
  const box = () => make('input', { type: 'checkbox', onchange: () => { draw(); settled(); } });
  if (page.model.timed) {
    if (LIVE) add('t_max', 'last time', text(), String(config.begin.t_max ?? 10));
  } else {
    const movable = page.controls.filter((item) => item.slider).sort((a, b) => Number(a.spec.whole) - Number(b.spec.whole));
    const choice = make('select', { onchange: () => { page.answer = null; moved(null); } }, ...movable.map((item) => make('option', { value: item.name }, item.name)));
    add('over', 'drawn over', choice, movable[0]?.name ?? '');
  }
  if (LIVE) add('rtol', 'relative tolerance', text(), String(config.begin.rtol ?? 0.001));
  add('logx', page.model.timed ? 'logarithmic time' : 'logarithmic axis', box(), page.model.timed || page.controls.find((item) => item.slider && !item.spec.whole)?.spec.scale === 'log' ? '1' : '0');
  add('logy', 'logarithmic values', box(), '0');
  $('options').replaceChildren(...rows);
}

// --- what is asked, and when -----------------------------------------------------------------------------------------
let timer = null;

function moved() { changed(REST.slider, true); }

function typed() { changed(REST.typing, false); }

function changed(wait, atOnce) {
  page.version += 1;
  page.points = null;
  page.rest = null;
  $('verdict').textContent = '';
  writeRecipe();
  clearTimeout(timer);
  if (!LIVE) { show(inside(), 'inside'); settled(); return; }
  if (page.answer) draw();
  $('picture').classList.add('stale');
  timer = setTimeout(() => { timer = null; settled(); refine(); }, wait);
  if (atOnce && page.busy !== 'coarse') coarse();
}

function settled() { writeAddress(); writeRecipe(); }

function request(coarsely) {
  const rtol = coarsely ? String(Math.max(COARSE.rtol, readNumber(option('rtol')) || 0)) : option('rtol');
  const asked = { settings: settings(), rtol };
  if (page.model.timed) return { ...asked, t_max: option('t_max') };
  return { ...asked, over: over(coarsely ? COARSE.count : FINE_COUNT) };
}

function over(count) {
  const found = page.controls.find((item) => item.name === option('over'));
  if (!found) return {};
  const { low, high, scale, whole } = found.spec;
  return { [found.name]: whole ? `${low}:${high}:${high - low + 1}` : `${low}:${high}:${count}:${scale}` };
}

async function coarse() {
  if (readNumber(option('rtol')) >= COARSE.rtol) return;
  const version = page.version;
  const answer = await solve(request(true), 'coarse');
  if (answer.cancelled) return;
  if (version !== page.version) { show(answer, 'coarse', true); coarse(); return; }
  show(answer, 'coarse');
  if (timer === null) refine();
}

async function refine() {
  if (page.busy === 'coarse') return; // it goes on by itself
  const version = page.version;
  const answer = await solve(request(false), 'fine');
  if (answer.cancelled || version !== page.version) return;
  show(answer, 'fine');
  if (page.model.related === null) await findNeighbours();
  if (page.tab === 'rest') findRest();
}

async function solve(asked, how) {
  busy(how, how === 'coarse' ? 'a first look …' : 'refining …');
  const answer = await ask('solve', asked, reported);
  if (page.busy === how) busy(null);
  if (answer.stamp !== undefined && answer.stamp !== page.model.stamp) reload();
  return answer;
}

function busy(how, words) {
  page.busy = how;
  $('stop').hidden = how === null;
  $('progress').hidden = how === null;
  if (how !== null) { $('status').textContent = words; $('progress').removeAttribute('value'); }
}

function reported({ done, total, text }) {
  if (page.busy === null) return;
  if (total > 0 && done > 0) $('progress').value = Math.min(1, done / total);
  if (text) $('progress').title = text;
}

async function stop() {
  clearTimeout(timer);
  timer = null;
  page.version += 1;
  await fetch('/api/cancel', { method: 'POST', body: body({}) }).catch(() => null);
  busy(null);
  $('status').textContent = 'stopped';
}

function inside() {
  if (page.model.timed) return interpolate(config.data, settings());
  const here = interpolate(config.data, settings());
  const found = page.controls.find((item) => item.name === option('over'));
  if (here.error || !found) return here;
  const { low, high, scale } = found.spec;
  const xs = Array.from({ length: 81 }, (_, k) => (scale === 'log' ? low * (high / low) ** (k / 80) : low + ((high - low) * k) / 80));
  const rows = xs.map((x) => interpolate(config.data, { ...settings(), [found.name]: String(x) }));
  const names = Object.keys(here.values);
  const table = (key) => Object.fromEntries(names.map((name) => [name, rows.map((row) => row[key]?.[name] ?? null)]));
  return { ...here, x: found.name, t: xs, values: table('values'), errors: table('errors'), point: here };
}

// --- what is shown ---------------------------------------------------------------------------------------------------
function show(answer, how, passing = false) {
  complain(answer.error);
  if (answer.error) { $('status').textContent = 'not solved'; return; }
  page.answer = { ...answer, how, settings: settings() };
  if (!passing) $('picture').classList.remove('stale');
  const names = Object.keys(answer.values);
  if (!page.shown || !page.shown.some((name) => names.includes(name))) page.shown = names.slice(0, 2);
  $('status').textContent = statusText(answer, how);
  nameBoxes(names);
  draw();
  if (!passing) writeRecipe();
}

function statusText(answer, how) {
  const unsolved = answer.status !== 'ok' ? ` — ${answer.status}: ${answer.message}` : '';
  if (how === 'inside') return `interpolated between the points of a sweep${unsolved}`;
  const took = typeof answer.seconds === 'number' ? ` in ${short(answer.seconds, 2)} s` : '';
  const solver = answer.solver ? `, by ${answer.solver}` : '';
  return `${how === 'coarse' ? 'a first look' : 'refined'}: relative tolerance ${answer.rtol}${solver}${took}${unsolved}`;
}

function complain(error) {
  $('message').hidden = !error;
  $('message').textContent = error ? error.problems.join('\n') : '';
  const text = error ? error.problems.join('\n') : '';
  for (const item of page.controls) {
    const bad = new RegExp(`\`${item.name}\``).test(text);
    item.element.classList.toggle('bad', bad);
    item.box.setAttribute('aria-invalid', String(bad));
  }
}

function nameBoxes(names) {
  $('names').replaceChildren(...names.map((name, k) => {
    const box = make('input', { type: 'checkbox', 'data-show': name, onchange: () => { page.shown = names.filter((other) => (other === name ? box.checked : page.shown.includes(other))); draw(); settled(); } });
    box.checked = page.shown.includes(name);
    const swatch = make('span', { class: 'swatch' });
    swatch.style.background = COLOURS[k % COLOURS.length];
    return make('label', {}, box, swatch, nameElement(name));
  }));
}

const isDark = matchMedia('(prefers-color-scheme: dark)');
const theme = () => ((document.documentElement.dataset.theme ?? (isDark.matches ? 'dark' : 'light')) === 'dark' ? DARK : LIGHT);

function chart(theme, width, height) {
  const { answer, points } = page;
  const names = Object.keys(answer.values);
  const kept = names.filter((name) => page.shown.includes(name));
  const colour = (name) => COLOURS[names.indexOf(name) % COLOURS.length];
  const series = kept.map((name) => ({ name, colour: colour(name), x: answer.t, y: answer.values[name], e: answer.errors[name], dashed: answer.how === 'coarse' }));
  const dots = kept.filter((name) => points?.values[name]).map((name) => ({ name, colour: colour(name), x: points.t ?? [here()], y: points.values[name], e: points.errors[name] }));
  const logX = option('logx') && Math.min(...answer.t) >= 0;
  return drawChart({ series, points: dots, xName: answer.x, logX, logY: option('logy'), width, height, theme, mark: page.model.timed ? null : here() });
}

// Where the sliders stand on the axis of a model without time.
const here = () => readNumber(page.controls.find((item) => item.name === page.answer.x)?.text ?? '');

function draw() {
  const answer = page.answer;
  if (!answer) return;
  if (answer.x === null) { $('picture').replaceChildren($('tip')); readout(); return; }
  const width = Math.max(320, Math.round($('picture').clientWidth));
  const made = chart(theme(), width, Math.round(Math.min(460, Math.max(300, width * 0.52))));
  $('picture').replaceChildren(made.root, $('tip'));
  made.root.addEventListener('pointermove', (event) => {
    const box = made.root.getBoundingClientRect();
    point(made, ((event.clientX - box.left) / box.width) * width, event.clientX - box.left, event.clientY - box.top);
  });
  made.root.addEventListener('pointerleave', () => { $('tip').hidden = true; page.cursor = null; readout(); });
  readout();
}

function point(made, pixel, left, top) {
  const value = made.value(pixel);
  const { t } = page.answer;
  let best = 0;
  t.forEach((moment, k) => { if (Math.abs(made.place(moment) - made.place(value)) < Math.abs(made.place(t[best]) - made.place(value))) best = k; });
  page.cursor = best;
  readout();
  const names = Object.keys(page.answer.values).filter((name) => page.shown.includes(name));
  $('tip').replaceChildren(make('div', {}, nameElement(page.answer.x), ` = ${short(t[best])}`), ...names.map((name) => make('div', {}, nameElement(name), ` = ${withError(page.answer.values[name][best], page.answer.errors[name][best])}`)));
  $('tip').hidden = false;
  const flip = left > $('picture').clientWidth / 2;
  $('tip').style.left = flip ? '' : `${left + 14}px`;
  $('tip').style.right = flip ? `${$('picture').clientWidth - left + 14}px` : '';
  $('tip').style.top = `${Math.max(0, top - 20)}px`;
}

// Numbers with errors: under the pointer, else at the last time, or at the settings themselves.
function readout() {
  const { answer } = page;
  const timeless = answer.x === null ? answer : answer.point;
  if (timeless?.error) { $('readout').replaceChildren(make('caption', {}, timeless.error)); return; }
  const place = page.cursor ?? answer.t?.length - 1;
  const atCursor = answer.x !== null && (page.model.timed || page.cursor !== null);
  const names = Object.keys(atCursor ? answer.values : timeless.values);
  const value = (name) => (atCursor ? answer.values[name][place] : timeless.values[name]);
  const error = (name) => (atCursor ? answer.errors[name][place] : timeless.errors[name]);
  const where = atCursor ? [nameElement(answer.x), ` = ${short(answer.t[place])}`] : ['at these settings'];
  const chosen = names.filter((name) => !page.model.timed || page.shown.includes(name));
  $('readout').replaceChildren(make('tr', {}, make('th', {}, ...where), ...chosen.map((name) => make('th', {}, nameElement(name)))), make('tr', {}, make('td', {}), ...chosen.map((name) => make('td', { 'data-value': name }, withError(value(name), error(name))))));
}

// --- fixed point and rate --------------------------------------------------------------------------------------------
async function findNeighbours() {
  const answer = await ask('neighbours', {});
  if (answer.cancelled) return;
  page.model.related = answer.related ?? [];
  $('tabs').hidden = !page.model.related.length;
  $('tab-rest').textContent = related();
  if (!page.model.related.length && page.tab === 'rest') openTab('curves');
}

async function findRest() {
  if (page.rest || !page.model.related?.length) { drawRest(); return; }
  const version = page.version;
  busy('rest', 'fixed point and rate …');
  const answer = await ask('related', { settings: settings(), rtol: option('rtol') }, reported);
  if (page.busy === 'rest') busy(null);
  if (answer.cancelled || version !== page.version) return;
  complain(answer.error);
  if (answer.error) { $('status').textContent = 'not solved'; return; }
  page.rest = answer.related;
  $('status').textContent = 'fixed point and rate at these settings';
  drawRest();
}

function drawRest() {
  $('rest').replaceChildren(...(page.rest ?? (page.model.related ?? []).map((item) => ({ ...item, error: '…' }))).map((item) => {
    const head = make('h2', {}, item.name, ' ', make('small', {}, item.message && item.status === 'ok' ? `${item.kind}, ${item.message}` : item.kind));
    if (item.error) return make('div', { class: 'rest', 'data-related': item.name }, head, make('p', { class: 'away' }, item.error));
    const names = Object.keys(item.values);
    const rows = names.map((name) => make('tr', {}, make('th', {}, nameElement(name)), make('td', { 'data-value': name }, withError(item.values[name], item.errors[name]))));
    const model = page.model.related.find((other) => other.name === item.name);
    const equations = make('details', {}, make('summary', {}, 'Equations'), make('div', { class: 'scroll' }, make('table', { class: "lines" }, ...model.equations.map(line))));
    const status = item.status === 'ok' ? null : make('p', { class: 'away' }, `${item.status}: ${item.message}`);
    return make('div', { class: 'rest', 'data-related': item.name }, head, status, make('table', {}, ...rows), equations);
  }));
}

function openTab(name) {
  page.tab = name;
  for (const other of ['curves', 'rest']) {
    $(other).hidden = other !== name;
    $(`tab-${other}`).setAttribute('aria-selected', String(other === name));
  }
  if (name === 'rest') { drawRest(); if (page.busy === null && timer === null) findRest(); } else draw();
  settled();
}

// --- finite size -----------------------------------------------------------------------------------------------------
async function runFinite() {
  const version = page.version;
  busy('finite', 'runs at finite size …');
  $('verdict').textContent = '';
  const asked = { settings: settings(), rtol: option('rtol'), d: $('d').value, seeds: $('seeds').value };
  const answer = await ask('finite', page.model.timed ? { ...asked, t_max: option('t_max') } : asked, reported);
  if (page.busy === 'finite') busy(null);
  if (answer.cancelled || version !== page.version) return;
  complain(answer.error);
  if (answer.error) { $('status').textContent = 'no runs at finite size'; return; }
  page.points = answer;
  const largest = Math.max(...Object.values(answer.z).flat().map((z) => Math.abs(z ?? 0)));
  $('verdict').textContent = [`theory and ${answer.seeds} draws at d = ${answer.d}, n = ${answer.n}: ${answer.verdict} (largest |z| ${short(largest, 2)})`, ...answer.notes].join('\n');
  $('status').textContent = page.answer ? statusText(page.answer, page.answer.how) : '';
  draw();
}

// --- beginning -------------------------------------------------------------------------------------------------------
async function reload() {
  const model = await ask('describe', {});
  if (model.cancelled) return;
  complain(model.error);
  if (model.error) { $('status').textContent = 'the model cannot be loaded'; $('picture').classList.add('stale'); page.broken = true; return; }
  if (page.model && model.stamp === page.model.stamp && !page.broken) return;
  page.broken = false;
  page.answer = null;
  build(model);
  begin();
}

function begin() {
  openTab(page.tab);
  writeRecipe();
  moved();
}

function connect() {
  $('stop').addEventListener('click', stop);
  $('run-finite').addEventListener('click', runFinite);
  $('png').addEventListener('click', () => page.answer?.x && toPng(chart(LIGHT, 900, 480).root, 2, (blob) => download(`${page.model.name}.png`, blob)));
  $('csv').addEventListener('click', () => page.answer && download(`${page.model.name}.csv`, new Blob([`${csv()}\n`], { type: 'text/csv' })));
  $('netcdf').addEventListener('click', netcdf);
  $('link').addEventListener('click', (event) => { settled(); copy(location.href, event.target); });
  $('reset').addEventListener('click', () => { history.replaceState(null, '', '#'); readAddress(); begin(); });
  for (const button of document.querySelectorAll('[data-copy]')) button.addEventListener('click', () => copy($(button.dataset.copy).textContent, button));
  for (const name of ['curves', 'rest']) $(`tab-${name}`).addEventListener('click', () => openTab(name));
  $('controls').addEventListener('submit', (event) => event.preventDefault());
  addEventListener('hashchange', () => { if (page.model) { readAddress(); begin(); } });
  addEventListener('resize', draw);
  isDark.addEventListener('change', draw);
  addEventListener('message', ({ data }) => { // from a page that shows this one inside it
    if (data?.theme !== 'light' && data?.theme !== 'dark') return;
    document.documentElement.dataset.theme = data.theme;
    draw();
  });
  if (LIVE) {
    addEventListener('pagehide', () => navigator.sendBeacon('/api/close', body({})));
    addEventListener('focus', () => { if (page.busy === null) reload(); });
  }
}

connect();
if (LIVE) reload();
else { build(config.model); begin(); }

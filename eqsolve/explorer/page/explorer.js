// The page: settings on the left, what is known on the right. Whatever is shown carries the question that it answers; where that is
// not the question which the settings put, it is faded and says whose it is. One job at a time: `next` says which is due.
const config = JSON.parse($('config').textContent);
const LIVE = config.mode === 'live';
const COARSE = { rtol: 0.05, count: 9 }; // at once; finer when the hand rests
const FINE_COUNT = 49;
const page = {
  session: crypto.randomUUID?.() ?? String(Math.random()), model: null, controls: [], options: {}, shown: null, tab: 'curves', cursor: null,
  answer: null, rest: null, map: null, runs: new Map(), failures: {}, // what is known, each with its question in `asked`
  job: null, queue: [], stopped: {}, doubted: LIVE, hasty: false, restsAt: 0, // what is under way, and what decides on the next
  pause: { slider: 350, typing: 700 }, // milliseconds without a change
};
window.explorer = page;
addEventListener('pointerdown', ({ target }) => { page.held = target.type === 'range'; });
addEventListener('pointerup', () => {
  page.held = false;
  if (page.later !== undefined) { scaleTime(page.later); draw(); }
});

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
    element.dataset.chosen = words.has(`.${name}`) ? '1' : '';
  }
  page.shown = words.get('.show')?.split(',').filter(Boolean) ?? null;
  page.tab = ['rest', 'phases'].includes(words.get('.tab')) ? words.get('.tab') : 'curves';
}

// --- building the page -----------------------------------------------------------------------------------------------
function build(model) {
  page.model = { related: null, ...model };
  $('tabs').hidden = true;
  document.body.classList.remove('starting');
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
  buildPhases();
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
  return others.map((spec) => make('p', { class: 'note' }, math(spec.label), spec.kind === 'law' ? ' ~ ' : ' = ', config.begin.settings?.[spec.name] ?? spec.value, ' ', meaning(spec)));
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
  const box = () => make('input', { type: 'checkbox', onchange: ({ target }) => { target.dataset.chosen = '1'; draw(); settled(); } });
  if (page.model.timed) {
    if (LIVE) add('t_max', 'last time', text(), String(config.begin.t_max ?? 10));
  } else {
    const movable = page.controls.filter((item) => item.slider).sort((a, b) => Number(a.spec.whole) - Number(b.spec.whole));
    const choice = make('select', { onchange: moved }, ...movable.map((item) => make('option', { value: item.name }, item.name)));
    add('over', 'drawn over', choice, movable[0]?.name ?? '');
  }
  if (LIVE) add('rtol', 'relative tolerance', text(), String(config.begin.rtol ?? 0.001));
  add('logx', page.model.timed ? 'logarithmic time' : 'logarithmic axis', box(), page.model.timed || page.controls.find((item) => item.slider && !item.spec.whole)?.spec.scale === 'log' ? '1' : '0');
  add('logy', 'logarithmic values', box(), '0');
  for (const index of LIVE ? page.model.indices : []) add(`index-${index}`, `members ${index} drawn`, make('input', { type: 'text', placeholder: 'some', title: 'numbers from 0 on, and ranges: 0, 17, 40-45', oninput: () => { choose(index); draw(); settled(); } }), '');
  $('options').replaceChildren(...rows);
}

// --- what is asked, and when -----------------------------------------------------------------------------------------
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// What the settings ask for; results are kept beside it.
function question() {
  const asked = { settings: settings(), stamp: page.model.stamp, rtol: LIVE ? option('rtol') : null };
  return page.model.timed ? { ...asked, t_max: LIVE ? option('t_max') : null } : { ...asked, over: over(FINE_COUNT) };
}

const coarsely = (asked) => ({ ...asked, rtol: String(Math.max(COARSE.rtol, readNumber(asked.rtol) || 0)), over: page.model.timed ? undefined : over(COARSE.count) });

// Runs at finite size do not depend on what a curve is drawn over.
const runKey = (asked) => JSON.stringify({ ...asked, over: null });

const fits = (known) => Boolean(known) && same(known.asked, question());

function over(count) {
  const found = page.controls.find((item) => item.name === option('over'));
  if (!found) return {};
  const { low, high, scale, whole } = found.spec;
  return { [found.name]: whole ? `${low}:${high}:${high - low + 1}` : `${low}:${high}:${count}:${scale}` };
}

function moved() { changed(page.pause.slider, true); }

function typed() { changed(page.pause.typing, false); }

function changed(wait, hasty) {
  if (!LIVE) { take({ kind: 'inside', asked: question() }, inside()); settled(); draw(); return; }
  page.hasty = hasty;
  page.restsAt = performance.now() + wait;
  page.stopped = {};
  writeRecipe();
  draw();
  proceed();
}

function settled() { writeAddress(); writeRecipe(); }

// The job that is due: a solve before all else, then what else belongs to the settings, then what was ordered, in turn.
function next() {
  if (page.doubted) return { kind: 'describe' };
  if (!page.model || page.broken) return null;
  const asked = question();
  const failed = (kind) => fits(page.failures[kind]);
  if (!same(page.stopped.solve, asked)) {
    const isNew = !fits(page.answer) && !failed('coarse') && !failed('fine');
    if (page.hasty && isNew && !(readNumber(asked.rtol) >= COARSE.rtol)) return { kind: 'coarse', asked };
    if (performance.now() < page.restsAt) return null;
    if (!(fits(page.answer) && page.answer.kind === 'fine') && !failed('fine')) return { kind: 'fine', asked };
  }
  if (performance.now() < page.restsAt) return null;
  if (!same(page.stopped.related, asked)) {
    if (page.model.related === null) return { kind: 'neighbours' };
    if (page.tab === 'rest' && page.model.related.length && !fits(page.rest) && !failed('related')) return { kind: 'related', asked };
  }
  return page.queue[0] ?? null;
}

// Whether the job under way is no longer the one to do: it is left, and done again when its turn comes, if it still has one.
function isOvertaken({ kind, asked }) {
  if (kind === 'describe') return false;
  if (kind === 'coarse') return !same(asked, question()) && performance.now() >= page.restsAt; // while a slider moves, each look is shown
  if (kind === 'fine' || kind === 'related') return !same(asked, question());
  const due = next();
  return due !== null && due.kind !== kind && due !== page.queue[0];
}

let timer = null;
let leaving = null;

// Called after every change of anything: begins the job that is due, or leaves the one that is not, and shows how things stand.
async function proceed() {
  clearTimeout(timer);
  const wait = page.restsAt - performance.now();
  if (wait > 0) timer = setTimeout(proceed, wait + 1);
  if (page.job) {
    if (!leaving && isOvertaken(page.job)) leave();
    tell();
    return;
  }
  if (page.model && wait <= 0) settled();
  page.job = next();
  tell();
  if (!page.job) return;
  const { job } = page;
  $('progress').removeAttribute('value');
  const answer = await PERFORM[job.kind](job);
  if (answer.cancelled && !leaving) leaving = new Promise((done) => { setTimeout(done, 200); }); // not by this page: again, in a moment
  await leaving;
  leaving = page.job = null;
  if (!answer.cancelled) take(job, answer);
  proceed();
}

function leave() { leaving = fetch('/api/cancel', { method: 'POST', body: body({}) }).catch(() => null); }

const PERFORM = {
  describe: () => ask('describe', {}),
  coarse: ({ asked }) => ask('solve', coarsely(asked), reported),
  fine: ({ asked }) => ask('solve', asked, reported),
  neighbours: () => ask('neighbours', {}, reported),
  related: ({ asked }) => ask('related', asked, reported),
  finite: ({ asked, d, seeds }) => ask('finite', { ...asked, d, seeds }, reported),
  phases: ({ asked }) => ask('phases', asked, reported),
  save: ({ asked }) => saved(asked),
};

const REFUSALS = ['ParameterError', 'UsageError']; // of settings, before anything is solved
const WORDS = { describe: 'reading the model …', coarse: 'a first look …', fine: 'refining …', neighbours: 'looking for fixed points and rates …', related: 'fixed point and rate …', finite: 'runs at finite size …', phases: 'a map over two parameters …', save: 'writing a file …' };

function reported({ done, total, text }) {
  if (total > 0 && done > 0) $('progress').value = Math.min(1, done / total);
  if (text) $('progress').title = text;
}

// Keep what a job found, beside the question it answers: that of the file as it was when it was read.
function take(job, answer) {
  const asked = job.asked && answer.stamp !== undefined ? { ...job.asked, stamp: answer.stamp } : job.asked;
  if (answer.stamp !== undefined && job.kind !== 'describe' && answer.stamp !== page.model.stamp) page.doubted = true;
  if (page.queue[0] === job) page.queue.shift();
  if (job.kind === 'describe') return described(answer);
  if (job.kind === 'neighbours') return neighbours(answer);
  if (job.kind === 'save') return answer.blob ? download(`${page.model.name}.nc`, answer.blob) : fail(job.kind, asked, answer.error);
  if (job.kind === 'finite') {
    page.runs.set(runKey(asked), { ...answer, asked, d: answer.d ?? job.d, seeds: answer.seeds ?? job.seeds });
    return draw();
  }
  if (job.kind === 'phases') { page.map = { ...answer, asked }; return drawPhases(); }
  if (answer.error) return fail(job.kind, asked, answer.error);
  if (job.kind === 'related') { page.rest = { asked, found: answer.related }; return drawRest(); }
  if (fits(page.answer) && !same(asked, question())) return undefined; // a passing look does not take the place of what is right
  page.answer = { ...answer, kind: job.kind, asked };
  scaleTime(answer.log ?? (page.model.timed ? config.data?.log : undefined));
  if (fits(page.answer)) page.failures = {};
  return draw();
}

// Time is logarithmic where change comes early and over decades, unless the reader or the address has decided.
function scaleTime(log) {
  const box = page.options.logx;
  if (log === undefined || box.dataset.chosen) return;
  page.later = page.held ? log : undefined; // a slider that is held keeps the axis
  if (page.held) return;
  box.checked = log;
  box.dataset.first = String(Number(log));
}

function fail(kind, asked, error) { page.failures[kind] = { asked, error }; tell(); }

function stop() {
  const { job } = page;
  page.queue = [];
  page.restsAt = 0;
  if (page.model) page.stopped = { ...page.stopped, [job?.kind === 'related' || job?.kind === 'neighbours' ? 'related' : 'solve']: question() };
  if (job && !leaving) leave();
  proceed();
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
// How things stand, in words: of what is shown, what belongs to the settings and what does not.
function tell() {
  const { job, answer } = page;
  $('stop').hidden = job === null;
  $('progress').hidden = job === null;
  if (!page.model || page.broken) {
    $('status').textContent = page.broken ? 'the model cannot be loaded' : 'starting …';
    complain(page.failures.describe?.error);
    $('curves').classList.add('stale');
    return;
  }
  const right = fits(answer);
  const [kind, failure] = Object.entries(page.failures).find(([, item]) => fits(item)) ?? [];
  const later = page.queue.filter((item) => item !== job).map((item) => `; then ${WORDS[item.kind].replace(' …', '')}`).join('');
  const stopped = (same(page.stopped.solve, question()) && !(right && answer.kind === 'fine')) || same(page.stopped.related, question());
  const words = [stopped ? 'stopped' : '', failure ? (kind === 'save' ? 'no file was written' : 'not solved') : '', right ? statusText(answer) : ''].filter(Boolean);
  const said = page.tab === 'rest' && right && !failure && !stopped ? '' : words.join('; ') || 'waiting …'; // the curve's is not theirs
  $('status').textContent = job ? WORDS[job.kind] + later : said;
  const away = right ? answer.point?.error : undefined; // of the settings themselves, where a curve runs past them
  complain(failure?.error ?? (away && { problems: [away] }));
  belong($('curves'), $('whose'), answer, right);
  belong($('rest'), $('whose-rest'), page.rest, fits(page.rest));
  if (page.tab === 'phases') drawPhases();
  for (const button of ['png', 'csv', ...(LIVE ? ['netcdf'] : [])]) $(button).disabled = !right;
  const unread = kind === 'inside' && failure.error.problems.join().includes('cannot read');
  const refused = unread || (['coarse', 'fine'].includes(kind) && REFUSALS.includes(failure.error.kind)); // code that would fail is not offered
  $('recipe').classList.toggle('stale', refused);
  for (const button of document.querySelectorAll('[data-copy]')) button.disabled = refused;
  verdict();
}

function belong(section, label, known, right) {
  section.classList.toggle('stale', !right);
  label.hidden = right || known === null;
  label.textContent = label.hidden ? '' : `Not of these settings: solved for ${difference(known.asked)}`;
}

// In what a question differs from the one that the settings put.
function difference(asked) {
  const flat = ({ settings: texts, t_max: last, over: axis, rtol }) => ({ ...texts, ...(last ? { 'last time': last } : {}), ...(axis ? { 'drawn over': Object.keys(axis).join() } : {}), ...(rtol ? { 'relative tolerance': rtol } : {}) });
  const [then, now] = [flat(asked), flat(question())];
  const words = Object.keys({ ...then, ...now }).filter((name) => then[name] !== now[name]).map((name) => `${name} = ${then[name] ?? 'as declared'}`);
  return [...words, ...(asked.stamp === page.model.stamp ? [] : ['the file as it was before'])].join(', ');
}

function statusText(answer) {
  const unsolved = answer.status !== 'ok' ? ` — ${answer.status}: ${answer.message}` : '';
  if (answer.kind === 'inside') return `interpolated between the points of a sweep${unsolved}${config.advice ? `; ${config.advice}` : ''}`;
  const took = typeof answer.seconds === 'number' ? ` in ${short(answer.seconds, 2)} s` : '';
  const solver = answer.solver ? `, by ${answer.solver}` : '';
  return `${answer.kind === 'coarse' ? 'a first look' : 'refined'}: relative tolerance ${answer.rtol}${solver}${took}${unsolved}`;
}

function complain(error) {
  const text = error ? error.problems.join('\n') : '';
  $('message').hidden = !error;
  $('message').textContent = text;
  for (const item of page.controls) {
    const bad = new RegExp(`\`${item.name}\``).test(text);
    item.element.classList.toggle('bad', bad);
    item.box.setAttribute('aria-invalid', String(bad));
  }
}

// The numbers below a size in a text such as "0, 17, 40-45"; null where there are none, or anything else.
function numbersIn(text, size) {
  const parts = text.split(',').filter((part) => part.trim());
  const ranges = parts.map((part) => part.match(/^\s*(\d+)\s*(?:[-–]\s*(\d+)\s*)?$/));
  if (!ranges.every(Boolean)) return null;
  const holds = (k) => ranges.some(([, first, last]) => k >= Number(first) && k <= Number(last ?? first));
  const found = [...Array(size).keys()].filter(holds);
  return found.length ? new Set(found) : null;
}

// What there is to draw: of families the members chosen by their indices, some where none are.
function available(values = page.answer.values) {
  const { families = {}, shown } = page.answer;
  const away = new Set();
  for (const [family, axes] of Object.entries(families)) {
    const wanted = Object.entries(axes).map(([index, size]) => {
      const box = page.options[`index-${index}`];
      const numbers = box ? numbersIn(box.value, size) : null;
      box?.setAttribute('aria-invalid', String(numbers === null && box.value.trim() !== ''));
      if (box) box.placeholder = `some of 0 … ${size - 1}`;
      return numbers;
    });
    const chosen = wanted.some((numbers) => numbers !== null);
    const keeps = (name, place) => (chosen ? place.every((k, axis) => wanted[axis]?.has(k) ?? true) : shown.includes(name));
    for (const [name, place] of members(family, axes)) if (!keeps(name, place)) away.add(name);
  }
  return Object.keys(values).filter((name) => !away.has(name));
}

// The members of a family by name, phi_0 …, with their places.
const members = (family, axes) => Object.values(axes).reduce((rows, size) => rows.flatMap(([name, place]) => [...Array(size).keys()].map((k) => [`${name}_${k}`, [...place, k]])), [[family, []]]);

// Members that are chosen are drawn, of families that are drawn already, else of all with this index.
function choose(index) {
  if (!page.answer) return;
  const families = Object.entries(page.answer.families ?? {}).filter(([, axes]) => index in axes);
  const own = families.map(([family, axes]) => members(family, axes).map(([name]) => name));
  const drawn = own.filter((names) => names.some((name) => page.shown?.includes(name)));
  const others = (page.shown ?? []).filter((name) => !own.flat().includes(name));
  const chosen = (drawn.length ? drawn : own).flat();
  page.shown = [...others, ...available().filter((name) => chosen.includes(name))];
}

function nameBoxes(names) {
  if ($('names').dataset.names === names.join()) { // kept, so that the keyboard stays where it is
    for (const box of $('names').querySelectorAll('input')) box.checked = page.shown.includes(box.dataset.show);
    return;
  }
  $('names').dataset.names = names.join();
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
  const { answer } = page;
  const points = page.runs.get(runKey(answer.asked)); // those of the settings that the curve is of
  const names = available();
  const kept = names.filter((name) => page.shown.includes(name));
  const colour = (name) => COLOURS[names.indexOf(name) % COLOURS.length];
  const series = kept.map((name) => ({ name, colour: colour(name), x: answer.t, y: answer.values[name], e: answer.errors[name], dashed: answer.kind === 'coarse' }));
  const dots = kept.filter((name) => points?.values?.[name]).map((name) => ({ name, colour: colour(name), x: points.t ?? [here()], y: points.values[name], e: points.errors[name] }));
  const logX = option('logx') && Math.min(...answer.t) >= 0;
  return drawChart({ series, points: dots, xName: answer.x, logX, logY: option('logy'), width, height, theme, mark: page.model.timed ? null : here() });
}

// Where the settings of the picture stand on its axis, of a model without time.
const here = () => readNumber(page.answer.asked.settings[page.answer.x] ?? '');

function draw() {
  const answer = page.answer;
  tell();
  if (!answer) return;
  const names = available();
  if (!page.shown?.some((name) => names.includes(name))) page.shown = names.slice(0, 2);
  nameBoxes(names);
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
  const names = available().filter((name) => page.shown.includes(name));
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
  if (timeless?.error) { $('readout').replaceChildren(); return; }
  const place = page.cursor ?? answer.t?.length - 1;
  const atCursor = answer.x !== null && (page.model.timed || page.cursor !== null);
  const names = available((atCursor ? answer : timeless).values);
  const value = (name) => (atCursor ? answer.values[name][place] : timeless.values[name]);
  const error = (name) => (atCursor ? answer.errors[name][place] : timeless.errors[name]);
  const where = atCursor ? [nameElement(answer.x), ` = ${short(answer.t[place])}`] : ['at these settings'];
  const chosen = names.filter((name) => !page.model.timed || page.shown.includes(name));
  $('readout').replaceChildren(make('tr', {}, make('th', {}, ...where), ...chosen.map((name) => make('th', {}, nameElement(name)))), make('tr', {}, make('td', {}), ...chosen.map((name) => make('td', { 'data-value': name }, withError(value(name), error(name))))));
}

// --- fixed point and rate --------------------------------------------------------------------------------------------
function neighbours(answer) {
  page.model.related = answer.related ?? [];
  const there = { curves: true, rest: page.model.related.length > 0, phases: Boolean(answer.phases) && mappable().length > 1 };
  for (const name of TABS) $(`tab-${name}`).hidden = !there[name];
  $('tabs').hidden = !there.rest && !there.phases;
  $('tab-rest').textContent = related();
  if (!there[page.tab]) openTab('curves');
}

function drawRest() {
  $('rest').replaceChildren($('rest').querySelector('.note'), $('whose-rest'), ...(page.rest?.found ?? (page.model.related ?? []).map((item) => ({ ...item, error: '…' }))).map((item) => {
    const head = make('h2', {}, item.name, ' ', make('small', {}, item.message && item.status === 'ok' ? `${item.kind}, ${item.message}` : item.kind));
    if (item.error) return make('div', { class: 'rest', 'data-related': item.name }, head, make('p', { class: 'away' }, item.error));
    const names = Object.keys(item.values);
    const model = page.model.related.find((other) => other.name === item.name);
    const rows = names.map((name) => make('tr', {}, make('th', {}, nameElement(name, model.labels)), make('td', { 'data-value': name }, withError(item.values[name], item.errors[name]))));
    const equations = make('details', {}, make('summary', {}, 'Equations'), make('div', { class: 'scroll' }, make('table', { class: "lines" }, ...model.equations.map(line))));
    const status = item.status === 'ok' ? null : make('p', { class: 'away' }, `${item.status}: ${item.message}`);
    return make('div', { class: 'rest', 'data-related': item.name }, head, status, make('table', {}, ...rows), equations);
  }));
}

const TABS = ['curves', 'rest', 'phases'];

function openTab(name) {
  page.tab = name;
  for (const other of TABS) {
    $(other).hidden = other !== name;
    $(`tab-${other}`).setAttribute('aria-selected', String(other === name));
  }
  $('recipe').hidden = name !== 'curves'; // it is that of the curves
  delete page.stopped.related;
  if (name === 'rest') drawRest();
  draw();
  settled();
  if (LIVE) proceed();
}

// --- finite size -----------------------------------------------------------------------------------------------------
function order(job) {
  if (!page.queue.some((item) => same(item, job))) page.queue.push(job);
  proceed();
}

const runFinite = () => order({ kind: 'finite', asked: question(), d: $('d').value, seeds: $('seeds').value });

// What the runs say: those of the settings, else the last ones, with the settings they are of; and those that are still to come.
function verdict() {
  const found = page.runs.get(runKey(question()));
  const shown = found ?? [...page.runs.values()].at(-1);
  const about = (item) => `${item.seeds} draws at d = ${item.d}${runKey(item.asked) === runKey(question()) ? '' : `, for ${difference({ ...item.asked, over: question().over })}`}`;
  const lines = page.queue.filter((item) => item.kind === 'finite').map((item) => make('span', { class: 'coming' }, `${about(item)}: ${item === page.job ? 'under way' : 'waiting'}`));
  if (shown) {
    const largest = Math.max(...Object.values(shown.z ?? {}).flat().map((z) => Math.abs(z ?? 0)));
    const words = shown.error ? `no runs: ${shown.error.problems.join('\n')}` : `n = ${shown.n}; theory and runs: ${shown.verdict} (largest |z| ${short(largest, 2)})`;
    lines.push(make('span', { class: found ? 'found' : 'found stale' }, [`${about(shown)}: ${words}`, ...(shown.notes ?? [])].join('\n')));
  }
  $('verdict').replaceChildren(...lines);
}

// --- beginning -------------------------------------------------------------------------------------------------------
function described(model) {
  page.doubted = false;
  page.broken = Boolean(model.error);
  page.failures = model.error ? { describe: model } : {};
  if (model.error || model.stamp === page.model?.stamp) { draw(); return; }
  if (page.model) writeAddress();
  page.answer = page.rest = page.map = null;
  build(model);
  begin();
}

function begin() {
  page.hasty = true; // a first look before all else: opening a tab begins what is due
  openTab(page.tab);
  moved();
}

function connect() {
  $('stop').addEventListener('click', stop);
  $('run-finite').addEventListener('click', runFinite);
  $('run-map').addEventListener('click', runPhases);
  $('png').addEventListener('click', () => page.answer?.x && toPng(chart(LIGHT, 900, 480).root, 2, (blob) => download(`${page.model.name}.png`, blob)));
  $('csv').addEventListener('click', () => page.answer && download(`${page.model.name}.csv`, new Blob([`${csv()}\n`], { type: 'text/csv' })));
  $('netcdf').addEventListener('click', netcdf);
  $('link').addEventListener('click', (event) => { settled(); copy(location.href, event.target); });
  $('reset').addEventListener('click', () => { history.replaceState(null, '', '#'); readAddress(); begin(); });
  for (const button of document.querySelectorAll('[data-copy]')) button.addEventListener('click', () => copy($(button.dataset.copy).textContent, button));
  for (const name of TABS) $(`tab-${name}`).addEventListener('click', () => openTab(name));
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
    addEventListener('focus', () => { page.doubted = true; proceed(); });
  }
}

connect();
if (LIVE) proceed();
else { build(config.model); begin(); }

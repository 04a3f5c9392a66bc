// The same picture in words, and as files: Python lines, the command, CSV, netCDF.
// --- the same in words -----------------------------------------------------------------------------------------------
function writeRecipe() {
  const { model } = page;
  const all = { ...(LIVE ? {} : config.begin.settings), ...settings() };
  const axis = model.timed ? {} : LIVE ? over(FINE_COUNT) : exportedAxis();
  const fixed = Object.entries(all).filter(([name]) => !(name in axis));
  const rtol = LIVE ? option('rtol') : String(config.begin.rtol);
  const last = LIVE && model.timed ? option('t_max') : String(config.begin.t_max);
  const shown = page.shown ?? [];
  const scales = ['logx', 'logy'].map((key) => `${key}=${option(key) ? 'True' : 'False'}`);
  const drawn = [...shown.map(pythonText), ...(model.timed ? scales : [])].join(', ');
  const plotted = `res.plot(${drawn}).figure.savefig("${model.name}.png")`;
  const values = fixed.map(([name, text]) => `${name}=${pythonValue(text)}`);
  const name = pythonText(model.spoken);
  const set = fixed.length ? ` --set ${fixed.map(([key, text]) => shellWord(`${key}=${text}`)).join(' ')}` : '';
  const only = shown.length && shown.every((item) => model.observables.includes(item)) ? ` --observables ${shown.join(',')}` : '';
  const timed = model.timed ? [`t_max=${pythonValue(last)}`, `rtol=${pythonValue(rtol)}`] : [`rtol=${pythonValue(rtol)}`];
  const isSweep = Object.keys(axis).length > 0;
  const grid = Object.entries(axis).map(([key, text]) => `${pythonText(key)}: ${pythonText(text)}`).join(', ');
  const call = isSweep ? `eqsolve.sweep(${[name, `{${grid}}`, ...values, ...timed].join(', ')})` : `eqsolve.solve(${[name, ...values, ...timed].join(', ')})`;
  setWords($('python'), `import eqsolve\n\nres = ${call}\n${model.timed || isSweep ? plotted : 'print(res)'}`);
  const head = isSweep ? `eqsolve sweep ${shellWord(model.spoken)} --grid ${Object.entries(axis).map(([key, text]) => shellWord(`${key}=${text}`)).join(' ')}` : `eqsolve solve ${shellWord(model.spoken)}`;
  const scaled = model.timed ? ['logx', 'logy'].map((key) => ` --${option(key) ? '' : 'no-'}${key}`).join('') : '';
  const picture = model.timed || isSweep ? ` --plot ${model.name}.png${scaled}` : '';
  setWords($('command'), `${head}${set}${model.timed ? ` --t-max ${shellWord(last)}` : ''} --rtol ${shellWord(rtol)}${only}${picture}`);
}

function exportedAxis() {
  const found = page.controls.find((item) => item.name === option('over'));
  return found ? { [found.name]: `${found.spec.low}:${found.spec.high}:${FINE_COUNT}:${found.spec.scale}` } : {};
}

// --- files -----------------------------------------------------------------------------------------------------------
function csv() {
  const { answer } = page;
  const names = Object.keys(answer.values);
  const cells = (value) => (value === null || value === undefined ? '' : String(value));
  const head = [`# ${page.model.name}: ${Object.entries(answer.asked.settings).map(([name, text]) => `${name}=${text}`).join(', ')}`, `# ${statusText(answer)}`, `# eqsolve ${page.model.version}; errors are absolute`];
  const titles = names.flatMap((name) => [name, `${name}_error`]);
  if (answer.x === null) return [...head, titles.join(','), names.flatMap((name) => [answer.values[name], answer.errors[name]]).map(cells).join(',')].join('\n');
  const rows = answer.t.map((moment, k) => [moment, ...names.flatMap((name) => [answer.values[name][k], answer.errors[name][k]])].map(cells).join(','));
  return [...head, [answer.x, ...titles].join(','), ...rows].join('\n');
}

function netcdf() {
  if (LIVE) { order({ kind: 'save', asked: question() }); return; }
  const bytes = Uint8Array.from(atob(config.netcdf), (letter) => letter.charCodeAt(0));
  download(`${page.model.name}_sweep.nc`, new Blob([bytes], { type: 'application/x-netcdf' }));
}

async function saved(asked) {
  const response = await fetch('/api/save', { method: 'POST', body: body(asked) }).catch(() => null);
  if (response?.ok) return { blob: await response.blob() };
  return response ? JSON.parse(await response.text()) : { error: { problems: ['the explorer does not answer'] } };
}

async function copy(text, button) {
  try { await navigator.clipboard.writeText(text); } catch {
    const field = make('textarea', {});
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand('copy');
    field.remove();
  }
  const before = button.textContent;
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = before; }, 1200);
}

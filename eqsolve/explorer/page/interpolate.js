// Between the points of a sweep: cubic in every slider's own coordinate, of the logarithm where all values are positive.
function weightsAt(nodes, place) {
  const count = Math.min(4, nodes.length);
  let cell = 0;
  while (cell < nodes.length - 2 && place > nodes[cell + 1]) cell += 1;
  const first = Math.min(Math.max(cell - 1, 0), nodes.length - count);
  const found = [];
  for (let k = first; k < first + count; k += 1) {
    let weight = 1;
    for (let m = first; m < first + count; m += 1) if (m !== k) weight *= (place - nodes[m]) / (nodes[k] - nodes[m]);
    found.push([k, weight]);
  }
  const onNode = nodes.indexOf(place);
  return { found: onNode < 0 ? found : [[onNode, 1]], corners: onNode < 0 ? [cell, cell + 1] : [onNode] };
}

// data: as written by the export; settings: texts by name. Returns an answer like that of the server.
function interpolate(data, settings) {
  const perAxis = [];
  for (const axis of data.axes) {
    const text = settings[axis.name];
    if (axis.kind === 'choice') {
      const place = axis.labels.indexOf(text);
      if (place < 0) return { error: { kind: 'ParameterError', problems: [`\`${axis.name}\` is one of ${axis.labels.join(', ')} on this page, got ${text}`] } };
      perAxis.push({ found: [[place, 1]], corners: [place], length: axis.labels.length });
      continue;
    }
    const number = readNumber(text);
    const place = axis.scale === 'log' ? Math.log(number) : number;
    const [low, high] = [axis.nodes[0], axis.nodes[axis.nodes.length - 1]];
    const slack = 1e-9 * (high - low);
    if (!(place >= low - slack && place <= high + slack)) {
      const shown = [low, high].map((end) => short(axis.scale === 'log' ? Math.exp(end) : end));
      const what = Number.isNaN(number) ? `\`${axis.name}\`: cannot read '${text}'; expected a number` : `\`${axis.name}\` runs`;
      return { error: { kind: 'ParameterError', problems: [`${what} from ${shown[0]} to ${shown[1]} on this page, got ${text}; the command below solves for any value`] } };
    }
    const near = axis.nodes.find((node) => Math.abs(node - place) <= slack);
    perAxis.push({ ...weightsAt(axis.nodes, near ?? Math.min(Math.max(place, low), high)), length: axis.nodes.length });
  }
  const combine = (lists) => lists.reduce((rows, list) => rows.flatMap((row) => list.map((item) => [...row, item])), [[]]);
  const index = (places) => places.reduce((flat, place, k) => flat * perAxis[k].length + place, 0);
  const stencil = combine(perAxis.map((axis) => axis.found)).map((row) => [index(row.map(([k]) => k)), row.reduce((w, [, v]) => w * v, 1)]);
  const corners = combine(perAxis.map((axis) => axis.corners)).map(index);
  const exact = stencil.length === 1;
  const length = data.t === null ? 1 : data.t.length;
  const answer = { x: data.t === null ? null : 't', t: data.t, values: {}, errors: {}, status: 'ok', message: '' };
  const top = (item, k) => {
    let found = 0;
    for (let place = k; place < item.values.length; place += length) found = Math.max(found, item.values[place] ?? 0);
    return found;
  };
  let missing = null;
  for (const [name, item] of Object.entries(data.quantities)) {
    const values = [];
    const errors = [];
    for (let k = 0; k < length; k += 1) {
      let sum = 0;
      for (const [point, weight] of stencil) {
        const value = item.values[point * length + k];
        if (value === null) { sum = NaN; missing = missing ?? point; }
        sum += weight * (item.log ? Math.log(value) : value);
      }
      const largest = (list) => Math.max(...corners.map((point) => list[point * length + k] ?? Infinity));
      const between = exact ? 0 : largest(item.between);
      const value = item.log ? Math.exp(sum) : sum;
      values.push(Number.isFinite(value) ? value : null);
      const missed = item.log ? Math.min(value * Math.expm1(between), top(item, k)) : between; // hardly more than all that is there
      const error = (item.log ? value : 1) * largest(item.errors) + missed;
      errors.push(Number.isFinite(error) ? error : null);
    }
    answer.values[name] = data.t === null ? values[0] : values;
    answer.errors[name] = data.t === null ? errors[0] : errors;
  }
  if (missing !== null) return { ...answer, status: 'not solved', message: data.messages[missing] || 'a point nearby was not solved' };
  return answer;
}

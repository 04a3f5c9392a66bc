// Small helpers: elements, names as they are written, numbers with their errors, downloads.
const $ = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'class') element.className = value;
    else if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// MathML comes from the program that wrote the page, not from what a user types.
function math(text) {
  const holder = document.createElement('span');
  holder.innerHTML = text;
  return holder;
}

const GREEK = {
  alpha: 'α', beta: 'β', gamma: 'γ', delta: 'δ', epsilon: 'ε', zeta: 'ζ', eta: 'η', theta: 'θ', iota: 'ι', kappa: 'κ',
  lam: 'λ', lambda: 'λ', mu: 'μ', nu: 'ν', xi: 'ξ', pi: 'π', rho: 'ρ', sigma: 'σ', tau: 'τ', phi: 'φ', chi: 'χ', psi: 'ψ', omega: 'ω',
  Gamma: 'Γ', Delta: 'Δ', Theta: 'Θ', Lambda: 'Λ', Xi: 'Ξ', Pi: 'Π', Sigma: 'Σ', Phi: 'Φ', Psi: 'Ψ', Omega: 'Ω',
};

// A name in two parts, E_test as E and test: the second is set below the line.
function nameParts(name) {
  const [head, ...tail] = name.split('_');
  if (!head) return [name, ''];
  const digits = head.match(/^([A-Za-z]+?)(\d+)$/);
  const stem = digits ? digits[1] : head;
  const lower = [...(digits ? [digits[2]] : []), ...tail].map((word) => (word === 'star' ? '*' : GREEK[word] || word)).join(',');
  return [GREEK[stem] || stem, lower];
}

function nameElement(name, labels = page.model?.labels) {
  if (labels?.[name]) return math(labels[name]);
  const [head, lower] = nameParts(name);
  return make('span', {}, make(head.length === 1 ? 'i' : 'span', {}, head), lower ? make('sub', {}, lower) : null);
}

function short(number, digits = 4) {
  const size = Math.abs(number);
  if (size > 0 && (size < 1e-3 || size >= 1e7)) return Number(number.toPrecision(digits)).toExponential().replace('e+', 'e');
  return String(Number(number.toPrecision(digits)));
}

// 0.09831 ± 1.2e-6: a value to two digits of its error.
function withError(value, error) {
  if (value === null || value === undefined) return '–';
  if (error === null || error === undefined) return `${short(value, 6)} ± ?`;
  if (!(error > 0) || value === 0) return `${short(value, 10)} ± ${short(error, 2)}`;
  const digits = Math.floor(Math.log10(Math.abs(value))) - Math.floor(Math.log10(error)) + 2;
  return `${value.toPrecision(Math.min(Math.max(digits, 1), 12))} ± ${short(error, 2)}`;
}

// A number from text such as 0.3, 1e-4 or 1/3; NaN for anything else.
function readNumber(text) {
  const parts = text.trim().split('/');
  if (parts.length > 2 || parts.some((part) => !/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(part.trim()))) return NaN;
  return parts.map(Number).reduce((above, below) => above / below);
}

// A text in which lines are broken between words only, not at the hyphens of an option.
function setWords(element, text) {
  element.replaceChildren(...text.split(/(\s+)/).map((part) => (part.length < 60 && part.trim() ? make('span', { class: 'word' }, part) : part)));
}

function download(name, blob) {
  const link = make('a', { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The text of a word for a shell, in quotes where it needs them.
const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// The text of a value in Python: a number as it is, anything else as a text, which is parsed there.
function pythonValue(text) {
  const trimmed = text.trim();
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(trimmed) && !/^[-+]?0\d/.test(trimmed) ? trimmed : pythonText(trimmed);
}

const pythonText = (text) => `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;

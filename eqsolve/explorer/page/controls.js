// One control for every parameter: a slider and a box that takes any text, or a choice of law.
const STEPS = 1000;
const meaning = (spec) => (spec.about ? make('small', { class: 'about' }, spec.about) : null);

class NumberControl {
  constructor(spec, onMove, onType) {
    this.spec = spec;
    this.name = spec.name;
    this.box = make('input', { type: 'text', id: `set-${spec.name}`, 'data-name': spec.name, spellcheck: 'false' });
    const label = make('label', { for: `set-${spec.name}` }, math(spec.label), make('small', {}, [spec.name, spec.domain].filter(Boolean).join(', ')));
    this.element = make('div', { class: 'control', 'data-control': spec.name }, make('div', { class: 'row' }, label, this.box), meaning(spec));
    this.slider = null;
    if (spec.low !== null && spec.high !== null && spec.high > spec.low) {
      const count = spec.whole ? spec.high - spec.low : STEPS;
      this.slider = make('input', { type: 'range', min: 0, max: count, step: 1, 'aria-label': spec.name, 'data-slider': spec.name });
      this.element.append(this.slider);
      this.slider.addEventListener('input', () => { this.box.value = this.slid(Number(this.slider.value)); onMove(this); });
    }
    this.box.addEventListener('input', () => { this.follow(); onType(this); });
    this.text = spec.value;
  }

  slid(step) {
    const { low, high, scale, whole } = this.spec;
    if (whole) return String(low + step);
    const share = step / STEPS;
    const value = scale === 'log' ? low * (high / low) ** share : low + share * (high - low);
    const digits = scale === 'log' ? 3 : Math.max(1, Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / (high - low) * STEPS)));
    return scale !== 'log' && step === 0 ? String(low) : short(value, Math.max(3, Math.min(digits, 6)));
  }

  follow() {
    const value = readNumber(this.box.value);
    if (!this.slider || Number.isNaN(value)) return;
    const { low, high, scale, whole } = this.spec;
    if (whole) this.slider.value = value - low;
    else this.slider.value = STEPS * (scale === 'log' ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low));
  }

  get text() { return this.box.value.trim(); }

  set text(text) { this.box.value = text; this.follow(); }

  get isDefault() { return this.text === this.spec.value; }

  get isSent() { return this.text !== ''; } // an empty box leaves the model its default
}

class ChoiceControl {
  constructor(spec, onMove) {
    this.spec = spec;
    this.name = spec.name;
    this.box = make('select', { id: `set-${spec.name}`, 'data-name': spec.name }, ...spec.labels.map((label) => make('option', { value: label }, label)));
    this.element = make('div', { class: 'control', 'data-control': spec.name }, make('div', { class: 'row' }, make('label', { for: `set-${spec.name}` }, math(spec.label)), this.box), meaning(spec));
    this.box.addEventListener('change', () => onMove(this));
    this.text = spec.value;
  }

  get text() { return this.box.value; }

  set text(text) { if (this.spec.labels.includes(text)) this.box.value = text; }

  get isDefault() { return this.text === this.spec.value; }

  get isSent() { return true; }
}

class LawControl {
  constructor(spec, laws, onMove, onType) {
    this.spec = spec;
    this.name = spec.name;
    this.laws = laws;
    this.choice = make('select', { 'aria-label': `law of ${spec.name}`, 'data-law': spec.name }, make('option', { value: '' }, 'as declared'), ...Object.keys(laws).map((name) => make('option', { value: name }, name)));
    this.box = make('input', { type: 'text', id: `set-${spec.name}`, 'data-name': spec.name, spellcheck: 'false', placeholder: spec.value });
    this.usage = make('small', { class: 'note' });
    const label = make('label', { for: `set-${spec.name}` }, math(spec.label), ' ~');
    this.element = make('div', { class: 'control law', 'data-control': spec.name }, make('div', { class: 'row' }, label, this.choice), meaning(spec), this.box, this.usage);
    this.choice.addEventListener('change', () => { this.text = this.choice.value ? laws[this.choice.value].text : ''; onMove(this); });
    this.box.addEventListener('input', () => { this.follow(); onType(this); });
    this.text = '';
  }

  follow() {
    const name = this.box.value.trim().split('(')[0];
    this.choice.value = this.laws[name] ? name : '';
    this.usage.textContent = this.laws[name] ? this.laws[name].usage : '';
  }

  get text() { return this.box.value.trim(); }

  set text(text) { this.box.value = text; this.follow(); }

  get isDefault() { return this.text === ''; }

  get isSent() { return this.text !== ''; }
}

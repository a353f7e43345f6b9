'use strict';
// A chart over steps: lines, areas that stand on each other, points and rules, drawn anew whenever its width changes. A
// cursor follows the pointer or the arrow keys, and the caption says the values under it.

// Round steps of an axis, at most `most` of them.
function roundTicks(low, high, most) {
  const raw = (high - low) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw) || 10 * power;
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) ticks.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const digit of [1, 2, 5]) {
      const tick = digit * 10 ** power;
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return ticks.length >= 2 ? ticks : [low, high];
}

// Of sizes in bytes: steps that are round in units of 1024.
function byteTicks(high, most) {
  let unit = 1;
  while (high / unit >= 1024) unit *= 1024;
  return roundTicks(0, high / unit, most).map((tick) => tick * unit);
}

class Chart {
  // options: title, steps, lines [{name, values, text}], areas [{name, values, color}], points [{step, value, name}],
  // rules [{value, name}], text(value), isBytes, say(index)
  constructor(figure, options) {
    this.options = options;
    this.isLog = false;
    this.index = null;
    this.output = make('output', {'aria-live': 'off'});
    figure.replaceChildren(make('figcaption', {}, make('strong', {text: options.title}), this.output));
    const isBlank = !options.areas && !(options.points || []).length && !options.lines.some((line) => line.values.some(isNumber));
    if (options.steps.length === 0 || isBlank) {
      figure.append(make('p', {class: 'empty', text: options.steps.length === 0 ? options.empty : options.blank}));
      return;
    }
    this.svg = makeSvg('svg', {tabindex: '0', role: 'img', 'aria-label': `${options.title} over steps; arrow keys move the cursor`});
    figure.append(this.svg);
    this.svg.addEventListener('pointermove', (event) => this.moveTo(this.indexAt(event.clientX)));
    this.svg.addEventListener('pointerdown', (event) => this.moveTo(this.indexAt(event.clientX)));
    this.svg.addEventListener('pointerleave', () => { if (document.activeElement !== this.svg) this.moveTo(null); });
    this.svg.addEventListener('blur', () => this.moveTo(null));
    this.svg.addEventListener('keydown', (event) => this.onKey(event));
    new ResizeObserver(() => this.draw()).observe(this.svg);
    this.draw();
  }

  setLog(isLog) { this.isLog = isLog; if (this.svg) this.draw(); }

  range() {
    const {lines = [], areas = [], points = [], rules = []} = this.options;
    let low = Infinity;
    let high = -Infinity;
    const see = (value) => {
      if (!isNumber(value) || (this.isLog && value <= 0)) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    for (const line of lines) line.values.forEach(see);
    this.options.steps.forEach((_, at) => areas.length && see(areas.reduce((sum, area) => sum + (area.values[at] || 0), 0)));
    for (const point of points) see(point.value);
    for (const rule of rules) see(rule.value);
    if (areas.length || this.options.fromZero) low = this.isLog ? low : 0;
    if (low > high) return [0, 1];
    if (low === high) { high += Math.abs(high) * 0.05 || 1; if (!areas.length && !this.options.fromZero) low -= Math.abs(low) * 0.05; }
    const room = this.isLog ? 0 : (high - low) * 0.05;
    return [low === 0 ? 0 : low - room, high + room];
  }

  draw() {
    const {steps, lines = [], areas = [], points = [], rules = [], text, isBytes} = this.options;
    const width = Math.max(this.svg.clientWidth, 120);
    const height = Math.max(this.svg.clientHeight, 80);
    const [low, high] = this.range();
    const ticks = this.isLog ? logTicks(low, high) : isBytes ? byteTicks(high, 5) : roundTicks(low, high, 5);
    const left = 10 + 6.2 * Math.max(...ticks.map((tick) => text(tick).length), 3);
    const [right, top, bottom] = [width - 10, 8, height - 22];
    const isOne = steps.length === 1;  // it stands in the middle
    const first = Math.min(steps[0], ...points.map((point) => point.step)) - (isOne ? 1 : 0);
    const last = Math.max(steps[steps.length - 1] + (isOne ? 1 : 0), first + 1);
    this.x = (step) => left + (right - left) * (step - first) / (last - first);
    const scale = this.isLog ? Math.log10 : (value) => value;
    this.y = (value) => bottom - (bottom - top) * (scale(value) - scale(low)) / (scale(high) - scale(low));
    this.edges = {left, right, top, bottom};
    this.svg.replaceChildren();
    for (const tick of ticks) {
      const y = Math.round(this.y(tick)) + 0.5;
      if (y < top - 1 || y > bottom + 1) continue;
      this.svg.append(makeSvg('line', {class: 'grid', x1: left, x2: right, y1: y, y2: y}),
                      makeSvg('text', {x: left - 6, y: y + 4, 'text-anchor': 'end'}, text(tick)));
    }
    for (const tick of roundTicks(first, last, Math.max(Math.floor((right - left) / 80), 2))) {
      if (tick !== Math.round(tick) || (isOne && tick !== steps[0])) continue;
      this.svg.append(makeSvg('text', {x: this.x(tick), y: height - 6, 'text-anchor': 'middle'}, countText(tick)));
    }
    this.drawAreas(areas, steps);
    const seen = rules.filter((rule) => !this.isLog || rule.value > 0);
    for (const rule of seen) this.svg.append(makeSvg('line', {class: 'rule', x1: left, x2: right, y1: this.y(rule.value), y2: this.y(rule.value)}));
    for (const line of lines) this.drawLine(steps, line.values);
    for (const point of points) {
      if (this.isLog && point.value <= 0) continue;
      const dot = makeSvg('circle', {class: 'dot', cx: this.x(point.step), cy: this.y(point.value), r: 4});
      dot.append(makeSvg('title', {}, `step ${point.step}: ${point.name} ${text(point.value)}`));
      this.svg.append(dot);
    }
    for (const rule of seen) {
      // On the side where the line is further away, and away from it.
      const values = lines.length ? lines[0].values.filter(isNumber) : [];
      const [begin, end] = [values[0], values[values.length - 1]];
      const isLeft = values.length > 0 && Math.abs(begin - rule.value) > Math.abs(end - rule.value);
      const y = this.y(rule.value);
      const isBelow = y < top + 16 || (values.length > 0 && (isLeft ? begin : end) > rule.value && y + 16 < bottom);
      // Of the places beside the rule, the first that no dot is in.
      const place = (onLeft, below) => ({x: onLeft ? left + 4 : right, y: below ? y + 14 : y - 6, 'text-anchor': onLeft ? 'start' : 'end'});
      const width = 7 * rule.name.length;
      const isFree = (at) => points.every((point) => {
        const [from, x] = [at['text-anchor'] === 'start' ? at.x : at.x - width, this.x(point.step)];
        return x < from - 6 || x > from + width + 6 || Math.abs(this.y(point.value) - (at.y - 4)) > 12;
      });
      const places = [place(isLeft, isBelow), place(!isLeft, isBelow), place(isLeft, !isBelow), place(!isLeft, !isBelow)];
      this.svg.append(makeSvg('text', places.find(isFree) || places[0], rule.name));
    }
    this.cursor = makeSvg('g', {visibility: 'hidden'});
    this.svg.append(this.cursor);
    this.moveTo(this.index);
  }

  drawAreas(areas, steps) {
    const base = new Float64Array(steps.length);
    for (const area of areas) {
      const below = base.slice();
      for (let at = 0; at < steps.length; at += 1) base[at] += area.values[at] || 0;
      // One step alone is a bar.
      const edges = steps.length === 1 ? [[this.x(steps[0]) - 12, 0], [this.x(steps[0]) + 12, 0]] : steps.map((step, at) => [this.x(step), at]);
      const up = edges.map(([x, at]) => `${x.toFixed(1)},${this.y(base[at]).toFixed(1)}`);
      const down = edges.map(([x, at]) => `${x.toFixed(1)},${this.y(below[at]).toFixed(1)}`).reverse();
      const shape = makeSvg('path', {d: `M${up.join('L')}L${down.join('L')}Z`});
      shape.style.fill = area.color;
      this.svg.append(shape);
    }
  }

  // Values that have none beside them are dots: a line of one point draws nothing.
  drawLine(steps, values) {
    const isSeen = (at) => isNumber(values[at]) && (!this.isLog || values[at] > 0);
    let text = '';
    for (let at = 0; at < steps.length; at += 1) {
      if (!isSeen(at)) continue;
      const [x, y] = [this.x(steps[at]).toFixed(1), this.y(values[at]).toFixed(1)];
      if (isSeen(at - 1) || isSeen(at + 1)) text += `${isSeen(at - 1) ? 'L' : 'M'}${x},${y}`;
      else this.svg.append(makeSvg('circle', {class: 'lone', cx: x, cy: y, r: 3}));
    }
    this.svg.append(makeSvg('path', {class: 'series', d: text}));
  }

  indexAt(clientX) {
    const {steps} = this.options;
    const x = clientX - this.svg.getBoundingClientRect().left;
    let best = 0;
    for (let at = 1; at < steps.length; at += 1) {
      if (Math.abs(this.x(steps[at]) - x) < Math.abs(this.x(steps[best]) - x)) best = at;
    }
    return best;
  }

  onKey(event) {
    const last = this.options.steps.length - 1;
    const at = this.index === null ? last : this.index;
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, PageUp: at - 10, PageDown: at + 10}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.output.setAttribute('aria-live', 'polite');
    this.moveTo(Math.min(Math.max(to, 0), last));
  }

  moveTo(index) {
    this.index = index;
    const shown = index === null ? this.options.steps.length - 1 : index;
    this.output.textContent = this.options.say(shown);
    this.cursor.replaceChildren();
    this.cursor.setAttribute('visibility', index === null ? 'hidden' : 'visible');
    if (index === null) return;
    const x = this.x(this.options.steps[index]);
    this.cursor.append(makeSvg('line', {class: 'cursor', x1: x, x2: x, y1: this.edges.top, y2: this.edges.bottom}));
    for (const line of this.options.lines || []) {
      const value = line.values[index];
      if (isNumber(value) && (!this.isLog || value > 0)) this.cursor.append(makeSvg('circle', {class: 'cursor-dot', cx: x, cy: this.y(value), r: 4}));
    }
  }
}

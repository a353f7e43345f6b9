'use strict';
// A chart over steps: lines, stacked areas, points and rules. A cursor follows the pointer or the arrow keys, and the caption
// shows the values under it. Dragging selects a range of steps. Lines can be smoothed: the values then remain as a faint line.

// Round values of an axis, at most `most` of them.
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
  if (ticks.length > 8) return ticks.filter((tick) => Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-9);
  return ticks.length >= 3 ? ticks : roundTicks(low, high, 4);
}

// Of sizes in bytes: steps that are round in units of 1024.
function byteTicks(high, most) {
  let unit = 1;
  while (high / unit >= 1024) unit *= 1024;
  return roundTicks(0, high / unit, most).map((tick) => tick * unit);
}

// Labels with as many digits as tell the ticks apart.
function tickLabels(ticks, text) {
  for (let digits = 3; ; digits += 1) {
    const labels = ticks.map((tick) => text(tick, digits, Math.abs(ticks[ticks.length - 1])));
    if (digits === 9 || new Set(labels).size === labels.length) return labels;
  }
}

// The exponential moving average that TensorBoard draws: without a bias to the first value. Missing values stay missing.
function smoothed(values, weight) {
  let sum = 0;
  let count = 0;
  return values.map((value) => {
    if (!isNumber(value)) return null;
    sum = sum * weight + (1 - weight) * value;
    count += 1;
    return sum / (1 - weight ** count);
  });
}

class Chart {
  // options: title, yTitle, steps, stride, lines [{name, values, isSmoothed}], areas [{name, values, color}],
  // points [{step, value, name}], rules [{value, name}], text(value, digits, largest tick), isBytes, fromZero, say(index), empty, blank,
  // onZoom(range)
  constructor(figure, options) {
    this.isLog = false;
    this.weight = 0;  // of the smoothing, in [0, 1)
    this.zoom = null;  // [first, last] step
    this.index = null;
    this.output = make('output', {'aria-live': 'off'});
    this.title = make('strong', {});
    this.note = make('p', {class: 'empty'});
    this.svg = makeSvg('svg', {tabindex: '0', role: 'img'});
    figure.replaceChildren(make('figcaption', {}, this.title, this.output), this.svg, this.note);
    this.svg.addEventListener('pointerdown', (event) => this.onDown(event));
    this.svg.addEventListener('pointermove', (event) => this.onMove(event));
    this.svg.addEventListener('pointerup', (event) => this.onUp(event));
    this.svg.addEventListener('pointercancel', () => { this.dragged = null; this.draw(); });
    this.svg.addEventListener('pointerleave', () => { if (document.activeElement !== this.svg) this.moveTo(null); });
    this.svg.addEventListener('dblclick', () => this.show(null));
    this.svg.addEventListener('blur', () => this.moveTo(null));
    this.svg.addEventListener('keydown', (event) => this.onKey(event));
    this.options = options;
    this.set({});
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  // Replaces options and draws. The cursor stays at its step.
  set(options) {
    const step = this.index === null ? null : this.options.steps[this.index];
    this.options = {...this.options, ...options};
    const {title, steps, lines = [], areas = [], points = [], empty, blank} = this.options;
    if (step !== null) this.index = steps.length === 0 ? null : this.nearest(step);
    this.title.textContent = title;
    this.svg.setAttribute('aria-label', `${title} over steps; arrow keys move the cursor, + and - zoom, 0 shows all steps`);
    const isBlank = !areas.length && !points.length && !lines.some((line) => line.values.some(isNumber));
    this.isEmpty = steps.length === 0 || isBlank;
    this.note.hidden = !this.isEmpty;
    this.note.textContent = steps.length === 0 ? empty : blank;
    this.svg.toggleAttribute('hidden', this.isEmpty);
    if (this.isEmpty) this.output.textContent = '';
    this.draw();
  }

  setLog(isLog) { this.isLog = isLog; this.draw(); }
  smooth(weight) { this.weight = weight; this.draw(); }
  setZoom(range) { this.zoom = range; this.draw(); }

  // Shows a range of steps, here and in the charts that share it.
  show(range) {
    if (this.options.onZoom) this.options.onZoom(range);
    else this.setZoom(range);
  }

  isInSight(step) { return !this.zoom || (step >= this.zoom[0] && step <= this.zoom[1]); }

  // First and last step of the axis.
  edges() {
    if (this.zoom) return this.zoom;
    const {steps, points = []} = this.options;
    const isOne = steps.length === 1;  // it is in the middle
    const first = Math.min(steps[0], ...points.map((point) => point.step)) - (isOne ? 1 : 0);
    return [first, Math.max(steps[steps.length - 1] + (isOne ? 1 : 0), first + 1)];
  }

  range() {
    const {steps, lines = [], areas = [], points = [], rules = []} = this.options;
    let low = Infinity;
    let high = -Infinity;
    const see = (value) => {
      if (!isNumber(value) || (this.isLog && value <= 0)) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    const drawn = lines.flatMap((line) => line.isSmoothed && this.weight > 0 ? [line.values, smoothed(line.values, this.weight)] : [line.values]);
    steps.forEach((step, at) => {
      if (!this.isInSight(step)) return;
      for (const values of drawn) see(values[at]);
      if (areas.length) see(areas.reduce((sum, area) => sum + (area.values[at] || 0), 0));
    });
    for (const point of points) if (this.isInSight(point.step)) see(point.value);
    if (!this.zoom || areas.length) for (const rule of rules) see(rule.value);
    const fromZero = areas.length || this.options.fromZero;
    if (fromZero) low = this.isLog ? low : 0;
    if (low > high) return [this.isLog ? 0.1 : 0, 1];
    if (low === high) {
      high += Math.abs(high) * 0.05 || 1;
      if (!fromZero) low -= Math.abs(low) * 0.05;
    }
    const room = this.isLog ? 0 : (high - low) * 0.05;
    return [low === 0 ? 0 : low - room, high + room];
  }

  draw() {
    if (this.isEmpty) return;
    const {steps, lines = [], areas = [], points = [], rules = [], text, isBytes, yTitle} = this.options;
    const width = Math.max(this.svg.clientWidth, 120);
    const height = Math.max(this.svg.clientHeight, 80);
    const [low, high] = this.range();
    const all = this.isLog ? logTicks(low, high) : isBytes ? byteTicks(high, 5) : roundTicks(low, high, 5);
    const ticks = all.filter((tick) => tick >= low && tick <= high);
    const labels = tickLabels(ticks, text);
    const left = 30 + 6.2 * Math.max(...labels.map((label) => label.length), 3);
    const [right, top, bottom] = [width - 12, 8, height - 40];
    const [first, last] = this.edges();
    this.x = (step) => left + (right - left) * (step - first) / (last - first);
    const scale = this.isLog ? Math.log10 : (value) => value;
    this.y = (value) => bottom - (bottom - top) * (scale(value) - scale(low)) / (scale(high) - scale(low));
    this.box = {left, right, top, bottom, width, height};
    this.svg.replaceChildren();
    ticks.forEach((tick, at) => {
      const y = Math.round(this.y(tick)) + 0.5;
      this.svg.append(makeSvg('line', {class: 'grid', x1: left, x2: right, y1: y, y2: y}),
                      makeSvg('text', {x: left - 6, y: y + 4, 'text-anchor': 'end'}, labels[at]));
    });
    this.drawStepAxis(first, last);
    this.svg.append(makeSvg('text', {class: 'axis-title', 'text-anchor': 'middle', transform: `translate(11 ${(top + bottom) / 2}) rotate(-90)`}, yTitle));
    this.drawAreas(areas, steps);
    const seen = rules.filter((rule) => (!this.isLog || rule.value > 0) && rule.value >= low && rule.value <= high);
    for (const rule of seen) this.svg.append(makeSvg('line', {class: 'rule', x1: left, x2: right, y1: this.y(rule.value), y2: this.y(rule.value)}));
    for (const line of lines) {
      const isSmoothed = line.isSmoothed && this.weight > 0;
      if (isSmoothed) this.drawLine(steps, line.values, 'raw');
      this.drawLine(steps, isSmoothed ? smoothed(line.values, this.weight) : line.values, '');
    }
    for (const point of points) {
      if ((this.isLog && point.value <= 0) || !this.isInSight(point.step)) continue;
      const dot = makeSvg('circle', {class: 'dot', cx: this.x(point.step), cy: this.y(point.value), r: 4});
      dot.append(makeSvg('title', {}, `step ${point.step}: ${point.name} ${text(point.value, 5)}`));
      this.svg.append(dot);
    }
    for (const rule of seen) this.drawRuleName(rule, lines, points);
    this.cursor = makeSvg('g', {visibility: 'hidden'});
    this.svg.append(this.cursor);
    this.moveTo(this.index);
  }

  drawStepAxis(first, last) {
    const {left, right, bottom, width, height} = this.box;
    const isOne = this.options.steps.length === 1;
    const ticks = roundTicks(first, last, Math.max(Math.floor((right - left) / 80), 2))
        .filter((tick) => tick === Math.round(tick) && (!isOne || tick === this.options.steps[0]));
    const short = ticks.map((tick) => countText(tick));
    const labels = new Set(short).size === short.length ? short : ticks.map((tick) => wholeText(tick));
    ticks.forEach((tick, at) => {
      const half = 3.1 * labels[at].length;
      this.svg.append(makeSvg('line', {class: 'tick', x1: this.x(tick), x2: this.x(tick), y1: bottom, y2: bottom + 4}),
                      makeSvg('text', {x: Math.min(this.x(tick), width - half - 1), y: height - 23, 'text-anchor': 'middle'}, labels[at]));
    });
    this.svg.append(makeSvg('line', {class: 'axis', x1: left, x2: right, y1: bottom + 0.5, y2: bottom + 0.5}),
                    makeSvg('text', {class: 'axis-title', x: (left + right) / 2, y: height - 5, 'text-anchor': 'middle'}, 'step'));
  }

  // Beside the rule, on the side where the line is further away, at the first place that no dot is in.
  drawRuleName(rule, lines, points) {
    const {left, right, top, bottom} = this.box;
    const values = lines.length ? lines[0].values.filter(isNumber) : [];
    const [begin, end] = [values[0], values[values.length - 1]];
    const isLeft = values.length > 0 && Math.abs(begin - rule.value) > Math.abs(end - rule.value);
    const y = this.y(rule.value);
    const isBelow = y < top + 16 || (values.length > 0 && (isLeft ? begin : end) > rule.value && y + 16 < bottom);
    const place = (onLeft, below) => ({x: onLeft ? left + 4 : right, y: below ? y + 14 : y - 6, 'text-anchor': onLeft ? 'start' : 'end'});
    const width = 7 * rule.name.length;
    const isFree = (at) => points.every((point) => {
      const [from, x] = [at['text-anchor'] === 'start' ? at.x : at.x - width, this.x(point.step)];
      return x < from - 6 || x > from + width + 6 || Math.abs(this.y(point.value) - (at.y - 4)) > 12;
    });
    const places = [place(isLeft, isBelow), place(!isLeft, isBelow), place(isLeft, !isBelow), place(!isLeft, !isBelow)]
        .filter((at) => at.y > top + 8 && at.y < bottom);
    if (places.length) this.svg.append(makeSvg('text', places.find(isFree) || places[0], rule.name));
  }

  // Runs of steps without a missing one: [[from, to], ...], as indices.
  runs(isSeen) {
    const {steps, stride = 1} = this.options;
    const runs = [];
    for (let at = 0; at < steps.length; at += 1) {
      if (!isSeen(at) || !this.isInSight(steps[at])) continue;
      const last = runs[runs.length - 1];
      if (last && last[1] === at - 1 && steps[at] - steps[at - 1] <= 1.5 * stride) last[1] = at;
      else runs.push([at, at]);
    }
    return runs;
  }

  drawAreas(areas, steps) {
    if (areas.length === 0) return;
    const base = new Float64Array(steps.length);
    for (const area of areas) {
      const below = base.slice();
      for (let at = 0; at < steps.length; at += 1) base[at] += area.values[at] || 0;
      let d = '';
      for (const [from, to] of this.runs(() => true)) {
        // One step alone is a bar.
        const edges = from === to ? [[this.x(steps[from]) - (steps.length === 1 ? 12 : 1), from], [this.x(steps[from]) + (steps.length === 1 ? 12 : 1), from]]
          : Array.from({length: to - from + 1}, (_, at) => [this.x(steps[from + at]), from + at]);
        const up = edges.map(([x, at]) => `${x.toFixed(1)},${this.y(base[at]).toFixed(1)}`);
        const down = edges.map(([x, at]) => `${x.toFixed(1)},${this.y(below[at]).toFixed(1)}`).reverse();
        d += `M${up.join('L')}L${down.join('L')}Z`;
      }
      const shape = makeSvg('path', {d});
      shape.style.fill = area.color;
      this.svg.append(shape);
    }
  }

  // Missing values and steps are gaps. Values without neighbors are dots: a line of one point draws nothing.
  drawLine(steps, values, kind) {
    const isSeen = (at) => isNumber(values[at]) && (!this.isLog || values[at] > 0);
    let d = '';
    for (const [from, to] of this.runs(isSeen)) {
      const place = (at) => [this.x(steps[at]).toFixed(1), this.y(values[at]).toFixed(1)];
      if (from === to) {
        const [cx, cy] = place(from);
        this.svg.append(makeSvg('circle', {class: kind ? `lone-${kind}` : 'lone', cx, cy, r: 3}));
        continue;
      }
      d += 'M' + Array.from({length: to - from + 1}, (_, at) => place(from + at).join(',')).join('L');
    }
    this.svg.append(makeSvg('path', {class: kind ? `series ${kind}` : 'series', d}));
  }

  nearest(step) {
    const {steps} = this.options;
    const after = Math.min(firstWhere(steps.length, (at) => steps[at] >= step), steps.length - 1);
    return after > 0 && Math.abs(steps[after - 1] - step) < Math.abs(steps[after] - step) ? after - 1 : after;
  }

  stepAt(clientX) {
    const [first, last] = this.edges();
    const {left, right} = this.box;
    const share = (clientX - this.svg.getBoundingClientRect().left - left) / (right - left);
    return first + Math.min(Math.max(share, 0), 1) * (last - first);
  }

  onDown(event) {
    this.dragged = {id: event.pointerId, from: event.clientX};
    this.svg.setPointerCapture(event.pointerId);
    this.moveTo(this.nearest(this.stepAt(event.clientX)));
  }

  onMove(event) {
    this.moveTo(this.nearest(this.stepAt(event.clientX)));
    if (!this.dragged || Math.abs(event.clientX - this.dragged.from) < 8) return;
    const [from, to] = [this.dragged.from, event.clientX].map((x) => this.x(this.stepAt(x)));
    const {top, bottom} = this.box;
    this.cursor.append(makeSvg('rect', {class: 'selection', x: Math.min(from, to), y: top, width: Math.abs(to - from), height: bottom - top}));
  }

  onUp(event) {
    const dragged = this.dragged;
    this.dragged = null;
    if (!dragged || Math.abs(event.clientX - dragged.from) < 8) return;
    const [from, to] = [dragged.from, event.clientX].map((x) => this.stepAt(x)).sort((a, b) => a - b);
    this.zoomTo(from, to);
  }

  // Shows at least two steps, within those that exist.
  zoomTo(from, to) {
    const {steps} = this.options;
    const [low, high] = [steps[0], steps[steps.length - 1]];
    const first = Math.max(Math.floor(from), low);
    const last = Math.min(Math.max(Math.ceil(to), first + 2), high);
    this.show(first <= low && last >= high ? null : [Math.min(first, Math.max(last - 2, low)), last]);
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.options.steps.length - 1;
    const at = this.index === null ? last : this.index;
    const [first, end] = this.edges();
    const middle = this.options.steps[at];
    const reach = (end - first) / 2;
    const zooms = {'+': () => this.zoomTo(middle - reach / 2, middle + reach / 2), '=': () => this.zoomTo(middle - reach / 2, middle + reach / 2),
                   '-': () => this.zoomTo(middle - 2 * reach, middle + 2 * reach), 0: () => this.show(null)};
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, PageUp: at - 10, PageDown: at + 10}[event.key];
    if (to === undefined && !zooms[event.key]) return;
    event.preventDefault();
    this.output.setAttribute('aria-live', 'polite');
    if (to === undefined) zooms[event.key]();
    else this.moveTo(Math.min(Math.max(to, 0), last));
  }

  moveTo(index) {
    if (this.isEmpty) return;
    this.index = index;
    const {steps, lines = []} = this.options;
    const shown = index === null ? steps.length - 1 : index;
    this.output.textContent = this.options.say(shown);
    this.cursor.replaceChildren();
    const isShown = index !== null && this.isInSight(steps[index]);
    this.cursor.setAttribute('visibility', isShown ? 'visible' : 'hidden');
    if (!isShown) return;
    const x = this.x(steps[index]);
    this.cursor.append(makeSvg('line', {class: 'cursor', x1: x, x2: x, y1: this.box.top, y2: this.box.bottom}));
    for (const line of lines) {
      const value = line.values[index];
      if (isNumber(value) && (!this.isLog || value > 0)) this.cursor.append(makeSvg('circle', {class: 'cursor-dot', cx: x, cy: this.y(value), r: 4}));
    }
  }
}

'use strict';
// The timeline of all ranks on one canvas. What is drawn is bounded by pixels, not by events: from afar bins of the pyramid,
// closer spans, those that fall into one pixel as one.

const kLaneWords = {mark: 'steps', compute: 'compute', collective: 'collectives', wait: 'exposed waits'};
const kRanksAtOnce = 8;

class Timeline {
  constructor(canvas) {
    this.canvas = canvas;
    this.firstRank = 0;
    this.pointers = new Map();
    this.load();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
    onTheme.push(() => this.draw());
  }

  // Reads the data. A part of the run that is shown stays in view.
  load() {
    const shown = this.view && (this.view[0] > 0 || this.view[1] < this.whole) ? this.view.map((unit) => unit * this.seconds) : null;
    this.told = data.timeline;
    this.seconds = this.told.unit_ns / 1e9;
    this.whole = this.told.span_ns / this.told.unit_ns;
    this.lanes = timelineLanes();
    this.ranks = [...new Set(this.lanes.map((lane) => lane.rank))];
    if (this.firstRank >= this.ranks.length) this.firstRank = 0;
    this.view = [0, this.whole];
    if (shown) this.show(shown[0] / this.seconds, shown[1] / this.seconds);
    this.layOut();
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener('keydown', (event) => this.onKey(event));
    canvas.addEventListener('wheel', (event) => this.onWheel(event), {passive: false});
    canvas.addEventListener('pointerdown', (event) => { this.pointers.set(event.pointerId, event.clientX); canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener('pointermove', (event) => this.onMove(event));
    for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener('pointerleave', () => this.say(null));
    const press = (id, act) => byId(id).addEventListener('click', act);
    press('earlier', () => this.shift(-0.25));
    press('later', () => this.shift(0.25));
    press('closer', () => this.zoom(0.5, 0.5));
    press('wider', () => this.zoom(2, 0.5));
    press('whole', () => this.show(0, this.whole));
    press('ranks-before', () => this.turn(-1));
    press('ranks-after', () => this.turn(1));
  }

  // Rows of the lanes of the ranks that are shown.
  layOut() {
    const shown = this.ranks.slice(this.firstRank, this.firstRank + kRanksAtOnce);
    this.rows = [];
    this.heads = [];
    let top = 26;
    for (const rank of shown) {
      this.heads.push({rank, top});
      for (const lane of this.lanes) {
        if (lane.rank !== rank) continue;
        this.rows.push({lane, top, height: 15});
        top += 17;
      }
      top += 12;
    }
    this.height = top;
    this.canvas.style.height = `${top}px`;
    const pages = byId('rank-pages');
    pages.hidden = this.ranks.length <= kRanksAtOnce;
    byId('rank-range').textContent = `ranks ${shown[0]} to ${shown[shown.length - 1]} of ${this.ranks.length}`;
    byId('ranks-before').disabled = this.firstRank === 0;
    byId('ranks-after').disabled = this.firstRank + kRanksAtOnce >= this.ranks.length;
    this.draw();
  }

  turn(pages) {
    const last = Math.max(Math.ceil(this.ranks.length / kRanksAtOnce) - 1, 0) * kRanksAtOnce;
    this.firstRank = Math.min(Math.max(this.firstRank + pages * kRanksAtOnce, 0), last);
    this.layOut();
  }

  show(begin, end) {
    const width = Math.min(Math.max(end - begin, Math.min(20, this.whole)), this.whole);
    begin = Math.min(Math.max(begin, 0), this.whole - width);
    this.view = [begin, begin + width];
    if (!this.isAsked) {
      this.isAsked = true;
      requestAnimationFrame(() => { this.isAsked = false; this.draw(); });
    }
  }
  shift(share) {
    const by = share * (this.view[1] - this.view[0]);
    this.show(this.view[0] + by, this.view[1] + by);
  }
  // Keeps what stands at `place` (0: left, 1: right) where it is.
  zoom(factor, place) {
    const width = this.view[1] - this.view[0];
    const at = this.view[0] + place * width;
    this.show(at - place * width * factor, at + (1 - place) * width * factor);
  }

  onKey(event) {
    const acts = {
      ArrowLeft: () => this.shift(-0.1), ArrowRight: () => this.shift(0.1), '+': () => this.zoom(0.5, 0.5), '=': () => this.zoom(0.5, 0.5),
      '-': () => this.zoom(2, 0.5), ArrowUp: () => this.zoom(0.5, 0.5), ArrowDown: () => this.zoom(2, 0.5), 0: () => this.show(0, this.whole),
      Home: () => this.show(0, this.view[1] - this.view[0]), End: () => this.show(this.whole - this.view[1] + this.view[0], this.whole),
      PageUp: () => this.turn(-1), PageDown: () => this.turn(1),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
    this.isToBeSaid = true;
  }

  // The page scrolls under a pointer that only passes: the wheel zooms once the canvas was clicked.
  onWheel(event) {
    if (document.activeElement !== this.canvas && !event.ctrlKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.shift(event.deltaX / 600);
    else this.zoom(1.0015 ** event.deltaY, this.placeOf(event.clientX));
  }

  placeOf(clientX) {
    const box = this.canvas.getBoundingClientRect();
    return Math.min(Math.max((clientX - box.left - this.gutter) / (box.width - this.gutter), 0), 1);
  }

  onMove(event) {
    const before = this.pointers.get(event.pointerId);
    if (before === undefined) { this.point(event); return; }
    const width = this.canvas.clientWidth - this.gutter;
    if (this.pointers.size === 1) {
      this.shift((before - event.clientX) / width);
    } else {  // two fingers
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
      const spread = Math.abs(event.clientX - other);
      if (spread > 8 && Math.abs(before - other) > 8) this.zoom(Math.abs(before - other) / spread, this.placeOf((event.clientX + other) / 2));
    }
    this.pointers.set(event.pointerId, event.clientX);
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const y = event.clientY - box.top;
    const row = this.rows.find((each) => y >= each.top && y < each.top + each.height);
    if (!row || event.clientX - box.left < this.gutter) { this.say(null); return; }
    const width = this.view[1] - this.view[0];
    const moment = this.view[0] + this.placeOf(event.clientX) * width;
    const at = row.lane.at(moment, 2 * width / (box.width - this.gutter));
    this.say(at === null && moment >= row.lane.noData ? null : {lane: row.lane, at});
  }

  say(found) {
    const output = byId('timeline-output');
    if (!found) { output.textContent = this.viewWords(); return; }
    const {lane, at} = found;
    if (at === null) {
      output.textContent = `Rank ${lane.rank}, ${kLaneWords[lane.kind]}: no data before ${secondsText(lane.noData * this.seconds)}; later records overwrote the older ones`;
      return;
    }
    output.textContent = `Rank ${lane.rank}, ${kLaneWords[lane.kind]}: ${this.told.names[lane.names[at]]}, ${secondsText(lane.lengths[at] * this.seconds)}, at ${secondsText(lane.begins[at] * this.seconds)}`;
  }
  viewWords() {
    const [begin, end] = this.view;
    return `From ${secondsText(begin * this.seconds)} to ${secondsText(end * this.seconds)}: ${secondsText((end - begin) * this.seconds)} of ${secondsText(this.whole * this.seconds)}`;
  }

  draw() {
    const width = this.canvas.parentElement.clientWidth;
    if (width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(this.height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(this.height * ratio);
    }
    this.gutter = width < 560 ? 74 : 128;
    const style = getComputedStyle(document.documentElement);
    this.colors = Object.fromEntries(['mark', 'compute', 'collective', 'wait', 'ink', 'soft', 'line', 'card', 'faint'].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const pen = this.canvas.getContext('2d', {alpha: false});
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = this.colors.card;
    pen.fillRect(0, 0, width, this.height);
    pen.font = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
    pen.textBaseline = 'middle';
    this.drawn = 0;  // rectangles, and spans or bins that were looked at for them
    this.seen = 0;
    this.hatched = 0;  // pixels, of all rows
    this.drawAxis(pen, width);
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter, 0, width - this.gutter, this.height);
    pen.clip();
    for (const row of this.rows) this.drawRow(pen, row, width);
    pen.restore();
    this.drawNames(pen);
    Object.assign(this.canvas.dataset, {begin: this.view[0], end: this.view[1], whole: this.whole, drawn: this.drawn, seen: this.seen, hatched: Math.round(this.hatched), ranks: this.heads.length});
    byId('timeline-output').textContent = this.viewWords();
  }

  drawAxis(pen, width) {
    const room = width - this.gutter;
    const [begin, end] = this.view.map((unit) => unit * this.seconds);
    pen.fillStyle = this.colors.soft;
    pen.textAlign = 'center';
    for (const tick of roundTicks(begin, end, Math.max(Math.floor(room / 100), 3))) {
      const x = Math.round(this.gutter + room * (tick - begin) / (end - begin)) + 0.5;
      if (x < this.gutter || x > width) continue;
      pen.fillStyle = this.colors.line;
      pen.fillRect(x, 22, 1, this.height);
      pen.fillStyle = this.colors.soft;
      if (x > this.gutter + 20 && x < width - 24) pen.fillText(tickText(tick, end - begin), x, 12);
    }
  }

  drawNames(pen) {
    pen.textAlign = 'left';
    for (const head of this.heads) {
      pen.fillStyle = this.colors.line;
      pen.fillRect(0, head.top - 7, this.canvas.clientWidth, 1);
    }
    const isNarrow = this.gutter < 100;
    pen.fillStyle = this.colors.soft;
    pen.fillText(isNarrow ? 'time' : 'time since begin', 8, 12);
    this.rows.forEach((row, at) => {
      const isFirst = at === 0 || this.rows[at - 1].lane.rank !== row.lane.rank;
      pen.fillStyle = this.colors.ink;
      if (isFirst) pen.fillText(isNarrow ? `${row.lane.rank}` : `rank ${row.lane.rank}`, 8, row.top + 8);
      pen.fillStyle = this.colors.soft;
      const words = row.lane.kind === 'mark' ? (row.lane.depth ? 'in steps' : 'steps') : row.lane.depth ? '' : {compute: 'compute', collective: 'collectives', wait: 'waits'}[row.lane.kind];
      pen.fillText(isNarrow && words === 'collectives' ? 'collect.' : words, isNarrow ? 24 : 62, row.top + 8);
    });
  }

  drawRow(pen, row, width) {
    const {lane, top, height} = row;
    const room = width - this.gutter;
    const [begin, end] = this.view;
    const units = (end - begin) / room;  // in a pixel
    pen.fillStyle = this.colors.faint;
    pen.fillRect(this.gutter, top, room, height);
    this.hatch(pen, this.gutter, top, (Math.min(lane.noData, end) - begin) / units, height);
    const [first, last] = lane.inSight(begin, end);
    const level = lane.levelFor(units);
    const isBefore = lane.leftOut > 0 && (lane.count === 0 || begin < lane.begins[0]);
    if (isBefore || (last - first > 2 * room && level)) this.drawBins(pen, row, level || lane.levels[0], units);
    else this.drawSpans(pen, row, first, last, units);
  }

  // Nothing is known of this time.
  hatch(pen, left, top, wide, height) {
    if (wide <= 0) return;
    this.hatched += wide;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, wide, height);
    pen.clip();
    pen.strokeStyle = this.colors.soft;
    pen.globalAlpha = 0.45;
    pen.beginPath();
    for (let x = left - height; x < left + wide; x += 6) {
      pen.moveTo(x, top + height);
      pen.lineTo(x + height, top);
    }
    pen.stroke();
    pen.restore();
  }

  // How busy the lane was: the darker the more.
  drawBins(pen, {lane, top, height}, level, units) {
    const perBin = this.whole / level.bins;
    const first = Math.max(Math.floor(this.view[0] / perBin), 0);
    const last = Math.min(Math.ceil(this.view[1] / perBin), level.bins);
    pen.fillStyle = this.colors[lane.kind];
    this.seen += last - first;
    for (let bin = first; bin < last;) {
      const shade = level.busy[bin] === 0 ? 0 : Math.max(level.busy[bin] >> 4, 2);
      let end = bin + 1;
      while (end < last && (level.busy[end] === 0 ? 0 : Math.max(level.busy[end] >> 4, 2)) === shade) end += 1;
      if (shade > 0) {
        pen.globalAlpha = 0.25 + 0.05 * shade;
        pen.fillRect(this.gutter + (bin * perBin - this.view[0]) / units, top, (end - bin) * perBin / units, height);
        this.drawn += 1;
      }
      bin = end;
    }
    pen.globalAlpha = 1;
  }

  drawSpans(pen, {lane, top, height}, first, last, units) {
    const color = this.colors[lane.kind];
    const place = (unit) => this.gutter + (unit - this.view[0]) / units;
    const edge = this.gutter + (this.view[1] - this.view[0]) / units;
    this.seen += last - first;
    for (let at = first; at < last;) {
      const left = Math.max(place(lane.begins[at]), this.gutter - 2);
      let right = Math.min(place(lane.begins[at] + lane.lengths[at]), edge + 2);
      let next = at + 1;
      // What falls into one pixel is one.
      while (next < last && right - left < 1.5 && place(lane.begins[next]) - left < 1) {
        right = Math.max(right, Math.min(place(lane.begins[next] + lane.lengths[next]), edge + 2));
        next += 1;
      }
      const wide = Math.max(right - left, 1);
      pen.fillStyle = color;
      pen.fillRect(left, top, wide > 3 ? wide - 1 : wide, height);
      this.drawn += 1;
      if (wide > 56 && next === at + 1) this.label(pen, this.told.names[lane.names[at]], left, top, wide);
      at = next;
    }
  }

  label(pen, text, left, top, wide) {
    pen.save();
    pen.beginPath();
    pen.rect(left + 2, top, wide - 6, 15);
    pen.clip();
    pen.textAlign = 'left';
    pen.fillStyle = this.colors.card;
    pen.fillText(text, Math.max(left, this.gutter) + 5, top + 8);
    pen.restore();
  }
}

// As many digits as tell ticks apart.
function tickText(seconds, span) {
  if (span < 1e-5) return `${(seconds * 1e6).toFixed(span < 1e-6 ? 3 : 2)} µs`;
  if (span < 1e-2) return `${(seconds * 1e3).toFixed(span < 1e-4 ? 3 : span < 1e-3 ? 2 : 1)} ms`;
  if (span < 10) return `${seconds.toFixed(span < 0.1 ? 3 : 2)} s`;
  return seconds < 120 ? `${trimmed(seconds, 4)} s` : secondsText(seconds);
}

function timelineWords() {
  const told = data.timeline;
  const ranks = new Set(told.lanes.map((lane) => lane.rank)).size;
  let words = `${wholeText(told.events)} events of ${ranks} rank${ranks === 1 ? '' : 's'}.`;
  const isDerived = told.lanes.some((lane) => lane.is_derived);
  if (isDerived) words += ' Kernels were not recorded: compute is the part of a step outside collectives, and all waits count as exposed.';
  else if (told.has_rest) words += ' Kernels were recorded for part of the run: elsewhere, compute is the part of a step outside collectives, and all waits count as exposed.';
  if (told.lanes.some((lane) => lane.no_data > 0)) words += ' Hatched areas have no data: later records overwrote the older ones.';
  if (told.has_graphs) words += ' The kernels of a replayed graph are not distinguished: its compute is its time outside collectives.';
  return words;
}

let timeline = null;

function showTimeline() {
  for (const id of ['timeline-frame', 'timeline-help', 'timeline-output', 'timeline-legend', 'timeline-tools']) byId(id).hidden = !data.timeline;
  if (!data.timeline) {
    byId('timeline-words').textContent = 'No timeline: the record files contain no events. Ranks record unless TESSERA_RECORD=off.';
    return;
  }
  byId('timeline-words').textContent = timelineWords();
  byId('timeline-legend').replaceChildren();
  const kinds = Object.keys(kLaneWords).filter((kind) => data.timeline.lanes.some((lane) => lane.kind === kind));
  for (const kind of kinds) byId('timeline-legend').append(make('li', {}, painted(make('span', {class: 'swatch'}), `var(--${kind})`), kLaneWords[kind]));
  if (data.timeline.lanes.some((lane) => lane.no_data > 0)) byId('timeline-legend').append(make('li', {}, make('span', {class: 'swatch hatched'}), 'no data'));
  byId('timeline').setAttribute('aria-label', `Timeline: ${timelineWords()}`);
  if (timeline) timeline.load();
  else timeline = new Timeline(byId('timeline'));
}
